"""What is drawn over the seconds of a run: curves, bars, and single events, as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from html import escape

from loadtest.drawing import Scale, fitted
from loadtest.drawing.svg import line, text, ticks_up, titled
from loadtest.report.axes import BOTTOM, LEFT, RIGHT, TOP, WIDTH, Marks, marked, time_axis, time_scale

HEIGHT = 260
STRIP_HEIGHT, STRIP_GAP = 46, 26
STRIP_TICKS_MAX = 3
DENSE_POINTS = 90
"""With more points than this, as on an area, dots are not seen: they are there for whoever points at them."""

Points = Sequence[tuple[float, float]]


class Look(Enum):
    """How the points of a series are shown."""

    CURVE = "curve"
    AREA = "area"
    BARS = "bars"
    EVENTS = "events"


@dataclass(frozen=True, slots=True)
class Series:
    """What is shown in one colour."""

    name: str
    colour: str
    """A class of the page's style."""
    points: Points
    look: Look = Look.CURVE


@dataclass(frozen=True, slots=True)
class Chart:
    """What is drawn over one axis of time."""

    title: str
    said: str
    """What it shows, in a sentence."""
    unit: str
    series: Sequence[Series]
    is_log: bool = False
    is_apart: bool = False
    """Each series has a strip of its own, all with the same scale: many curves in one are not told apart."""
    has_marks: bool = True


def drawn(chart: Chart, seconds: float, step_s: float, marks: Marks) -> str:
    """A chart as SVG."""
    across = time_scale(seconds)
    parts, height = _strips(chart, across, step_s) if chart.is_apart else _whole(chart, across, step_s)
    bottom = height - BOTTOM
    parts = [*time_axis(across, bottom), *(marked(across, marks, bottom) if chart.has_marks else ()), *parts]
    label = escape(chart.title)
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def legend(chart: Chart) -> str:
    """The names of its series, where they do not stand beside them."""
    if chart.is_apart:
        return ""
    return "".join(
        f'<span class="name"><i class="key {series.colour}"></i>{escape(series.name)}</span>' for series in chart.series
    )


def _whole(chart: Chart, across: Scale, step_s: float) -> tuple[list[str], int]:
    up = _scale_up(chart, HEIGHT - BOTTOM, TOP)
    parts = [*ticks_up(up, LEFT, WIDTH - RIGHT), text(4, 12, _unit(chart), "tick")]
    for series in chart.series:
        parts += _shown(series, across, up, chart.unit, step_s)
    return parts, HEIGHT


def _strips(chart: Chart, across: Scale, step_s: float) -> tuple[list[str], int]:
    parts, bottom = [text(4, 12, _unit(chart), "tick")], TOP
    for series in chart.series:
        top, bottom = bottom + STRIP_GAP, bottom + STRIP_GAP + STRIP_HEIGHT
        up = _scale_up(chart, bottom, top)
        parts += [*ticks_up(up, LEFT, WIDTH - RIGHT, STRIP_TICKS_MAX)]
        parts += _shown(series, across, up, chart.unit, step_s)
        highest = max((value for _, value in series.points), default=0.0)
        parts.append(text(LEFT, top - 6, series.name, "strip"))
        parts.append(text(WIDTH - RIGHT, top - 6, f"at most {value_text(highest)} {chart.unit}", "tick halo", "end"))
    return parts, bottom + BOTTOM


def value_text(value: float) -> str:
    """With as many digits as are worth reading."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _unit(chart: Chart) -> str:
    return f"{chart.unit}, logarithmic" if chart.is_log else chart.unit


def _scale_up(chart: Chart, bottom: float, top: float) -> Scale:
    """One that shows all series of a chart."""
    values = [value for series in chart.series for _, value in series.points]
    if chart.is_log:
        return fitted([value for value in values if value > 0] or [1.0], bottom, top, True)
    return fitted([0.0, *(values or [1.0])], bottom, top, False)


def _shown(series: Series, across: Scale, up: Scale, unit: str, step_s: float) -> list[str]:
    match series.look:
        case Look.BARS:
            return _bars(series, across, up, step_s)
        case Look.EVENTS:
            return _events(series, across, up, unit)
        case _:
            return _curve(series, across, up, unit)


def _curve(series: Series, across: Scale, up: Scale, unit: str) -> list[str]:
    places = [(across.place(x), up.place(y)) for x, y in series.points]
    if not places:
        return []
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    parts = []
    if series.look is Look.AREA:
        area = f"M{places[0][0]:.1f} {up.start:g}L{path}L{places[-1][0]:.1f} {up.start:g}Z"
        parts.append(f'<path class="area {series.colour}" d="{area}"/>')
    parts.append(f'<path class="curve {series.colour}" d="M{path}"/>')
    is_dense = series.look is Look.AREA or len(places) > DENSE_POINTS
    dot, radius = ("touch", 4) if is_dense else (series.colour, 2)
    return parts + _dots(series, places, dot, radius, unit)


def _events(series: Series, across: Scale, up: Scale, unit: str) -> list[str]:
    """Each by itself, as a dot on a stem: nothing is known of the time between."""
    places = [(across.place(x), up.place(y)) for x, y in series.points]
    stems = [line(x, up.start, x, y, f"stem {series.colour}") for x, y in places]
    return stems + _dots(series, places, series.colour, 4, unit)


def _dots(series: Series, places: Points, kind: str, radius: int, unit: str) -> list[str]:
    return [
        titled(
            f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"',
            f"{series.name} at {second:g} s: {value_text(value)} {unit}",
        )
        for (x, y), (second, value) in zip(places, series.points, strict=True)
    ]


def _bars(series: Series, across: Scale, up: Scale, step_s: float) -> list[str]:
    width = max(2.0, (across.place(step_s) - across.place(0.0)) * 0.8)
    return [
        titled(
            f'<rect class="{series.colour}" x="{across.place(x) - width / 2:.1f}" y="{up.place(y):.1f}" '
            f'width="{width:.1f}" height="{up.start - up.place(y):.1f}"',
            f"{series.name} at {x:g} s: {value_text(y)}",
        )
        for x, y in series.points
        if y > 0
    ]


def points_of(rows: Sequence[Mapping[str, float]], name: str) -> list[tuple[float, float]]:
    """A column of a result's timeline by its seconds."""
    return [(row["second"], row[name]) for row in rows]
