"""The exclusive right to produce, over the wire: who has it, who is refused, and what segments hear of it."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from topics_wire import TOPIC, TopicWire, Wires, active, brokers, layout_of, refusal, run_brokers

from controller.broker.topics.config import TopicsConfig
from controller.layout import HashRange, TopicName
from controller.pb import broker_pb2
from controller.pb import topics_pb2 as pb
from support.broker_helpers import Refused, WireStream, published, sends

NAME = TopicName.parse(TOPIC)
EXCLUSIVE, FENCING, WAIT = pb.ClaimTopicRequest.EXCLUSIVE, pb.ClaimTopicRequest.FENCING, pb.ClaimTopicRequest.WAIT
QUICK = TopicsConfig(scalable_topic_auto_scale_enabled=False, scalable_topic_producer_claim_grace_period_s=0.05)


def claim(wire: TopicWire, producer: str, mode: Any = EXCLUSIVE, had: int = 0) -> WireStream:
    return wire.watch("ClaimTopic", topic=TOPIC, producer=producer, mode=mode, claim=had)


async def granted(stream: WireStream) -> int:
    """The number of a claim that is granted."""
    found: int = (await stream.next()).claim
    return found


async def produced(wires: Wires, number: int) -> list[str]:
    """What becomes of an entry for each active segment that is sent with this claim: the errors' names."""
    told = await wires.all[0].call("DescribeTopic", topic=TOPIC)
    outcomes = []
    for segment_id in active(told):
        bounds = layout_of(told)[segment_id]["hashRange"]
        segment = str(NAME.segment(HashRange(bounds["start"], bounds["end"]), segment_id))
        owner = await wires.all[0].client.call("LookupSegment", segment=segment)
        (wire,) = (each for each in wires.all if each.broker.address == owner.address)
        stream = wire.client.stream("Produce", broker_pb2.ProduceResponse)
        opening = broker_pb2.OpenProducer(segment=segment, producer="p", claim=number)
        await stream.say(broker_pb2.ProduceRequest(open=opening))
        await stream.say(sends("x"))
        await stream.half_close()
        try:
            while (await stream.next()) is not None:
                pass
            outcomes.append("")
        except Refused as refused:
            outcomes.append(refused.name)
    return outcomes


def test_one_has_the_right_and_everybody_else_is_refused() -> None:
    async def scenario(wires: Wires) -> None:
        leader = await wires.created(segments=4)
        assert await produced(wires, 0) == [""] * 4
        first = claim(leader, "one")
        assert await granted(first) == 1
        assert await produced(wires, 1) == [""] * 4
        assert await produced(wires, 0) == ["ProducerFenced"] * 4
        busy = await claim(leader, "two").refusal()
        assert (busy.name, busy.branch, busy.code) == ("ProducerBusy", "retriable", grpc.StatusCode.UNAVAILABLE)
        second = claim(leader, "two", FENCING)
        assert await granted(second) == 2
        assert (await first.refusal()).name == "ProducerFenced"
        assert await produced(wires, 1) == ["ProducerFenced"] * 4
        assert await produced(wires, 2) == [""] * 4

    run_brokers(scenario)


def test_children_have_heard_of_it_before_anybody_sees_them() -> None:
    async def scenario(wires: Wires) -> None:
        leader = await wires.created()
        holder = claim(leader, "one")
        await granted(holder)
        await leader.call("SplitSegment", topic=TOPIC, segment_id=0)
        assert await produced(wires, 0) == ["ProducerFenced"] * 2
        assert await produced(wires, 1) == [""] * 2

    run_brokers(scenario)


def test_who_comes_back_in_its_grace_has_the_number_it_had() -> None:
    async def scenario(wires: Wires) -> None:
        leader = await wires.created()
        first = claim(leader, "one")
        assert await granted(first) == 1
        first.call.cancel()
        assert await granted(claim(leader, "one", had=1)) == 1
        assert (await claim(leader, "two").refusal()).name == "ProducerBusy"

    run_brokers(scenario, count=1)


def test_a_producer_that_is_there_twice_is_fenced_by_itself() -> None:
    async def scenario(wires: Wires) -> None:
        leader = await wires.created()
        first = claim(leader, "one")
        assert await granted(first) == 1
        second = claim(leader, "one")
        assert await granted(second) == 2
        assert (await first.refusal()).name == "ProducerFenced"

    run_brokers(scenario, count=1)


def test_after_the_grace_the_right_is_free_and_who_waits_has_it() -> None:
    async def scenario(wires: Wires) -> None:
        leader = await wires.created()
        first = claim(leader, "one")
        await granted(first)
        waiting = claim(leader, "two", WAIT)
        first.call.cancel()
        assert await granted(waiting) == 2
        waiting.call.cancel()
        while await produced(wires, 0) != [""]:
            await asyncio.sleep(0)

    run_brokers(scenario, topics=QUICK, count=1)


def test_what_is_given_back_is_free_at_once() -> None:
    async def scenario(wires: Wires) -> None:
        leader = await wires.created()
        first = claim(leader, "one")
        number = await granted(first)
        await leader.call("ReleaseClaim", topic=TOPIC, producer="one", claim=number + 1)
        assert await produced(wires, 0) == ["ProducerFenced"]
        await leader.call("ReleaseClaim", topic=TOPIC, producer="one", claim=number)
        assert await first.next() is None
        assert await produced(wires, 0) == [""]
        assert (await claim(leader, "one", had=number).refusal()).name == "ProducerFenced"
        assert await granted(claim(leader, "two")) == 2

    run_brokers(scenario, count=1)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"producer": ""}, "InvalidName"),
        ({"mode": 9}, "InvalidRequest"),
        ({"topic": "none"}, "TopicNotFound"),
    ],
)
def test_claims_that_cannot_be(fields: dict[str, Any], name: str) -> None:
    async def scenario(wires: Wires) -> None:
        leader = await wires.created()
        stream = leader.watch("ClaimTopic", **{"topic": TOPIC, "producer": "one", **fields})
        assert (await stream.refusal()).name == name

    run_brokers(scenario, count=1)


def test_the_next_leader_knows_who_has_the_right() -> None:
    async def scenario() -> None:
        async with brokers(1) as first:
            (ending,) = first.all
            store = ending.broker._store
            await ending.call("CreateTopic", topic=TOPIC)
            holder = claim(ending, "one")
            assert await granted(holder) == 1
            async with brokers(1, store=store) as rest:
                await ending.broker.__aexit__(None, None, None)
                assert (await holder.refusal()).name in ("BrokerStopping", "NotLeader")
                leader = await rest.leader()
                assert (await claim(leader, "two").refusal()).name == "ProducerBusy"
                again = claim(leader, "one", had=1)
                assert await granted(again) == 1
                assert await produced(rest, 1) == [""]
                assert await produced(rest, 0) == ["ProducerFenced"]

    asyncio.run(scenario())


def test_a_topic_that_is_created_anew_is_nobodys() -> None:
    async def scenario(wires: Wires) -> None:
        leader = await wires.created()
        holder = claim(leader, "one")
        await granted(holder)
        await leader.call("DeleteTopic", topic=TOPIC)
        assert (await holder.refusal()).name == "NotLeader"
        while (await leader.client.call("ListSegments")).segments:
            await asyncio.sleep(0)
        leader = await wires.created()
        segment = str(NAME.segment(HashRange(0, 0xFFFF), 0))
        await published(leader.client, segment, "a")
        assert await granted(claim(leader, "two")) == 1
        assert (await refusal(leader.call("ReleaseClaim", topic="none", producer="p"))).name == "TopicNotFound"

    run_brokers(scenario, count=1)
