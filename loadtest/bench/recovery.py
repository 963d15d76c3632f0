"""A segment taken over by the next owner, with much history and many open transactions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from loadtest.bench.bench import Bench
from loadtest.bench.figures import percentile
from loadtest.bench.model import Sample, Turn
from loadtest.bench.servers import Server, tidemark
from loadtest.bench.settings import VALUE_BYTES
from metastore.interface import open_store
from txn.hosting import Host, local_place
from txn.segment.entry import Entry
from txn.segment.log import LocalLogs

GROUP = "txn-recovery"
SIDE = "tidemark"
TITLE = "Recovery: the next owner takes a segment over, in this process, on a metastore process of its own"
ENTRIES = 100_000
OPEN = 1_000
TIMEOUT_MS = 3_600_000
RECOVERIES = 5
"""Of one turn."""
AT_ONCE = 1_000


def name(entries: int) -> str:
    """The line's."""
    return f"recovery-{entries}"


class Segments:
    """Segments, each in a store and a folder of its own, filled once and taken over again and again."""

    def __init__(self, bench: Bench, stack: ExitStack) -> None:
        self._bench = bench
        self._stack = stack
        self._places: dict[str, tuple[str, Path]] = {}
        """The URL of a segment's store, and the folder of its log."""

    def fill(self, entries: int) -> None:
        """A segment with so many entries, the last of which are of open transactions."""
        segment = name(entries)
        folders = [
            self._stack.enter_context(self._bench.fresh_folder(f"{segment}-{what}")) for what in ("store", "logs")
        ]
        server = self._stack.enter_context(Server(tidemark(), folders[0], self._bench.generator))
        self._places[segment] = f"oxia://{server.address}", folders[1]
        asyncio.run(self._fill(segment, entries))

    async def _fill(self, segment: str, entries: int) -> None:
        url, folder = self._places[segment]
        async with (
            await open_store(url) as store,
            LocalLogs(folder) as logs,
            Host(store, {local_place(segment): logs}, "filler", "127.0.0.1:1") as host,
        ):
            await host.create(segment)
            owned = await host.get(segment)
            for start in range(0, entries - OPEN, AT_ONCE):
                count = min(AT_ONCE, entries - OPEN - start)
                await asyncio.gather(*(owned.publish(Entry(bytes(VALUE_BYTES))) for _ in range(count)))
            ids = await asyncio.gather(*(host.coordinator.begin(TIMEOUT_MS) for _ in range(OPEN)))
            await asyncio.gather(*(owned.publish(Entry(bytes(VALUE_BYTES), txn_id=txn_id)) for txn_id in ids))

    def recover(self, turn: Turn, entries: int) -> Sample:
        """From asking a fresh broker for the segment to having it."""
        del turn  # the work has a size of its own
        waits_ms = sorted(asyncio.run(self._recover(name(entries))) for _ in range(RECOVERIES))
        return {"p50_ms": percentile(waits_ms, 0.50)}

    async def _recover(self, segment: str) -> float:
        url, folder = self._places[segment]
        async with await open_store(url) as store, LocalLogs(folder) as logs:
            began_s = time.perf_counter()
            async with Host(store, {local_place(segment): logs}, "owner", "127.0.0.1:2") as host:
                await host.get(segment)
                return 1000 * (time.perf_counter() - began_s)


@contextmanager
def opened(bench: Bench) -> Iterator[Mapping[str, Segments]]:
    """The one subject; what its segments need ends with it."""
    with ExitStack() as stack:
        yield {SIDE: Segments(bench, stack)}
