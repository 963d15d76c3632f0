"""Scans and growth: one state of the shard, however much happens meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from metastore.engine import limits
from metastore.engine.change import Table
from metastore.engine.operations import Get, PutOptions, Range, WriteBatch
from metastore.engine.record import key_of, value_of
from metastore.engine.scan import Scan
from metastore.engine.shard import Shard, ShardOptions
from metastore.engine.store import StoreOptions
from metastore.pb import oxia_pb2
from metastore.server import wire
from metastore.server.calls import records_of, step_by_step

RECORDS = 3_000
INDEXED = PutOptions(secondary_indexes=((b"by", b"one"),))
TINY = ShardOptions(store=StoreOptions(map_bytes=256 << 10, generation_bytes=32 << 10, lag_bytes_max=256 << 10))
"""The map is too small for the records: it has to grow several times."""


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Shard]:
    with Shard.open(tmp_path / "shard", TINY) as shard:
        yield shard


def key(number: int) -> bytes:
    return b"/records/%06d" % number


def fill(shard: Shard, value: bytes) -> None:
    for start in range(0, RECORDS, 100):
        shard.write(WriteBatch(puts=[(key(number), value, None) for number in range(start, start + 100)]))


def drain(scan: Scan) -> list[bytes]:
    items: list[bytes] = []
    while chunk := scan.next_chunk():
        items += chunk
    return items


def test_the_map_grows_by_itself_and_keeps_everything(shard: Shard, tmp_path: Path) -> None:
    fill(shard, b"x" * 300)
    shard.feeder.feed_all()
    assert int(shard.store.environment.info()["map_size"]) > TINY.store.map_bytes
    shard.close()
    with Shard.open(tmp_path / "shard", TINY) as again, again.scan(Range(b"", b"")) as scan:
        records = drain(scan)
    assert [key_of(record) for record in records] == [key(number) for number in range(RECORDS)]
    assert {value_of(record) for record in records} == {b"x" * 300}


@pytest.mark.parametrize("is_fed", [False, True], ids=["in memory", "in LMDB"])
def test_a_scan_shows_one_state_while_writes_and_feeding_go_on(shard: Shard, is_fed: bool) -> None:
    fill(shard, b"old")
    if is_fed:
        shard.feeder.feed_all()
    with shard.scan(Range(b"", b"")) as scan:
        records = scan.next_chunk()
        assert 0 < len(records) < RECORDS
        fill(shard, b"new")
        shard.write(WriteBatch(delete_ranges=[(key(2_000), key(2_500))]))
        shard.write(WriteBatch(puts=[(key(RECORDS + 1), b"late", None)]))
        records += drain(scan)
    assert [key_of(record) for record in records] == [key(number) for number in range(RECORDS)]
    assert {value_of(record) for record in records} == {b"old"}
    with shard.list_keys(Range(b"", b"")) as listing:
        assert len(drain(listing)) == RECORDS - 500 + 1


def test_a_list_shows_one_state_too(shard: Shard) -> None:
    fill(shard, b"x")
    shard.feeder.feed_all()
    with shard.list_keys(Range(b"", b"")) as listing:
        keys = listing.next_chunk()
        shard.write(WriteBatch(delete_ranges=[(b"", key(RECORDS))]))
        shard.write(WriteBatch(delete_ranges=[(key(0), key(RECORDS))]))
        keys += drain(listing)
    assert keys == [key(number) for number in range(RECORDS)]
    assert shard.store.open_snapshots == 0


def test_a_range_delete_removes_what_lies_in_lmdb_and_what_does_not(shard: Shard) -> None:
    fill(shard, b"old")
    shard.feeder.feed_all()
    shard.write(WriteBatch(puts=[(key(10), b"new", None), (key(11) + b"x", b"new", None)]))
    shard.write(WriteBatch(delete_ranges=[(key(1), key(RECORDS))]))
    shard.feeder.feed_all()
    with shard.list_keys(Range(b"", b"")) as listing:
        assert drain(listing) == [key(0)]


LARGE_BYTES = 768 << 10


@pytest.fixture(params=[False, True], ids=["in memory", "in LMDB"])
def roomy(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Shard]:
    """Small records, which are many, and behind them large ones; all with entries in an index."""
    with Shard.open(tmp_path / "shard") as shard:
        shard.write(WriteBatch(puts=[(b"/a/%04d" % number, b"small", INDEXED) for number in range(600)]))
        for number in range(20):
            shard.write(WriteBatch(puts=[(key(number), b"v" * LARGE_BYTES, INDEXED)]))
        if request.param:
            shard.feeder.feed_all()
        yield shard


@pytest.mark.parametrize("index_name", [None, b"by"])
def test_no_chunk_is_larger_than_one_value_more_than_what_is_read_in_one_go(
    roomy: Shard, index_name: bytes | None
) -> None:
    wanted = Range(b"", b"", index_name) if index_name is None else Range(b"a", b"z", index_name)
    point, _ = roomy.points.hold(60_000)
    table, low, high = (Table.RECORDS, b"", b"z") if index_name is None else (Table.INDEXES, b"by", b"bz")
    with roomy.scan(wanted) as scan, roomy.scan_entries(wanted, keys_only=False) as entries:
        reads: list[list[list[bytes]]] = [
            list(iter(scan.next_chunk, [])),
            [[each.record for each in chunk if each.record is not None] for chunk in iter(entries.next_chunk, [])],
            [page.records for page in roomy.points.pages(point, table, low, high)],
        ]
    for chunks in reads:
        sizes = [[len(record) for record in chunk] for chunk in chunks]
        assert sum(map(len, sizes)) == 620
        assert len([size for each in sizes for size in each if size > LARGE_BYTES]) == 20
        assert max(sum(each[:-1]) for each in sizes) < limits.SCAN_CHUNK_BYTES
        assert max(map(len, sizes)) >= 128, "small ones come together"


def test_gets_of_large_values_are_answered_some_at_a_time(roomy: Shard) -> None:
    keys = [b"/a/0000", b"/missing", *[key(number) for number in range(20)]]
    gets = [Get(each) for each in keys]
    assert [len(roomy.get_records(keys)), len(roomy.get_many(gets))] == [5, 5]
    assert roomy.statistics.gets == 10
    answers = [
        *step_by_step(keys, lambda step: records_of(roomy, step)),
        *step_by_step(gets, lambda step: list(map(wire.encode_found, step, roomy.get_many(step)))),
    ]
    told = [get for message in answers for get in oxia_pb2.ReadResponse.FromString(message).gets]
    assert [len(get.value) for get in told] == 2 * [5, 0, *[LARGE_BYTES] * 20]


@pytest.mark.parametrize("is_fed", [False, True], ids=["in memory", "in LMDB"])
def test_long_secondary_keys_make_small_chunks(shard: Shard, is_fed: bool) -> None:
    for number in range(600):
        secondary = b"%04d" % number + b"s" * (16 << 10)
        shard.write(WriteBatch(puts=[(key(number), b"v", PutOptions(secondary_indexes=((b"by", secondary),)))]))
    if is_fed:
        shard.feeder.feed_all()
    with shard.scan_entries(Range(b"", b"", b"by"), keys_only=True) as scan:
        chunks = [[len(each.encoded) for each in chunk] for chunk in iter(scan.next_chunk, [])]
    assert sum(map(len, chunks)) == 600
    assert max(sum(each[:-1]) for each in chunks) < limits.SCAN_CHUNK_BYTES


def test_a_range_of_large_values_is_deleted(roomy: Shard) -> None:
    roomy.write(WriteBatch(delete_ranges=[(b"/a/0010", key(19))]))
    with roomy.list_keys(Range(b"", b"")) as listing:
        assert drain(listing) == [*(b"/a/%04d" % number for number in range(10)), key(19)]
