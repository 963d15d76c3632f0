"""Pages of stored runs: the table and the charts of a run, between two marks of a Markdown page.

A page that ends its prose with the marks `<!-- run: NAME.json -->` and `<!-- end of run -->` gets between them
what the JSON beside it tells; its charts go to the folder `charts` beside it. `python -m loadtest.bench.pages`
writes all pages of `docs/benchmarks` anew.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from loadtest.bench.charts import Curves, Dots, Mark, curve_chart, dot_chart
from loadtest.bench.model import BenchError, Better, Figure
from loadtest.bench.report import DERIVED_GROUP, Report, Row
from loadtest.bench.stored import PAGES, read_report
from loadtest.bench.table import DERIVED_TITLE, render

MARKS = re.compile(r"(<!-- run: (?P<name>[\w-]+\.json) -->\n).*?(<!-- end of run -->)", re.DOTALL)
CHARTS = "charts"
DOT_ROWS_MIN = 2
METRIC_TITLES = {
    "rate": "Throughput",
    "p50_ms": "p50",
    "p99_ms": "p99",
    "mib_per_s": "Bytes written",
    "of_peak": "Throughput to the peak",
    "refused_share": "Refused",
    "idle_private_mib": "Private memory at rest",
    "private_mib": "Private memory",
    "bytes_each": "Private memory per session",
    "disk_bytes_per_record": "Disk per record",
    "open_s": "Until it serves again",
}
"""Of the metrics of curves, over their panels."""


def charts_of(report: Report) -> Iterator[tuple[str, str, str]]:
    """Name, title and SVG of every chart of a run: curves for groups with an axis, dots for the others."""
    for group in (*report.titles, DERIVED_GROUP):
        rows = [row for row in report.rows if row.group == group]
        title = DERIVED_TITLE if group == DERIVED_GROUP else report.titles[group]
        if group in report.axes:
            yield group, title, curve_chart(title, _curves(rows, report))
        elif len(rows) >= DOT_ROWS_MIN and group != DERIVED_GROUP:
            yield group, title, dot_chart(title, _dots(rows))


def written(page: str, folder: Path) -> tuple[str, Mapping[str, str]]:
    """A page with the runs that it names, read from the folder, and its charts by their file names."""
    charts: dict[str, str] = {}

    def run(match: re.Match[str]) -> str:
        path = folder / match["name"]
        if not path.exists():
            return f"{match[1]}\nNo run is stored yet.\n\n{match[3]}"
        report = read_report(path)
        images = []
        for name, title, svg in charts_of(report):
            file = f"{path.stem}-{name}.svg"
            charts[file] = svg
            images.append(f"![{title}]({CHARTS}/{file})\n")
        table = f"The last stored run:\n\n```\n{render(report)}```\n"
        return "\n".join([match[1], *images, table, match[3]])

    return MARKS.sub(run, page), charts


def names_run(page: Path, name: str) -> bool:
    """Whether a page has the marks of a run with this name."""
    return page.exists() and any(match["name"] == name for match in MARKS.finditer(page.read_text(encoding="utf-8")))


def write_page(path: Path) -> None:
    """Writes a page and its charts anew; charts of its runs that are no more are removed."""
    before = path.read_text(encoding="utf-8")
    text, charts = written(before, path.parent)
    folder = path.parent / CHARTS
    folder.mkdir(exist_ok=True)
    for match in MARKS.finditer(before):
        for old in folder.glob(f"{Path(match['name']).stem}-*.svg"):
            old.unlink()
    for name, svg in charts.items():
        (folder / name).write_text(svg, encoding="utf-8")
    path.write_text(text, encoding="utf-8")


def _marks(row: Row) -> Mapping[str, Mark]:
    return {side: _mark(figure) for side, figure in row.figures.items()}


def _mark(figure: Figure) -> Mark:
    repeats = figure.repeats or (figure.value,)
    return Mark(figure.value, min(repeats), max(repeats))


def _dots(rows: Sequence[Row]) -> list[Dots]:
    """A panel per unit; all rows of a unit point one way, or their title tells it."""
    panels = []
    for unit, better in dict.fromkeys((row.unit, row.better) for row in rows):
        chosen = [row for row in rows if (row.unit, row.better) == (unit, better)]
        panels.append(Dots(f"{unit} ({_way(better)})", [(row.full_title, dict(_marks(row))) for row in chosen]))
    return panels


def _curves(rows: Sequence[Row], report: Report) -> list[Curves]:
    """A panel per metric; a curve per side and series."""
    panels = []
    axis = report.axes[rows[0].group]
    for metric in dict.fromkeys(row.metric for row in rows):
        chosen = [row for row in rows if row.metric == metric]
        curves: dict[str, list[tuple[float, Mark]]] = {}
        for row in chosen:
            assert row.point is not None, row.name
            for side, mark in _marks(row).items():
                name = f"{row.point.series}, {side}" if len(row.figures) > 1 else row.point.series
                curves.setdefault(name, []).append((row.point.at, mark))
        ordered = {name: sorted(points, key=lambda point: point[0]) for name, points in curves.items()}
        label = f"{chosen[0].unit} ({_way(chosen[0].better)})"
        panels.append(Curves(metric_title(metric), axis.label, label, axis.is_log, dict(ordered)))
    return panels


def metric_title(metric: str) -> str:
    """A metric's key in words."""
    return METRIC_TITLES.get(metric, metric.replace("_", " "))


def _way(better: Better) -> str:
    return f"{better.value} is better"


def main() -> int:
    """Writes all pages."""
    try:
        for path in sorted(PAGES.glob("*.md")):
            write_page(path)
            print(path)
    except (BenchError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
