"""The rows of V14 that only a whole broker shows: topics in numbers, and that nobody creates segments by using one."""

from __future__ import annotations

import pytest
from topics_wire import TOPIC, Wires, active, layout_of, refusal, run_brokers

from controller.layout import HashRange, TopicName
from controller.pb import topics_pb2 as pb
from support.broker_helpers import Refused, answers, sends

NAME = TopicName.parse(TOPIC)


def segment(segment_id: int, start: int = 0, end: int = 0xFFFF) -> str:
    return str(NAME.segment(HashRange(start, end), segment_id))


def test_v14_the_numbers_of_a_topic_that_is_new() -> None:
    async def scenario(wires: Wires) -> None:
        leader = await wires.created(segments=4)
        told = await leader.call("TopicStats", topic=TOPIC)
        assert active(told.topic) == sorted(told.segments) == sorted(layout_of(told.topic)) == [0, 1, 2, 3]
        assert not told.subscriptions

    run_brokers(scenario, count=1)


def test_v14_the_numbers_of_a_topic_after_a_split_with_consumers() -> None:
    async def scenario(wires: Wires) -> None:
        leader = await wires.created(segments=4)
        members = [await leader.member(name, "sub-a") for name in ("c1", "c2")]
        for each in members:
            await each.next()
        await leader.call("CreateTopicSubscription", topic=TOPIC, subscription="sub-b", kind=pb.STREAM)
        await leader.call("SplitSegment", topic=TOPIC, segment_id=0)
        told = await leader.call("TopicStats", topic=TOPIC)
        assert (len(active(told.topic)), len(layout_of(told.topic)), len(told.segments)) == (5, 6, 6)
        assert not layout_of(told.topic)[0]["active"]
        assert {name: len(each.consumers) for name, each in told.subscriptions.items()} == {"sub-a": 2, "sub-b": 0}

    run_brokers(scenario, count=1)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        (segment(1, 0, 0x7FFF), ""),
        (segment(0), "SegmentSealed"),
        (segment(9, 0, 0x7FFF), "NoSuchSegment"),
        (str(TopicName.parse("topic://public/default/none").segment(HashRange(0, 0xFFFF), 0)), "NoSuchSegment"),
    ],
    ids=["active", "sealed", "unknown", "of no topic"],
)
def test_v14_who_writes_to_a_segment_creates_none(name: str, error: str) -> None:
    async def scenario(wires: Wires) -> None:
        leader = await wires.created(subscriptions={"s": pb.STREAM})
        await leader.call("SplitSegment", topic=TOPIC, segment_id=0)
        before = (await leader.client.call("ListSegments")).segments
        try:
            stream = await leader.client.produce(name)
            await stream.say(sends("a"))
            (answer,) = await answers(stream, 1)
            found = answer.error.name
        except Refused as refused:
            found = refused.name
        assert found == error
        assert (await leader.client.call("ListSegments")).segments == before

    run_brokers(scenario, count=1)


def test_v14_the_old_name_of_a_topic_that_is_there_is_taken() -> None:
    async def scenario(wires: Wires) -> None:
        leader = await wires.created()
        refused = await refusal(leader.call("CreateTopic", topic="persistent://public/default/orders"))
        assert refused.name == "TopicExists"
        assert list((await leader.call("ListTopics", namespace="public/default")).topics) == [TOPIC]

    run_brokers(scenario, count=1)
