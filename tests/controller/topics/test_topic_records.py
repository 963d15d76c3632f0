"""Topics' records: created once, changed by everybody at once, found by their properties."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from controller.layout import InvalidName, Layout, NamespaceName, TopicName, TopicRecord
from controller.topics import InvalidTopic, TopicExists, TopicNotFound, Topics, paths
from controller.topics.records import PROPERTIES_MAX, UPDATE_ATTEMPTS_MAX, fenced
from metastore.coordination import Deposed, Election, Grant
from metastore.interface import Put, UnexpectedVersion
from metastore.providers.memory import Part
from support.vectors import cases
from support.world import World, run

NAMESPACE = NamespaceName("t", "ns")
TOPIC = TopicName.parse("topic://t/ns/a b/c")
STORES = pytest.mark.parametrize("lacks", [(), ("transact",)], ids=["transact", "plain"])


def record(**properties: str) -> TopicRecord:
    return TopicRecord(Layout.initial(1, 0), properties)


def counted(before: TopicRecord) -> TopicRecord:
    count = int(before.properties.get("count", "0")) + 1
    return replace(before, properties={**before.properties, "count": str(count)})


@STORES
def test_a_topic_is_created_once_and_read_as_it_was_written(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World) -> None:
        topics = [Topics(process.store, process.pace) for process in (world.process(), world.process())]
        results = await asyncio.gather(
            *(each.create(TOPIC, record(who=str(number))) for number, each in enumerate(topics)), return_exceptions=True
        )
        assert {type(each) for each in results} == {int, TopicExists}
        (winner,) = (number for number, each in enumerate(results) if isinstance(each, int))
        for each in topics:
            assert (await each.read(TOPIC)).record == record(who=str(winner))

    run(scenario, lacks=lacks)


def test_changes_of_many_are_all_kept() -> None:
    async def scenario(world: World) -> None:
        processes = [world.process() for _ in range(4)]
        topics = [Topics(process.store, process.pace) for process in processes]
        await topics[0].create(TOPIC, record())
        tasks = [processes[0].start(each.update(TOPIC, counted)) for each in topics]
        while not all(task.done() for task in tasks):
            await world.pass_ms(100)
        assert (await topics[0].read(TOPIC)).record.properties == {"count": "4"}

    run(scenario)


def test_an_update_gives_up_at_its_limit() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        topics = Topics(process.store, process.pace)
        await topics.create(TOPIC, record())
        process.script.fail("put", UnexpectedVersion("always", TOPIC.path, None), times=UPDATE_ATTEMPTS_MAX)
        task = process.start(topics.update(TOPIC, counted))
        while not task.done():
            await world.pass_ms(5_000)
        with pytest.raises(TopicExists, match="UPDATE_ATTEMPTS_MAX"):
            await task

    run(scenario)


def test_what_is_not_there_is_named() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        topics = Topics(process.store, process.pace)
        assert await topics.find(TOPIC) is None
        for call in (topics.read(TOPIC), topics.update(TOPIC, counted)):
            with pytest.raises(TopicNotFound, match="a b/c"):
                await call

    run(scenario)


def test_properties_have_limits() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        topics = Topics(process.store, process.pace)
        await topics.create(TOPIC, record(**{f"p{number}": "" for number in range(PROPERTIES_MAX)}))
        too_many = {f"p{number}": "" for number in range(PROPERTIES_MAX + 1)}
        for properties in (too_many, {"": "x"}, {"x": "y" * 5_000}):
            with pytest.raises(InvalidTopic):
                await topics.create(TopicName.parse("topic://t/ns/other"), record(**properties))

    run(scenario)


def test_topics_are_found_by_properties_as_recorded() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        topics = Topics(process.store, process.pace)
        for case in cases("filters"):
            names = [TopicName.parse(name) for name in case["topics"]]
            for name, properties in zip(names, case["topics"].values(), strict=True):
                await topics.create(name, record(**properties))
            for ask in case["asks"]:
                found = {str(name) async for name in topics.names(names[0].parent, ask["filters"])}
                assert found == set(ask["found"]), ask

    run(scenario)


def test_a_property_that_changes_leads_to_the_topic_by_its_new_value_alone() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        topics = Topics(process.store, process.pace)
        await topics.create(TOPIC, record(owner="alice"))
        await topics.update(TOPIC, lambda before: replace(before, properties={"owner": "bob"}))
        assert [name async for name in topics.names(NAMESPACE, {"owner": "alice"})] == []
        assert [name async for name in topics.names(NAMESPACE, {"owner": "bob"})] == [TOPIC]

    run(scenario)


async def deposed(world: World) -> tuple[Grant, int, Topics, Grant]:
    """A leader who does not know yet that he is none, the version that he knows of a topic, and who leads instead."""
    old, new = world.process(), world.process()
    topics = Topics(old.store, old.pace)
    await topics.create(TOPIC, record())
    elections = [
        Election(each.store, paths.controller_key(TOPIC), partition_key=paths.partition(TOPIC), pace=each.pace)
        for each in (old, new)
    ]
    grant = await elections[0].campaign()
    version = (await topics.read(TOPIC)).version_id
    successor = new.start(elections[1].campaign())
    old.store.line.cut(Part.HEARTBEATS, Part.WATCHES)
    await world.pass_ms(20_000, frozen=(old,))
    assert successor.done()
    return grant, version, Topics(new.store, new.pace), successor.result()


@STORES
def test_h1_a_deposed_leader_writes_nothing(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World) -> None:
        grant, version, rival, successor = await deposed(world)
        await rival.update(TOPIC, counted, grant=successor)
        with pytest.raises((Deposed, UnexpectedVersion)):
            await fenced(grant, Put(TOPIC.path, record(late="yes").encode(), version))
        assert (await rival.read(TOPIC)).record.properties == {"count": "1"}

    run(scenario, lacks=lacks)


def test_h1_a_deposed_leader_writes_nothing_though_nobody_else_has_written_yet() -> None:
    """The record is as he knows it: it is his term alone that keeps him out."""

    async def scenario(world: World) -> None:
        grant, version, rival, _ = await deposed(world)
        with pytest.raises(Deposed):
            await fenced(grant, Put(TOPIC.path, record(late="yes").encode(), version))
        assert (await rival.read(TOPIC)).version_id == version

    run(scenario)


names: Any = ["s", "s-1", "a/b", "a%2Fb", "a b", "é"]


@pytest.mark.parametrize("subscription", names)
@pytest.mark.parametrize("consumer", names)
def test_h20_names_of_subscriptions_and_consumers_are_encoded(subscription: str, consumer: str) -> None:
    key = paths.consumer_key(TOPIC, subscription, consumer)
    assert key.startswith(paths.consumers_path(TOPIC, subscription) + "/")
    assert key.count("/") == TOPIC.path.count("/") + 4
    assert (paths.subscription_of_key(key), paths.consumer_of_key(key)) == (subscription, consumer)
    assert paths.topic_of_key(key) == TOPIC
    assert not paths.is_topic_key(key)
    assert paths.is_topic_key(TOPIC.path)


def test_blank_names_are_refused() -> None:
    for name in ("", " ", "x" * 5_000):
        with pytest.raises(InvalidName):
            paths.subscription_key(TOPIC, name)


def test_segments_loads_have_their_keys() -> None:
    assert paths.segment_id_of_key(paths.load_key(TOPIC, 17)) == 17
