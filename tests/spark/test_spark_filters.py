"""Why the source pushes no filters: one DataFrame, used twice, with those of the installed Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from metastore.spark.batch import BatchReader
from support.fixtures import StartServer
from support.spark_pushing import NUMBERS, PushingSource
from support.spark_stores import fill

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, with filters being pushed to sources that take them."""
    spark.conf.set(PUSHDOWN, "true")
    yield spark
    spark.conf.unset(PUSHDOWN)


def uses(frame: DataFrame, column: str, low: int | str, high: int | str) -> list[int]:
    """What one DataFrame gives that is used with two filters: together, one without the other, and unfiltered."""
    first, second = frame.where(frame[column] < low), frame.where(frame[column] >= high)
    either = frame.where((frame[column] < low) | (frame[column] >= high))
    return [first.union(second).count(), first.join(second, column, "left_anti").count(), either.count(), frame.count()]


def test_a_source_that_takes_filters_gives_wrong_rows(pushing: SparkSession) -> None:
    """When this fails, Spark has mended it, and filters may be pushed."""
    pushing.dataSource.register(PushingSource)

    def loaded() -> DataFrame:
        return pushing.read.format("pushing").load()

    assert loaded().where("number < 100").count() == 100
    assert uses(loaded(), "number", 100, 700) != [400, 100, 400, NUMBERS]


def test_ours_gives_those_that_were_asked_for(pushing: SparkSession, start_server: StartServer) -> None:
    assert "pushFilters" not in vars(BatchReader)
    store = f"oxia://{start_server().address}"
    fill(store, {f"/n/{number:04}": b"" for number in range(NUMBERS)})
    frame = pushing.read.format("tidemark").option("store", store).load()
    assert uses(frame, "key", "/n/0100", "/n/0700") == [400, 100, 400, NUMBERS]
