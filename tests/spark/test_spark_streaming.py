"""Streams of changes in Spark: admission, restarts, kills, and what was trimmed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from metastore.spark import CHANGES, pin
from support.fixtures import StartServer
from support.spark_query import ROWS_PER_TRIGGER, start_query
from support.spark_stores import fill, remove
from support.spark_victim import WITHIN_S, Victim


def finished(query: StreamingQuery) -> list[int]:
    """The rows of each batch of a query that ends by itself."""
    assert query.awaitTermination(int(WITHIN_S)), "the query has not ended"
    return [int(progress["numInputRows"]) for progress in query.recentProgress if progress["numInputRows"]]


def test_available_now_reads_all_in_bounded_batches_and_then_what_is_new(
    spark: SparkSession, start_server: StartServer, tmp_path: Path
) -> None:
    server = start_server(shards=2)
    store = f"oxia://{server.address}"
    for start in range(0, 400, 20):
        fill(store, {f"/k/{number}": b"v" for number in range(start, start + 20)})
    batches = finished(start_query(spark, store, tmp_path))
    assert sum(batches) == 400
    assert max(batches) <= ROWS_PER_TRIGGER
    assert len(batches) >= 400 // ROWS_PER_TRIGGER
    fill(store, {"/k/0": b"new"})
    remove(store, ["/k/1"])
    # The directory has the same log at the same offsets: the query goes on with either.
    assert sum(finished(start_query(spark, f"lmdb://{server.data_directory}", tmp_path))) == 2
    rows = spark.read.parquet(str(tmp_path / "out")).orderBy("time", "offset").collect()
    assert len(rows) == 402
    last = {(row.change, row.key): row for row in rows[-2:]}
    assert bytes(last["modified", "/k/0"].value) == b"new"
    assert last["deleted", "/k/1"].value is None
    assert finished(start_query(spark, store, tmp_path)) == []


def test_a_stream_can_begin_at_the_point_of_a_batch(
    spark: SparkSession, start_server: StartServer, tmp_path: Path
) -> None:
    store = f"oxia://{start_server().address}"
    fill(store, {"/before": b""})
    with pin(store) as point:
        fill(store, {"/after": b"", "/x/other": b""})
        changes = spark.readStream.format("tidemark").options(
            store=store, startingOffsets=str(point), keyStart="/", keyEnd="/zzz"
        )
        writer = changes.load().writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        finished(writer.option("path", str(tmp_path / "out")).trigger(availableNow=True).start())
    assert [row.key for row in spark.read.parquet(str(tmp_path / "out")).collect()] == ["/after"]


def test_what_a_stream_cannot_do_is_told(spark: SparkSession, start_server: StartServer, tmp_path: Path) -> None:
    store = f"oxia://{start_server().address}"

    def discarded(schema: str, **options: str) -> StreamingQuery:
        frame = spark.readStream.format("tidemark").schema(schema).options(store=store, **options).load()
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
        return writer.trigger(availableNow=True).start()

    def refusal(schema: str, **options: str) -> str:
        with pytest.raises(PySparkException) as raised:
            finished(discarded(schema, **options))
        return str(raised.value)

    assert "must have the column `change`" in refusal("key STRING")
    assert "unknown option 'view'" in refusal(CHANGES, view="x")
    assert "earliest, latest, or a point" in refusal(CHANGES, startingOffsets="yesterday")


def test_changes_that_are_no_longer_kept_are_an_error(
    spark: SparkSession, start_server: StartServer, tmp_path: Path
) -> None:
    server = start_server(extra_args=["--notifications-retention-time", "1s"])
    store = f"oxia://{server.address}"
    fill(store, {"/first": b""})
    finished(start_query(spark, store, tmp_path))
    value = bytes(1 << 20)
    deadline_s = time.monotonic() + WITHIN_S
    log = server.data_directory / "shards" / "0000" / "log"
    while (log / f"{0:020}.log").exists():
        assert time.monotonic() < deadline_s, "the log was not trimmed"
        fill(store, {f"/large/{number}": value for number in range(24)})
    with pytest.raises(PySparkException, match="the change log begins at offset|is no longer in the log"):
        finished(start_query(spark, store, tmp_path))


@pytest.mark.timeout(600)
def test_every_change_is_written_once_across_kills_of_the_query_and_of_the_store(
    spark: SparkSession, start_server: StartServer, tmp_path: Path
) -> None:
    server = start_server(shards=2)
    store = f"oxia://{server.address}"
    expected: list[str] = []

    def write(name: str, count: int) -> None:
        """One write at a time of ten records: so many offsets, and none of them large."""
        for start in range(0, count, 10):
            keys = [f"/{name}/{number}" for number in range(start, start + 10)]
            fill(store, dict.fromkeys(keys, b"v"))
            expected.extend(keys)

    write("before", 1200)
    for number, kills_store_first in enumerate([False, True, False]):
        victim = Victim(["-m", "support.spark_query", store, str(tmp_path)], tmp_path / "checkpoint", tmp_path)
        victim.die(server, batches=2, store_first=kills_store_first)
        write(f"late-{number}", 200)
    finished(start_query(spark, store, tmp_path, rows=10_000))
    written = spark.read.parquet(str(tmp_path / "out")).select("shard", "offset", "key").collect()
    assert len(written) == len(set(written)) == len(expected) == 1800
    assert {row.key for row in written} == set(expected)
