"""What each kind of write is to a watch, over keys and over an index, with what the record was before."""

from __future__ import annotations

import pytest
from watch_helpers import Following, News, from_now, put, write

from metastore.clock import ManualClock
from metastore.engine.operations import PutOptions, Transaction
from metastore.engine.shard import Shard
from metastore.watch.hub import WatchHub
from metastore.watch.news import ChangeKind
from metastore.watch.spec import WatchSpec

CREATED, MODIFIED, DELETED, ENTERED, LEFT = ChangeKind


def test_the_life_of_a_record(shard: Shard, hub: WatchHub) -> None:
    watch = from_now(hub, b"/a/", b"/a//", previous=True)
    write(shard, put(b"/a/x", b"1"), put(b"/b/x", b"elsewhere"))
    write(shard, put(b"/a/x", b"2"))
    write(shard, deletes=[(b"/a/x", None), (b"/a/absent", None)])
    write(shard, put(b"/a/x", b"3"))
    assert watch.news() == [
        News(CREATED, b"/a/x", b"1", None),
        News(MODIFIED, b"/a/x", b"2", b"1"),
        News(DELETED, b"/a/x", None, b"2"),
        News(CREATED, b"/a/x", b"3", None),
    ]


def test_previous_values_are_told_to_those_who_ask(shard: Shard, hub: WatchHub) -> None:
    asking, other = from_now(hub, previous=True), from_now(hub)
    write(shard, put(b"a", b"1"))
    write(shard, put(b"a", b"2"))
    assert asking.news()[1].previous == b"1"
    assert other.news()[1].previous is None


def test_several_operations_of_one_request_are_one_change(shard: Shard, hub: WatchHub) -> None:
    write(shard, put(b"old", b"1"), put(b"older", b"1"))
    watch = from_now(hub, previous=True)
    write(
        shard,
        *(put(b"old", b"2"), put(b"old", b"3"), put(b"older", b"2"), put(b"new", b"1"), put(b"new", b"2")),
        put(b"fleeting", b"1"),
        deletes=[(b"fleeting", None), (b"older", None)],
    )
    assert watch.news() == [
        News(CREATED, b"new", b"2", None),
        News(MODIFIED, b"old", b"3", b"1"),
        News(DELETED, b"older", None, b"1"),
    ]


def test_a_request_without_effect_is_no_news(shard: Shard, hub: WatchHub) -> None:
    watch = from_now(hub)
    write(shard, put(b"a", b"1"), deletes=[(b"a", None)])
    assert watch.feed.take(1) == []
    assert watch.woken == 0
    assert watch.feed.next_offset == shard.next_offset


@pytest.mark.parametrize("count", [-7, -1, 0, 1, 7])
@pytest.mark.parametrize("keeps_previous", [False, True])
def test_a_count_of_modifications_that_a_client_sets_deceives_nobody(
    shard: Shard, hub: WatchHub, count: int, keeps_previous: bool
) -> None:
    watch = from_now(hub, previous=keeps_previous)
    write(shard, put(b"new", b"1", override_modifications_count=count))
    write(shard, put(b"old", b"1"))
    write(shard, put(b"old", b"2", override_modifications_count=count))
    write(shard, put(b"old", b"3"))
    write(shard, put(b"old", b"4", (b"i", b"1")))
    assert [(each.kind, each.value) for each in watch.news()] == [
        (CREATED, b"1"),
        (CREATED, b"1"),
        (MODIFIED, b"2"),
        (MODIFIED, b"3"),
        (MODIFIED, b"4"),
    ]


def test_a_range_delete_tells_each_record(shard: Shard, hub: WatchHub) -> None:
    write(shard, *(put(b"/a/%d" % number) for number in range(4)), put(b"__oxia/x"))
    keys, below = from_now(hub), from_now(hub, b"/a/2", b"/a/3")
    write(shard, put(b"/a/1", b"w"), ranges=[(b"/a/1", b"/a//")])
    assert keys.news() == [News(DELETED, b"/a/%d" % number, None, None) for number in (1, 2, 3)]
    assert below.news() == [News(DELETED, b"/a/2", None, None)]


def test_internal_keys_are_hidden(shard: Shard, hub: WatchHub) -> None:
    keys, index, internal = from_now(hub), from_now(hub, index=b"i"), from_now(hub, b"__oxia/", b"__oxia/z")
    write(shard, put(b"__oxia/x", b"1", (b"i", b"1")))
    for spec in (WatchSpec(), WatchSpec(index_name=b"i"), WatchSpec(b"__oxia/", b"__oxia/z")):
        assert [batch.records for batch in Following(hub, spec).batches() if batch.records] == []
    write(shard, deletes=[(b"__oxia/x", None)])
    assert (keys.news(), index.news(), internal.news()) == ([], [], [])


def test_the_end_of_a_session_deletes(shard: Shard, hub: WatchHub, clock: ManualClock) -> None:
    closed, expired = shard.create_session(2_000), shard.create_session(2_000)
    write(shard, put(b"c", b"1", (b"i", b"1"), session_id=closed), put(b"e", b"1", (b"i", b"1"), session_id=expired))
    keys, index = from_now(hub, previous=True), from_now(hub, b"1", b"2", b"i", previous=True)
    shard.close_session(closed)
    clock.advance_ms(2_000)
    shard.expire_sessions()
    expected = [News(DELETED, b"c", None, b"1"), News(DELETED, b"e", None, b"1")]
    assert keys.news() == expected
    assert index.news() == expected


