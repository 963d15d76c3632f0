"""Spark in the benchmark: a session, and the rows of the store as each side reads them."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any

from metastore.spark import RECORDS, pin, register
from metastore.spark.views import COMMON_SCHEMA, levels_below, view_named
from txn.audit.source import declared

CORES = 2
MASTER = f"local[{CORES}]"
HEAP = "4g"
OPERATIONS = levels_below("/txn-op", 2, "hierarchical")

Frame = Any
"""A DataFrame. Spark is imported only where its lines are measured."""


class Rows(Enum):
    """What is read."""

    RECORDS = "records"
    """Operations, as records: key, value, version and so on."""
    OPS = "ops"
    """Operations, as typed columns."""
    HEADERS = "headers"


Read = Callable[[Rows, Sequence[str]], Frame]
"""Reads these columns of some rows; all of them if none is named."""


@contextmanager
def session(
    folder: Path, master: str = MASTER, heap: str = HEAP, given: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Any]:
    """A session that says nothing; what it writes goes into the folder. `given` are settings beside its own."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    begins_java = SparkContext._gateway is None
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": heap,
        "spark.sql.shuffle.partitions": str(CORES),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.log.level": "OFF",
        **given,
    }
    builder = SparkSession.builder.master(master).appName("benchmark")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = builder.getOrCreate()
    register(made)
    try:
        yield made
    finally:
        made.stop()
        if begins_java:
            _end_java()


def _end_java() -> None:
    """Java's own options are those of the first session: the next one is to have its own."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    assert gateway is not None, "a session has a gateway"
    gateway.shutdown()
    gateway.proc.stdin.close()  # it ends with that
    gateway.proc.wait()
    SparkContext._gateway = SparkContext._jvm = None


def reads_store(spark: Any, url: str, point: str | None = None) -> Read:
    """Through the data source, at a point or each read at one of its own."""

    def read(rows: Rows, columns: Sequence[str]) -> Frame:
        reader = spark.read.format("tidemark").option("store", url)
        if point is not None:
            reader = reader.option("point", point)
        if rows is Rows.RECORDS:
            schema = RECORDS
            reader = reader.options(keyStart=OPERATIONS.start, keyEnd=OPERATIONS.end)
        else:
            schema = f"{view_named(rows.value).schema}, {COMMON_SCHEMA}"
            reader = reader.option("view", rows.value)
        return (reader.schema(declared(schema, columns)) if columns else reader).load()

    return read


def reads_parquet(spark: Any, folder: Path) -> Read:
    """Spark's own scan of what was exported."""

    def read(rows: Rows, columns: Sequence[str]) -> Frame:
        frame = spark.read.parquet(str(folder / rows.value))
        return frame.select(*columns) if columns else frame

    return read


def export(spark: Any, url: str, folder: Path) -> None:
    """What an exported snapshot is: the rows of reads at one point, as Parquet."""
    with pin(url) as point:
        read = reads_store(spark, url, str(point))
        for rows in Rows:
            read(rows, ()).write.parquet(str(folder / rows.value))


def to_nowhere(frame: Frame) -> None:
    """Reads all of it, and does nothing with it."""
    frame.write.format("noop").mode("overwrite").save()
