"""The store as a source of Spark: `spark.read.format("tidemark")`, `spark.readStream.format("tidemark")`.

    from metastore.spark import pin, register

    register(spark)
    with pin("lmdb:///var/lib/tidemark") as point:
        records = spark.read.format("tidemark").option("store", point.store).option("point", point).load()

The idea. A read is planned once: it is pinned to one point of each shard's change log and cut into pieces of about one
size, by shards and by ranges of keys, measured on the pages of LMDB itself. Each task reads its piece and hands Spark
Arrow batches, whose columns are cut out of the stored bytes all at once. A stream is the same log, read on from an
offset to an offset.

What it promises. All partitions of a read see one state of each shard, and all reads that are given one point see the
same. Nothing of the data passes through the driver. A batch of a stream is the same whenever it is read again, so that
what Spark writes of it is there exactly once. What is no longer kept, what cannot be reached, and what was asked for
wrongly fails with a sentence that says what to do.

What it refuses. It pushes no filters: Spark would keep those of one use of a DataFrame for the next one, and give wrong
rows; ranges are options. It knows no records: what values mean is known to views, which their owners register. A plain
Oxia has no point that could be read, and so is read only by those who say that they can do without.

    source      what Spark calls; `options`, what it may be told
    batch       plan and read; `joint`, records of several kinds together; `several`, views beside each other;
                `streaming`, the same for changes
    columns     Arrow columns of records; `records`, records as numpy arrays
    changes     changes of a stream as the columns of a view
    views       how others add their own columns
    worker      what is done once in each of Spark's processes
    points      `pin`: a point for several reads, and who holds it
    stores      what can be read, and how a point is kept: a directory, our service, others
    errors      what can be wrong

docs/spark.md is the guide for those who use it. Start reading at source.py, then batch.py and stores/model.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from metastore.spark.errors import Inconsistent, PointGone, ReadError, StoreUnreachable, WrongOption
from metastore.spark.points import Pin, pin
from metastore.spark.schemas import CHANGES, RECORDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "CHANGES",
    "RECORDS",
    "Inconsistent",
    "Pin",
    "PointGone",
    "ReadError",
    "StoreUnreachable",
    "WrongOption",
    "pin",
    "register",
]


def register(spark: SparkSession) -> None:
    """Makes `tidemark` known to a session."""
    from metastore.spark.source import TidemarkSource

    spark.dataSource.register(TidemarkSource)
