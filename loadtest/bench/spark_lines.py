"""Spark: a store's operations, from a live directory and through the service, beside its own scan of the same rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from loadtest.bench import spark_data
from loadtest.bench.bench import Bench, Group
from loadtest.bench.model import AtLeast, AtMost, BenchError, Better, Derived, Line, Lookup, Metric, Sample, Turn
from loadtest.bench.servers import Server, tidemark
from loadtest.bench.settings import Settings
from loadtest.bench.spark_session import Read, Rows, export, reads_parquet, reads_store, session, to_nowhere
from loadtest.bench.spark_writes import WriteLoad
from metastore.clock import SystemClock

GROUP = "spark"
LIVE, SERVICE, SNAPSHOT, PARQUET = "directory", "service", "snapshot", "parquet"
ALL_COLUMNS_GOAL, ONE_COLUMN_GOAL, JOIN_GOAL = 0.2, 0.25, 0.2
SNAPSHOT_GOAL, SERVICE_GOAL = 0.8, 0.4
KEPT_WRITES_GOAL = 0.8
STEADY_WRITES_PER_S = 1_000
LOST, KEPT = "lost", "kept"


@dataclass(frozen=True, slots=True)
class Subject:
    """One way to the rows."""

    read: Read
    rows: int
    all_writes: WriteLoad
    """As many as the service does, while this side reads."""
    steady_writes: WriteLoad | None = None
    """Some, whenever this side reads."""

    def all_columns(self, rows: Rows, turn: Turn) -> Sample:
        """Every column of every operation, to nowhere."""
        return self._timed(turn, lambda: to_nowhere(self.read(rows, ())))

    def one_column(self, rows: Rows, column: str, group: str, turn: Turn) -> Sample:
        """The operations by one of their columns."""
        return self._timed(turn, lambda: self._grouped(rows, column, group))

    def _grouped(self, rows: Rows, column: str, group: str) -> None:
        counts = self.read(rows, [column]).selectExpr(f"{group} AS part").groupBy("part").count().collect()
        counted = sum(row["count"] for row in counts)
        if counted != self.rows:
            raise BenchError(f"{counted} rows were read of {self.rows}")

    def anti_join(self, turn: Turn) -> Sample:
        """The operations of transactions that have no header."""
        return self._timed(turn, self._joined)

    def _joined(self) -> None:
        from pyspark.sql.functions import broadcast

        operations, headers = self.read(Rows.OPS, ["txn_id"]), self.read(Rows.HEADERS, ["txn_id"])
        orphans = operations.join(broadcast(headers), "txn_id", "left_anti").count()
        expected = spark_data.orphans(self.rows)
        if orphans != expected:
            raise BenchError(f"{orphans} orphans were found of {expected}")

    def _timed(self, turn: Turn, work: Callable[[], None]) -> Sample:
        if self.steady_writes is None:
            return {"rate": self.rows / _seconds_of(work)}
        seconds, alone, beside = _beside(self.steady_writes, turn, work)
        return {"rate": self.rows / seconds, LOST: max(0.0, 1 - beside / alone), "writes_per_s": beside}

    def writes(self, turn: Turn) -> Sample:
        """What is left of all the puts that the service does, while every column is read."""
        seconds, alone, beside = _beside(self.all_writes, turn, lambda: to_nowhere(self.read(Rows.OPS, ())))
        return {KEPT: beside / alone, "alone_per_s": alone, "beside_per_s": beside, "rate": self.rows / seconds}


def _seconds_of(work: Callable[[], None]) -> float:
    began_s = time.perf_counter()
    work()
    return time.perf_counter() - began_s


def _beside(load: WriteLoad, turn: Turn, work: Callable[[], None]) -> tuple[float, float, float]:
    """The seconds of some work, and the puts per second without it and beside it."""
    with load.at_work() as writes:
        alone = writes.rate(turn.seconds)
        first = writes.written
        seconds = _seconds_of(work)
        return seconds, alone, (writes.written - first) / seconds


@contextmanager
def _open(bench: Bench) -> Iterator[Mapping[str, Subject]]:
    rows = bench.settings.spark_rows
    with ExitStack() as stack:
        folder = stack.enter_context(bench.fresh_folder(GROUP))
        spark_data.fill(folder / "data", rows, SystemClock().wall_ms())
        server = stack.enter_context(Server(tidemark(), folder, bench.generator))
        spark = stack.enter_context(session(folder))
        live, service = f"lmdb://{folder / 'data'}", f"oxia://{server.address}"
        for name in (SNAPSHOT, PARQUET):
            export(spark, live, folder / name)
        writes, steady = WriteLoad(service), WriteLoad(service, STEADY_WRITES_PER_S)
        yield {
            LIVE: Subject(reads_store(spark, live), rows, writes),
            SERVICE: Subject(reads_store(spark, service), rows, writes, steady),
            SNAPSHOT: Subject(reads_parquet(spark, folder / SNAPSHOT), rows, writes),
            PARQUET: Subject(reads_parquet(spark, folder / PARQUET), rows, writes),
        }


def groups(settings: Settings) -> Sequence[Group[Any]]:
    """The group of Spark's lines."""
    del settings

    def line(name: str, title: str, goal: float, measure: Callable[[Subject, Turn], Sample]) -> Line[Subject]:
        rate = Metric("rate", "", "rows/s", Better.HIGHER, (AtLeast(PARQUET, goal=goal),))
        return Line(name, title, (rate,), measure)

    def all_columns(rows: Rows) -> Callable[[Subject, Turn], Sample]:
        return lambda subject, turn: subject.all_columns(rows, turn)

    def one_column(rows: Rows, column: str, group: str) -> Callable[[Subject, Turn], Sample]:
        return lambda subject, turn: subject.one_column(rows, column, group, turn)

    version = one_column(Rows.RECORDS, "version_id", "version_id % 256")
    segment = one_column(Rows.OPS, "segment", "segment")
    kept = Metric(KEPT, "", "of alone", Better.HIGHER)
    lines = [
        line("records", "operations as records, all columns", ALL_COLUMNS_GOAL, all_columns(Rows.RECORDS)),
        line("records-column", "operations as records, one column, grouped", ONE_COLUMN_GOAL, version),
        line("ops", "operations decoded, all columns", ALL_COLUMNS_GOAL, all_columns(Rows.OPS)),
        line("ops-column", "operations decoded, one column, grouped", ONE_COLUMN_GOAL, segment),
        line("anti-join", "operations without a header", JOIN_GOAL, Subject.anti_join),
        Line("writes", "all writes that the service does, kept beside a scan", (kept,), Subject.writes),
    ]
    return [Group(GROUP, "Spark, on a live store", (LIVE, SERVICE, SNAPSHOT, PARQUET), lines, _open)]


