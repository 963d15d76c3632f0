"""The snapshot of a watch: one state, each record once, and a long one in its turn."""

from __future__ import annotations

import pytest
from watch_helpers import PLENTY, Following, Patch, put, write

from metastore.engine.record import key_of, value_of
from metastore.engine.shard import Shard
from metastore.watch.hub import WatchHub
from metastore.watch.limits import SNAPSHOT_STANDS_S
from metastore.watch.news import FeedBatch, FeedBatchKind
from metastore.watch.spec import WatchSpec

BEGIN, RECORDS, END, CHANGES, PROGRESS = FeedBatchKind
LONG = 200
"""More records than a first chunk has."""
ALL_LONG = WatchSpec(b"/s/", b"/s//")


def fill(shard: Shard, value: bytes = b"old") -> None:
    write(shard, *(put(b"/s/%03d" % number, value, (b"i", b"%03d" % number)) for number in range(LONG)))


def records_of(batches: list[FeedBatch]) -> dict[bytes, bytes]:
    """What a snapshot told."""
    told = [record for batch in batches for record in batch.records]
    found = {key_of(record): value_of(record) for record in told}
    assert len(found) == len(told), "a record came twice"
    return found


def test_an_empty_range_has_an_empty_snapshot(shard: Shard, hub: WatchHub) -> None:
    fill(shard)
    for spec in (WatchSpec(b"x", b"x"), WatchSpec(b"x", b"y"), WatchSpec(b"a", b"b", b"no such index")):
        watch = Following(hub, spec)
        assert watch.feed.take(1) == [FeedBatch(BEGIN), FeedBatch(END, shard.next_offset)]
        assert watch.feed.take(1) == []


def test_a_long_snapshot_is_one_state_and_changes_begin_behind_it(shard: Shard, hub: WatchHub) -> None:
    fill(shard)
    watch = Following(hub, ALL_LONG)
    batches = watch.feed.take(PLENTY)
    assert [batch.kind for batch in batches] == [BEGIN, RECORDS]
    assert watch.feed.next_offset is None
    assert shard.store.open_snapshots == 1
    write(shard, put(b"/s/000", b"new"), put(b"/s/199", b"new"), put(b"/s/200", b"new"))
    write(shard, deletes=[(b"/s/198", None)])
    batches += watch.feed.take(PLENTY)
    assert [batch.kind for batch in batches] == [BEGIN, RECORDS, RECORDS, END]
    assert batches[-1].next_offset == 1
    assert records_of(batches) == {b"/s/%03d" % number: b"old" for number in range(LONG)}
    assert shard.store.open_snapshots == 0
    assert [each.key for each in watch.news()] == [b"/s/000", b"/s/199", b"/s/200", b"/s/198"]


def test_a_snapshot_of_an_index_has_each_record_once_and_no_internal_one(shard: Shard, hub: WatchHub) -> None:
    twice = [put(b"%03d" % number, b"v", (b"i", b"1%d" % number), (b"i", b"2"), (b"j", b"2")) for number in range(LONG)]
    write(shard, *twice, put(b"beside", b"v", (b"i", b"0")), put(b"edge", b"v", (b"i", b"0"), (b"i", b"1")))
    write(shard, put(b"__oxia/x", b"v", (b"i", b"1"), (b"i", b"2")), put(b"__oxia/y", b"v", (b"i", b"1")))
    batches = Following(hub, WatchSpec(b"1", b"3", b"i")).batches()
    assert sorted(records_of(batches)) == [*(b"%03d" % number for number in range(LONG)), b"edge"]


# -- whose turn it is


def test_a_long_snapshot_waits_for_its_turn(shard: Shard, hub: WatchHub, limit: Patch) -> None:
    limit("LONG_SNAPSHOTS_MAX", 2)
    fill(shard)
    first, second, third, fourth = (Following(hub, ALL_LONG) for _ in range(4))
    assert len(first.feed.take(1)) == len(second.feed.take(1)) == 2
    assert third.feed.take(1) == fourth.feed.take(1) == third.feed.take(1) == []
    assert (third.woken, fourth.woken) == (0, 0)
    assert len(Following(hub, WatchSpec(b"/s/000", b"/s/050")).feed.take(1)) == 3
    assert len(first.feed.take(1)) == 2
    assert third.woken + fourth.woken == 1
    second.feed.close()
    assert (third.woken, fourth.woken) == (1, 1)
    for watch in (third, fourth):
        assert len(records_of(watch.batches())) == LONG
    assert shard.store.open_snapshots == 0


def test_one_who_waits_may_go_away(shard: Shard, hub: WatchHub, limit: Patch) -> None:
    limit("LONG_SNAPSHOTS_MAX", 1)
    fill(shard)
    first, second, third = (Following(hub, ALL_LONG) for _ in range(3))
    assert len(first.feed.take(1)) == 2
    assert second.feed.take(1) == third.feed.take(1) == []
    second.feed.close()
    first.feed.close()
    assert (second.woken, third.woken) == (0, 1)


def test_a_snapshot_that_stands_still_is_let_go_and_begins_anew(shard: Shard, hub: WatchHub, limit: Patch) -> None:
    limit("LONG_SNAPSHOTS_MAX", 1)
    fill(shard)
    standing, waiting = Following(hub, ALL_LONG), Following(hub, ALL_LONG)
    standing.feed.take(1)
    assert waiting.feed.take(1) == []
    hub.tend(0.0)
    hub.tend(SNAPSHOT_STANDS_S - 1)
    assert (waiting.woken, shard.store.open_snapshots) == (0, 1)
    hub.tend(SNAPSHOT_STANDS_S)
    assert (waiting.woken, shard.store.open_snapshots) == (1, 0)
    assert len(records_of(waiting.batches())) == LONG
    write(shard, put(b"/s/000", b"new"))
    batches = standing.batches()
    assert [batch.kind for batch in batches] == [BEGIN, RECORDS, RECORDS, END]
    assert records_of(batches)[b"/s/000"] == b"new"


def test_a_snapshot_that_moves_is_not_let_go(shard: Shard, hub: WatchHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metastore.engine.limits.SCAN_CHUNK_ITEMS_MAX", 20)
    monkeypatch.setattr("metastore.engine.scan.FIRST_CHUNK_ITEMS", 20)
    fill(shard)
    watch = Following(hub, ALL_LONG)
    batches = watch.feed.take(1)
    for round_number in range(8):
        hub.tend(round_number * (SNAPSHOT_STANDS_S - 1))
        batches += watch.feed.take(1)
    batches += watch.batches()
    assert [batch.kind for batch in batches].count(BEGIN) == 1
    assert len(records_of(batches)) == LONG


def test_a_snapshot_waits_while_the_shard_has_too_many_scans(
    shard: Shard, hub: WatchHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(shard)
    watch = Following(hub, ALL_LONG)
    monkeypatch.setattr("metastore.engine.limits.SNAPSHOTS_MAX", 0)
    assert watch.feed.take(1) == []
    monkeypatch.undo()
    assert watch.woken == 0
    hub.tend(0.0)
    assert watch.woken == 1
    assert len(records_of(watch.batches())) == LONG
