"""The streams that follow a topic, and the topics of a namespace: on any broker."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
from topics_wire import TOPIC, TopicWire, Wires, active, brokers, refusal, run_brokers

from controller.broker import BrokerLimits
from controller.watches import hash_of
from support.broker_helpers import Refused, WireStream

NAMESPACE = "public/default"


async def state(stream: WireStream) -> Any:
    """The next state that is told."""
    update = await stream.next()
    assert update.HasField("state"), update
    return update.state


async def state_with(stream: WireStream, segment_ids: list[int]) -> Any:
    """The first state that is told with these active segments."""
    while active(told := await state(stream)) != segment_ids:
        pass
    return told


def test_a_topic_is_followed_on_every_broker() -> None:
    async def scenario(wires: Wires) -> None:
        leader = await wires.created()
        streams = [each.watch("WatchTopic", topic="orders") for each in wires.all]
        for stream in streams:
            assert active(await state(stream)) == [0]
        await leader.call("SplitSegment", topic=TOPIC, segment_id=0)
        told = [await state_with(stream, [1, 2]) for stream in streams]
        assert {each.version_id for each in told} == {told[0].version_id}
        assert {each.leader.address for each in told} == {leader.broker.address}
        await leader.call("DeleteTopic", topic=TOPIC)
        for stream in streams:
            while not (update := await stream.next()).HasField("gone"):
                assert update.HasField("state")
        await leader.call("CreateTopic", topic=TOPIC, segments=3)
        for stream in streams:
            assert (await state_with(stream, [0, 1, 2])).version_id > told[0].version_id

    run_brokers(scenario)


def test_nothing_older_is_told_than_was_seen() -> None:
    async def scenario(wires: Wires) -> None:
        leader = await wires.created()
        before = await leader.call("DescribeTopic", topic=TOPIC)
        stream = leader.watch("WatchTopic", topic=TOPIC, seen_version_id=before.version_id + 1)
        after = await leader.call("SetProperties", topic=TOPIC, properties={"a": "b"})
        assert after.version_id > before.version_id
        assert (await state(stream)).record == after.record

    run_brokers(scenario, count=1)


def test_a_topic_that_is_not_there_is_gone_until_it_is_there() -> None:
    async def scenario(wires: Wires) -> None:
        one, two = wires.all
        stream = one.watch("WatchTopic", topic=TOPIC)
        assert (await stream.next()).HasField("gone")
        await two.call("CreateTopic", topic=TOPIC, segments=2)
        assert active(await state(stream)) == [0, 1]

    run_brokers(scenario)


def test_who_watches_may_create() -> None:
    async def scenario(wires: Wires) -> None:
        streams = [each.watch("WatchTopic", topic=TOPIC, creates=True) for each in (*wires.all, *wires.all)]
        for stream in streams:
            await state_with(stream, [0])
        await wires.all[0].call("CreateTopic", topic="other", segments=2)
        assert active(await state(wires.all[1].watch("WatchTopic", topic="other", creates=True))) == [0, 1]

    run_brokers(scenario)


def test_what_cannot_be_watched() -> None:
    async def scenario(wires: Wires) -> None:
        (wire,) = wires.all
        for method, fields, name in (
            ("WatchTopic", {"topic": ""}, "InvalidName"),
            ("WatchTopic", {"topic": "orders-partition-1"}, "InvalidName"),
            ("WatchTopic", {"topic": "non-persistent://public/default/orders"}, "InvalidName"),
            ("WatchNamespace", {"namespace": "public"}, "InvalidName"),
            ("WatchNamespace", {"namespace": NAMESPACE, "properties": {"": "x"}}, "InvalidTopic"),
        ):
            assert (await wire.watch(method, **fields).refusal()).name == name

    run_brokers(scenario, count=1)


async def topics_told(stream: WireStream, known: set[str], wanted: set[str]) -> None:
    """Follows a namespace until what was told makes this set."""
    while known != wanted:
        update = await stream.next()
        assert update.HasField("diff"), update
        known -= set(update.diff.removed)
        known |= set(update.diff.added)


def test_a_namespace_is_told_in_pages_then_in_differences() -> None:
    async def scenario(wires: Wires) -> None:
        one, two = wires.all
        names = [f"topic://public/default/t{number}" for number in range(3)]
        for name in names:
            await one.call("CreateTopic", topic=name, properties={"team": "a"})
        await one.call("CreateTopic", topic="elsewhere", properties={"team": "b"})
        stream = two.watch("WatchNamespace", namespace=NAMESPACE, properties={"team": "a"})
        page = (await stream.next()).page
        assert (list(page.topics), page.is_first, page.is_last) == (names, True, True)
        known = set(names)
        await one.call("SetProperties", topic=names[0], properties={"team": "b"})
        await one.call("SetProperties", topic="elsewhere", properties={"team": "a"})
        await topics_told(stream, known, {names[1], names[2], "topic://public/default/elsewhere"})
        leader = await wires.leader(names[1])
        await leader.call("DeleteTopic", topic=names[1])
        await topics_told(stream, known, {names[2], "topic://public/default/elsewhere"})

    run_brokers(scenario)


def test_who_has_the_right_set_is_told_that_and_nothing_else() -> None:
    async def scenario(wires: Wires) -> None:
        one, two = wires.all
        await one.call("CreateTopic", topic=TOPIC)
        known = {TOPIC}
        stream = two.watch("WatchNamespace", namespace=NAMESPACE, known_hash=hash_of(known))
        assert (await stream.next()).HasField("unchanged")
        await one.call("CreateTopic", topic="other")
        await topics_told(stream, known, {TOPIC, "topic://public/default/other"})
        wrong = two.watch("WatchNamespace", namespace=NAMESPACE, known_hash=hash_of({"x"}))
        assert set((await wrong.next()).page.topics) == known

    run_brokers(scenario)


def test_an_empty_namespace_is_a_page_without_names() -> None:
    async def scenario(wires: Wires) -> None:
        (wire,) = wires.all
        page = (await wire.watch("WatchNamespace", namespace="a/b").next()).page
        assert (list(page.topics), page.is_first, page.is_last) == ([], True, True)

    run_brokers(scenario, count=1)


def test_sessions_are_as_many_as_may_be_and_end_with_the_broker() -> None:
    async def scenario() -> None:
        async with brokers(1, limits=BrokerLimits(sessions_max=2)) as wires:
            (wire,) = wires.all
            await wire.call("CreateTopic", topic=TOPIC)
            first = wire.watch("WatchTopic", topic=TOPIC)
            await state(first)
            second = wire.watch("WatchNamespace", namespace=NAMESPACE)
            await second.next()
            refused = await wire.watch("WatchTopic", topic=TOPIC).refusal()
            assert (refused.name, refused.branch) == ("TooManyStreams", "retriable")
            assert "sessions_max" in refused.text
            assert refused.code is grpc.StatusCode.RESOURCE_EXHAUSTED
            second.call.cancel()
            third = await freed(wire)
            await wire.broker.__aexit__(None, None, None)
            for stream in (first, third):
                assert (await stream.refusal()).name == "BrokerStopping"

    asyncio.run(scenario())


async def freed(wire: TopicWire) -> WireStream:
    """A watch, as soon as there is room for one."""
    while True:
        stream = wire.watch("WatchTopic", topic=TOPIC)
        try:
            await state(stream)
        except Refused as refused:
            if refused.name != "TooManyStreams":
                raise
        else:
            return stream


def test_a_client_that_takes_nothing_is_told_the_newest() -> None:
    async def scenario(wires: Wires) -> None:
        (wire,) = wires.all
        await wire.call("CreateTopic", topic=TOPIC)
        slow = wire.watch("WatchTopic", topic=TOPIC)
        await state(slow)
        filler = "x" * 4_000
        for number in range(200):
            last = await wire.call("SetProperties", topic=TOPIC, properties={"n": str(number), "filler": filler})
        told = 0
        while (await state(slow)).version_id != last.version_id:
            told += 1
        assert told < 200, "states that nobody has taken give way to newer ones"
        assert (await refusal(wire.call("DescribeTopic", topic="none"))).name == "TopicNotFound"

    run_brokers(scenario, count=1)
