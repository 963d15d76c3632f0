"""What only a topic's leader does: layouts, subscriptions, numbers; and the work that he asks other brokers for."""

from __future__ import annotations

import asyncio
import json

import grpc
import pytest
from topics_wire import TOPIC, TopicWire, Wires, active, brokers, layout_of, refusal, run_brokers

from controller.broker.topics.changes import SEGMENTS_PER_REQUEST_MAX
from controller.layout import HashRange, TopicName
from controller.pb import topics_pb2 as pb
from support.broker_helpers import acknowledge, acknowledged, deliveries, published

NAME = TopicName.parse(TOPIC)


def segment(segment_id: int, start: int = 0, end: int = 0xFFFF) -> str:
    return str(NAME.segment(HashRange(start, end), segment_id))


async def owner_of(wires: Wires, name: str) -> TopicWire:
    """Who owns a segment."""
    told = await wires.all[0].client.call("LookupSegment", segment=name)
    (found,) = (each for each in wires.all if each.broker.address == told.address)
    return found


@pytest.mark.parametrize(
    ("method", "fields"),
    [
        ("SplitSegment", {"segment_id": 0}),
        ("MergeSegments", {"segment_ids": [0, 1]}),
        ("DeleteTopic", {}),
        ("CreateTopicSubscription", {"subscription": "s"}),
        ("DeleteTopicSubscription", {"subscription": "s"}),
        ("SeekTopicSubscription", {"subscription": "s", "end": True}),
        ("TopicStats", {}),
        ("ExplainScaling", {}),
        ("NoteDrained", {"subscription": "s", "segment_ids": [0]}),
        ("ReleaseClaim", {"producer": "p", "claim": 1}),
    ],
)
def test_who_does_not_lead_says_who_does(method: str, fields: dict[str, object]) -> None:
    async def scenario(wires: Wires) -> None:
        leader = await wires.created()
        other = await wires.other()
        refused = await refusal(other.call(method, topic=TOPIC, **fields))
        assert (refused.name, refused.branch, refused.code) == (
            "NotLeader",
            "retriable",
            grpc.StatusCode.UNAVAILABLE,
        )
        assert refused.metadata == {"address": leader.broker.address}
        missing = await refusal(other.call(method, topic="nothing", **fields))
        assert missing.name == "TopicNotFound"

    run_brokers(scenario)


def test_segments_are_split_and_merged_wherever_they_are() -> None:
    async def scenario(wires: Wires) -> None:
        leader = await wires.created(segments=4, subscriptions={"s": pb.STREAM, "q": pb.QUEUE, "c": pb.CHECKPOINT})
        for segment_id in range(4):
            told = await leader.call("SplitSegment", topic=TOPIC, segment_id=segment_id)
        assert active(told) == list(range(4, 12))
        owners = {each.address for each in (await leader.call("DescribeTopic", topic=TOPIC)).owners.values()}
        assert owners == {each.broker.address for each in wires.all}, "the leader works with segments of both"
        told = await leader.call("MergeSegments", topic=TOPIC, segment_ids=range(4, 12))
        assert active(told) == [12]
        name = segment(12)
        stats = await (await owner_of(wires, name)).client.call("SegmentStats", segment=name)
        assert sorted(each.subscription for each in stats.subscriptions) == ["q", "s"]

    run_brokers(scenario)


def test_h13_no_broker_tells_an_older_layout_than_there_is() -> None:
    """Pulsar's followers tell the layout that there was when they began; here only the leader has numbers."""

    async def scenario(wires: Wires) -> None:
        leader, other = await wires.created(), await wires.other()
        for epoch in range(1, 4):
            split = await leader.call("SplitSegment", topic=TOPIC, segment_id=2 * epoch - 2)
            assert json.loads(split.record)["epoch"] == epoch
            for each in wires.all:
                told = await each.call("DescribeTopic", topic=TOPIC)
                assert (told.record, told.version_id) == (split.record, split.version_id)
            assert (await leader.call("TopicStats", topic=TOPIC)).topic.record == split.record
            assert (await refusal(other.call("TopicStats", topic=TOPIC))).name == "NotLeader"

    run_brokers(scenario)


