"""The pace of a watch: live, overtaken by its writers, fed from the log, live again; and who is woken when."""

from __future__ import annotations

import pytest
from watch_helpers import PLENTY, Following, Patch, from_now, ignore, put, write, write_together

from metastore.engine.errors import InvalidRequest, ShardStopped
from metastore.engine.operations import Get, WriteBatch
from metastore.engine.record import value_of
from metastore.engine.shard import Shard
from metastore.engine.stage import Stage
from metastore.watch.errors import TooManyWatches
from metastore.watch.hub import WatchHub, WatchStatistics
from metastore.watch.live import CHANGE_BYTES
from metastore.watch.news import FeedBatchKind
from metastore.watch.spec import NOW, WatchSpec

CHANGES, PROGRESS = FeedBatchKind.CHANGES, FeedBatchKind.PROGRESS


def key(number: int) -> bytes:
    return b"/k/%06d" % number


def fill(shard: Shard, count: int, first: int = 0, value: bytes = b"v") -> None:
    for number in range(first, first + count):
        write(shard, put(key(number), value))


# -- who is woken


def test_a_reader_that_found_nothing_is_woken_once(shard: Shard, hub: WatchHub) -> None:
    watch = from_now(hub)
    fill(shard, 3)
    assert watch.woken == 1
    assert len(watch.feed.take(1)) == 1
    fill(shard, 1, first=3)
    assert watch.woken == 1
    assert len(watch.news()) == 3
    fill(shard, 1)
    assert watch.woken == 2


def test_a_round_wakes_a_reader_once(shard: Shard, hub: WatchHub) -> None:
    watch = from_now(hub)
    watch.feed.take(1)
    write_together(shard, [WriteBatch(puts=[put(key(number))]) for number in range(5)])
    assert watch.woken == 1
    assert len(watch.news()) == 5


def test_what_does_not_match_wakes_nobody_and_is_progress(shard: Shard, hub: WatchHub) -> None:
    watch = from_now(hub, b"/other/", b"/other//")
    fill(shard, 3)
    assert watch.woken == 0
    assert watch.feed.next_offset == shard.next_offset == hub.next_offset
    assert watch.feed.lag == 0
    assert watch.feed.take(1) == []


def test_a_watch_may_begin_and_end_where_a_round_wakes(shard: Shard, hub: WatchHub) -> None:
    opened: list[Following] = []

    def open_another() -> None:
        first.close()
        opened.append(Following(hub, WatchSpec(from_offset=NOW, previous_values=True)))

    first = hub.open(WatchSpec(from_offset=NOW), open_another)
    assert first.take(1) == []
    fill(shard, 2)
    (second,) = opened
    assert [each.key for each in second.news()] == [key(1)]


# -- how much at a time


def test_a_take_ends_with_a_whole_request(shard: Shard, hub: WatchHub) -> None:
    live, lagging = from_now(hub), Following(hub, WatchSpec(from_offset=0))
    for first in (0, 10, 20):
        write(shard, *(put(key(number)) for number in range(first, first + 4)))
    for watch in (live, lagging):
        sizes = []
        while batches := watch.feed.take(5):
            sizes += [len(batch.changes) for batch in batches]
        assert sizes == [8, 4]


def test_a_queue_holds_so_many_events_and_no_more(shard: Shard, hub: WatchHub, limit: Patch) -> None:
    limit("FEED_EVENTS_MAX", 5)
    watch = from_now(hub)
    fill(shard, 5)
    assert watch.is_live()
    fill(shard, 1, first=5)
    assert not watch.is_live()
    assert watch.feed.next_offset == 0
    assert watch.feed.lag == 6
    assert [each.key for each in watch.news()] == [key(number) for number in range(6)]
    assert watch.is_live()


def test_a_queue_holds_so_many_bytes_and_no_more(shard: Shard, hub: WatchHub, limit: Patch) -> None:
    watch = from_now(hub)
    fill(shard, 1)
    (batch,) = watch.feed.take(1)
    size = CHANGE_BYTES + len(key(0)) + len(batch.changes[0].record or b"")
    limit("FEED_BYTES_MAX", 3 * size + 10)
    fill(shard, 3, first=1)
    assert watch.is_live()
    fill(shard, 1, first=4)
    assert not watch.is_live()
    assert [each.key for each in watch.news()] == [key(number) for number in range(1, 5)]


