"""Arrivals at a rate that changes while they come: whoever loads may not know beforehand what he will be told to do.

The points are those of `schedule`; the rate says how many units of their line a second has. So a rate that changes
changes nothing of the draws, and what was due before it changed stays due.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator


class Flow:
    """The arrivals of one kind of work, from points on a line of expected arrivals, which ascend without end."""

    def __init__(self, points: Iterator[float]) -> None:
        self._points = points
        self._point = next(points)
        self._pieces: deque[tuple[float, float]] = deque([(0.0, 0.0)])
        """From when on which rate holds; the first is the one in which the next arrival is looked for."""
        self._at_s = 0.0
        self._left = self._point
        """Units from `_at_s` to the next arrival."""

    def set_rate(self, at_s: float, rate: float) -> None:
        """So many arrivals a second from a time on; what is due before that stays due."""
        assert rate >= 0
        assert at_s >= self._pieces[-1][0], "rates are told in the order of time"
        self._pieces.append((at_s, rate))

    def next_s(self) -> float | None:
        """When the next arrival is meant to begin; None as long as no rate brings one."""
        while True:
            rate = self._pieces[0][1]
            end_s = self._pieces[1][0] if len(self._pieces) > 1 else None
            if rate > 0:
                due_s = self._at_s + self._left / rate
                if end_s is None or due_s <= end_s:
                    return due_s
            if end_s is None:
                return None
            self._left -= rate * (end_s - self._at_s)
            self._at_s = end_s
            self._pieces.popleft()

    def take(self) -> float:
        """Takes the next arrival; when it is meant to begin."""
        due_s = self.next_s()
        assert due_s is not None, "there is a next arrival"
        before, self._point = self._point, next(self._points)
        self._at_s, self._left = due_s, self._point - before
        return due_s