def test_a_transaction_comes_in_one_batch(shard: Shard, hub: WatchHub) -> None:
    write(shard, put(b"b"), put(b"c"))
    watch = from_now(hub)
    shard.transact(Transaction([(b"b", 0)], [put(b"a"), put(b"b", b"w")], [(b"c", 1), (b"d", None)]))
    (batch,) = watch.feed.take(1)
    assert sorted((change.key, change.kind) for change in batch.changes) == [
        (b"a", CREATED),
        (b"b", MODIFIED),
        (b"c", DELETED),
    ]
    assert {change.offset for change in batch.changes} == {shard.next_offset - 1}


# -- over an index


def test_a_record_enters_and_leaves_the_range_of_an_index(shard: Shard, hub: WatchHub) -> None:
    watch = from_now(hub, b"1", b"2", b"i", previous=True)
    write(shard, put(b"a", b"out", (b"i", b"0"), (b"j", b"1")))
    write(shard, put(b"a", b"in", (b"i", b"1")))
    write(shard, put(b"a", b"moved", (b"i", b"1x")))
    write(shard, put(b"a", b"same", (b"i", b"1x")))
    write(shard, put(b"a", b"gone", (b"i", b"2")))
    write(shard, put(b"a", b"plain"))
    write(shard, put(b"b", b"new", (b"i", b"1")))
    write(shard, put(b"b", b"bare"))
    write(shard, put(b"b", b"back", (b"i", b"0"), (b"i", b"1")))
    write(shard, deletes=[(b"b", None)])
    assert watch.news() == [
        News(ENTERED, b"a", b"in", b"out"),
        News(MODIFIED, b"a", b"moved", b"in"),
        News(MODIFIED, b"a", b"same", b"moved"),
        News(LEFT, b"a", b"gone", b"same"),
        News(CREATED, b"b", b"new", None),
        News(LEFT, b"b", b"bare", b"new"),
        News(ENTERED, b"b", b"back", b"bare"),
        News(DELETED, b"b", None, b"back"),
    ]


def test_a_record_with_several_secondary_keys_is_one_element(shard: Shard, hub: WatchHub) -> None:
    watch = from_now(hub, b"1", b"3", b"i")
    write(shard, put(b"a", b"two", (b"i", b"1"), (b"i", b"2")))
    write(shard, put(b"a", b"one", (b"i", b"2"), (b"i", b"9")))
    write(shard, put(b"a", b"none", (b"i", b"9")))
    write(shard, put(b"a", b"again", (b"i", b"1"), (b"i", b"2")))
    write(shard, ranges=[(b"a", b"b")])
    assert [(each.kind, each.value) for each in watch.news()] == [
        (CREATED, b"two"),
        (MODIFIED, b"one"),
        (LEFT, b"none"),
        (ENTERED, b"again"),
        (DELETED, None),
    ]


def test_secondary_keys_are_matched_exactly(shard: Shard, hub: WatchHub) -> None:
    exact, zero = from_now(hub, b"1_2", b"1_2\0", b"i"), from_now(hub, b"1\0", b"1\0\0", b"i")
    other = from_now(hub, b"", b"", b"i\0")
    write(shard, *(put(secondary, b"v", (b"i", secondary)) for secondary in (b"1_2", b"1_20", b"1", b"1\0")))
    assert [each.key for each in exact.news()] == [b"1_2"]
    assert [each.key for each in zero.news()] == [b"1\0"]
    assert other.news() == []


def test_indexes_that_change_back_within_a_request_are_as_they_were(shard: Shard, hub: WatchHub) -> None:
    inside, outside = put(b"a", b"in", (b"i", b"1")), put(b"a", b"out", (b"i", b"5"))
    watch = from_now(hub, b"1", b"2", b"i")
    write(shard, inside)
    write(shard, outside, inside)
    write(shard, outside)
    write(shard, inside, outside)
    write(shard, inside, deletes=[(b"a", None)])
    write(shard, inside, outside, inside)
    assert [each.kind for each in watch.news()] == [CREATED, MODIFIED, LEFT, CREATED]


def test_what_the_log_tells_is_what_the_rounds_tell(shard: Shard, hub: WatchHub) -> None:
    live = from_now(hub, b"1", b"2", b"i", previous=True)
    first = shard.next_offset
    write(shard, put(b"a", b"1", (b"i", b"1")), put(b"b", b"1"))
    write(shard, put(b"a", b"2"), put(b"b", b"2", (b"i", b"1"), override_modifications_count=0))
    write(shard, put(b"b", b"3"), deletes=[(b"a", None)])
    later = Following(hub, WatchSpec(b"1", b"2", b"i", first, previous_values=True))
    assert not later.is_live()
    told = live.news()
    assert len(told) == 4
    assert later.news() == told


def test_an_option_that_changes_nothing_is_still_a_modification(shard: Shard, hub: WatchHub) -> None:
    options = PutOptions(override_version_id=3, override_modifications_count=3)
    write(shard, (b"a", b"1", options))
    watch = from_now(hub)
    write(shard, (b"a", b"1", options))
    assert [each.kind for each in watch.news()] == [MODIFIED]
