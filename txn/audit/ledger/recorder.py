"""The stream into the ledger: one snapshot to begin with, then every change of the store behind it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path

from pyarrow.parquet import read_metadata
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from metastore.spark import CHANGES, Pin
from metastore.spark.changes import DELETED, as_view, is_in_view
from metastore.spark.schemas import AS_OF
from txn.audit.ledger.rows import REMOVED, START, STREAM, Ledger
from txn.audit.source import StoreSource

BATCH = "batch"


@dataclass(frozen=True, slots=True)
class Recorded:
    """What one batch has added."""

    batch: int
    rows: Mapping[str, int]
    """By view; only those that have some."""
    until_ms: int
    """When the last of the changes was."""


class Stopping(Exception):
    """The recording ends: the batch is left to the next one."""


class Recorder:
    """The recording of one store. Whoever has one must be the ledger's writer."""

    def __init__(
        self,
        spark: SparkSession,
        ledger: Ledger,
        options: Mapping[str, str],
        keep_ms: int,
        told: Callable[[Recorded], None],
    ) -> None:
        self._spark = spark
        self._ledger = ledger
        self._views = ledger.dialect.views
        self._options = options
        """Of the data source: the store, the namespace."""
        self._keep_ms = keep_ms
        self._told = told
        self._between_batches = threading.Lock()

    def begin(self, point: Pin, as_of_ms: int) -> None:
        """Records the store as it is at a point, from which the stream goes on."""
        source = StoreSource(self._spark, {**self._options, "point": str(point)}, as_of_ms)
        start = {"point": str(point), "as_of_ms": as_of_ms}
        self._ledger.append(source, beside={f"{STREAM}/{START}": json.dumps(start)})

    def start(self, *, every_ms: int | None, rows_per_batch: int) -> StreamingQuery:
        """Records what has changed: all that there is now, or for ever, so often."""
        folder = self._ledger.folder.path / STREAM
        start = json.loads((folder / START).read_text())
        changes = self._spark.readStream.format("tidemark").schema(CHANGES).options(**self._options)
        changes = changes.option("startingOffsets", start["point"]).option("maxRowsPerTrigger", rows_per_batch)
        # A recording that began anew counts its batches anew.
        begun = str(start["as_of_ms"])
        writer = changes.load().writeStream.foreachBatch(lambda rows, number: self._record(rows, number, begun))
        writer = writer.option("checkpointLocation", str(folder / f"checkpoint-{begun}"))
        if every_ms is None:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{every_ms} milliseconds").start()

    def stop(self, query: StreamingQuery) -> None:
        """Ends a query behind the batch that it is at."""
        with self._between_batches:
            query.stop()

    def _record(self, changes: DataFrame, number: int, begun: str) -> None:
        """One batch. It may come a second time, if Spark was killed before it took note of the first."""
        if not self._between_batches.acquire(blocking=False):
            raise Stopping
        try:
            name = f"{BATCH}-{begun}.{number}"
            if not self._ledger.folder.has(name):
                self._add(changes, number, name)
        finally:
            self._between_batches.release()

    def _add(self, changes: DataFrame, number: int, name: str) -> None:
        ledger, draft = self._ledger, self._ledger.folder.draft()
        is_deleted = F.col("change") == DELETED
        is_in = {each: is_in_view(view, F.col("key")) for each, view in self._views.items()}
        rows = changes.where(reduce(or_, is_in.values())).persist()
        try:
            counts = [F.count_if(condition & ~is_deleted).alias(each) for each, condition in is_in.items()]
            counts += [F.count_if(is_deleted).alias(REMOVED), F.max(F.unix_millis("time")).alias("until")]
            found = rows.agg(*counts).collect()[0]
            for each, view in self._views.items():
                if found[each]:
                    said = as_view(rows, view)
                    ledger.write(said.withColumnRenamed("time", AS_OF), each, draft)
            if found[REMOVED]:
                ledger.write(rows.where(is_deleted).withColumnRenamed("time", AS_OF), REMOVED, draft)
        finally:
            rows.unpersist()
        added = {each: count for each in ledger.names if (count := _rows_in(draft / each))}
        ledger.folder.add(name)
        if added:
            ledger.look_after(self._keep_ms, found["until"])
            self._told(Recorded(number, added, found["until"]))


def _rows_in(folder: Path) -> int:
    return sum(int(read_metadata(file).num_rows) for file in folder.rglob("*.parquet"))
