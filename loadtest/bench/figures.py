"""Arithmetic of figures: percentile, median, spread, ratio, verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from loadtest.bench.model import AtLeast, AtMost, Better, Check, Figure, Metric, Sample, Summary

GOAL = "goal"
FLOOR = "floor"
SHORT = "short"
MISSED = "missed"


def percentile(ordered: Sequence[float], fraction: float) -> float:
    """The nearest-rank percentile of values in ascending order."""
    assert ordered, "a percentile needs at least one value"
    assert 0 < fraction <= 1
    rank = -(-len(ordered) * fraction // 1)
    return ordered[max(0, int(rank) - 1)]


def relative_spread(values: Sequence[float]) -> float:
    """(greatest - least) / median: how far the repeats lie apart; 0 for one repeat."""
    middle = median(values)
    if middle == 0:
        return 0.0
    return (max(values) - min(values)) / abs(middle)


def summarize(metric: Metric, samples: Sequence[Sample], hidden: frozenset[str]) -> Figure:
    """One metric's figure over all turns; keys of the samples outside `hidden` become details, by medians."""
    repeats = tuple(sample[metric.key] for sample in samples)
    worst = min if metric.better is Better.HIGHER else max
    value = worst(repeats) if metric.summary is Summary.WORST else median(repeats)
    keys = [key for key in samples[0] if key not in hidden]
    details = {key: median(sample[key] for sample in samples) for key in keys}
    return Figure(repeats, value, relative_spread(repeats), details)


def ratio(ours: float, other: float, better: Better) -> float | None:
    """Our figure as a fraction of another's, more than 1 when ours is better; None if a zero forbids it."""
    above, below = (ours, other) if better is Better.HIGHER else (other, ours)
    return above / below if below else None


@dataclass(frozen=True)
class Verdict:
    """What became of a check: the value held against it, and one of the four words.

    `goal`: reached. `floor`: not the goal, but what is required. `short`: below a goal that has no floor.
    `missed`: less than what is required.
    """

    check: Check
    value: float
    word: str


def judge(check: Check, better: Better, ours: float, others: Mapping[str, float]) -> Verdict | None:
    """Holds our figure against a check; None if the side it asks for was not measured."""
    if isinstance(check, AtMost):
        return Verdict(check, ours, GOAL if ours <= check.bound else MISSED)
    if check.of not in others:
        return None
    fraction = ratio(ours, others[check.of], better)
    return None if fraction is None else Verdict(check, fraction, _word(check, fraction))


def _word(check: AtLeast, fraction: float) -> str:
    if fraction >= check.goal:
        return GOAL
    if check.floor is None:
        return SHORT
    return FLOOR if fraction >= check.floor else MISSED
