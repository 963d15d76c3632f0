"""The data source on a real Oxia, which has no points and no log: read as it is, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from metastore.spark import CHANGES
from peers.oxia import oxia_server
from support.server import ServerProcess
from support.spark import start_session
from support.spark_stores import fill

pytestmark = pytest.mark.peers

RECORDS = {f"/a/{number:04}": str(number % 7).encode() for number in range(1000)}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = start_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture(scope="module")
def servers() -> Iterator[list[ServerProcess]]:
    """Oxia's and ours, with the same records."""
    with oxia_server(3, "hierarchical") as oxia, ServerProcess(3) as ours:
        for server in (oxia, ours):
            fill(f"oxia://{server.address}", RECORDS, index="by")
        yield [oxia, ours]


def load(spark: SparkSession, server: ServerProcess, **options: object) -> DataFrame:
    reader = spark.read.format("tidemark").option("store", f"oxia://{server.address}").option("consistent", False)
    return reader.options(**options).load()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"partitions": 7, "batchRows": 10},
        {"keyStart": "/a/0100", "keyEnd": "/a/0200"},
        {"key": "/a/0007"},
        {"index": "by"},
        {"index": "by", "indexStart": "2", "indexEnd": "4"},
    ],
)
def test_oxia_is_read_as_our_service_is(
    spark: SparkSession, servers: list[ServerProcess], options: dict[str, object]
) -> None:
    columns = ["key", "value", "modifications", "session", "shard", *(["secondary_key"] if "index" in options else [])]
    oxia, ours = (load(spark, server, **options).select(*columns) for server in servers)
    assert not ours.isEmpty()
    assert oxia.exceptAll(ours).isEmpty()
    assert ours.exceptAll(oxia).isEmpty()


def refusal(frame: DataFrame) -> str:
    with pytest.raises(PySparkException) as raised:
        frame.count()
    return str(raised.value)


def test_what_oxia_cannot_give_is_told(spark: SparkSession, servers: list[ServerProcess], tmp_path: Path) -> None:
    oxia = servers[0]
    assert 'give option "consistent" as false' in refusal(load(spark, oxia, consistent=True))
    point = '{"format":1,"store":"x","shards":{"0":{"offset":1}},"consistent":true}'
    assert 'leave out the option "point"' in refusal(load(spark, oxia, point=point))
    stream = spark.readStream.format("tidemark").schema(CHANGES).option("store", f"oxia://{oxia.address}").load()
    writer = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    with pytest.raises(PySparkException, match="has no change log that can be read"):
        writer.trigger(availableNow=True).start().awaitTermination(60)


def test_oxia_that_is_gone_is_unreachable(spark: SparkSession) -> None:
    with oxia_server(1, "hierarchical") as server:
        load(spark, server).count()
        server.kill()
        assert "StoreUnreachable" in refusal(load(spark, server))
