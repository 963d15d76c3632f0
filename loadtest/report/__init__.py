"""The report of a run: one page of HTML with its charts in it, which needs no network, for light and for dark rooms.

    page        the page: what was asked for, what came of it, whether it was enough
    sections    its charts, from a result
    curves      curves, bars and events over time, as SVG
    axes        the axis of time, and what happened meanwhile, marked on it

It reads a result as JSON (`loadtest.outcomes.result`) and nothing else, so that a stored one can be shown again.

What it promises. Whatever stands in a result is shown as text, never as part of the page.

Start reading at page.py.
"""

from loadtest.report.page import page_of

__all__ = ["page_of"]
