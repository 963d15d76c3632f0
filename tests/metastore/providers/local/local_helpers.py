"""What the tests of the embedded store share."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

from metastore.engine.shard import ShardOptions
from metastore.faults import Faults
from metastore.interface import BatchKind, Environment, MetadataStore, StoreUrl, Watch, WatchBatch
from metastore.log import LogOptions
from metastore.providers.local import open_local
from metastore.providers.local.data import OpenDirectory
from metastore.providers.local.settings import Settings
from metastore.providers.local.store import LocalStore

WITHIN_S = 60.0
SMALL_LOG = LogOptions(
    segment_bytes_max=8 << 10, step_bytes_min=4 << 10, step_bytes_max=4 << 10, reserve_bytes=4 << 10, sync=False
)
"""So small that it can be trimmed in the middle of a test."""


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    """Runs a test that is an async function."""

    async def bounded() -> None:
        async with asyncio.timeout(WITHIN_S):
            await scenario()

    asyncio.run(bounded())


async def opened(path: Path, options: str = "", environment: Environment | None = None) -> LocalStore:
    """The store in a directory."""
    store: MetadataStore = await open_local(StoreUrl.parse(f"lmdb://{path}?{options}"), environment or Environment())
    assert isinstance(store, LocalStore)
    return store


def opened_small(path: Path, shards: int = 1) -> LocalStore:
    """One whose log keeps nothing longer than it must."""
    settings = Settings(path, "default", shards, None, ShardOptions(retention_ms=0, log=SMALL_LOG))
    return LocalStore(OpenDirectory(settings, Environment()))


async def until(watch: Watch, kind: BatchKind) -> list[WatchBatch]:
    """The batches of a watch up to the next one of this kind."""
    batches = [await anext(watch)]
    while batches[-1].kind is not kind:
        batches.append(await anext(watch))
    return batches


class Barrier(Faults):
    """Holds whichever thread comes to a named point, until it is opened."""

    def __init__(self, point: str) -> None:
        self._point = point
        self.threads: list[int] = []
        """Who came there."""
        self.reached = threading.Event()
        self.opened = threading.Event()

    def reach(self, point: str) -> None:
        if point == self._point:
            self.threads.append(threading.get_ident())
            self.reached.set()
            assert self.opened.wait(WITHIN_S), "the test has forgotten to open the barrier"