def test_all_queues_together_hold_so_many_bytes_and_the_fullest_makes_room(
    shard: Shard, hub: WatchHub, limit: Patch
) -> None:
    slow, quick = from_now(hub), from_now(hub)
    fill(shard, 1)
    (batch,) = slow.feed.take(1)
    size = CHANGE_BYTES + len(key(0)) + len(batch.changes[0].record or b"")
    quick.news()
    limit("LIVE_BYTES_MAX", 3 * size + 10)
    for number in range(1, 4):
        fill(shard, 1, first=number)
        assert len(quick.news()) == 1
    assert slow.is_live()
    fill(shard, 1, first=4)
    assert not slow.is_live()
    assert quick.is_live()
    assert [each.key for each in slow.news()] == [key(number) for number in range(1, 5)]
    assert slow.is_live()


def test_a_request_beyond_the_queue_is_told_whole(shard: Shard, hub: WatchHub, limit: Patch) -> None:
    limit("FEED_EVENTS_MAX", 5)
    watch = from_now(hub)
    write(shard, *(put(key(number)) for number in range(50)))
    (batch,) = watch.feed.take(1)
    assert len(batch.changes) == 50
    assert watch.woken == 1


def test_one_who_falls_behind_is_woken_and_slows_no_other(shard: Shard, hub: WatchHub, limit: Patch) -> None:
    limit("FEED_EVENTS_MAX", 2)
    slow, quick = from_now(hub), from_now(hub)
    for number in range(10):
        fill(shard, 1, first=number)
        assert [each.key for each in quick.news()] == [key(number)]
    assert quick.is_live()
    assert not slow.is_live()
    assert slow.woken == 1
    assert len(slow.news()) == 10
    fill(shard, 1)
    assert slow.woken == 2


def test_a_lagging_watch_reads_a_bounded_piece_of_log_at_a_time(shard: Shard, hub: WatchHub, limit: Patch) -> None:
    limit("LOG_READ_BYTES", 2_000)
    fill(shard, 100, value=b"x" * 200)
    specs = WatchSpec(from_offset=0), WatchSpec(b"z", b"z\0", from_offset=0)
    everything, nothing = (Following(hub, spec) for spec in specs)
    assert 1 <= len(everything.feed.take(PLENTY)[0].changes) <= 10
    assert len(everything.news()) >= 90
    batches = nothing.batches()
    assert {batch.kind for batch in batches} == {PROGRESS}
    assert len(batches) >= 9
    places = [batch.next_offset or 0 for batch in batches]
    assert places == sorted(set(places))
    assert nothing.is_live()
    assert nothing.feed.next_offset == 100


def test_statistics_tell_watches_and_lag(shard: Shard, hub: WatchHub, limit: Patch) -> None:
    assert hub.statistics() == WatchStatistics(0, 0, 0, 0)
    limit("FEED_EVENTS_MAX", 3)
    slow, quick, other = from_now(hub), from_now(hub), from_now(hub, b"z", b"z\0")
    for number in range(5):
        fill(shard, 1, first=number)
        quick.news()
    assert hub.statistics() == WatchStatistics(watches=3, lagging=1, greatest_lag=5, events=5)
    slow.news()
    assert hub.statistics() == WatchStatistics(watches=3, lagging=0, greatest_lag=0, events=10)
    for watch in (slow, quick, other):
        watch.feed.close()
        watch.feed.close()
    assert hub.statistics() == WatchStatistics(0, 0, 0, 10)


# -- between the log and the queue


@pytest.mark.parametrize("limit_events", [1, 100])
def test_what_was_read_from_the_log_is_not_told_again(
    shard: Shard, hub: WatchHub, limit: Patch, limit_events: int
) -> None:
    """The reader is quicker than the round: it finds the round in the log before it is told of it."""
    limit("FEED_EVENTS_MAX", limit_events)
    fill(shard, 1)
    watch = Following(hub, WatchSpec(from_offset=0))
    keys: list[bytes] = []

    def read_first(_: Stage) -> None:
        keys.extend(each.key for each in watch.news())

    shard.rounds.on_round.insert(0, read_first)
    write_together(shard, [WriteBatch(puts=[put(key(number))]) for number in (1, 2)])
    assert keys == [key(0), key(1), key(2)]
    assert watch.is_live()
    assert watch.news() == []
    fill(shard, 1, first=3)
    assert keys + [each.key for each in watch.news()] == [key(number) for number in range(4)]


