"""Sessions as values (V7), what consumers are told, and records."""

from __future__ import annotations

import json

import pytest
from sessions_stage import STREAM, TOPIC

from controller.assignment import Share
from controller.layout import FULL, HashRange, Layout, TopicName
from controller.subscriptions import (
    DamagedSubscription,
    Group,
    Session,
    Sessions,
    Strategy,
    SubscriptionKind,
    SubscriptionRecord,
)
from controller.subscriptions.messages import assigned
from support.vectors import changed

HALVES = (HashRange(0, 0x7FFF), HashRange(0x8000, 0xFFFF))


def test_a_session_that_is_connected_waits_for_nothing() -> None:
    sessions = Sessions().connected("c1", 10)
    assert sessions.by_name == {"c1": Session(connection=10)}
    assert sessions.next_due_s is None
    assert sessions.expired(1e9) is sessions


def test_a_restored_session_has_one_grace_and_no_connection() -> None:
    sessions = Sessions.restored(["c1"], 100.0)
    assert not sessions.by_name["c1"].is_connected
    assert sessions.next_due_s == 100.0


def test_a_restored_session_that_comes_back_is_awaited_no_more() -> None:
    sessions = Sessions.restored(["c1"], 100.0).connected("c1", 77)
    assert sessions.by_name == {"c1": Session(connection=77)}
    assert sessions.expired(1e9) is sessions


def test_a_second_disconnection_does_not_prolong_the_grace() -> None:
    """In Pulsar it begins anew; here a connection can only go once."""
    once = Sessions().connected("c1", 10).disconnected("c1", 10, 100.0)
    assert once.disconnected("c1", 10, 200.0) is once
    assert once.next_due_s == 100.0


def test_a_grace_is_over_at_its_time_and_not_before() -> None:
    sessions = Sessions.restored(["c1"], 100.0).connected("c2", 1)
    assert sessions.expired(99.999) is sessions
    assert set(sessions.expired(100.0).names) == {"c2"}


def test_h10_an_old_connection_has_no_say() -> None:
    sessions = Sessions().connected("c1", 10).connected("c1", 11)
    assert sessions.disconnected("c1", 10, 100.0) is sessions
    assert sessions.left("c1", 10) is sessions
    assert set(sessions.left("c1", 11).names) == set()
    assert sessions.left("unknown", 11) is sessions


def test_a_connected_session_cannot_be_in_grace() -> None:
    with pytest.raises(AssertionError):
        Session(10, 100.0)


def group_of(layout: Layout, members: list[str], drained: list[int] | None = None) -> Group:
    empty = Group.restored(SubscriptionRecord(STREAM, 4, {}), (), layout, ())
    return empty.regrouped(members, layout, drained or [], Strategy.STICKY)


def test_what_a_consumer_is_told_of_whole_segments() -> None:
    layout = changed(Layout.initial(4, 0), [["split", 0, 1], ["split", 1, 2]])
    told = assigned(TOPIC, 9, group_of(layout, ["c1"], [0, 1]), "c1")
    assert (told.term, told.generation, told.epoch) == (9, 5, 2)
    assert [(each.segment_id, each.range.start) for each in told.segments][:2] == [(4, 0), (5, 0x2000)]
    assert told.segments[0].name == "segment://tenant/ns/my-topic/0000-1fff-4"
    assert {each.buckets for each in told.segments} == {()}


def test_what_consumers_are_told_of_a_shared_segment() -> None:
    layout = Layout.initial(1, 0, bucket_budget=2)
    group = group_of(layout, ["c1", "c2"])
    for consumer in ("c1", "c2"):
        (segment,) = assigned(TOPIC, 1, group, consumer).segments
        assert (segment.range, segment.buckets) == (FULL, HALVES)


def test_what_an_idle_consumer_is_told() -> None:
    group = group_of(Layout.initial(1, 0, bucket_budget=1), ["c1", "c2"])
    assert assigned(TOPIC, 1, group, "c2").segments == ()


def test_h15_data_of_the_old_kind_are_read_where_they_are() -> None:
    """Pulsar tells the name that a segment would have, where there is nothing."""
    old = TopicName.parse("persistent://tenant/ns/old")
    group = group_of(Layout.migrated(old, 2, 0), ["c1"])
    names = [each.name for each in assigned(old.scalable, 1, group, "c1").segments]
    assert names == ["persistent://tenant/ns/old-partition-0", "persistent://tenant/ns/old-partition-1"]


def test_a_record_says_what_pulsar_reads_and_more() -> None:
    record = SubscriptionRecord(STREAM, 7, {"c2": (), "c1": (Share(4), Share(5, HALVES))})
    fields = json.loads(record.encode())
    assert fields["type"] == "STREAM"
    assert list(fields["assignment"]) == ["c1", "c2"]
    assert SubscriptionRecord.decode(record.encode()) == record


@pytest.mark.parametrize("kind", list(SubscriptionKind))
def test_a_record_of_pulsar_is_read(kind: SubscriptionKind) -> None:
    value = json.dumps({"type": kind.value, "unknown": 1}).encode()
    assert SubscriptionRecord.decode(value) == SubscriptionRecord(kind, 0, None)


def test_a_record_that_was_only_made_as_a_parent_is_that_of_a_stream() -> None:
    assert SubscriptionRecord.decode(b"") == SubscriptionRecord(STREAM, 0, None)


@pytest.mark.parametrize(
    "value",
    [
        b"{",
        b"[]",
        b"{}",
        b'{"type":"OTHER"}',
        b'{"type":"STREAM","generation":"x"}',
        b'{"type":"STREAM","assignment":{"c1":[{}]}}',
        b'{"type":"STREAM","assignment":{"c1":[{"segment":0,"buckets":[[2,1]]}]}}',
    ],
)
def test_a_damaged_record_is_named(value: bytes) -> None:
    with pytest.raises(DamagedSubscription, match="subscription"):
        SubscriptionRecord.decode(value)
