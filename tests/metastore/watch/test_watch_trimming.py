"""A watch that wants what the log no longer has is told so, with the oldest offset there is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from watch_helpers import Following, Patch, from_now, ignore, put, write

from metastore.clock import ManualClock
from metastore.engine.shard import Shard
from metastore.watch.errors import OffsetTrimmed, PreviousValuesMissing
from metastore.watch.hub import WatchHub
from metastore.watch.spec import WatchSpec


def fill_and_trim(shard: Shard, clock: ManualClock) -> int:
    """Returns the oldest offset that is left."""
    for number in range(20):
        write(shard, put(b"/k/%d" % number, b"x" * 200))
    shard.feeder.feed_all()
    clock.advance_ms(2 * shard.options.retention_ms)
    oldest = shard.trim_log()
    assert 0 < oldest < shard.next_offset
    return oldest


def test_a_watch_cannot_begin_with_what_is_gone(shard: Shard, hub: WatchHub, clock: ManualClock) -> None:
    oldest = fill_and_trim(shard, clock)
    with pytest.raises(OffsetTrimmed, match=f"offset {oldest - 1} is no longer in the log: .* is {oldest}$") as caught:
        hub.open(WatchSpec(from_offset=oldest - 1), ignore)
    assert caught.value.oldest == oldest
    watch = Following(hub, WatchSpec(from_offset=caught.value.oldest))
    assert len(watch.news()) == shard.next_offset - oldest


def test_a_lagging_watch_that_trimming_overtakes_ends(
    shard: Shard, hub: WatchHub, clock: ManualClock, limit: Patch
) -> None:
    limit("FEED_EVENTS_MAX", 1)
    slow, quick = from_now(hub), from_now(hub, b"z", b"z\0")
    oldest = fill_and_trim(shard, clock)
    for _ in range(2):
        with pytest.raises(OffsetTrimmed) as caught:
            slow.feed.take(1)
        assert (caught.value.offset, caught.value.oldest) == (0, oldest)
    assert quick.feed.take(1) == []
    slow.feed.close()


def test_a_watch_that_falls_behind_goes_back_no_further_than_it_must(
    shard: Shard, hub: WatchHub, clock: ManualClock, limit: Patch
) -> None:
    limit("FEED_EVENTS_MAX", 1)
    watch = from_now(hub, b"z", b"z\0")
    fill_and_trim(shard, clock)
    write(shard, put(b"z", b"1"))
    write(shard, put(b"z", b"2"))
    assert not watch.is_live()
    assert [each.value for each in watch.news()] == [b"1", b"2"]


def test_a_snapshot_whose_reader_was_away_for_too_long_ends(shard: Shard, hub: WatchHub, clock: ManualClock) -> None:
    write(shard, *(put(b"/s/%d" % number) for number in range(200)))
    watch = Following(hub, WatchSpec(b"/s/", b"/s//"))
    assert watch.next_offset() is None
    watch.feed.take(1)
    fill_and_trim(shard, clock)
    watch.feed.take(1)
    assert watch.next_offset() == 1
    with pytest.raises(OffsetTrimmed):
        watch.feed.take(1)


def test_previous_values_are_missing_before_anybody_asked_for_them(shard: Shard, hub: WatchHub) -> None:
    write(shard, put(b"a", b"1"))
    write(shard, put(b"a", b"2"))
    spec = WatchSpec(from_offset=1, previous_values=True)
    with pytest.raises(PreviousValuesMissing, match="is in the log without previous values: .* is 2$") as caught:
        hub.open(spec, ignore)
    watch = Following(hub, replace(spec, from_offset=caught.value.oldest))
    write(shard, put(b"a", b"3"))
    (news,) = watch.news()
    assert news.previous == b"2"


def test_previous_values_are_missing_where_one_request_replaced_too_much(
    shard: Shard, hub: WatchHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metastore.engine.limits.PREVIOUS_BYTES_MAX", 1_000)
    asking, other = from_now(hub, previous=True), from_now(hub)
    elsewhere = from_now(hub, b"b", b"c", previous=True)
    write(shard, put(b"a", b"1"), put(b"a/0", b"0" * 500), put(b"a/1", b"1" * 500), put(b"b", b"1"))
    write(shard, put(b"a", b"2"))
    write(shard, ranges=[(b"a/", b"a//")])
    assert [each.value for each in other.news()][-2:] == [None, None]
    assert [each.key for each in elsewhere.news()] == [b"b"]
    assert elsewhere.is_live()
    assert sum(len(asking.feed.take(100)[0].changes) for _ in range(2)) == 5
    for _ in range(2):
        with pytest.raises(PreviousValuesMissing) as caught:
            asking.feed.take(100)
        assert (caught.value.offset, caught.value.oldest) == (2, 3)


def test_previous_values_outlast_a_restart(tmp_path: Path, shard: Shard, hub: WatchHub, clock: ManualClock) -> None:
    write(shard, put(b"a", b"1"))
    watch = from_now(hub, previous=True)
    write(shard, put(b"a", b"2"))
    resume = watch.feed.next_offset
    shard.abandon()
    with Shard.open(tmp_path / "shard", shard.options, clock) as again:
        write(again, put(b"a", b"3"))
        (news,) = Following(WatchHub(again), WatchSpec(from_offset=resume, previous_values=True)).news()[1:]
        assert (news.previous, news.value) == (b"2", b"3")
