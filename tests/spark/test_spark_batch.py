"""Batch reads in Spark: what is read, at which point, in which pieces, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from metastore.interface import open_store
from metastore.spark import pin
from support.fixtures import StartServer
from support.log_lines import lines_of
from support.server import ServerProcess
from support.spark_stores import fill, remove

RECORDS = {f"/a/{number:05}": f"{number % 7}".encode() for number in range(4000)}


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess(shards=2) as started:
        fill(f"oxia://{started.address}", RECORDS, index="by")
        yield started


@pytest.fixture(scope="module")
def service(server: ServerProcess) -> str:
    return f"oxia://{server.address}"


@pytest.fixture(scope="module")
def directory(server: ServerProcess) -> str:
    return f"lmdb://{server.data_directory}"


def load(spark: SparkSession, store: str, **options: object) -> DataFrame:
    return spark.read.format("tidemark").option("store", store).options(**options).load()  # type: ignore[arg-type]


def values(frame: DataFrame) -> dict[str, bytes]:
    rows = frame.select("key", "value").collect()
    assert len({row.key for row in rows}) == len(rows)
    return {row.key: bytes(row.value) for row in rows}


def refusal(frame: DataFrame | None, spark: SparkSession, store: str, **options: object) -> str:
    """What somebody is told who asks for this."""
    with pytest.raises(PySparkException) as raised:
        (frame or load(spark, store, **options)).count()
    return str(raised.value)


def test_reads_at_one_point_agree_whatever_is_written_meanwhile(spark: SparkSession, start_server: StartServer) -> None:
    server = start_server(shards=2)
    service, directory = f"oxia://{server.address}", f"lmdb://{server.data_directory}"
    before = {f"/k/{number}": b"old" for number in range(500)}
    fill(service, before)
    with pin(service) as of_service, pin(directory) as of_directory:
        frames = [load(spark, service, point=of_service), load(spark, directory, point=of_directory)]
        assert [values(frame) for frame in frames] == [before, before]
        fill(service, {"/k/1": b"new", "/new": b"new"})
        remove(service, ["/k/2"])
        assert [values(frame) for frame in frames] == [before, before]
        now = {**before, "/k/1": b"new", "/new": b"new"}
        del now["/k/2"]
        assert values(load(spark, service)) == values(load(spark, directory)) == now
    told = refusal(None, spark, service, point=of_service)
    assert "PointGone" in told
    assert "no longer held" in told


def test_a_point_whose_service_is_gone_is_let_go_with_a_word(
    spark: SparkSession, start_server: StartServer, caplog: pytest.LogCaptureFixture
) -> None:
    server = start_server()
    service = f"oxia://{server.address}"
    fill(service, {"/k": b"v"})
    with pin(service) as point:
        assert values(load(spark, service, point=point)) == {"/k": b"v"}
        server.kill()
    (line,) = lines_of("tidemark.spark", caplog)
    assert f"could not be let go: nobody listens at {server.address}" in line


def test_the_error_that_ends_a_read_is_the_one_that_is_told(spark: SparkSession, start_server: StartServer) -> None:
    server = start_server()
    service = f"oxia://{server.address}"

    def read() -> None:
        with pin(service) as point:
            server.kill()
            load(spark, service, point=point).count()

    with pytest.raises(PySparkException, match="nobody listens"):
        read()


def test_all_columns_say_the_same_through_both(spark: SparkSession, service: str, directory: str) -> None:
    through_service, through_directory = load(spark, service), load(spark, directory)
    assert through_service.schema == through_directory.schema
    assert through_service.exceptAll(through_directory).isEmpty()
    row = through_service.where("key = '/a/00003'").first()
    assert row is not None
    assert (bytes(row.value), row.modifications, row.session) == (b"3", 0, None)
    assert row.created == row.modified
    assert {each.shard for each in through_service.select("shard").distinct().collect()} == {0, 1}


@pytest.mark.parametrize("partitions", [1, 7])
def test_pieces_are_many_and_hold_each_record_once(
    spark: SparkSession, service: str, directory: str, partitions: int
) -> None:
    for store in (service, directory):
        frame = load(spark, store, partitions=partitions, batchRows=100)
        assert values(frame) == RECORDS
        assert frame.rdd.getNumPartitions() >= min(partitions, 2)


def test_ranges_of_keys_and_of_an_index(spark: SparkSession, service: str, directory: str) -> None:
    for store in (service, directory):
        some = values(load(spark, store, keyStart="/a/00100", keyEnd="/a/00200"))
        assert some == {key: RECORDS[key] for key in sorted(RECORDS)[100:200]}
        assert values(load(spark, store, key="/a/00007")) == {"/a/00007": b"0"}
        indexed = load(spark, store, index="by", indexStart="2", indexEnd="4", partitions=8)
        assert values(indexed) == {key: value for key, value in RECORDS.items() if b"2" <= value < b"4"}
        assert {row.secondary_key for row in indexed.select("secondary_key").distinct().collect()} == {"2", "3"}
        reader = spark.read.format("tidemark").options(store=store, index="by", indexEnd="2")
        keys = reader.schema("shard INT, key STRING, secondary_key STRING").load()
        assert {row.key: row.secondary_key.encode() for row in keys.collect()} == {
            key: value for key, value in RECORDS.items() if value < b"2"
        }
        assert values(load(spark, store, index="by", indexKey="6")).keys() == {
            key for key, value in RECORDS.items() if value == b"6"
        }


def test_only_the_columns_of_the_schema_are_made(spark: SparkSession, directory: str) -> None:
    reader = spark.read.format("tidemark").option("store", directory)
    assert reader.schema("version_id BIGINT, key STRING").load().count() == len(RECORDS)
    assert "there is no column 'nothing'" in refusal(reader.schema("nothing INT").load(), spark, directory)
    assert "column 'key' is string" in refusal(reader.schema("key INT").load(), spark, directory)


def test_a_view_makes_columns_and_rows_of_its_own(spark: SparkSession, start_server: StartServer) -> None:
    store = f"oxia://{start_server().address}"
    fill(store, {"/words/a/1": b"one two", "/words/a/2": b"", "/words/b/1": b"three", "/words/a": b"no"})
    frame = load(spark, store, view="words")
    assert frame.columns == ["word", "length", "shard", "key", "version_id"]
    rows = sorted((row.word, row.length, row.key) for row in frame.collect())
    assert rows == [("one", 3, "/words/a/1"), ("three", 5, "/words/b/1"), ("two", 3, "/words/a/1")]
    assert load(spark, store, view="words", segment="a").count() == 2
    reader = spark.read.format("tidemark").options(store=store, view="words").schema("value BINARY, length INT").load()
    assert sorted((bytes(row.value), row.length) for row in reader.collect()) == [
        (b"one two", 3),
        (b"one two", 3),
        (b"three", 5),
    ]
    assert "words belong to no transaction" in refusal(None, spark, store, view="words", transaction="t")
    assert "there is no column 'nothing'" in refusal(
        spark.read.format("tidemark").options(store=store, view="words").schema("nothing INT").load(), spark, store
    )


async def _ephemeral(url: str, spark: SparkSession) -> DataFrame:
    async with await open_store(url) as store, await store.open_session() as session:
        await store.put("/mine", b"", session=session)
        return spark.createDataFrame(load(spark, url, key="/mine").collect())


def test_an_ephemeral_record_names_its_session(spark: SparkSession, start_server: StartServer) -> None:
    row = asyncio.run(_ephemeral(f"oxia://{start_server().address}", spark)).first()
    assert row is not None
    assert (row.key, bytes(row.value)) == ("/mine", b"")
    assert row.session is not None


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"nothing": "1"}, "unknown option 'nothing': there are store, namespace, key"),
        ({"partitions": "0"}, "option \"partitions\" is '0': a number from 1 to"),
        ({"view": "nothing"}, "view 'nothing' is unknown"),
        ({"segment": "s"}, "need a view"),
        ({"indexStart": "a"}, 'give option "index"'),
        ({"index": "i", "keyStart": "a"}, "is a key, and an index is read"),
        ({"keyStart": "b", "keyEnd": "a"}, "ends before it starts"),
        ({"point": "{}"}, "metastore.spark.pin(store)"),
        ({"hold": "1d"}, "from 1s to 1h"),
        ({"namespace": "other"}, "namespace"),
    ],
)
def test_wrong_options_are_named(spark: SparkSession, service: str, options: dict[str, object], told: str) -> None:
    found = refusal(None, spark, service, **options)
    assert "WrongOption" in found
    assert told in found


@pytest.mark.parametrize(
    ("store", "told"),
    [
        ("oxia://127.0.0.1:1", "nobody listens at 127.0.0.1:1"),
        ("lmdb:///nowhere", "holds no store"),
        ("memory://", "cannot be read by the processes of Spark"),
        ("nonsense", "is not the URL of a store"),
    ],
)
def test_stores_that_cannot_be_read_are_told(spark: SparkSession, store: str, told: str) -> None:
    assert told in refusal(None, spark, store)
