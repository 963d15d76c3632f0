"""Curves and bars over the seconds of a run, as SVG, with what happened meanwhile marked on the axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from loadtest.drawing import Scale, fitted
from loadtest.drawing.svg import line, text, ticks_across, ticks_up, titled

WIDTH = 940
HEIGHT = 250
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 22, 36
DENSE_POINTS = 90
"""With more points than this a curve has no dots on it."""

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Series:
    """One curve, or the bars of one colour."""

    name: str
    colour: str
    """A class of the page's style."""
    points: Points
    is_filled: bool = False
    is_bars: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """What is drawn over one axis of time."""

    title: str
    said: str
    """What it shows, in a sentence."""
    unit: str
    series: Sequence[Series]
    is_log: bool = False


def drawn(chart: Chart, seconds: float, step_s: float, marks: Sequence[tuple[float, str]]) -> str:
    """A chart as SVG."""
    across = Scale(0.0, max(1.0, seconds), LEFT, WIDTH - RIGHT, False)
    values = [value for series in chart.series for _, value in series.points]
    if chart.is_log:
        up = fitted([value for value in values if value > 0] or [1.0], HEIGHT - BOTTOM, TOP, True)
    else:
        up = fitted([0.0, *(values or [1.0])], HEIGHT - BOTTOM, TOP, False)
    parts = [*_grid(across, up, chart.unit), *_marks(across, marks)]
    for series in chart.series:
        parts += _bars(series, across, up, step_s) if series.is_bars else _curve(series, across, up, chart.unit)
    label = escape(chart.title)
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def legend(chart: Chart) -> str:
    """The names of its curves."""
    return "".join(
        f'<span class="name"><i class="key {series.colour}"></i>{escape(series.name)}</span>' for series in chart.series
    )


def _grid(across: Scale, up: Scale, unit: str) -> list[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    return [
        *ticks_up(up, LEFT, right),
        *ticks_across(across, bottom, bottom + 4),
        text(right, HEIGHT - 3, "seconds", "tick", "end"),
        text(4, 12, unit, "tick"),
    ]


def _marks(across: Scale, marks: Sequence[tuple[float, str]]) -> list[str]:
    parts = []
    for second, what in marks:
        x = across.place(second)
        told = escape(f"{what} at {second:g} s")
        parts.append(f'<g class="mark {escape(what)}"><title>{told}</title>')
        parts.append(line(x, TOP - 4, x, HEIGHT - BOTTOM))
        parts.append(f'<path d="M{x - 4:.1f} {TOP - 10}h8l-4 7z"/></g>')
    return parts


def _curve(series: Series, across: Scale, up: Scale, unit: str) -> list[str]:
    places = [(across.place(x), up.place(y)) for x, y in series.points]
    if not places:
        return []
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    parts = []
    if series.is_filled:
        floor = HEIGHT - BOTTOM
        area = f"M{places[0][0]:.1f} {floor}L{path}L{places[-1][0]:.1f} {floor}Z"
        parts.append(f'<path class="area {series.colour}" d="{area}"/>')
    parts.append(f'<path class="curve {series.colour}" d="M{path}"/>')
    if len(places) <= DENSE_POINTS:
        for (x, y), (second, value) in zip(places, series.points, strict=True):
            told = f"{series.name} at {second:g} s: {value:,.3g} {unit}"
            parts.append(titled(f'<circle class="{series.colour}" cx="{x:.1f}" cy="{y:.1f}" r="2"', told))
    return parts


def _bars(series: Series, across: Scale, up: Scale, step_s: float) -> list[str]:
    width = max(2.0, (across.place(step_s) - across.place(0.0)) * 0.8)
    floor = HEIGHT - BOTTOM
    return [
        titled(
            f'<rect class="{series.colour}" x="{across.place(x) - width / 2:.1f}" y="{up.place(y):.1f}" '
            f'width="{width:.1f}" height="{floor - up.place(y):.1f}"',
            f"{series.name} at {x:g} s: {y:,.3g}",
        )
        for x, y in series.points
        if y > 0
    ]


def points_of(rows: Sequence[Mapping[str, float]], name: str) -> list[tuple[float, float]]:
    """A column of a result's timeline by its seconds."""
    return [(row["second"], row[name]) for row in rows]
