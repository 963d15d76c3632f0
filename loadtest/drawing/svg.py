"""The elements of charts. Places are in pixels, from the top left."""

from __future__ import annotations

from html import escape

from loadtest.drawing.scales import Scale, tick_text

TICK_BELOW = 16
TICK_BESIDE = 7
TICKS_MAX = 20
TEXT_MIDDLE = 4
"""From the middle of a line of text down to where it stands."""


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    """Words that begin, end or have their middle there."""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str = "") -> str:
    """From one place to another."""
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def titled(opening: str, words: str) -> str:
    """An element, given without its end, that says this to whoever points at it."""
    return f"{opening}><title>{escape(words)}</title></{opening[1:].split()[0]}>"


def ticks_across(scale: Scale, top: float, bottom: float) -> list[str]:
    """Upright lines at the ticks of a scale that runs across, with their values below."""
    drawn = []
    for tick in scale.ticks():
        place = scale.place(tick)
        drawn.append(line(place, top, place, bottom, "grid"))
        drawn.append(text(place, bottom + TICK_BELOW, tick_text(tick), "tick", "middle"))
    return drawn


def ticks_up(scale: Scale, left: float, right: float, ticks_max: int = TICKS_MAX) -> list[str]:
    """Level lines at the ticks of a scale that runs upwards, with their values to the left."""
    drawn = []
    ticks = scale.ticks()
    for tick in ticks[:: max(1, -(-len(ticks) // ticks_max))]:
        place = scale.place(tick)
        drawn.append(line(left, place, right, place, "grid"))
        drawn.append(text(left - TICK_BESIDE, place + TEXT_MIDDLE, tick_text(tick), "tick", "end"))
    return drawn
