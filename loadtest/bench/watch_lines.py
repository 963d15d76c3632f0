"""The range watch: how long a change takes to its watcher, and how fast one that was away catches up."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from functools import partial
from typing import Any

from loadtest.bench import proc
from loadtest.bench.bench import Bench, Group
from loadtest.bench.figures import percentile
from loadtest.bench.model import AtMost, BenchError, Better, Derived, Line, Lookup, Metric, Sample, Summary, Turn
from loadtest.bench.proc import PeakMemory
from loadtest.bench.servers import Server, tidemark
from loadtest.bench.settings import VALUE_BYTES, Settings
from metastore.interface import BatchKind, MetadataStore, Watch, children_of, exactly, open_store

GROUP = "watch"
SIDE = "tidemark"
IDLE_WATCHES = (0, 1_000, 10_000)
P50_GROWTH_LIMIT = 1.3
CATCH_UP_RISE_LIMIT_MIB = 64.0
WRITERS = 1_000
MEBIBYTE = 1 << 20
VALUE = bytes(VALUE_BYTES)


class WatchedStore:
    """A server, and a client in this process with as many watches that never match as a line asks for."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._runner = asyncio.Runner()
        self._store: MetadataStore = self._runner.run(open_store(f"oxia://{server.address}"))
        self._idle = AsyncExitStack()
        self._idle_count = 0
        self._changes = 0
        self._token: str | None = None

    def have_idle_watches(self, count: int) -> None:
        """Opens watches of single keys that nobody writes, up to a number of them."""
        self._runner.run(self._open_idle(count))

    async def _open_idle(self, count: int) -> None:
        for number in range(self._idle_count, count):
            watch = await self._idle.enter_async_context(
                self._store.watch(exactly(f"/idle/{number:08d}"), snapshot=False)
            )
            await anext(watch)
        self._idle_count = max(self._idle_count, count)

    def deliver(self, turn: Turn) -> Sample:
        """Puts one after the other, each waited for at its watch."""
        return self._runner.run(self._deliver(turn))

    async def _deliver(self, turn: Turn) -> Sample:
        waits_ms: list[float] = []
        async with self._store.watch(children_of("/watched"), snapshot=False) as watch:
            await anext(watch)
            end_s = time.perf_counter() + turn.seconds
            while (sent_s := time.perf_counter()) < end_s:
                delivered = asyncio.ensure_future(_next_changes(watch))
                await self._store.put("/watched/key", VALUE)
                await delivered
                waits_ms.append(1000 * (time.perf_counter() - sent_s))
        waits_ms.sort()
        return {"p50_ms": percentile(waits_ms, 0.50), "p99_ms": percentile(waits_ms, 0.99)}

    def write_behind(self, changes: int) -> None:
        """Makes the log hold so many changes of one range."""
        self._runner.run(self._write_behind(changes))

    async def _write_behind(self, changes: int) -> None:
        async with self._store.watch(children_of("/behind"), snapshot=False) as watch:
            self._token = (await anext(watch)).token

        async def write(number: int) -> None:
            for each in range(number, changes, WRITERS):
                await self._store.put(f"/behind/{each:08d}", VALUE)

        await asyncio.gather(*(write(number) for number in range(WRITERS)))
        self._changes = changes

    def catch_up(self, turn: Turn) -> Sample:
        """Reads everything that was written behind, with what it adds to the server's memory and to this process's."""
        del turn  # the work has a size of its own
        idle = proc.memory_of(self.server.pid)
        own_idle = proc.private_bytes_of(os.getpid())
        with PeakMemory(self.server.pid) as server:
            began_s = time.perf_counter()
            own_peak = self._runner.run(self._read_behind())
            seconds = time.perf_counter() - began_s
        return {
            "rate": self._changes / seconds,
            "server_rise_mib": (server.peak.private - idle.private) / MEBIBYTE,
            "client_rise_mib": (own_peak - own_idle) / MEBIBYTE,
        }

    async def _read_behind(self) -> int:
        """Returns the most memory that this process has had meanwhile."""
        seen, own_peak = 0, 0
        async with self._store.watch(children_of("/behind"), resume=self._token) as watch:
            while seen < self._changes:
                seen += len((await anext(watch)).changes)
                own_peak = max(own_peak, proc.private_bytes_of(os.getpid()))
        if seen != self._changes:
            raise BenchError(f"a watch told {seen} changes of {self._changes}")
        return own_peak

    def close(self) -> None:
        """Ends all watches and the client."""
        try:
            self._runner.run(self._idle.aclose())
            self._runner.run(self._store.close())
        finally:
            self._runner.close()


async def _next_changes(watch: Watch) -> None:
    while (await anext(watch)).kind is not BatchKind.CHANGES:
        pass


def groups(settings: Settings) -> Sequence[Group[Any]]:
    """The one group of this module."""
    title = "Watching through oxia://: from the call of a put to its delivery at a watch, one process for both"
    changes = settings.plan.sizes[-1]
    lines = [*map(_delivery_line, IDLE_WATCHES), _catch_up_line(changes)]
    return [Group(GROUP, title, (SIDE,), lines, _open)]


def derived(_settings: Settings) -> Sequence[Derived]:
    """How much watches that do not match cost those that do."""
    return [
        Derived(
            f"delivery-beside-{idle}",
            f"delivery beside {idle:,} other watches, p50, to none",
            "x",
            Better.LOWER,
            partial(_growth, idle=idle),
            (AtMost(P50_GROWTH_LIMIT),),
        )
        for idle in IDLE_WATCHES[1:]
    ]


def _growth(lookup: Lookup, idle: int) -> dict[str, float] | None:
    alone = lookup(f"{GROUP}/{_delivery_name(0)}", "p50_ms")
    beside = lookup(f"{GROUP}/{_delivery_name(idle)}", "p50_ms")
    if alone is None or beside is None:
        return None
    return {SIDE: beside[SIDE].value / alone[SIDE].value}


def _delivery_name(idle: int) -> str:
    return f"delivery-{idle}"


def _delivery_line(idle: int) -> Line[WatchedStore]:
    metrics = (Metric("p50_ms", "p50", "ms", Better.LOWER), Metric("p99_ms", "p99", "ms", Better.LOWER))
    title = f"put to delivery, beside {idle:,} watches that do not match,"
    prepare = partial(WatchedStore.have_idle_watches, count=idle)
    return Line(_delivery_name(idle), title, metrics, WatchedStore.deliver, prepare)


def _catch_up_line(changes: int) -> Line[WatchedStore]:
    metrics = (
        Metric("rate", "", "changes/s", Better.HIGHER),
        Metric(
            "server_rise_mib",
            "server's private memory above idle",
            "MiB",
            Better.LOWER,
            (AtMost(CATCH_UP_RISE_LIMIT_MIB),),
            Summary.WORST,
        ),
        Metric(
            "client_rise_mib",
            "client's private memory above idle",
            "MiB",
            Better.LOWER,
            (AtMost(CATCH_UP_RISE_LIMIT_MIB),),
            Summary.WORST,
        ),
    )
    title = f"catch-up of {changes:,} changes"
    prepare = partial(WatchedStore.write_behind, changes=changes)
    return Line("catch-up", title, metrics, WatchedStore.catch_up, prepare, is_slow=True)


@contextmanager
def _open(bench: Bench) -> Iterator[Mapping[str, WatchedStore]]:
    with ExitStack() as stack:
        folder = stack.enter_context(bench.fresh_folder(GROUP))
        server = stack.enter_context(Server(tidemark(), folder, bench.generator))
        store = WatchedStore(server)
        stack.callback(store.close)
        yield {SIDE: store}
