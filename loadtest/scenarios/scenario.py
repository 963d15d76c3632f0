"""What a scenario is: where it works, what it prepares, what an arrival does, what goes on beside."""

from __future__ import annotations

import asyncio
import random
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from hashlib import sha256
from struct import Struct
from typing import Any, ClassVar

from controller.client import Client, connect
from loadtest.arrivals import Settings
from loadtest.arrivals.pump import Arrival
from loadtest.outcomes import Kind, Outcome, Record
from metastore.interface import MetadataStore, open_promptly

BROKERS_SCHEME = "tidemark://"
PREPARE_AT_ONCE = 64
"""Requests of a preparation under way."""
TASKS_MAX = 10_000
"""What a scenario has going on beside its arrivals."""

_STAMP = Struct("!Qd")


class TargetMissing(Exception):
    """A scenario needs a service whose URL was not given."""


class Stage:
    """What scenarios of one process share: connections, and where they tell what they see."""

    def __init__(self, settings: Settings, record: Record, note: Callable[[str, str], None]) -> None:
        self.settings = settings
        self.record = record
        self.note = note
        """Told of a scenario, and something that happened, for the axis of time."""
        self._stack = AsyncExitStack()
        self._lock = asyncio.Lock()
        self._store: MetadataStore | None = None
        self._client: Client | None = None

    async def store(self) -> MetadataStore:
        """The metadata store."""
        async with self._lock:
            if self._store is None:
                url = self._find("a metadata store, such as oxia://127.0.0.1:6648", is_brokers=False)
                self._store = await self._stack.enter_async_context(await open_promptly(url))
            return self._store

    async def client(self) -> Client:
        """A client of the brokers."""
        async with self._lock:
            if self._client is None:
                url = self._find("brokers, such as tidemark://127.0.0.1:6650", is_brokers=True)
                self._client = await self._stack.enter_async_context(await connect(url))
            return self._client

    async def close(self) -> None:
        """Ends the connections."""
        await self._stack.aclose()

    def _find(self, what: str, *, is_brokers: bool) -> str:
        for url in self.settings.targets:
            if url.startswith(BROKERS_SCHEME) == is_brokers:
                return url
        raise TargetMissing(f"no --target names {what}: given are {', '.join(self.settings.targets) or 'none'}")


class Scenario(ABC):
    """One kind of work. Used in the order: `prepare`, arrivals, `close`."""

    name: ClassVar[str]
    said: ClassVar[str]
    """What it does, in a sentence."""
    uses: ClassVar[str]
    """`metadata` or `brokers`."""
    rate: ClassVar[float]
    """Arrivals a second where nothing else is said."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.settings = stage.settings
        self.draw = random.Random(f"{stage.settings.seed} {self.name} beside")
        """For what goes on beside the arrivals."""
        self._stamp_mark = int.from_bytes(sha256(stage.settings.mark.encode()).digest()[:8])
        self._beside: set[asyncio.Task[None]] = set()
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Gets the error of what should have gone on beside the arrivals, and did not."""

    @abstractmethod
    async def prepare(self) -> None:
        """Makes what arrivals find: records, topics, watches. None of that is timed."""

    @abstractmethod
    async def serve(self, arrival: Arrival) -> None:
        """One arrival; what it raises is counted as its error."""

    @abstractmethod
    async def clear(self) -> None:
        """Removes what was made only for this run."""

    async def close(self) -> None:
        """Ends what goes on beside the arrivals, then clears up."""
        for task in self._beside:
            task.cancel()
        if self._beside:
            await asyncio.wait(self._beside)
        await self.clear()

    # -- what scenarios are made of

    def begin_beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Goes on beside the arrivals until the scenario is closed."""
        assert len(self._beside) < TASKS_MAX, "a scenario begins no more than TASKS_MAX tasks"
        task = asyncio.get_running_loop().create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._left)

    def _left(self, task: asyncio.Task[None]) -> None:
        self._beside.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not self.failed.done():
            self.failed.set_exception(error)

    def event(self, operation: str, began_s: float, size: int = 0, error: str | None = None) -> None:
        """Something has come by itself now, caused by what was meant to begin then."""
        now_s = asyncio.get_running_loop().time()
        self.stage.record(Outcome(self.name, operation, Kind.EVENT, began_s, now_s - began_s, 0.0, error, size))

    @asynccontextmanager
    async def step(self, arrival: Arrival, operation: str) -> AsyncIterator[None]:
        """Times a part of an arrival."""
        began_s = asyncio.get_running_loop().time()
        try:
            yield
        except Exception as error:
            arrival.step(operation, began_s, error)
            raise
        arrival.step(operation, began_s)

    def stamped(self, arrival: Arrival) -> bytes:
        """A value that tells when its arrival was meant to begin, to whoever in this process gets it as an event."""
        head = _STAMP.pack(self._stamp_mark, arrival.intended_s)
        return head.ljust(self.settings.value_bytes, b"\0")

    def stamp_of(self, value: bytes) -> float | None:
        """When the arrival was meant to begin that wrote this; None if another process did."""
        if len(value) < _STAMP.size:
            return None
        mark, intended_s = _STAMP.unpack_from(value)
        return intended_s if mark == self._stamp_mark else None


async def all_of(works: Iterable[Coroutine[Any, Any, Any]]) -> None:
    """Does all of it, no more than PREPARE_AT_ONCE at a time."""
    room = asyncio.Semaphore(PREPARE_AT_ONCE)

    async def one(work: Coroutine[Any, Any, Any]) -> None:
        async with room:
            await work

    async with asyncio.TaskGroup() as tasks:
        for work in works:
            tasks.create_task(one(work))


def new_mark() -> str:
    """Of a run, or of one process of it: nobody else has it."""
    return f"{time.time_ns():x}-{random.SystemRandom().getrandbits(32):08x}"


class MetadataScenario(Scenario):
    """One whose arrivals use the store."""

    uses = "metadata"

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._value = bytes(stage.settings.value_bytes)
        self._store: MetadataStore

    async def prepare(self) -> None:
        self._store = await self.stage.store()
