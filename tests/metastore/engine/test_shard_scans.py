"""Scans and growth: one state of the shard, however much happens meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from metastore.engine.operations import Range, WriteBatch
from metastore.engine.record import key_of, value_of
from metastore.engine.scan import Scan
from metastore.engine.shard import Shard, ShardOptions
from metastore.engine.store import StoreOptions

RECORDS = 3_000
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


def test_large_values_make_small_chunks(shard: Shard) -> None:
    value = b"v" * (1 << 20)
    for number in range(6):
        shard.write(WriteBatch(puts=[(key(number), value, None)]))
    for number in range(200):
        shard.write(WriteBatch(puts=[(b"/a%03d" % number, b"small", None)]))
    with shard.scan(Range(b"", b"")) as scan:
        sizes = []
        while chunk := scan.next_chunk():
            sizes.append(len(chunk))
    assert sum(sizes) == 206
    assert len(sizes) > 1
