"""The logs that the suite over `SegmentLog` is run on: files, and records in several stores."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from metastore.interface import open_store
from metastore.log import LogOptions
from peers.oxia import oxia_server
from txn.model.position import Position
from txn.segment.log import (
    LocalLogOptions,
    LocalLogs,
    LogEntry,
    SegmentLog,
    SegmentLogs,
    StoredLogOptions,
    StoredLogs,
)

SEGMENT = "segment://tenant/ns/orders/0000-7fff-1"
OTHER = "segment://tenant/ns/orders/0000-7fff-10"
SMALL_FILES = LogOptions(segment_bytes_max=400, step_bytes_min=256, step_bytes_max=256, reserve_bytes=0)
"""A few groups each, so that there are many to trim."""
GROUP_BYTES_MAX = 4_000
RECENT_BYTES_MAX = 400
WITHIN_S = 60.0
EVERYTHING = 1 << 30

_numbers = itertools.count()


class Place:
    """Where logs are kept for one test; every call of `logs` is like another process."""

    def __init__(self, make: Callable[[], Awaitable[SegmentLogs]], *, locks: bool) -> None:
        self.locks = locks
        """An owner that lives keeps its successor waiting, and cannot be overtaken."""
        self._make = make
        self._stack = AsyncExitStack()

    async def logs(self) -> SegmentLogs:
        return await self._stack.enter_async_context(await self._make())

    async def open(self, term: int, segment: str = SEGMENT) -> SegmentLog:
        """Opens a log as another process would; it is closed at the end of the test."""
        return await self._stack.enter_async_context(await (await self.logs()).open(segment, term))

    async def close(self) -> None:
        await self._stack.aclose()


@asynccontextmanager
async def _local() -> AsyncIterator[Place]:
    options = LocalLogOptions(SMALL_FILES, GROUP_BYTES_MAX, RECENT_BYTES_MAX)
    with TemporaryDirectory(prefix="tidemark-segment-") as root:

        async def make() -> SegmentLogs:
            return LocalLogs(Path(root) / "segments", options=options)

        yield Place(make, locks=True)


async def _stored(url: str, stack: AsyncExitStack) -> Place:
    store = await stack.enter_async_context(await open_store(url))
    options = StoredLogOptions(GROUP_BYTES_MAX, 1_000, RECENT_BYTES_MAX)

    async def make() -> SegmentLogs:
        return StoredLogs(store, options=options)

    return Place(make, locks=False)


@asynccontextmanager
async def place(subject: str) -> AsyncIterator[Place]:
    """A place of that kind, fresh."""
    async with AsyncExitStack() as stack:
        if subject == "local":
            found = await stack.enter_async_context(_local())
        elif subject == "oxia":
            server = stack.enter_context(oxia_server(8, "hierarchical"))
            found = await _stored(f"oxia://{server.address}?{SUBJECTS[subject]}", stack)
        elif subject == "lmdb":
            root = stack.enter_context(TemporaryDirectory(prefix="tidemark-segment-", ignore_cleanup_errors=True))
            found = await _stored(f"lmdb://{root}/data?{SUBJECTS[subject]}", stack)
        else:
            found = await _stored(f"memory://segments-{next(_numbers)}?{SUBJECTS[subject]}", stack)
        stack.push_async_callback(found.close)
        yield found


SUBJECTS = {
    "local": "",
    "memory-1": "shards=1",
    "memory-3": "shards=3",
    "memory-natural": "shards=3&key_sorting=natural",
    "memory-plain": "shards=3&lacks=transact,every_change,index_order",
    "memory-plain-natural": "shards=1&key_sorting=natural&lacks=transact",
    "lmdb": "shards=3&sync=false",
    "oxia": "key_sorting=hierarchical",
}

every_log = pytest.mark.parametrize(
    "subject", [pytest.param(name, marks=[pytest.mark.peers] if name == "oxia" else []) for name in SUBJECTS]
)


def run(subject: str, scenario: Callable[[Place], Awaitable[None]]) -> None:
    """Runs a scenario in a place of its own."""

    async def whole() -> None:
        async with asyncio.timeout(WITHIN_S), place(subject) as found:
            await scenario(found)

    asyncio.run(whole())


def entries(count: int, start: int = 0) -> list[bytes]:
    """Entries that differ from each other."""
    return [b"entry-%d" % number for number in range(start, start + count)]


async def read_all(log: SegmentLog, start: Position | None = None, entries_max: int = 3) -> list[LogEntry]:
    """Everything from a position on, or from the first on, in small pieces."""
    at = start or log.first
    found: list[LogEntry] = []
    while at is not None and (piece := await log.read(at, entries_max, EVERYTHING)):
        found += piece
        at = Position(found[-1].position.ledger, found[-1].position.entry + 1)
    return found


def placed(ledger: int, data: Sequence[bytes], start: int = 0) -> list[LogEntry]:
    """Entries of a ledger as they are to be read."""
    return [LogEntry(Position(ledger, number), each) for number, each in enumerate(data, start)]