def test_layouts_that_cannot_be() -> None:
    async def scenario(wires: Wires) -> None:
        leader = await wires.created(segments=3)
        too_many = range(SEGMENTS_PER_REQUEST_MAX + 1)
        for method, fields, name, code in (
            ("SplitSegment", {"segment_id": 9}, "SegmentNotFound", grpc.StatusCode.NOT_FOUND),
            ("MergeSegments", {"segment_ids": [0, 2]}, "InvalidRange", grpc.StatusCode.INVALID_ARGUMENT),
            ("MergeSegments", {"segment_ids": too_many}, "InvalidRequest", grpc.StatusCode.INVALID_ARGUMENT),
        ):
            refused = await refusal(leader.call(method, topic=TOPIC, **fields))
            assert (refused.name, refused.code, refused.branch) == (name, code, "fatal")
        await leader.call("SplitSegment", topic=TOPIC, segment_id=0)
        refused = await refusal(leader.call("SplitSegment", topic=TOPIC, segment_id=0))
        assert (refused.name, refused.code) == ("SegmentInWrongState", grpc.StatusCode.FAILED_PRECONDITION)

    run_brokers(scenario, count=1)


def test_of_two_splits_at_once_one_is_refused_or_waits_for_nothing() -> None:
    async def scenario(wires: Wires) -> None:
        leader = await wires.created(segments=2)
        found = await asyncio.gather(
            *(leader.call("SplitSegment", topic=TOPIC, segment_id=each) for each in (0, 1)), return_exceptions=True
        )
        refused = [each for each in found if isinstance(each, BaseException)]
        assert len(refused) <= 1
        for each in refused:
            assert getattr(each, "name", "") == "OperationUnderWay"
            assert getattr(each, "branch", "") == "retriable"
            assert getattr(each, "code", None) is grpc.StatusCode.ABORTED

    run_brokers(scenario, count=1)


def test_a_topic_goes_with_all_that_belongs_to_it() -> None:
    async def scenario(wires: Wires) -> None:
        leader = await wires.created(segments=2, subscriptions={"s": pb.STREAM})
        await leader.call("DeleteTopic", topic=TOPIC)
        for wire in wires.all:
            assert (await refusal(wire.call("DescribeTopic", topic=TOPIC))).name == "TopicNotFound"
        while (await leader.client.call("ListSegments")).segments:
            await asyncio.sleep(0)
        await leader.call("CreateTopic", topic=TOPIC)
        leader = await wires.leader()
        assert not (await leader.call("TopicStats", topic=TOPIC)).subscriptions

    run_brokers(scenario)


def test_subscriptions_come_and_go_at_all_segments() -> None:
    async def scenario(wires: Wires) -> None:
        leader = await wires.created(segments=2)
        for _ in range(2):
            await leader.call("CreateTopicSubscription", topic=TOPIC, subscription="s", kind=pb.QUEUE, start=pb.LATEST)
        wrong = await refusal(leader.call("CreateTopicSubscription", topic=TOPIC, subscription="s", kind=pb.STREAM))
        assert (wrong.name, wrong.code) == ("WrongKind", grpc.StatusCode.FAILED_PRECONDITION)
        told = await leader.call("TopicStats", topic=TOPIC)
        assert {name: each.kind for name, each in told.subscriptions.items()} == {"s": pb.QUEUE}
        assert {segment_id: dict(each.backlog_entries) for segment_id, each in told.segments.items()} == {
            0: {"s": 0},
            1: {"s": 0},
        }
        for _ in range(2):
            await leader.call("DeleteTopicSubscription", topic=TOPIC, subscription="s")
        assert not (await leader.call("TopicStats", topic=TOPIC)).subscriptions
        gone = await refusal(leader.call("SeekTopicSubscription", topic=TOPIC, subscription="s", end=True))
        assert (gone.name, gone.code) == ("SubscriptionNotFound", grpc.StatusCode.NOT_FOUND)
        nowhere = await refusal(leader.call("SeekTopicSubscription", topic=TOPIC, subscription="s"))
        assert nowhere.name == "InvalidRequest"
        strange = await refusal(leader.call("CreateTopicSubscription", topic=TOPIC, subscription="s", kind=9))
        assert strange.name == "InvalidRequest"

    run_brokers(scenario)


