"""Scans that tell by which entry a record was found, and which state of the shard it was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from metastore.engine.errors import InvalidRequest, Overloaded
from metastore.engine.index_keys import decode_entry
from metastore.engine.operations import Put, PutOptions, Range, WriteBatch
from metastore.engine.record import key_of
from metastore.engine.scan import FIRST_CHUNK_ITEMS, EntryScan
from metastore.engine.shard import Shard

LONG = 2 * FIRST_CHUNK_ITEMS
VERY_LONG = 10 * FIRST_CHUNK_ITEMS
"""More than a second attempt reads at once."""


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Shard]:
    with Shard.open(tmp_path / "shard") as shard:
        yield shard


def fill(shard: Shard, count: int = LONG) -> None:
    """One write of records with two entries each in index i."""
    puts: list[Put] = []
    for number in range(count):
        indexes = (b"i", b"a%04d" % number), (b"i", b"b")
        puts.append((b"/k/%04d" % number, b"v", PutOptions(secondary_indexes=indexes)))
    shard.write(WriteBatch(puts=puts))


def entries(shard: Shard, scan: EntryScan) -> list[tuple[bytes, bytes, bytes | None]]:
    """(secondary key, primary key, key of the record) of each."""
    found = []
    while chunk := scan.next_chunk():
        for encoded, record in chunk:
            _, secondary, primary = decode_entry(shard.order, encoded)
            found.append((secondary, primary, None if record is None else key_of(record)))
    scan.close()
    return found


@pytest.mark.parametrize("keys_only", [False, True])
def test_an_index_is_told_in_the_order_of_its_secondary_keys(shard: Shard, keys_only: bool) -> None:
    fill(shard)
    found = entries(shard, shard.scan_entries(Range(b"", b"", b"i"), keys_only))
    keys = [b"/k/%04d" % number for number in range(LONG)]
    assert [secondary for secondary, _, _ in found] == [b"a" + key[3:] for key in keys] + [b"b"] * LONG
    assert [primary for _, primary, _ in found] == keys * 2
    assert [key for _, _, key in found] == [None if keys_only else key for key in keys * 2]


def test_bounds_are_exact_and_an_empty_end_is_open(shard: Shard) -> None:
    fill(shard, 3)

    def count(start: bytes, end: bytes, name: bytes | None) -> int:
        with shard.scan_entries(Range(start, end, name)) as scan:
            return len(scan.next_chunk())

    assert [count(b"b", b"", b"i"), count(b"b", b"b\0", b"i"), count(b"a0001", b"a00010", b"i")] == [3, 3, 1]
    assert [count(b"", b"", b"j"), count(b"b", b"b", b"i")] == [0, 0]
    assert [count(b"", b"", None), count(b"z", b"", None), count(b"__oxia/", b"", None)] == [3, 3, 0]
    with pytest.raises(InvalidRequest, match="from 'b' to 'a' ends before it starts"):
        shard.scan_entries(Range(b"b", b"a", b"i"))


@pytest.mark.parametrize("count", [0, 3, LONG])
def test_the_offset_is_that_of_the_state(shard: Shard, count: int) -> None:
    fill(shard, count)
    with shard.scan_entries(Range(b"", b"")) as scan:
        found = len(scan.next_chunk())
        shard.write(WriteBatch(puts=[(b"/k/0000x", b"late", None), (b"/z", b"late", None)]))
        while chunk := scan.next_chunk():
            found += len(chunk)
        assert (found, scan.next_offset) == (count, 1)
        assert scan.next_chunk() == []


def test_a_long_scan_that_is_refused_may_be_tried_again(shard: Shard, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(shard, VERY_LONG)
    answers = iter([False, True])
    with shard.scan_entries(Range(b"", b""), admit=lambda: next(answers)) as scan:
        monkeypatch.setattr("metastore.engine.limits.SNAPSHOTS_MAX", 0)
        with pytest.raises(Overloaded):
            scan.next_chunk()
        monkeypatch.undo()
        with pytest.raises(Overloaded):
            scan.next_chunk()
        keys = [key_of(record) for chunk in iter(scan.next_chunk, []) for _, record in chunk if record is not None]
    assert keys == [b"/k/%04d" % number for number in range(VERY_LONG)]
    assert shard.store.open_snapshots == 0


def test_a_short_scan_asks_nobody(shard: Shard) -> None:
    fill(shard, 3)

    def refuse() -> bool:
        raise AssertionError("a short scan asked")

    with shard.scan_entries(Range(b"", b""), admit=refuse) as scan:
        assert len(scan.next_chunk()) == 3
