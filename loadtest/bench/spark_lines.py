"""Spark: the store's records, from a live directory and through the service, beside its own scan of the same rows."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from loadtest.bench import spark_data
from loadtest.bench.bench import Bench, Group
from loadtest.bench.model import AtLeast, AtMost, BenchError, Better, Derived, Line, Lookup, Metric, Sample, Turn
from loadtest.bench.servers import Server, tidemark
from loadtest.bench.settings import VALUE_BYTES, Settings
from metastore.interface import MetadataStore, Range, children_of, open_store
from metastore.spark.views import levels_below

GROUP = "spark"
LIVE, SERVICE, SNAPSHOT, PARQUET = "directory", "service", "snapshot", "parquet"
ALL_COLUMNS_GOAL, ONE_COLUMN_GOAL, JOIN_GOAL = 0.2, 0.25, 0.2
SNAPSHOT_GOAL, SERVICE_GOAL = 0.8, 0.4
LOST_WRITES_MAX = 0.2
WRITES_PER_S = 1_000
WRITERS = 64
CORES = 2
HEAP = "4g"
VALUE = bytes(VALUE_BYTES)
LOST = "lost"
POLL_S = 0.005
SETTLED_S = 1.0

OPERATIONS = levels_below("/txn-op", 2, "hierarchical")
HEADERS = children_of("/txn")

Frame = Any
"""A DataFrame. Spark is imported only where its lines are measured."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One way to the rows."""

    read: Callable[[Range, str | None], Frame]
    """The records of a range, with all columns or with these."""
    rows: int
    writes: WriteLoad | None = None

    def all_columns(self, turn: Turn) -> Sample:
        """Every column of every operation, to nowhere."""
        return self._timed(turn, lambda: self.read(OPERATIONS, None).write.format("noop").mode("overwrite").save())

    def one_column(self, turn: Turn) -> Sample:
        """The operations by one of their columns."""
        return self._timed(turn, self._grouped)

    def _grouped(self) -> None:
        frame = self.read(OPERATIONS, "version_id BIGINT").selectExpr("version_id % 256 AS part")
        counted = sum(row["count"] for row in frame.groupBy("part").count().collect())
        if counted != self.rows:
            raise BenchError(f"{counted} rows were read of {self.rows}")

    def anti_join(self, turn: Turn) -> Sample:
        """The operations of transactions that have no header."""
        return self._timed(turn, self._joined)

    def _joined(self) -> None:
        from pyspark.sql.functions import broadcast

        operations = self.read(OPERATIONS, "key STRING").selectExpr("substring_index(key, '/', -2) AS rest")
        operations = operations.selectExpr("substring_index(rest, '/', 1) AS txn")
        headers = self.read(HEADERS, "key STRING").selectExpr("substring_index(key, '/', -1) AS txn")
        orphans = operations.join(broadcast(headers), "txn", "left_anti").count()
        expected = spark_data.orphans(self.rows)
        if orphans != expected:
            raise BenchError(f"{orphans} orphans were found of {expected}")

    def _timed(self, turn: Turn, work: Callable[[], None]) -> Sample:
        if self.writes is None:
            return {"rate": self.rows / _seconds_of(work)}
        with self.writes.at_work() as writes:
            alone = writes.rate(turn.seconds)
            first = writes.written
            seconds = _seconds_of(work)
            during = (writes.written - first) / seconds
        return {"rate": self.rows / seconds, LOST: max(0.0, 1 - during / alone), "writes_per_s": during}


def _seconds_of(work: Callable[[], None]) -> float:
    began_s = time.perf_counter()
    work()
    return time.perf_counter() - began_s


