"""Points of a shard: states that stay, for a bounded time and up to a bounded number."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from metastore.clock import ManualClock
from metastore.engine import limits
from metastore.engine.change import Table
from metastore.engine.cutting import cuts
from metastore.engine.errors import InvalidRequest, Overloaded, PointReleased
from metastore.engine.operations import PutOptions, Range, WriteBatch
from metastore.engine.record import key_of
from metastore.engine.shard import Shard, ShardOptions
from support.local_shard import SMALL_LOG, SMALL_STORE

HOLD_MS = 5_000
INDEXED = PutOptions(secondary_indexes=((b"by", b"one"),))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def shard(tmp_path: Path, clock: ManualClock) -> Iterator[Shard]:
    options = ShardOptions("natural", store=SMALL_STORE, log=SMALL_LOG)
    with Shard.open(tmp_path, options, clock) as opened:
        yield opened


def put(shard: Shard, first: int, last: int) -> None:
    shard.write(WriteBatch(puts=[(b"k%05d" % number, b"v" * 100, INDEXED) for number in range(first, last)]))


def keys(shard: Shard, point: int, table: Table = Table.RECORDS) -> list[bytes]:
    low, high = (b"", b"z") if table is Table.RECORDS else (b"by", b"bz")
    pages = list(shard.points.pages(point, table, low, high))
    assert all(page.lengths == [len(record) for record in page.records] for page in pages)
    return [key_of(record) for page in pages for record in page.records]


def test_a_point_stays_as_it_was(shard: Shard) -> None:
    put(shard, 0, 3000)
    point, next_offset = shard.points.hold(HOLD_MS)
    assert next_offset == shard.next_offset
    before = [b"k%05d" % number for number in range(3000)]
    put(shard, 3000, 3100)
    shard.write(WriteBatch(deletes=[(b"k00000", None)]))
    shard.feeder.feed_all()
    assert keys(shard, point) == before
    assert keys(shard, point, Table.INDEXES) == before


def test_a_point_goes_some_time_after_its_last_use(shard: Shard, clock: ManualClock) -> None:
    put(shard, 0, 2000)
    point, _ = shard.points.hold(HOLD_MS)
    clock.advance_ms(HOLD_MS)
    reading = shard.points.pages(point, Table.RECORDS, b"", b"z")
    next(reading)
    clock.advance_ms(HOLD_MS)
    shard.points.tend()
    assert len(keys(shard, point)) == 2000
    clock.advance_ms(HOLD_MS + 1)
    shard.points.tend()
    with pytest.raises(PointReleased, match="no longer held"):
        next(reading)


def test_passing_points_make_room_when_they_were_not_used_for_a_while(shard: Shard, clock: ManualClock) -> None:
    put(shard, 0, 10)
    hold_ms = 2 * limits.PASSING_POINT_HOLD_MS
    lasting, _ = shard.points.hold(hold_ms)
    passing = [shard.points.hold(hold_ms, is_passing=True)[0] for _ in range(limits.POINTS_MAX - 1)]
    clock.advance_ms(limits.PASSING_POINT_HOLD_MS - 1)
    with pytest.raises(Overloaded, match="POINTS_MAX"):
        shard.points.hold(hold_ms)
    assert len(keys(shard, passing[0])) == 10
    clock.advance_ms(1)
    shard.points.hold(hold_ms)
    shard.points.hold(hold_ms, is_passing=True)
    assert len(shard.points) == limits.POINTS_MAX
    for gone in passing[1:3]:
        with pytest.raises(PointReleased, match="no longer held"):
            keys(shard, gone)
    for kept in (lasting, passing[0], *passing[3:]):
        assert len(keys(shard, kept)) == 10


def test_points_are_bounded_in_number_and_in_time(shard: Shard) -> None:
    points = [shard.points.hold(HOLD_MS)[0] for _ in range(limits.POINTS_MAX)]
    assert len(set(points)) == len(shard.points) == limits.POINTS_MAX
    with pytest.raises(Overloaded, match="POINTS_MAX"):
        shard.points.hold(HOLD_MS)
    shard.points.release(points[0])
    shard.points.release(points[0])
    shard.points.hold(limits.POINT_HOLD_MS_MAX)
    for wrong in (limits.POINT_HOLD_MS_MIN - 1, limits.POINT_HOLD_MS_MAX + 1):
        with pytest.raises(InvalidRequest, match="cannot be held"):
            shard.points.hold(wrong)


def test_a_store_that_must_grow_lets_its_points_go(shard: Shard) -> None:
    put(shard, 0, 10)
    point, _ = shard.points.hold(HOLD_MS)
    shard.store.is_waiting_to_grow = True
    shard.points.tend()
    with pytest.raises(PointReleased):
        keys(shard, point)


def test_cuts_part_a_range_about_evenly(shard: Shard) -> None:
    put(shard, 0, 5000)
    shard.feeder.feed_all()
    environment, order = shard.store.environment, shard.order
    found, entries = cuts(environment, order, Range(b"k01000", b"k03000"), 4)
    assert len(found) == 3
    bounds = [1000, *(int(key[1:]) for key in found), 3000]
    assert all(300 < high - low < 700 for low, high in pairwise(bounds))
    assert 1500 < entries < 2500
    assert cuts(environment, order, Range(b"k01000", b"k01003"), 4) == ([], 3)
    assert cuts(environment, order, Range(b"x", b"z"), 4) == ([], 0)
    found, entries = cuts(environment, order, Range(b"", b"", b"by"), 4)
    assert found in ([], [b"one"])
    assert 4000 < entries < 6000
