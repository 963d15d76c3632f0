"""A store in memory, processes that use it, and a time that passes when a test says so."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, ParamSpec, TypeVar

from metastore.clock import ManualClock
from metastore.coordination import Pace
from metastore.interface import ALL, Environment
from metastore.providers.memory import MemoryData, MemoryStore, Script

TURNS = 300
"""More turns of the event loop than anything here takes until it has to wait for something."""

P = ParamSpec("P")
T = TypeVar("T")


async def settle() -> None:
    """Lets everything go as far as it can without anything new happening."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


class Sleeper:
    """Sleeps by a clock that a test moves."""

    def __init__(self, clock: ManualClock) -> None:
        self.slept: list[float] = []
        self._clock = clock
        self._sleeping: dict[asyncio.Event, float] = {}

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        is_over = asyncio.Event()
        self._sleeping[is_over] = self._clock.monotonic_s() + seconds
        try:
            await is_over.wait()
        finally:
            del self._sleeping[is_over]

    def wake(self) -> None:
        """Wakes those whose time is over."""
        for is_over, due_s in list(self._sleeping.items()):
            if due_s <= self._clock.monotonic_s():
                is_over.set()


class Process:
    """One process: a store object of its own with its faults, a clock that may stand still, and what it runs."""

    def __init__(self, world: World, number: int, lacks: tuple[str, ...]) -> None:
        self.name = f"process-{number}"
        self.script = Script()
        self.clock = ManualClock(world.clock.wall_ms(), world.clock.monotonic_s())
        self.sleeper = Sleeper(self.clock)
        self.pace = Pace(self.clock, random.Random(number), self.sleeper.sleep)
        self.store = MemoryStore(world.data, Environment(self.clock, self.script), lacks=lacks)
        self._world = world

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Runs something at the side; at the end of the test it is cancelled if it still runs."""
        task = asyncio.ensure_future(work)
        self._world.tasks.append(task)
        return task


class Threads(ThreadPoolExecutor):
    """Threads for work that blocks, of which it is known what they have not done yet."""

    def __init__(self) -> None:
        super().__init__()
        self.at_work: set[Future[Any]] = set()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future = super().submit(fn, *args, **kwargs)
        self.at_work.add(future)
        future.add_done_callback(self.at_work.discard)
        return future


class World:
    """The data that all processes share, and the passing of time."""

    def __init__(self, lacks: tuple[str, ...] = (), shards: int = 3) -> None:
        self.clock = ManualClock()
        self.data = MemoryData(shards=shards, clock=self.clock)
        self.processes: list[Process] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self._threads: list[Threads] = []
        self._lacks = lacks

    def process(self) -> Process:
        """Another process."""
        self.processes.append(Process(self, len(self.processes) + 1, self._lacks))
        return self.processes[-1]

    def threads(self) -> Threads:
        """Threads for something that works outside of this world's time: that stands still while they work."""
        self._threads.append(Threads())
        return self._threads[-1]

    async def _threads_done(self) -> None:
        while at_work := [future for each in self._threads for future in list(each.at_work)]:
            await asyncio.gather(*map(asyncio.wrap_future, at_work), return_exceptions=True)
            await settle()

    async def pass_ms(self, milliseconds: int, *, frozen: tuple[Process, ...] = ()) -> None:
        """Time passes everywhere but in frozen clocks; sessions without heartbeats end, sleepers wake."""
        await self._threads_done()
        self.clock.advance_ms(milliseconds)
        for process in self.processes:
            if process not in frozen:
                process.clock.advance_ms(milliseconds)
        self.data.tick()
        for process in self.processes:
            process.sleeper.wake()
        await settle()

    async def keys(self) -> list[str]:
        """All keys there are."""
        async with MemoryStore(self.data, Environment(self.clock)) as store:
            return [key async for key in store.list(ALL)]


def run(scenario: Callable[[World], Awaitable[None]], lacks: tuple[str, ...] = (), shards: int = 3) -> None:
    """Runs a scenario in a world of its own."""

    async def whole() -> None:
        async with running(lacks, shards) as world:
            await scenario(world)

    asyncio.run(whole())


@asynccontextmanager
async def running(lacks: tuple[str, ...] = (), shards: int = 3) -> AsyncIterator[World]:
    """A world; afterwards what still runs is ended."""
    world = World(lacks, shards)
    try:
        yield world
    finally:
        for process in world.processes:
            process.script.clear()
            process.store.line.mend()
        for task in world.tasks:
            task.cancel()
        await settle()
        for process in world.processes:
            await process.store.close()
