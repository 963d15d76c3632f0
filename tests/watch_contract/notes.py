"""What all who take part in a run share: the ticks by which they note times, the writes, and how far things are."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from metastore.clock import Clock, SystemClock
from metastore.engine.routing import place_of
from watch_contract.writes import Answer, Fate, Operation, Write


class Notes:
    """All of it belongs to one event loop, so ticks tell truly what came before what."""

    def __init__(self, shards: int, clock: Clock | None = None, least: Mapping[str, int] | None = None) -> None:
        self.shards = shards
        self.clock = clock or SystemClock()
        self.writes: list[Write] = []
        self._lacking = Counter(least or {})
        """What has to happen to watchers yet, before the run has shown what it is for."""
        self.are_writers_done = False
        self._is_paused = False
        self._writing = 0
        self._failure: BaseException | None = None
        self._ticks = itertools.count()
        self._numbers = itertools.count()
        self._happened = asyncio.Event()

    def tick(self) -> int:
        return next(self._ticks)

    def number(self) -> int:
        """For values: no two are the same."""
        return next(self._numbers)

    def shard_of(self, routing_key: str) -> int:
        """Where a key lives, or a partition."""
        return place_of(routing_key.encode(), self.shards)

    def note(
        self,
        writer: str,
        shard: int,
        operations: tuple[Operation, ...],
        invoked: int,
        fate: Fate,
        answers: tuple[Answer, ...] = (),
    ) -> None:
        """A write has returned."""
        returned = None if fate is Fate.UNKNOWN else self.tick()
        answers = answers if fate is Fate.DONE else ()
        number = len(self.writes)
        self.writes.append(Write(number, writer, shard, operations, invoked, returned, fate, answers))
        self.ring()

    def count(self, what: str, number: int = 1) -> None:
        """Something has happened to a watcher."""
        self._lacking[what] -= number

    @property
    def is_enough(self) -> bool:
        """Whether all that is to happen to watchers has happened."""
        return all(number <= 0 for number in self._lacking.values())

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """A writer's next calls: not while everything is paused."""
        await self.until(lambda: not self._is_paused)
        self._writing += 1
        try:
            yield
        finally:
            self._writing -= 1
            self.ring()

    @asynccontextmanager
    async def pause(self) -> AsyncIterator[None]:
        """No writer is in the middle of anything, or begins."""
        self._is_paused = True
        try:
            await self.until(lambda: not self._writing)
            yield
        finally:
            self._is_paused = False
            self.ring()

    def finish_writers(self) -> None:
        """Nobody need wait for further writes."""
        self.are_writers_done = True
        self.ring()

    def ring(self) -> None:
        """Something happened: whoever waits looks again."""
        happened, self._happened = self._happened, asyncio.Event()
        happened.set()

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Returns when it is so; raises what the run has failed with."""
        while not is_so():
            if self._failure is not None:
                raise self._failure
            await self._happened.wait()

    def fail(self, error: BaseException) -> None:
        """Nobody need wait for anything any more."""
        self._failure = self._failure or error
        self.ring()

    async def until_written(self, more: int) -> None:
        """Returns when so many further writes have returned, or there will be none."""
        wanted = len(self.writes) + more
        await self.until(lambda: self.are_writers_done or len(self.writes) >= wanted)
