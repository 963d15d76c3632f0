"""How the rate changes over a run, as a share of the rate that was asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

RAMP_STEPS = 10
SPIKE_FROM, SPIKE_TO = 0.4, 0.6
SPIKE_BASE = 0.25
WARM_UP = 0.05


@dataclass(frozen=True, slots=True)
class Shape:
    """A course of the rate."""

    name: str
    said: str
    """What it does, and what for."""
    share: Callable[[float], float]
    """By how much of the run is over, from 0 to 1: the share of the full rate."""


def _ramp(over: float) -> float:
    return min(RAMP_STEPS, int(over * RAMP_STEPS) + 1) / RAMP_STEPS


def _spike(over: float) -> float:
    return 1.0 if SPIKE_FROM <= over < SPIKE_TO else SPIKE_BASE


def _soak(over: float) -> float:
    return max(0.1, over / WARM_UP) if over < WARM_UP else 1.0


_ALL = (
    Shape("steady", "the full rate from the beginning to the end", lambda over: 1.0),
    Shape("ramp", f"up to the full rate in {RAMP_STEPS} steps: where does it begin to hurt?", _ramp),
    Shape(
        "spike",
        f"{SPIKE_BASE:.0%} of the rate, and all of it from {SPIKE_FROM:.0%} to {SPIKE_TO:.0%} of the time: "
        "does it recover?",
        _spike,
    ),
    Shape("soak", f"{WARM_UP:.0%} of the time to warm up, then the full rate: for hours", _soak),
)
SHAPES: Mapping[str, Shape] = {shape.name: shape for shape in _ALL}
