"""A set of numbers that mostly follow each other, kept as intervals; bounded, however they come."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Interval(NamedTuple):
    """The numbers from `first` to `last`, both included."""

    first: int
    last: int


class Numbers:
    """Numbers can be added and removed. What comes at the end, next to what is there, takes no time."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self, intervals: Iterable[Interval] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in intervals:
            self.add(first, last)

    def __iter__(self) -> Iterator[Interval]:
        return map(Interval, self._firsts, self._lasts)

    def __len__(self) -> int:
        """How many intervals there are."""
        return len(self._firsts)

    def __contains__(self, number: int) -> bool:
        place = bisect_right(self._firsts, number) - 1
        return place >= 0 and number <= self._lasts[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Numbers) and (self._firsts, self._lasts) == (other._firsts, other._lasts)

    __hash__ = None  # type: ignore[assignment]

    @property
    def last(self) -> int:
        """The greatest; -1 if there is none."""
        return self._lasts[-1] if self._lasts else -1

    def copy(self) -> Numbers:
        """Another one that is equal."""
        other = Numbers()
        other._firsts, other._lasts = list(self._firsts), list(self._lasts)
        return other

    def add(self, first: int, last: int) -> None:
        """Adds all numbers from one to another."""
        assert 0 <= first <= last
        firsts, lasts = self._firsts, self._lasts
        if not lasts or first > lasts[-1] + 1:
            firsts.append(first)
            lasts.append(last)
            return
        low = bisect_left(lasts, first - 1)
        high = bisect_right(firsts, last + 1)
        if low < high:
            first, last = min(first, firsts[low]), max(last, lasts[high - 1])
        firsts[low:high] = [first]
        lasts[low:high] = [last]

    def remove(self, first: int, last: int) -> None:
        """Removes all numbers from one to another, those that are there."""
        firsts, lasts = self._firsts, self._lasts
        low = bisect_left(lasts, first)
        high = bisect_right(firsts, last)
        if low >= high:
            return
        left, right = firsts[low], lasts[high - 1]
        kept = [Interval(left, first - 1)] if left < first else []
        kept += [Interval(last + 1, right)] if last < right else []
        firsts[low:high] = [each.first for each in kept]
        lasts[low:high] = [each.last for each in kept]

    def fill_oldest(self, intervals_max: int) -> None:
        """Adds what is missing between the smallest numbers, until there are so many intervals at most."""
        surplus = len(self._firsts) - intervals_max
        if surplus > 0:
            del self._firsts[1 : surplus + 1]
            del self._lasts[:surplus]
