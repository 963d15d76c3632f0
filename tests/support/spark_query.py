"""A streaming query in a process of its own, to be killed: `python -m support.spark_query STORE FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import mkdtemp

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from support.spark import start_session

ROWS_PER_TRIGGER = 150


def start_query(
    spark: SparkSession, store: str, folder: Path, *, rows: int = ROWS_PER_TRIGGER, goes_on: bool = False
) -> StreamingQuery:
    """Every change of a store, into Parquet: those that there are now, or for ever."""
    changes = spark.readStream.format("tidemark").option("store", store).option("maxRowsPerTrigger", rows)
    writer = changes.load().writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    writer = writer.option("path", str(folder / "out"))
    writer = writer.trigger(processingTime="0 seconds") if goes_on else writer.trigger(availableNow=True)
    return writer.start()


if __name__ == "__main__":
    place = Path(sys.argv[2])
    session = start_session(Path(mkdtemp(dir=place)))
    start_query(session, sys.argv[1], place, goes_on=True).awaitTermination()
