"""What tests of the memory store share."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import ParamSpec

from metastore.clock import ManualClock
from metastore.interface import Environment
from metastore.providers.memory import MemoryData, MemoryStore

TEST_WITHIN_S = 30.0

P = ParamSpec("P")


def asynchronous(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Runs an async test on a loop of its own."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(TEST_WITHIN_S):
                await test(*args, **kwargs)

        asyncio.run(bounded())

    return run


class World:
    """Data on a clock that stands still, and two clients of it, each with faults and a line of its own."""

    def __init__(self, shards: int = 1, retention_writes: int = 1000) -> None:
        self.clock = ManualClock()
        self.data = MemoryData(shards=shards, retention_writes=retention_writes, clock=self.clock)
        self.ours = self.client()
        self.theirs = self.client()

    def client(self) -> MemoryStore:
        return MemoryStore(self.data, Environment(clock=self.clock))

    def pass_time(self, milliseconds: int) -> None:
        """The clock goes on, and that takes effect."""
        self.clock.advance_ms(milliseconds)
        self.data.tick()
