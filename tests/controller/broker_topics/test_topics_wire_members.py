"""The stream of a consumer to whom segments are assigned."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from topics_wire import TOPIC, TopicWire, Wires, brokers, run_brokers, segment_ids

from controller.broker.topics.config import TopicsConfig
from controller.broker.topics.members import Mailbox
from controller.pb import topics_pb2 as pb
from controller.subscriptions import Assigned, Ended, EndReason
from support.broker_helpers import Refused, WireStream

LEAVE = pb.SubscribeRequest(leave=pb.LeaveGroup())


async def assignment(stream: WireStream) -> pb.Assignment:
    """The next thing that is told, which has to be an assignment."""
    response = await stream.next()
    assert response.HasField("assignment"), response
    found: pb.Assignment = response.assignment
    return found


async def assigned(stream: WireStream, wanted: list[int]) -> pb.Assignment:
    """The assignment of just these segments, passing over older ones."""
    while segment_ids(found := await assignment(stream)) != wanted:
        pass
    return found


async def end_of(stream: WireStream) -> str:
    """Why a consumer is told nothing any more; then the stream is over."""
    while not (response := await stream.next()).HasField("ended"):
        assert response.HasField("assignment")
    assert await stream.next() is None
    return pb.MemberEnded.Reason.Name(response.ended.reason)


def test_segments_are_divided_among_those_who_come_and_leave() -> None:
    async def scenario(wires: Wires) -> None:
        leader = await wires.created(segments=4)
        one = await leader.member("one")
        first = await assignment(one)
        assert segment_ids(first) == [0, 1, 2, 3]
        assert first.segments[0].segment.startswith("segment://public/default/orders/0000-3fff-")
        assert (first.segments[0].start, first.segments[0].end) == (0, 0x3FFF)
        two = await leader.member("two")
        of_two, of_one = await assignment(two), await assignment(one)
        assert sorted(segment_ids(of_one) + segment_ids(of_two)) == [0, 1, 2, 3]
        assert len(of_one.segments) == len(of_two.segments) == 2
        assert of_one.generation == of_two.generation > first.generation
        assert of_one.term == first.term
        await two.say(LEAVE)
        assert await end_of(two) == "LEFT"
        assert segment_ids(await assignment(one)) == [0, 1, 2, 3]
        numbers = (await leader.call("TopicStats", topic=TOPIC)).subscriptions["sub"]
        (consumer,) = numbers.consumers
        assert (consumer.consumer, consumer.is_connected, len(consumer.segments)) == ("one", True, 4)

    run_brokers(scenario)


def test_who_comes_back_in_its_grace_moves_nothing() -> None:
    async def scenario(wires: Wires) -> None:
        leader = await wires.created(segments=4)
        one, two = await leader.member("one"), await leader.member("two")
        before = await assignment(two)
        await assignment(one)
        two.call.cancel()
        while True:
            consumers = (await leader.call("TopicStats", topic=TOPIC)).subscriptions["sub"].consumers
            if [each.is_connected for each in consumers] == [True, False]:
                break
            await asyncio.sleep(0)
        again = await leader.member("two", start=None)
        assert await assignment(again) == before

    run_brokers(scenario)


def test_a_stream_that_is_half_closed_begins_the_grace() -> None:
    async def scenario(wires: Wires) -> None:
        leader = await wires.created()
        one = await leader.member("one")
        await assignment(one)
        await one.half_close()
        assert await one.next() is None
        (consumer,) = (await leader.call("TopicStats", topic=TOPIC)).subscriptions["sub"].consumers
        assert (consumer.is_connected, len(consumer.segments)) == (False, 1)

    run_brokers(scenario, count=1)


def test_after_the_grace_others_have_what_it_had() -> None:
    async def scenario(wires: Wires) -> None:
        leader = await wires.created(segments=2)
        one, two = await leader.member("one"), await leader.member("two")
        await assignment(two)
        two.call.cancel()
        await assigned(one, [0, 1])

    quick = TopicsConfig(scalable_topic_auto_scale_enabled=False, scalable_topic_consumer_session_grace_period_s=0.05)
    run_brokers(scenario, topics=quick, count=1)


def test_the_newer_connection_of_a_name_stays() -> None:
    async def scenario(wires: Wires) -> None:
        leader = await wires.created()
        first = await leader.member("one")
        told = await assignment(first)
        second = await leader.member("one")
        assert await assignment(second) == told
        assert await end_of(first) == "REPLACED"

    run_brokers(scenario, count=1)


def test_a_subscription_or_a_topic_that_goes_says_so() -> None:
    async def scenario(wires: Wires) -> None:
        leader = await wires.created()
        one, other = await leader.member("one"), await leader.member("one", "other")
        await assignment(one)
        await assignment(other)
        await leader.call("DeleteTopicSubscription", topic=TOPIC, subscription="sub")
        assert await end_of(one) == "DELETED"
        await leader.call("DeleteTopic", topic=TOPIC)
        assert await end_of(other) == "DELETED"

    run_brokers(scenario, count=1)


@pytest.mark.parametrize(
    ("opening", "name"),
    [
        ({"start": None}, "SubscriptionNotFound"),
        ({"kind": pb.QUEUE}, "WrongKind"),
        ({"kind": 9}, "InvalidRequest"),
        ({"start": 9}, "InvalidRequest"),
        ({"consumer": ""}, "InvalidName"),
        ({"subscription": ""}, "InvalidName"),
        ({"subscription": "queue"}, "WrongKind"),
        ({"topic": "none"}, "TopicNotFound"),
    ],
)
def test_who_cannot_register(opening: dict[str, Any], name: str) -> None:
    async def scenario(wires: Wires) -> None:
        (wire,) = wires.all
        await wire.call("CreateTopic", topic=TOPIC, subscriptions={"queue": pb.QUEUE})
        stream = await wire.member(**{"consumer": "one", **opening})
        assert (await stream.refusal()).name == name

    run_brokers(scenario, count=1)


def test_streams_that_make_no_sense() -> None:
    async def scenario(wires: Wires) -> None:
        leader = await wires.created()
        stream = WireStream(leader.client.channel.stream_stream("/tidemark.topics.v1.Topics/Subscribe")(), pb.WorkDone)
        await stream.say(LEAVE)
        assert (await stream.refusal()).name == "InvalidRequest"
        twice = await leader.member("one")
        await assignment(twice)
        await twice.say(pb.SubscribeRequest(open=pb.OpenMember(topic=TOPIC)))
        assert (await twice.refusal()).name == "InvalidRequest"

    run_brokers(scenario, count=1)


def test_who_does_not_lead_sends_consumers_on() -> None:
    async def scenario(wires: Wires) -> None:
        leader, other = await wires.created(), await wires.other()
        refused = await (await other.member("one")).refusal()
        assert (refused.name, refused.metadata) == ("NotLeader", {"address": leader.broker.address})

    run_brokers(scenario)


def test_when_the_leader_ends_the_next_goes_on_with_what_there_was() -> None:
    async def scenario() -> None:
        async with brokers(1) as first:
            (ending,) = first.all
            store = ending.broker._store
            assert store is not None
            await ending.call("CreateTopic", topic=TOPIC, segments=2)
            one, two = await ending.member("one"), await ending.member("two")
            before = {"one": await assignment(one), "two": await assignment(two)}
            before["one"] = await newest(ending, one, before["one"])
            async with brokers(1, store=store, log="metastore") as rest:
                (staying,) = rest.all
                await first.all[0].broker.__aexit__(None, None, None)
                for stream in (one, two):
                    assert await end_or_refusal(stream) in ("MOVED", "BrokerStopping")
                leader = await rest.leader()
                for name in ("two", "one"):
                    again = await leader.member(name, start=None)
                    told = await assignment(again)
                    assert segment_ids(told) == segment_ids(before[name])
                    assert told.generation == before["two"].generation
                    assert told.term > before[name].term
                assert staying is leader

    asyncio.run(scenario())


async def newest(wire: TopicWire, stream: WireStream, told: pb.Assignment) -> pb.Assignment:
    """What a consumer has by the newest division."""
    generation = (await wire.call("TopicStats", topic=TOPIC)).subscriptions["sub"].generation
    return told if told.generation == generation else await assignment(stream)


async def end_or_refusal(stream: WireStream) -> str:
    """How a stream ends whose broker does."""
    try:
        return await end_of(stream)
    except Refused as refused:
        return refused.name


def test_of_two_assignments_that_wait_the_later_one_is_told_and_the_end_is_the_last() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        for generation in (1, 2):
            mailbox.put(Assigned(1, generation, 0, ()))
        assert (await mailbox.take()).assignment.generation == 2
        mailbox.put(Assigned(1, 3, 0, ()))
        mailbox.put(Ended(EndReason.MOVED))
        mailbox.end(pb.MemberEnded.LEFT)
        assert (await mailbox.take()).ended.reason == pb.MemberEnded.MOVED

    asyncio.run(scenario())