def derived(settings: Settings) -> Sequence[Derived]:
    """What is held against other sides than Parquet, and what the writes of others lose."""
    del settings
    rows: list[Derived] = []
    for name, title in (("records", "as records"), ("ops", "decoded"), ("ops-column", "decoded, one column")):
        service = partial(_two, name=name, key="rate", ours=SERVICE, other=LIVE)
        check = AtLeast(LIVE, goal=SERVICE_GOAL)
        rows.append(Derived(f"spark-service-{name}", f"service, {title}", "rows/s", Better.HIGHER, service, (check,)))
    for name, title in (("records", "as records"), ("ops", "decoded")):
        snapshot = partial(_two, name=name, key="rate", ours=SNAPSHOT, other=PARQUET)
        goal = AtLeast(PARQUET, goal=SNAPSHOT_GOAL)
        rows.append(
            Derived(f"spark-snapshot-{name}", f"exported snapshot, {title}", "rows/s", Better.HIGHER, snapshot, (goal,))
        )
    title = f"of {STEADY_WRITES_PER_S:,} writes per second, lost while all columns are read through the service"
    rows.append(Derived("spark-lost-writes", title, "", Better.LOWER, _lost, (AtMost(1 - KEPT_WRITES_GOAL),)))
    kept = partial(_two, name="writes", key=KEPT, ours=SERVICE, other=PARQUET)
    title = "all writes that the service does, kept beside a scan through it, and beside one that it has no part in"
    held = AtLeast(PARQUET, goal=KEPT_WRITES_GOAL)
    rows.append(Derived("spark-kept-writes", title, "of alone", Better.HIGHER, kept, (held,)))
    return rows


def _two(lookup: Lookup, name: str, key: str, ours: str, other: str) -> dict[str, float] | None:
    figures = lookup(f"{GROUP}/{name}", key)
    return None if figures is None else {ours: figures[ours].value, other: figures[other].value}


def _lost(lookup: Lookup) -> dict[str, float] | None:
    figures = lookup(f"{GROUP}/ops", "rate")
    return None if figures is None else {SERVICE: figures[SERVICE].details[LOST]}
