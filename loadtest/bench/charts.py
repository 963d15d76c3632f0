"""Charts as SVG, values in and text out: dots with their repeats' range, and curves.

They are legible on light and on dark pages: each has a card of its own behind it, whose colours follow the
reader's preference. Sides differ in colour and in the shape of their marks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from loadtest.drawing import fitted
from loadtest.drawing.svg import line, text, ticks_across, ticks_up, titled

WIDTH = 880
MARGIN = 20
TITLE_HEIGHT = 56
TITLE_SIZE = 15.0
TITLE_CHARACTER = 0.61
"""Of its size, on average."""
LEGEND_HEIGHT = 26
LEGEND_CHARACTER = 7.2
ROW_HEIGHT = 22
PANEL_TITLE_HEIGHT = 26
AXIS_HEIGHT = 34
LABEL_CHARACTER = 6.4
LABEL_WIDTH_MAX = 460
CURVE_COLUMNS = 2
CURVE_HEIGHT = 230
CURVE_LEFT = 66
MARK_RADIUS = 4.5
LIGHT = ("#0072b2", "#d55e00", "#009e73", "#aa4499", "#b58900", "#56a0d3", "#882255", "#555555")
DARK = ("#4fb0ff", "#ff8c42", "#2fd6a3", "#e58fd0", "#f0c93c", "#9ad7ff", "#ff7d9c", "#bbbbbb")
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#1f2328}.title{font-size:15px;font-weight:600}"
    ".panel{font-weight:600}.axis,.tick{fill:#59636e;font-size:11px}.card{fill:#fff;stroke:#d1d9e0}"
    ".grid{stroke:#d1d9e0;stroke-width:1}.curve{fill:none;stroke-width:2}.range{stroke-width:2;opacity:.45}"
    + "".join(f".c{n}{{fill:{c};stroke:{c}}}.curve.c{n}{{fill:none}}" for n, c in enumerate(LIGHT))
    + "@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.axis,.tick{fill:#b1bac4}"
    ".card{fill:#0d1117;stroke:#3d444d}.grid{stroke:#30363d}"
    + "".join(f".c{n}{{fill:{c};stroke:{c}}}.curve.c{n}{{fill:none}}" for n, c in enumerate(DARK))
    + "}"
)


@dataclass(frozen=True)
class Mark:
    """A value with the least and the greatest of its repeats."""

    value: float
    least: float
    greatest: float


@dataclass(frozen=True)
class Dots:
    """Rows of one unit, each with a mark per name."""

    title: str
    rows: Sequence[tuple[str, dict[str, Mark]]]


@dataclass(frozen=True)
class Curves:
    """Curves over one axis; each has its points in ascending order."""

    title: str
    x_label: str
    y_label: str
    is_log: bool
    curves: dict[str, Sequence[tuple[float, Mark]]]


def dot_chart(title: str, panels: Sequence[Dots]) -> str:
    """Panels below each other, with a scale each."""
    names = list(dict.fromkeys(name for panel in panels for _label, marks in panel.rows for name in marks))
    drawn: list[str] = []
    lines, top = _legend(names)
    drawn += lines
    for panel in panels:
        drawn += _dots(panel, names, top)
        top += PANEL_TITLE_HEIGHT + ROW_HEIGHT * len(panel.rows) + AXIS_HEIGHT
    return _card(title, top + MARGIN / 2, drawn)


def curve_chart(title: str, panels: Sequence[Curves]) -> str:
    """Panels side by side, as many as fit, with scales each."""
    names = list(dict.fromkeys(name for panel in panels for name in panel.curves))
    drawn, top = _legend(names)
    width = (WIDTH - 2 * MARGIN) / CURVE_COLUMNS
    height = PANEL_TITLE_HEIGHT + CURVE_HEIGHT + AXIS_HEIGHT + MARGIN
    for place, panel in enumerate(panels):
        left = MARGIN + place % CURVE_COLUMNS * width
        drawn += _curves(panel, names, left, top + place // CURVE_COLUMNS * height, width)
    return _card(title, top + -(-len(panels) // CURVE_COLUMNS) * height, drawn)


def _card(title: str, height: float, drawn: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" '
        f'height="{height:g}" role="img" aria-label="{escape(title)}">\n<style>{STYLE}</style>\n'
        f'<rect class="card" x=".5" y=".5" width="{WIDTH - 1}" height="{height - 1:g}" rx="8"/>\n'
        + f'<text class="title" x="{MARGIN}" y="28" style="font-size:{_title_size(title):.1f}px">{escape(title)}</text>'
        + "\n"
        + "\n".join(drawn)
        + "\n</svg>\n"
    )


def _title_size(title: str) -> float:
    """Smaller for a title that would leave the card."""
    return min(TITLE_SIZE, (WIDTH - 2 * MARGIN) / (TITLE_CHARACTER * max(len(title), 1)))


def _legend(names: Sequence[str]) -> tuple[list[str], float]:
    """The names with their marks, in as many rows as they need, and where what follows begins."""
    drawn = []
    left, top = float(MARGIN), float(TITLE_HEIGHT - 6)
    if len(names) < 2:
        return [], top
    for number, name in enumerate(names):
        width = 26 + LEGEND_CHARACTER * len(name)
        if left + width > WIDTH - MARGIN and left > MARGIN:
            left, top = float(MARGIN), top + LEGEND_HEIGHT - 6
        drawn += [_mark(number, left + 6, top), text(left + 17, top + 4, name)]
        left += width
    return drawn, top + LEGEND_HEIGHT - 6


def _dots(panel: Dots, names: Sequence[str], top: float) -> list[str]:
    values = [each for _label, marks in panel.rows for mark in marks.values() for each in (mark.least, mark.greatest)]
    start = MARGIN + min(LABEL_WIDTH_MAX, LABEL_CHARACTER * max(len(label) for label, _marks in panel.rows) + 16)
    scale = fitted(values, start, WIDTH - MARGIN * 2)
    first = top + PANEL_TITLE_HEIGHT
    bottom = first + ROW_HEIGHT * len(panel.rows)
    drawn = [text(MARGIN, top + 17, panel.title, "panel")]
    drawn += ticks_across(scale, first, bottom)
    for row, (label, marks) in enumerate(panel.rows):
        middle = first + ROW_HEIGHT * (row + 0.5)
        drawn.append(text(start - 12, middle + 4, label, anchor="end"))
        drawn.append(line(start, middle, WIDTH - MARGIN * 2, middle, "grid"))
        for name, mark in marks.items():
            number = names.index(name)
            ends = scale.place(mark.least), scale.place(mark.greatest)
            drawn.append(line(ends[0], middle, ends[1], middle, f"range c{number % len(LIGHT)}"))
            drawn.append(_mark(number, scale.place(mark.value), middle, f"{label}, {name}: {mark.value:,.4g}"))
    return drawn


def _curves(panel: Curves, names: Sequence[str], left: float, top: float, width: float) -> list[str]:
    points = [point for curve in panel.curves.values() for point in curve]
    first, bottom = top + PANEL_TITLE_HEIGHT, top + PANEL_TITLE_HEIGHT + CURVE_HEIGHT
    start, end = left + CURVE_LEFT, left + width - MARGIN
    across = fitted((at for at, _mark_of in points), start, end, panel.is_log)
    up = fitted((each for _at, mark in points for each in (mark.least, mark.greatest)), bottom, first)
    drawn = [text(start, top + 17, f"{panel.title}, {panel.y_label}", "panel")]
    drawn += ticks_across(across, first, bottom)
    drawn += ticks_up(up, start, end)
    drawn.append(text((start + end) / 2, bottom + 32, panel.x_label, "axis", "middle"))
    for name, curve in panel.curves.items():
        number = names.index(name)
        colour = f"c{number % len(LIGHT)}"
        path = " ".join(f"{across.place(at):.1f},{up.place(mark.value):.1f}" for at, mark in curve)
        drawn.append(f'<polyline class="curve {colour}" points="{path}"/>')
        for at, mark in curve:
            place = across.place(at)
            drawn.append(line(place, up.place(mark.least), place, up.place(mark.greatest), f"range {colour}"))
            told = f"{name}, {at:g}: {mark.value:,.4g} {panel.y_label}"
            drawn.append(_mark(number, place, up.place(mark.value), told))
    return drawn


def _circle(x: float, y: float) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{MARK_RADIUS}"'


def _polygon(x: float, y: float, corners: Sequence[tuple[float, float]]) -> str:
    places = " ".join(f"{x + dx * MARK_RADIUS:.1f},{y + dy * MARK_RADIUS:.1f}" for dx, dy in corners)
    return f'<polygon points="{places}"'


SHAPES: tuple[Callable[[float, float], str], ...] = (
    _circle,
    lambda x, y: _polygon(x, y, ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9))),
    lambda x, y: _polygon(x, y, ((0, -1.2), (1.1, 0.9), (-1.1, 0.9))),
    lambda x, y: _polygon(x, y, ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0))),
)


def _mark(number: int, x: float, y: float, told: str = "") -> str:
    shape = SHAPES[number % len(SHAPES)](x, y)
    return titled(f'{shape} class="c{number % len(LIGHT)}"', told)
