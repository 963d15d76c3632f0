"""The report of an audit: one page of HTML with its charts in it, which needs no network to be read.

    figures     what is shown: counted by Spark, a bounded number of rows of each
    charts      rankings and histograms
    page        the page; `style`, how it looks

What it promises. Whatever stands in a record is shown as text, never as part of the page.

Start reading at figures.py.
"""