def test_backlogs_are_asked_of_all_owners_and_cursors_set_there() -> None:
    async def scenario(wires: Wires) -> None:
        leader = await wires.created(segments=4, subscriptions={"s": pb.QUEUE})
        ranges = {each: value["hashRange"] for each, value in layout_of(
            await leader.call("DescribeTopic", topic=TOPIC)
        ).items()}  # fmt: skip
        names = {each: segment(each, found["start"], found["end"]) for each, found in ranges.items()}
        for each, name in names.items():
            owner = await owner_of(wires, name)
            await published(owner.client, name, *(str(number) for number in range(each + 1)))
        told = await leader.call("TopicStats", topic=TOPIC)
        assert {each: dict(found.backlog_entries) for each, found in told.segments.items()} == {
            each: {"s": each + 1} for each in names
        }
        assert told.subscriptions["s"].backlog_entries == 10
        await leader.call("SeekTopicSubscription", topic=TOPIC, subscription="s", end=True)
        assert (await leader.call("TopicStats", topic=TOPIC)).subscriptions["s"].backlog_entries == 0
        await leader.call("SeekTopicSubscription", topic=TOPIC, subscription="s", time_ms=1)
        assert (await leader.call("TopicStats", topic=TOPIC)).subscriptions["s"].backlog_entries == 10

    run_brokers(scenario)


def test_numbers_say_what_was_read_to_its_end() -> None:
    async def scenario(wires: Wires) -> None:
        leader = await wires.created(subscriptions={"s": pb.STREAM, "c": pb.CHECKPOINT})
        owner = await owner_of(wires, segment(0))
        (position,) = await published(owner.client, segment(0), "a")
        await leader.call("SplitSegment", topic=TOPIC, segment_id=0)
        told = await leader.call("TopicStats", topic=TOPIC)
        assert list(told.segments[0].drained_by) == []
        consumer = await owner.client.consume(segment(0), "s")
        await deliveries(consumer, 1)
        await consumer.say(acknowledge(1, position))
        await acknowledged(consumer, 1)
        await leader.call("NoteDrained", topic=TOPIC, subscription="c", segment_ids=[0])
        while list((await leader.call("TopicStats", topic=TOPIC)).segments[0].drained_by) != ["c", "s"]:
            await asyncio.sleep(0)
        wrong = await refusal(leader.call("NoteDrained", topic=TOPIC, subscription="s", segment_ids=[0]))
        assert wrong.name == "WrongKind"

    run_brokers(scenario)


def test_an_owner_who_cannot_be_asked_keeps_no_numbers_back() -> None:
    async def scenario() -> None:
        async with brokers(1) as wires:
            (wire,) = wires.all
            await wire.call("CreateTopic", topic=TOPIC, segments=2, subscriptions={"s": pb.STREAM})
            told = await wire.call("DescribeTopic", topic=TOPIC)
            found = layout_of(told)[1]["hashRange"]
            # Somebody has taken a segment away by force.
            await wire.client.call("DeleteSegment", segment=segment(1, found["start"], found["end"]))
            numbers = await wire.call("TopicStats", topic=TOPIC)
            assert dict(numbers.segments[0].backlog_entries) == {"s": 0}
            assert dict(numbers.segments[1].backlog_entries) == {}

    asyncio.run(scenario())


def test_scaling_is_explained() -> None:
    async def scenario(wires: Wires) -> None:
        (wire,) = wires.all
        await wire.call("CreateTopic", topic=TOPIC)
        told = await wire.call("ExplainScaling", topic=TOPIC)
        assert told.now.action == "none"
        await wire.call("SetPolicy", topic=TOPIC, auto_scale='{"enabled": true, "minSegments": 1}')
        while not (log := (await wire.call("ExplainScaling", topic=TOPIC)).log):
            await asyncio.sleep(0)
        assert log[-1].times >= 1
        assert {trigger for each in log for trigger in each.triggers} & {"policy", "elected"}
        numbers = await wire.call("TopicStats", topic=TOPIC)
        assert json.loads(numbers.effective_auto_scale)["enabled"] is True
        assert numbers.is_busy is False

    run_brokers(scenario, count=1)
