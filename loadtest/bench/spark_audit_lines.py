"""The audit of a store beside one scan of it, and the memory of the process that drives it, by the store's size."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from loadtest.bench import spark_data
from loadtest.bench.bench import Bench, Group
from loadtest.bench.model import AtLeast, BenchError, Better, Line, Metric, Sample, Turn
from loadtest.bench.settings import Settings
from loadtest.bench.spark_session import MASTER, session, to_nowhere
from metastore.clock import SystemClock
from txn.audit.session import settings_of

GROUP, MEMORY_GROUP = "spark-audit", "spark-memory"
AUDIT, SCAN = "audit", "scan"
ALL, TENTH = "all", "tenth"
AUDIT_IN_SCANS_MAX = 3
MEMORY_GROWTH_MAX = 1.25
AUDIT_LIMIT_S = 600.0
WARM_UPS = 8
"""Audits before Java has compiled most of what plans and evaluates them; as in `tidemark audit watch`."""


@dataclass(frozen=True, slots=True)
class Audit:
    """Every rule, over a store in which one kind of violation was planted."""

    spark: Any
    url: str
    rows: int
    moments_ms: Iterator[int]
    """As of when. They begin with the planting and hardly move: however long the benchmark takes, nothing is late. But
    no two are the same, as of audits that follow each other in one session, as those of `tidemark audit watch` do."""

    def measure(self, turn: Turn) -> Sample:
        """The whole of it, until each violation is known."""
        del turn
        as_of_ms = next(self.moments_ms)
        began_s = time.perf_counter()
        check_violations(self.spark, self.url, self.rows, as_of_ms)
        return {"seconds": time.perf_counter() - began_s}


@dataclass(frozen=True, slots=True)
class Scan:
    """Every record with all its columns, once, to nowhere."""

    spark: Any
    url: str

    def measure(self, turn: Turn) -> Sample:
        """The whole of it."""
        del turn
        began_s = time.perf_counter()
        to_nowhere(self.spark.read.format("tidemark").option("store", self.url).load())
        return {"seconds": time.perf_counter() - began_s}


def check_violations(spark: Any, url: str, rows: int, as_of_ms: int) -> None:
    """Audits a store of `spark_data`, as of then."""
    from metastore.spark import pin
    from txn.audit.dialect import TIDEMARK
    from txn.audit.engine import violations
    from txn.audit.rules.registry import rules_of
    from txn.audit.source import StoreSource
    from txn.audit.tables import Tables

    with pin(url) as point:
        source = StoreSource(spark, {"store": url, "point": str(point)}, as_of_ms)
        found = violations(Tables(source, TIDEMARK), rules_of(TIDEMARK.name, history=False))
        counts = {row["rule"]: row["count"] for row in found.groupBy("rule").count().collect()}
    if set(counts) != {spark_data.PLANTED_RULE}:
        raise BenchError(f"{rows} operations with orphans: the audit found {counts}")


@dataclass(frozen=True, slots=True)
class Driver:
    """A process that audits a store, with the executor in another one."""

    url: str
    rows: int
    as_of_ms: int
    folder: Path

    def measure(self, turn: Turn) -> Sample:
        """Its memory at the most: that of Python, and of the Java that it drives."""
        del turn
        told = [self.url, str(self.rows), str(self.as_of_ms), str(self.folder)]
        command = [sys.executable, "-m", "loadtest.bench.spark_driver", *told]
        done = subprocess.run(command, capture_output=True, text=True, timeout=AUDIT_LIMIT_S, check=False)
        if done.returncode:
            raise BenchError(f"the audit ended with {done.returncode}: {done.stderr[-400:]}")
        python_mib, java_mib = map(float, done.stdout.split()[-2:])
        return {"mib": python_mib + java_mib, "python_mib": python_mib, "java_mib": java_mib}


@contextmanager
def _open(bench: Bench) -> Iterator[Mapping[str, Audit | Scan]]:
    rows, as_of_ms = bench.settings.spark_rows, SystemClock().wall_ms()
    with ExitStack() as stack:
        folder = stack.enter_context(bench.fresh_folder(GROUP))
        spark_data.fill(folder / "data", rows, as_of_ms)
        spark = stack.enter_context(session(folder, given=settings_of(MASTER)))
        url = f"lmdb://{folder / 'data'}"
        yield {AUDIT: Audit(spark, url, rows, count(as_of_ms)), SCAN: Scan(spark, url)}


@contextmanager
def _open_two(bench: Bench) -> Iterator[Mapping[str, Driver]]:
    as_of_ms = SystemClock().wall_ms()
    with bench.fresh_folder(MEMORY_GROUP) as folder:
        drivers = {}
        for side, rows in ((ALL, bench.settings.spark_rows), (TENTH, bench.settings.spark_rows // 10)):
            spark_data.fill(folder / side, rows, as_of_ms)
            drivers[side] = Driver(f"lmdb://{folder / side}", rows, as_of_ms, folder)
        yield drivers


def groups(settings: Settings) -> Sequence[Group[Any]]:
    """The audit, and its memory."""
    del settings
    seconds = Metric("seconds", "", "s", Better.LOWER, (AtLeast(SCAN, goal=1 / AUDIT_IN_SCANS_MAX),))
    title = "every rule, beside one scan of every record with all columns"
    audit: Line[Any] = Line("full", title, (seconds,), lambda each, turn: each.measure(turn), warm_ups=WARM_UPS)
    memory = Metric("mib", "", "MiB", Better.LOWER, (AtLeast(TENTH, goal=1 / MEMORY_GROWTH_MAX),))
    driver: Line[Driver] = Line(
        "driver", "memory of the driver of an audit, at its most", (memory,), Driver.measure, is_slow=True
    )
    return [
        Group(GROUP, "The audit of a live directory", (AUDIT, SCAN), [audit], _open),
        Group(MEMORY_GROUP, "The audit's driver, of all operations and of a tenth", (ALL, TENTH), [driver], _open_two),
    ]