def test_nothing_is_told_before_readers_can_see_it(shard: Shard, hub: WatchHub) -> None:
    told: list[tuple[bytes, bytes | None]] = []
    sync = shard.log.sync

    def read_around_the_sync() -> None:
        read()
        sync()
        read()

    def read() -> None:
        watch = Following(hub, WatchSpec(from_offset=0))
        for each in watch.news():
            found = shard.get(Get(each.key))
            told.append((each.key, None if found is None else value_of(found[0])))
        watch.feed.close()

    shard.log.sync = read_around_the_sync  # type: ignore[method-assign]
    fill(shard, 3)
    read()
    seen = [0, 0, 1, 1, 2, 2, 3]
    assert told == [(key(number), b"v") for count in seen for number in range(count)]


def test_a_round_that_was_not_told_is_in_the_log(shard: Shard, hub: WatchHub) -> None:
    """Another listener fails, and the hub is not called."""
    waiting, busy = from_now(hub), from_now(hub)
    fill(shard, 1)
    quick, ahead = Following(hub, WatchSpec(from_offset=0)), list[bytes]()
    waiting.news()

    def fail(_: Stage) -> None:
        ahead.extend(each.key for each in quick.news())
        raise RuntimeError("a listener failed")

    shard.rounds.on_round.insert(0, fail)
    with pytest.raises(RuntimeError, match="a listener failed"):
        fill(shard, 1, first=1)
    shard.rounds.on_round.remove(fail)
    fill(shard, 1, first=2)
    assert [each.key for each in waiting.news()] == [key(1), key(2)]
    assert [each.key for each in busy.news()] == [key(0), key(1), key(2)]
    assert waiting.woken == 2
    assert ahead + [each.key for each in quick.news()] == [key(0), key(1), key(2)]
    fill(shard, 1, first=3)
    assert [watch.is_live() for watch in (waiting, busy)] == [True, True]
    assert waiting.woken == 3


# -- the end


def test_a_closed_watch_has_no_news(shard: Shard, hub: WatchHub) -> None:
    watch = from_now(hub)
    fill(shard, 1)
    watch.feed.close()
    assert watch.feed.take(1) == []


def test_closing_the_hub_ends_its_watches_and_not_the_shard(shard: Shard, hub: WatchHub) -> None:
    watch, again = from_now(hub), WatchHub(shard)
    hub.close()
    fill(shard, 1)
    assert watch.feed.take(1) == []
    assert watch.woken == 0
    assert len(Following(again, WatchSpec(from_offset=0)).news()) == 1


def test_a_stopped_shard_says_so(shard: Shard, hub: WatchHub) -> None:
    watch = from_now(hub)
    shard.close()
    with pytest.raises(ShardStopped):
        watch.feed.take(1)
    with pytest.raises(ShardStopped):
        hub.open(WatchSpec(), ignore)
    watch.feed.close()


# -- bad input


def test_there_are_so_many_watches_and_no_more(shard: Shard, hub: WatchHub, limit: Patch) -> None:
    limit("WATCHES_MAX", 2)
    first, second = from_now(hub), from_now(hub, b"a", b"a")
    with pytest.raises(TooManyWatches, match="WATCHES_MAX"):
        hub.open(WatchSpec(from_offset=NOW, previous_values=True), ignore)
    fill(shard, 1)
    assert (len(first.news()), len(second.news())) == (1, 0)
    second.feed.close()
    from_now(hub)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (WatchSpec(b"b", b"a"), "ends before it starts"),
        (WatchSpec(b"a/b", b"z"), "ends before it starts"),
        (WatchSpec(b"2", b"1", b"i"), "ends before it starts"),
        (WatchSpec(b"\xff"), "UTF-8"),
        (WatchSpec(b"", b"", b"\xff"), "UTF-8"),
        (WatchSpec(from_offset=-2), "cannot begin with offset -2"),
        (WatchSpec(from_offset=2), "offset 2 has not been reached"),
    ],
)
def test_what_makes_no_sense_is_refused_at_once(shard: Shard, hub: WatchHub, spec: WatchSpec, message: str) -> None:
    fill(shard, 1)
    with pytest.raises(InvalidRequest, match=message):
        hub.open(spec, ignore)
    assert hub.statistics().watches == 0
