"""The rows of V15 that are about layouts: what a client makes of what a broker tells it."""

from __future__ import annotations

import json

import pytest

from controller.client.errors import BrokerFailed
from controller.client.topics.layouts import Broker, state_of
from controller.layout import HashRange, Layout, Segment, TopicName, TopicRecord
from controller.layout.segments import SegmentState
from controller.pb import topics_pb2 as pb

TOPIC = TopicName.parse("topic://tenant/ns/my-topic")
STARTS = (0x8000, 0x0000, 0xC000, 0x4000)
QUARTERS = {number: Segment(number, HashRange(start, start + 0x3FFF)) for number, start in enumerate(STARTS)}


def told(layout: Layout, leader: pb.BrokerAddress | None = None) -> pb.TopicDescription:
    return pb.TopicDescription(topic=str(TOPIC), record=TopicRecord(layout).encode(), version_id=3, leader=leader)


def test_v15_what_is_sealed_is_not_among_the_active() -> None:
    state = state_of(told(Layout.initial(1, 0).split(0, 5)))
    assert [each.segment_id for each in state.layout.active] == [1, 2]
    assert [each.segment_id for each in state.layout.sealed] == [0]
    assert state.layout.segment(0).state is SegmentState.SEALED


def test_v15_the_active_are_in_the_order_of_their_ranges() -> None:
    state = state_of(told(Layout(0, 4, QUARTERS)))
    assert [each.range.start for each in state.layout.active] == sorted(STARTS)


def test_v15_who_leads_and_who_serves_is_kept() -> None:
    message = told(Layout.initial(2, 0), leader=pb.BrokerAddress(broker="b1", address="b1:1", term=4))
    message.owners[1].CopyFrom(pb.BrokerAddress(broker="b2", address="b2:1", term=5))
    state = state_of(message)
    assert state.leader == Broker("b1", "b1:1", 4)
    assert state.owners == {1: Broker("b2", "b2:1", 5)}


def test_v15_a_layout_without_segments_makes_no_sense() -> None:
    """Pulsar takes it for a topic that nobody can write to; here each place of the ring has an active segment."""
    record = {"epoch": 42, "nextSegmentId": 0, "segments": {}}
    with pytest.raises(BrokerFailed, match="makes no sense"):
        state_of(pb.TopicDescription(topic=str(TOPIC), record=json.dumps(record).encode(), version_id=3))


def test_v15_nobody_leads_and_nobody_serves() -> None:
    state = state_of(told(Layout.initial(1, 0)))
    assert (state.leader, state.owners) == (None, {})
