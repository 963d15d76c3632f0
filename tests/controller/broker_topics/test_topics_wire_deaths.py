"""Brokers that stop, die, or are cut off: their topics and segments are others' soon, and nobody changes them twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from topics_wire import TOPIC, TopicWire, Wires, active, brokers, layout_of, segment_ids

from controller.pb import topics_pb2 as pb
from metastore.interface import open_store
from support.broker_helpers import WireClient, WireStream
from support.broker_process import BrokerProcess
from support.server import ServerProcess

LONG_S = 60.0


def test_a_broker_that_stops_is_followed_and_a_split_goes_on() -> None:
    async def scenario() -> None:
        async with await open_store("memory://") as store, brokers(3, store=store) as wires:
            leader = await wires.created(segments=3, subscriptions={"s": pb.STREAM})
            rest = Wires([each for each in wires.all if each is not leader])
            await leader.broker.__aexit__(None, None, None)
            next_leader = await rest.leader()
            assert next_leader is not leader
            told = await next_leader.call("SplitSegment", topic=TOPIC, segment_id=1)
            assert active(told) == [0, 2, 3, 4]
            stats = await next_leader.call("TopicStats", topic=TOPIC)
            assert {each: dict(found.backlog_entries) for each, found in stats.segments.items()} == {
                each: {"s": 0} for each in range(5)
            }

    asyncio.run(scenario())


def killed(scenario: Callable[[str, BrokerProcess, BrokerProcess], Coroutine[Any, Any, None]]) -> None:
    """Runs a scenario with two broker processes, one of which it may kill."""
    arguments = ("--log", "metastore", "--session-timeout-ms", "2000", "--scalable-topic-retention-minutes", "-1")
    with ServerProcess() as server:
        url = f"oxia://{server.address}"
        with BrokerProcess(url, *arguments) as first, BrokerProcess(url, *arguments) as second:
            asyncio.run(scenario(url, first, second))


async def led_by(stream: WireStream, address: str) -> Any:
    """The state of a topic that is led, and whose segments are all owned, by this broker."""
    while True:
        told = (await stream.next()).state
        owners = {each.address for each in told.owners.values()}
        if told.leader.address == address and owners == {address} and len(told.owners) == len(layout_of(told)):
            return told


def test_topics_and_segments_of_a_broker_that_is_killed_are_the_others() -> None:
    async def scenario(url: str, first: BrokerProcess, second: BrokerProcess) -> None:
        await first.ready()
        await second.ready()
        async with WireClient(first.address) as one, WireClient(second.address) as two:
            wires = {first.address: TopicWire(None, one), second.address: TopicWire(None, two)}
            made = await wires[first.address].call(
                "CreateTopic", topic=TOPIC, segments=4, subscriptions={"sub": pb.STREAM}
            )
            while not made.HasField("leader"):
                made = await wires[first.address].call("DescribeTopic", topic=TOPIC)
            victim, left = (first, second) if made.leader.address == first.address else (second, first)
            member = await wires[victim.address].member("one")
            before = (await member.next()).assignment
            watch = wires[left.address].watch("WatchTopic", topic=TOPIC)
            await asyncio.to_thread(victim.kill)
            async with asyncio.timeout(LONG_S):
                told = await led_by(watch, left.address)
            assert told.leader.term > made.leader.term
            assert (await member.refusal()).branch == ""
            survivor = wires[left.address]
            again = (await (await survivor.member("one", start=None)).next()).assignment
            assert (again.generation, segment_ids(again)) == (before.generation, segment_ids(before))
            assert again.term > before.term
            assert active(await survivor.call("SplitSegment", topic=TOPIC, segment_id=0)) == [1, 2, 3, 4, 5]

    killed(scenario)
