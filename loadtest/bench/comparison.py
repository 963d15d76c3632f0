"""A run held against a stored one: which lines became better or worse beyond their spread.

Absolute figures of two runs say as much about the machine and its hour as about the program, so what is compared
is what a run has measured against itself: our figure as a fraction of another side's, turn by turn, since the
sides take turns; or, of a line with one side, as a fraction of the *pace*, which is one message there and back
and one synced write, the least that a durable call can take. Only what is no matter of speed (memory, counts) is
compared as it is. A line has changed when the ranges of its repeats in both runs lie apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import median

from loadtest.bench.figures import ratio
from loadtest.bench.model import Better, Figure
from loadtest.bench.report import Report, Row

LEAST_MARGIN = 0.05
"""Ranges are widened by this part at either end: few repeats may lie together by chance."""
PACE = (("limits/echo-unary", "p50_ms"), ("limits/fdatasync-256", "p50_ms"))
SPEEDS = {"ms": 1.0, "s": 1000.0}
"""Units of waiting times, in milliseconds."""
PER_SECOND = "/s"
LIMITS = "limits"


class Word(Enum):
    """What became of a line."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"


@dataclass(frozen=True)
class Range:
    """The repeats of one standing, more being better: least, middle, greatest."""

    least: float
    middle: float
    greatest: float

    def is_above(self, other: Range) -> bool:
        """Whether the two, widened, do not touch and this one is the greater."""
        return self.least * (1 - LEAST_MARGIN) > other.greatest * (1 + LEAST_MARGIN)


@dataclass(frozen=True)
class Change:
    """One figure of one line in both runs; `to` is what it was held against."""

    name: str
    title: str
    to: str
    before: Range
    after: Range

    @property
    def factor(self) -> float:
        """By how much it became better: 1 is the same, less than 1 is worse."""
        return self.after.middle / self.before.middle

    @property
    def word(self) -> Word:
        """Better or worse only where the ranges lie apart."""
        if self.after.is_above(self.before):
            return Word.BETTER
        return Word.WORSE if self.before.is_above(self.after) else Word.SAME


def compare(before: Report, after: Report) -> list[Change]:
    """Every figure that both runs have in a comparable form."""
    known = {(row.name, row.metric): row for row in before.rows}
    changes = []
    for row in after.rows:
        earlier = known.get((row.name, row.metric))
        if earlier is None or row.group == LIMITS:
            continue
        old, new = _standings(earlier, before), _standings(row, after)
        changes += [Change(row.name, row.full_title, to, old[to], new[to]) for to in new if to in old]
    return changes


def pace_ms(report: Report) -> float | None:
    """One message there and back and one synced write, on the machine and in the hour of the run."""
    figures = [report.lookup(*each) for each in PACE]
    if any(figure is None for figure in figures):
        return None
    return sum(next(iter(figure.values())).value for figure in figures if figure is not None)


def _standings(row: Row, report: Report) -> dict[str, Range]:
    """A row's ranges, by what each is held against."""
    (_, ours), *others = row.figures.items()
    if not ours.repeats:
        return {}
    if others:
        found = {f"to {side}": _ratios(ours, figure, row.better) for side, figure in others}
        return {to: _range(ratios) for to, ratios in found.items() if ratios}
    to, values = _alone(row, ours, pace_ms(report))
    usable = [value for value in values if value > 0]
    if not usable or len(usable) < len(values):
        return {}
    return {to: _range(usable if row.better is Better.HIGHER else [1 / value for value in usable])}


def _ratios(ours: Figure, other: Figure, better: Better) -> list[float]:
    """Turn by turn."""
    found = [ratio(mine, theirs, better) for mine, theirs in zip(ours.repeats, other.repeats, strict=False)]
    return [each for each in found if each is not None and each > 0]


def _alone(row: Row, figure: Figure, pace: float | None) -> tuple[str, Sequence[float]]:
    """The repeats of a line with one side, in the run's own measure where it is a matter of speed."""
    is_rate = row.unit.endswith(PER_SECOND)
    if not is_rate and row.unit not in SPEEDS:
        return f"in {row.unit}", figure.repeats
    if pace is None:
        return "to the pace", ()
    scale = pace / 1000 if is_rate else SPEEDS[row.unit] / pace
    return "to the pace", [value * scale for value in figure.repeats]


def _range(values: Sequence[float]) -> Range:
    return Range(min(values), median(values), max(values))
