"""Points on a line of expected arrivals; `flow` says at which time each of them comes.

Points at equal distances give an even flow; points at exponential distances give independent arrivals (a Poisson
process, whose rate may change).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from enum import Enum


class Spacing(Enum):
    """How far arrivals lie apart at a constant rate."""

    EVEN = "even"
    RANDOM = "random"


def points(spacing: Spacing, chance: random.Random) -> Iterator[float]:
    """Points on a line, one per unit of length on average, ascending without end."""
    # Also evenly spaced ones begin anywhere: several that load at the same time must not all arrive together.
    point = chance.random() if spacing is Spacing.EVEN else chance.expovariate(1.0)
    while True:
        yield point
        point += 1.0 if spacing is Spacing.EVEN else chance.expovariate(1.0)
