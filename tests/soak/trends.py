"""Whether figures that were measured one after the other grow. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

SAMPLES_MIN = 5
"""With fewer nothing can be said."""
WARM_UP_SAMPLES = 2
"""Caches fill, and arenas grow to what the work takes."""
RISING_PAIRS_MIN = 0.8
"""Of all pairs of samples; of figures that come at random it is a half."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """How much a figure may grow over all samples before it counts: this much, or this part of it."""

    absolute: float
    relative: float


@dataclass(frozen=True, slots=True)
class Trend:
    """What became of a figure."""

    first: float
    last: float
    growth: float
    """Over all samples, by the median of the slopes of all pairs: one outlier does not make it."""
    rising_pairs: float

    def is_leak(self, allowance: Allowance) -> bool:
        """Whether it grows steadily, and by more than is allowed."""
        allowed = max(allowance.absolute, allowance.relative * self.first)
        return self.growth > allowed and self.rising_pairs >= RISING_PAIRS_MIN


def trend(samples: Sequence[float]) -> Trend | None:
    """Of figures at equal distances, the first ones left out; None if there are too few."""
    kept = samples[WARM_UP_SAMPLES:]
    if len(kept) < SAMPLES_MIN:
        return None
    pairs = list(combinations(range(len(kept)), 2))
    slope = median((kept[later] - kept[earlier]) / (later - earlier) for earlier, later in pairs)
    rising = sum(kept[later] > kept[earlier] for earlier, later in pairs)
    return Trend(kept[0], kept[-1], slope * (len(kept) - 1), rising / len(pairs))