class WriteLoad:
    """Puts at a steady pace, from a thread of its own, while somebody wants them."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.written = 0
        self._stop = threading.Event()

    @contextmanager
    def at_work(self) -> Iterator[WriteLoad]:
        """Writes as long as the block lasts."""
        self._stop.clear()
        thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="writes", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            thread.join()

    def rate(self, seconds: float) -> float:
        """Puts per second, for a while, from the first one on."""
        first = self.written
        while self.written == first:
            time.sleep(POLL_S)
        first, began_s = self.written, time.perf_counter()
        time.sleep(max(seconds, SETTLED_S))
        return (self.written - first) / (time.perf_counter() - began_s)

    async def _run(self) -> None:
        async with await open_store(self._url) as store:
            await asyncio.gather(*[self._write(store, number) for number in range(WRITERS)])

    async def _write(self, store: MetadataStore, number: int) -> None:
        interval_s = WRITERS / WRITES_PER_S
        due_s = time.monotonic()
        while not self._stop.is_set():
            await store.put(f"/load/{number}", VALUE)
            self.written += 1
            due_s = max(due_s + interval_s, time.monotonic() - interval_s)
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))


@contextmanager
def _session(folder: Path) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    from metastore.spark import register

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": HEAP,
        "spark.sql.shuffle.partitions": str(CORES),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.log.level": "OFF",
    }
    builder = SparkSession.builder.master(f"local[{CORES}]").appName("benchmark")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = builder.getOrCreate()
    register(session)
    try:
        yield session
    finally:
        session.stop()


def _from_store(session: Any, url: str, wanted: Range, schema: str | None) -> Frame:
    reader = session.read.format("tidemark").options(store=url, keyStart=wanted.start, keyEnd=wanted.end)
    return (reader if schema is None else reader.schema(schema)).load()


def _from_parquet(session: Any, folder: Path, wanted: Range, schema: str | None) -> Frame:
    reader = session.read if schema is None else session.read.schema(schema)
    return reader.parquet(str(folder / ("headers" if wanted == HEADERS else "operations")))


def _export(session: Any, url: str, folder: Path) -> None:
    """What an exported snapshot is: the rows of a read, as Parquet."""
    for name, wanted in (("operations", OPERATIONS), ("headers", HEADERS)):
        _from_store(session, url, wanted, None).write.parquet(str(folder / name))


@contextmanager
def _open(bench: Bench) -> Iterator[Mapping[str, Subject]]:
    rows = bench.settings.spark_rows
    with ExitStack() as stack:
        folder = stack.enter_context(bench.fresh_folder(GROUP))
        spark_data.fill(folder / "data", rows)
        server = stack.enter_context(Server(tidemark(), folder, bench.generator))
        session = stack.enter_context(_session(folder))
        live, service = f"lmdb://{folder / 'data'}", f"oxia://{server.address}"
        for name in (SNAPSHOT, PARQUET):
            _export(session, live, folder / name)
        yield {
            LIVE: Subject(partial(_from_store, session, live), rows),
            SERVICE: Subject(partial(_from_store, session, service), rows, WriteLoad(service)),
            SNAPSHOT: Subject(partial(_from_parquet, session, folder / SNAPSHOT), rows),
            PARQUET: Subject(partial(_from_parquet, session, folder / PARQUET), rows),
        }


def groups(settings: Settings) -> Sequence[Group[Any]]:
    """The group of Spark's lines."""
    del settings

    def line(name: str, title: str, goal: float, measure: Callable[[Subject, Turn], Sample]) -> Line[Subject]:
        rate = Metric("rate", "", "rows/s", Better.HIGHER, (AtLeast(PARQUET, goal=goal),))
        return Line(name, title, (rate,), measure)

    lines = [
        line("all-columns", "all columns of the operations", ALL_COLUMNS_GOAL, Subject.all_columns),
        line("one-column", "one column, grouped", ONE_COLUMN_GOAL, Subject.one_column),
        line("anti-join", "operations without a header", JOIN_GOAL, Subject.anti_join),
    ]
    return [Group(GROUP, "Spark, on a live store", (LIVE, SERVICE, SNAPSHOT, PARQUET), lines, _open)]


def derived(settings: Settings) -> Sequence[Derived]:
    """What is held against other sides than Parquet, and what the writes of others lose."""
    del settings
    rows: list[Derived] = []
    for name in ("all-columns", "one-column"):
        service = partial(_two, name=name, ours=SERVICE, other=LIVE)
        check = AtLeast(LIVE, goal=SERVICE_GOAL)
        rows.append(Derived(f"spark-service-{name}", f"service, {name}", "rows/s", Better.HIGHER, service, (check,)))
    snapshot = partial(_two, name="all-columns", ours=SNAPSHOT, other=PARQUET)
    goal = AtLeast(PARQUET, goal=SNAPSHOT_GOAL)
    rows.append(Derived("spark-snapshot", "exported snapshot, all columns", "rows/s", Better.HIGHER, snapshot, (goal,)))
    bound = AtMost(LOST_WRITES_MAX)
    title = "part of the writes lost while all columns are read through the service"
    rows.append(Derived("spark-lost-writes", title, "", Better.LOWER, _lost, (bound,)))
    return rows


def _two(lookup: Lookup, name: str, ours: str, other: str) -> dict[str, float] | None:
    figures = lookup(f"{GROUP}/{name}", "rate")
    return None if figures is None else {ours: figures[ours].value, other: figures[other].value}


def _lost(lookup: Lookup) -> dict[str, float] | None:
    figures = lookup(f"{GROUP}/all-columns", "rate")
    return None if figures is None else {SERVICE: figures[SERVICE].details[LOST]}
