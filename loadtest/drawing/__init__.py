"""What all charts are drawn with, as SVG: values in, text out. Pure.

    scales    from values to places on the paper, and the values worth a tick
    svg       lines, texts, and what stands along an axis

The colours are classes of the page that a chart is on. Charts of benchmarks are `loadtest.bench.charts`, those of a run
over its seconds `loadtest.report.curves`.

Start reading at scales.py.
"""

from loadtest.drawing.scales import Scale, fitted

__all__ = ["Scale", "fitted"]
