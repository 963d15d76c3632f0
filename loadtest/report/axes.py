"""What all charts of a run share: the axis of its seconds, and what happened meanwhile, marked on it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from loadtest.drawing import Scale
from loadtest.drawing.svg import TICK_BELOW, line, text

WIDTH = 940
LEFT, RIGHT, TOP, BOTTOM = 58, 16, 34, 28
ROUND_S = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 14_400, 43_200, 86_400)
STEPS_MAX = 10
MINUTES_FROM_S = 300
"""Longer runs count their time in minutes and seconds."""

Marks = Sequence[tuple[float, str]]
"""When something happened, and what."""


def time_scale(seconds: float) -> Scale:
    """From the beginning of a run to its end."""
    return Scale(0.0, max(1.0, seconds), LEFT, WIDTH - RIGHT, False)


def time_axis(across: Scale, bottom: float) -> list[str]:
    """Round times below a chart."""
    step = next((each for each in ROUND_S if across.greatest / each <= STEPS_MAX), int(across.greatest / STEPS_MAX) + 1)
    drawn = []
    for count in range(int(across.greatest // step) + 1):
        x = across.place(count * step)
        drawn.append(line(x, bottom, x, bottom + 4, "grid"))
        drawn.append(text(x, bottom + TICK_BELOW + 2, time_text(count * step, across.greatest), "tick", "middle"))
    return drawn


def time_text(second: int, of_seconds: float) -> str:
    """20 s in a short run, 5:20 in a longer one, 1:05:20 in one of hours."""
    if of_seconds < MINUTES_FROM_S:
        return f"{second} s"
    minutes, second = divmod(second, 60)
    if of_seconds < 3_600:
        return f"{minutes}:{second:02d}"
    return f"{minutes // 60}:{minutes % 60:02d}:{second:02d}"


def marked(across: Scale, marks: Marks, bottom: float) -> list[str]:
    """A triangle above the chart at each of these moments, and a pale line down from it."""
    parts = []
    for second, what in marks:
        x = across.place(second)
        told = escape(f"{what} at {second:g} s")
        parts.append(f'<g class="mark {escape(what)}"><title>{told}</title>')
        parts.append(line(x, TOP - 4, x, bottom))
        parts.append(f'<path d="M{x - 4:.1f} {TOP - 10}h8l-4 7z"/></g>')
    return parts
