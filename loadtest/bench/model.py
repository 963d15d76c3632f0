"""The words of the benchmark: line, turn, sample, metric, check, figure. Values only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeVar

Subject = TypeVar("Subject")

Sample = Mapping[str, float]
"""What one turn of one side measured: figures by key. Keys that no metric names are kept as details."""


class BenchError(Exception):
    """Work could not be measured; the text is for people and names what failed."""


class Better(Enum):
    """Which of two figures is the better one."""

    HIGHER = "higher"
    LOWER = "lower"


class Summary(Enum):
    """How the repeats of a figure become one figure."""

    MEDIAN = "median"
    WORST = "worst"


@dataclass(frozen=True)
class AtLeast:
    """Our figure as a fraction of another side's, 1.0 when equal and more when better.

    The goal is what we want; the floor, if there is one, is what we must have.
    """

    of: str
    floor: float | None = None
    goal: float = 1.0

    def __post_init__(self) -> None:
        assert self.floor is None or 0 < self.floor <= self.goal


@dataclass(frozen=True)
class AtMost:
    """An absolute bound for our figure, in the unit of its metric."""

    bound: float


Check = AtLeast | AtMost


@dataclass(frozen=True)
class Metric:
    """One figure of a line's samples, as a row of the table shows it."""

    key: str
    label: str
    unit: str
    better: Better
    checks: tuple[Check, ...] = ()
    summary: Summary = Summary.MEDIAN


@dataclass(frozen=True)
class Turn:
    """One go of every side at a line."""

    number: int
    seconds: float
    is_warm_up: bool = False

    def __post_init__(self) -> None:
        assert self.number >= 0
        assert self.seconds > 0


@dataclass(frozen=True)
class Axis:
    """What grows along the lines of a group that make a curve."""

    label: str
    is_log: bool = True


@dataclass(frozen=True)
class Point:
    """Where a line stands on its group's axis; lines of one series are joined."""

    series: str
    at: float


def nothing_to_prepare(_subject: Any) -> None:
    """The preparation of a line that needs none."""


@dataclass(frozen=True)
class Line(Generic[Subject]):
    """One kind of work, measured alike on every side of its group.

    `prepare` runs once per side before the first turn, off the clock. A slow line (its work has a size of its
    own, whatever the turn's seconds) has fewer turns and no warm-up.
    """

    name: str
    title: str
    metrics: tuple[Metric, ...]
    measure: Callable[[Subject, Turn], Sample]
    prepare: Callable[[Subject], None] = nothing_to_prepare
    is_slow: bool = False
    point: Point | None = None
    warm_ups: int = 1
    """Turns that do not count, before the others; a slow line has none."""

    def __post_init__(self) -> None:
        assert self.metrics, self.name
        assert self.warm_ups >= 1, self.name
        assert len({metric.key for metric in self.metrics}) == len(self.metrics), self.name


@dataclass(frozen=True)
class Figure:
    """One metric of one side over all turns."""

    repeats: tuple[float, ...]
    value: float
    spread: float
    details: Mapping[str, float] = field(default_factory=dict)


Lookup = Callable[[str, str], Mapping[str, Figure] | None]
"""Finds the figures, by side, of (full line name, metric key); None if that was not measured."""


@dataclass(frozen=True)
class Derived:
    """A row computed from other rows; `compute` gives our side first, or None where something is missing."""

    name: str
    title: str
    unit: str
    better: Better
    compute: Callable[[Lookup], Mapping[str, float] | None]
    checks: tuple[Check, ...] = ()
