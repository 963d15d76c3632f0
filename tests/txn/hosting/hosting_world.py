"""Brokers that take segments over, without what is in a segment: what is served is whatever a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from metastore.coordination import Grant, Registration, SessionKeeper
from metastore.faults import NO_FAULTS, Faults
from support.world import Process, World, settle
from txn.hosting.chart import SegmentChart
from txn.hosting.descriptor import Descriptor
from txn.hosting.descriptors import Descriptors
from txn.hosting.owning import Owning
from txn.model.errors import SegmentUnavailable
from txn.posts import GROUP, Broker, Takeover, line_up
from txn.segment.bell import Bell
from txn.segment.log import SegmentLog, SegmentLogs, StoredLogs

SESSION_MS = 10_000
TURN_S = 2.0


class Bare:
    """A segment with a log and nothing else."""

    def __init__(self, descriptor: Descriptor, grant: Grant, log: SegmentLog) -> None:
        self.descriptor = descriptor
        self.grant = grant
        self.log = log
        self.is_closed = False
        self.ended = asyncio.Event()

    async def wait_ended(self) -> None:
        await self.ended.wait()

    def check(self) -> None:
        if self.ended.is_set():
            raise SegmentUnavailable("it has ended")


class Keeper:
    """A broker of which only the taking over is real."""

    def __init__(self, process: Process, logs: Mapping[str, SegmentLogs] | None = None, faults: Faults = NO_FAULTS):
        self.process = process
        self.name = process.name
        self.descriptors = Descriptors(process.store, process.pace)
        self.opened: list[Bare] = []
        self.failures: list[Exception] = []
        """What the next openings fail with."""
        self.sessions = SessionKeeper(process.store, timeout_ms=SESSION_MS, identity=process.name, pace=process.pace)
        bell = Bell()
        self.chart = SegmentChart(process.store, process.pace, bell)
        self.logs = logs or {"stored": StoredLogs(process.store, pace=process.pace)}
        self.means = Owning(
            process.store,
            self.sessions,
            process.pace,
            faults,
            process.name,
            f"{process.name}:1",
            self.logs,
            self.descriptors,
            self._open,
            asyncio.Semaphore(4),
            TURN_S,
        )
        self.takeover = Takeover(self.means, self.chart, bell)
        self.task: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def _open(self, descriptor: Descriptor, grant: Grant, log: SegmentLog) -> AsyncIterator[Bare]:
        if self.failures:
            raise self.failures.pop(0)
        bare = Bare(descriptor, grant, log)
        self.opened.append(bare)
        try:
            yield bare
        finally:
            bare.is_closed = True

    async def start(self) -> None:
        self.task = self.process.start(self._run())
        await settle()

    async def _run(self) -> None:
        value = Broker(self.name, f"{self.name}:1", frozenset(self.logs)).encode()
        async with self.sessions, asyncio.TaskGroup() as tasks, self.takeover:
            following = [tasks.create_task(self.chart.follow()), tasks.create_task(self.takeover.run())]
            try:
                async with Registration(self.process.store, GROUP, self.name, value, keeper=self.sessions):
                    await asyncio.Event().wait()
            finally:
                for task in following:
                    task.cancel()

    async def stop(self) -> None:
        """Ends it properly."""
        assert self.task is not None
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await settle()

    @property
    def owned(self) -> list[str]:
        return sorted(self.takeover.served())


async def brokers(world: World, count: int) -> list[Keeper]:
    """So many of them, that know of each other."""
    made = [Keeper(world.process()) for _ in range(count)]
    for each in made:
        await each.start()
    return made


def in_line(segment: str, made: list[Keeper], place: str = "stored") -> list[Keeper]:
    """They as they stand for a segment."""
    names = line_up(segment, [Broker(each.name, "", frozenset(each.logs)) for each in made], place)
    return [next(each for each in made if each.name == name) for name in names]


async def pass_session(world: World, *, frozen: tuple[Process, ...] = ()) -> None:
    """So much time that sessions without heartbeats end, in steps so that those with heartbeats do not."""
    for _ in range(4):
        await world.pass_ms(SESSION_MS // 3, frozen=frozen)
        await settle()
