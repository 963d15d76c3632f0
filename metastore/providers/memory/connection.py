"""How a call gets to the data and back: past the faults that a test has scripted, over a line that may be cut."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from metastore.clock import SystemClock
from metastore.interface import Capabilities
from metastore.providers.memory.data import MemoryData
from metastore.providers.memory.line import Line
from metastore.providers.memory.script import Arrival, Script
from metastore.providers.memory.shard import Shard

TICK_S = 0.1
"""How often the passing of time takes effect, where the clock is the system's."""

T = TypeVar("T")


@dataclass(eq=False)
class Connection:
    """One store object's way to its data."""

    data: MemoryData
    script: Script
    capabilities: Capabilities
    line: Line = field(default_factory=Line)
    _ticker: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self.data.lines.append(self.line)

    def shards_of(self, routing_key: str | None) -> tuple[Shard, ...]:
        """The shard of a routing key; without one, all."""
        return self.data.shards if routing_key is None else (self.data.shard_of(routing_key),)

    async def call(self, method: str, keys: tuple[str, ...], action: Callable[[], T]) -> T:
        """Lets a call take effect, in one step; other tasks have a turn before and behind it, as with any store."""
        arrival = await self.approach(method, keys)
        self._pass(arrival)
        self.script.check_lost(arrival, lambda: self.data.locked(action))
        result = self.data.locked(action)
        arrival = Arrival(method, True, keys)
        await self.script.pass_gates(arrival, self._is_over, self.line.news)
        await asyncio.sleep(0)
        self._pass(arrival)
        return result

    async def approach(self, method: str, keys: tuple[str, ...]) -> Arrival:
        """Goes as far as to where a call takes effect, and is held there for as long as a test wants."""
        self._let_time_pass()
        arrival = Arrival(method, False, keys)
        await asyncio.sleep(0)
        await self.script.pass_gates(arrival, self._is_over, self.line.news)
        self.line.check_open(arrival)
        return arrival

    def _pass(self, arrival: Arrival) -> None:
        self.line.check(arrival)
        self.script.strike(arrival)

    def _is_over(self) -> bool:
        return self.line.is_closed

    def _let_time_pass(self) -> None:
        if self._ticker is None and isinstance(self.data.clock, SystemClock) and not self.line.is_closed:
            self._ticker = asyncio.create_task(self._tick())

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self.data.tick()

    async def close(self) -> None:
        """Cuts the line for ever."""
        if not self.line.is_closed:
            self.line.close()
            self.data.lines.remove(self.line)
        ticker, self._ticker = self._ticker, None
        if ticker is not None:
            ticker.cancel()
            await asyncio.wait([ticker])
