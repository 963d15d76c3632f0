"""Scales of charts: from values to places on the paper, and the values worth a tick. Pure arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LOG_FROM_RATIO = 20.0
"""Values that lie further apart than this are told apart on a logarithmic scale only."""
LINEAR_TICKS = 5
DENSE_DECADES = 2.0
"""Within so few decades 2 and 5 have a tick as well."""
SUFFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True)
class Scale:
    """Values from `least` to `greatest`, drawn from `start` to `end`, which may run backwards."""

    least: float
    greatest: float
    start: float
    end: float
    is_log: bool

    def __post_init__(self) -> None:
        assert self.least < self.greatest
        assert not self.is_log or self.least > 0

    def place(self, value: float) -> float:
        """Where a value lies; those outside lie on the edge."""
        inside = min(max(value, self.least), self.greatest)
        if self.is_log:
            share = math.log(inside / self.least) / math.log(self.greatest / self.least)
        else:
            share = (inside - self.least) / (self.greatest - self.least)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round values within the scale, ascending."""
        return _log_ticks(self.least, self.greatest) if self.is_log else _linear_ticks(self.least, self.greatest)


def fitted(values: Iterable[float], start: float, end: float, is_log: bool | None = None) -> Scale:
    """A scale that shows all values; logarithmic where they lie far apart, or as asked for and possible."""
    known = list(values)
    least, greatest = min(known), max(known)
    if is_log is None:
        is_log = least > 0 and greatest / least > LOG_FROM_RATIO
    if is_log and least > 0:
        return Scale(_log_floor(least), _log_ceiling(greatest), start, end, True)
    step = _linear_step(min(least, 0.0), max(greatest, 0.0) or 1.0)
    bottom = min(0.0, math.floor(least / step) * step)
    return Scale(bottom, math.ceil((greatest or 1.0) / step) * step, start, end, False)


def tick_text(value: float) -> str:
    """A short number: 0.05, 20, 1k, 2.5M."""
    for size, suffix in SUFFIXES:
        if abs(value) >= size:
            return f"{value / size:g}{suffix}"
    return f"{value:.6g}"


def _round_steps(value: float) -> list[float]:
    """1, 2, 5 and 10 times the power of ten at or below a value."""
    decade = 10.0 ** math.floor(math.log10(value))
    return [decade * factor for factor in (1, 2, 5, 10)]


def _log_floor(value: float) -> float:
    return max((step for step in _round_steps(value) if step < value), default=value / 2)


def _log_ceiling(value: float) -> float:
    return min((step for step in _round_steps(value) if step > value), default=value * 2)


def _log_ticks(least: float, greatest: float) -> list[float]:
    decades = math.log10(greatest / least)
    factors = (1, 2, 5) if decades <= DENSE_DECADES else (1,)
    powers = range(math.floor(math.log10(least)), math.ceil(math.log10(greatest)) + 1)
    ticks = [factor * 10.0**power for power in powers for factor in factors]
    inside = [tick for tick in ticks if least * (1 - 1e-9) <= tick <= greatest * (1 + 1e-9)]
    return _thinned(inside)


def _thinned(ticks: Sequence[float]) -> list[float]:
    every = -(-len(ticks) // 8)
    return list(ticks[::every])


def _linear_step(least: float, greatest: float) -> float:
    rough = (greatest - least) / LINEAR_TICKS
    decade = 10.0 ** math.floor(math.log10(rough))
    return next(decade * factor for factor in (1, 2, 5, 10) if decade * factor >= rough * (1 - 1e-9))


def _linear_ticks(least: float, greatest: float) -> list[float]:
    step = _linear_step(least, greatest)
    count = round((greatest - least) / step)
    return [least + number * step for number in range(count + 1)]
