"""Curves over what a server holds: records, live sessions, watches, and the shards it is divided into."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from loadtest.bench import proc
from loadtest.bench.bench import Bench, Group
from loadtest.bench.clients import ContractPutter
from loadtest.bench.model import Axis, Better, Line, Metric, Point, Sample, Turn
from loadtest.bench.servers import Server, tidemark
from loadtest.bench.settings import SMALL_RECORDS, VALUE_BYTES, Settings
from loadtest.bench.store import Store, open_stores
from loadtest.bench.watch_lines import WatchedStore
from loadtest.bench.workload import FILL_BATCH, Gets, Puts, Sessions

RECORDS = "curve-records"
SESSIONS = "curve-sessions"
WATCHES = "curve-watches"
SHARDS = "curve-shards"
SMALLEST_RECORDS = 1_000
SESSION_COUNTS = (100, 1_000, 10_000, 100_000)
SESSION_TIMEOUT_MS = 300_000
SESSIONS_LIMIT_S = 120.0
SESSION_WINDOW = 64
WATCH_COUNTS = (1, 10, 100, 1_000, 10_000)
SHARD_COUNTS = (1, 2, 4, 8)
CALLERS = 256
MEBIBYTE = 1024 * 1024

RATE = Metric("rate", "", "operations/s", Better.HIGHER)
P50 = Metric("p50_ms", "p50", "ms", Better.LOWER)
P99 = Metric("p99_ms", "p99", "ms", Better.LOWER)
MEMORY = Metric("private_mib", "private memory", "MiB", Better.LOWER)


def groups(settings: Settings) -> Sequence[Group[Any]]:
    """Four curves."""
    assert settings.curve_records is not None
    sides = tuple(program.side for program in settings.programs)
    ours = sides[:1]
    sizes = list(_decades(SMALLEST_RECORDS, settings.curve_records))
    title = f"Records, one shard, {VALUE_BYTES}-byte values, random keys"
    records: Group[Any] = Group(
        RECORDS, title, sides, list(_records(sizes)), partial(open_stores, group=RECORDS), Axis("records")
    )
    sessions: Group[Any] = Group(
        SESSIONS, "Live sessions, and puts beside them", sides, list(_sessions()), _open_sessions, Axis("live sessions")
    )
    watches: Group[Any] = Group(
        WATCHES,
        "Watches that do not match beside one that does: from the call of a put to its delivery",
        ours,
        list(_watches()),
        _open_watches,
        Axis("watches beside"),
    )
    shards: Group[Any] = Group(
        SHARDS,
        f"Shards, and workers for them: puts by {CALLERS} callers of oxia:// in one process",
        ours,
        list(_shards()),
        _open_shards,
        Axis("shards"),
    )
    return [records, sessions, watches, shards]


def _decades(first: int, last: int) -> Iterator[int]:
    while first <= last:
        yield first
        first *= 10


def _records(sizes: Sequence[int]) -> Iterator[Line[Store]]:
    for size in sizes:
        fill = partial(_fill, records=size)
        for name, title, workload in (
            ("put-100", "put by 100, 8 outstanding", Puts(100, 8, size)),
            ("get-64", "get by 1, 64 outstanding", Gets(1, 64, size)),
        ):
            measure = partial(_load, workload=workload)
            point = Point(title, size)
            yield Line(f"{name}-{size}", f"{title}, {size:,} records", (RATE, P99), measure, fill, point=point)
        metrics = (
            Metric("idle_private_mib", "private memory at rest", "MiB", Better.LOWER),
            Metric("disk_bytes_per_record", "disk per record", "bytes", Better.LOWER),
            Metric("open_s", "until it serves again", "s", Better.LOWER),
        )
        measure = partial(_rest, records=size)
        title = f"stopped and started again, {size:,} records,"
        yield Line(f"rest-{size}", title, metrics, measure, fill, is_slow=True, point=Point("at rest", size))


def _fill(store: Store, records: int) -> None:
    assert records % FILL_BATCH == 0
    store.fill(records)


def _load(store: Store, turn: Turn, workload: Puts | Gets) -> Sample:
    return store.load(workload, turn)


def _rest(store: Store, _turn: Turn, records: int) -> Sample:
    sample = store.reopen()
    return {**sample, "disk_bytes_per_record": proc.disk_bytes_of(store.server.folder) / records}


@dataclass
class SessionHolder:
    """A server with as many live sessions as a line asks for. Nobody keeps them alive: they outlast the run."""

    store: Store
    live: int = 0
    bytes_at_first: int = 0

    def have(self, count: int) -> None:
        """Creates what is missing."""
        self.store.fill(SMALL_RECORDS)
        if not self.live:
            self.bytes_at_first = proc.memory_of(self.store.server.pid).private
        missing = count - self.live
        if missing > 0:
            with self.store.server.awake():
                wanted = Sessions(SESSION_TIMEOUT_MS, SESSION_WINDOW, missing)
                self.store.generator.load(self.store.server.address, wanted, 0, SESSIONS_LIMIT_S)
                self.store.server.settle()
            self.live = count

    def put(self, turn: Turn) -> Sample:
        """Puts beside them, with what the sessions cost."""
        sample = self.store.load(Puts(1, SESSION_WINDOW, SMALL_RECORDS), turn)
        private = proc.memory_of(self.store.server.pid).private
        return {**sample, "bytes_each": max(0, private - self.bytes_at_first) / self.live}


def _sessions() -> Iterator[Line[SessionHolder]]:
    each = Metric("bytes_each", "private memory per session", "bytes", Better.LOWER)
    for count in SESSION_COUNTS:
        title = f"put by 1, {SESSION_WINDOW} outstanding, beside {count:,} sessions"
        prepare = partial(SessionHolder.have, count=count)
        point = Point("puts beside them", count)
        yield Line(f"put-{count}", title, (RATE, P99, each), SessionHolder.put, prepare, point=point)


@contextmanager
def _open_sessions(bench: Bench) -> Iterator[Mapping[str, SessionHolder]]:
    with open_stores(bench, SESSIONS) as stores:
        yield {side: SessionHolder(store) for side, store in stores.items()}


def _watches() -> Iterator[Line[WatchedStore]]:
    for count in WATCH_COUNTS:
        title = f"put to delivery beside {count:,} watches"
        prepare = partial(WatchedStore.have_idle_watches, count=count)
        point = Point("put to delivery", count)
        yield Line(f"delivery-{count}", title, (P50, P99, MEMORY), _deliver, prepare, point=point)


def _deliver(store: WatchedStore, turn: Turn) -> Sample:
    return {**store.deliver(turn), "private_mib": proc.memory_of(store.server.pid).private / MEBIBYTE}


@contextmanager
def _open_watches(bench: Bench) -> Iterator[Mapping[str, WatchedStore]]:
    with ExitStack() as stack:
        folder = stack.enter_context(bench.fresh_folder(WATCHES))
        store = WatchedStore(stack.enter_context(Server(tidemark(), folder, bench.generator)))
        stack.callback(store.close)
        yield {tidemark().side: store}


@dataclass
class Fleet:
    """Servers of a store each, divided differently; each is started when a line asks for it."""

    bench: Bench
    stack: ExitStack
    servers: dict[tuple[int, int], tuple[Server, ContractPutter]] = field(default_factory=dict)

    def have(self, shards: int, workers: int) -> None:
        """Starts a server so divided."""
        if (shards, workers) in self.servers:
            return
        folder = self.stack.enter_context(self.bench.fresh_folder(f"{SHARDS}-{shards}-{workers}"))
        server = self.stack.enter_context(Server(tidemark(shards, workers), folder, self.bench.generator))
        putter = ContractPutter(f"oxia://{server.address}")
        self.stack.callback(putter.close)
        self.stack.callback(server.resume)
        self.servers[shards, workers] = server, putter
        server.pause()

    def put(self, turn: Turn, shards: int, workers: int) -> Sample:
        """Puts of random keys, which are spread over the shards."""
        server, putter = self.servers[shards, workers]
        with server.awake():
            sample = putter.put(CALLERS, turn)
            return {**sample, "private_mib": proc.memory_of(server.pid).private / MEBIBYTE}


def _shards() -> Iterator[Line[Fleet]]:
    for shards in SHARD_COUNTS:
        for series, workers in (("one worker", 1), ("a worker per shard", shards)):
            title = f"put, {shards} shards, {series}"
            name = f"put-{shards}-{'one' if series == 'one worker' else 'each'}"
            prepare = partial(Fleet.have, shards=shards, workers=workers)
            measure = partial(_put, shards=shards, workers=workers)
            yield Line(name, title, (RATE, P99, MEMORY), measure, prepare, point=Point(series, shards))


def _put(fleet: Fleet, turn: Turn, shards: int, workers: int) -> Sample:
    return fleet.put(turn, shards, workers)


@contextmanager
def _open_shards(bench: Bench) -> Iterator[Mapping[str, Fleet]]:
    with ExitStack() as stack:
        yield {tidemark().side: Fleet(bench, stack)}
