"""Entries whose time has not come: where they are, until when, and one timer for all of them.

Only positions are kept: what an entry is says the log, when it is due. When that is stands in the entry, so whoever
owns the segment next finds it there again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from heapq import heappop, heappush

from metastore.coordination import Pace
from txn.model.position import Position
from txn.segment.entry import Entry
from txn.segment.subscription import values

LOOK_S = 60.0
"""So long the timer sleeps at most: the clock on the wall may be set."""


class Delays:
    """What is held back in one subscription."""

    def __init__(self, pace: Pace, due: Callable[[Collection[Position]], None]) -> None:
        self.positions: set[Position] = set()
        self._pace = pace
        self._due = due
        """Told which entries are due; they are held back no longer then."""
        self._times: list[tuple[int, Position]] = []
        """A heap."""
        self._timer: asyncio.Task[None] | None = None

    @property
    def is_full(self) -> bool:
        """Whether no other entry can be held back."""
        return len(self.positions) >= values.DELAYED_MAX

    def is_early(self, entry: Entry) -> bool:
        """Whether the time of an entry has not come."""
        return entry.deliver_at_ms > self._pace.clock.wall_ms()

    def hold(self, position: Position, until_ms: int) -> None:
        """Holds an entry back until then."""
        assert position not in self.positions, "an entry has one time"
        assert not self.is_full, "nobody reads ahead then"
        self.positions.add(position)
        heappush(self._times, (until_ms, position))
        if self._times[0][1] == position:
            self.stop()
            self._timer = asyncio.ensure_future(self._wait())

    def clear(self) -> None:
        """Nothing is held back any more."""
        self.stop()
        self.positions.clear()
        self._times.clear()

    def stop(self) -> None:
        """Nobody is told anything any more, until something else is held back."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _wait(self) -> None:
        while self._times:
            left_ms = self._times[0][0] - self._pace.clock.wall_ms()
            if left_ms > 0:
                await self._pace.sleep(min(left_ms / 1000, LOOK_S))
            else:
                self._tell()

    def _tell(self) -> None:
        now_ms = self._pace.clock.wall_ms()
        due = []
        while self._times and self._times[0][0] <= now_ms:
            due.append(heappop(self._times)[1])
        self.positions.difference_update(due)
        self._due(due)
