"""A topic that goes and comes, and a store that lags: nothing older is told, and no end is missed (H12)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from watches_stage import TOPIC, Broker, split

from controller.layout import Layout, TopicRecord
from controller.watches import TopicGone, TopicState
from controller.watches.pictures import Picture
from metastore.interface import Unavailable, Version
from metastore.providers.memory import Part
from support.world import World, run, settle
from txn.hosting import Owner


def test_h12_a_deletion_is_told_and_what_comes_after_it() -> None:
    """In Pulsar a deletion is never told, and a reconnected session dies of it in silence."""

    async def scenario(world: World) -> None:
        broker = Broker(world)
        await broker.create("t1")
        await split(broker, 0)
        client = broker.watch_topic()
        await settle()
        await broker.delete("t1")
        await settle()
        assert client.events[1:] == [TopicGone()]
        await broker.create("t1")
        await settle()
        assert client.state.layout.epoch == 0
        assert not client.task.done()

    run(scenario)


@pytest.mark.parametrize("is_cut", [False, True])
def test_h12_a_topic_that_was_created_anew_is_another_one(is_cut: bool) -> None:
    """Its epochs begin anew: told without the deletion between them they would be older ones."""

    async def scenario(world: World) -> None:
        broker, other = Broker(world), Broker(world)
        await broker.create("t1")
        await split(broker, 0)
        client = broker.watch_topic()
        await settle()
        if is_cut:
            broker.process.store.line.cut(Part.WATCHES)
        await other.delete("t1")
        await other.create("t1")
        if is_cut:
            world.data.trim()
            broker.process.store.line.mend()
        for _ in range(5):
            await world.pass_ms(1_000)
        first, second, third = client.events
        assert isinstance(first, TopicState)
        assert isinstance(third, TopicState)
        assert second == TopicGone()
        assert third.version_id > first.version_id

    run(scenario)


def test_h12_a_broker_that_lags_tells_nothing_older() -> None:
    """In Pulsar a client that comes to another broker takes an older layout for the newest."""

    async def scenario(world: World) -> None:
        ahead, behind = Broker(world), Broker(world)
        await ahead.create("t1")
        first = behind.watch_topic()
        await settle()
        behind.process.store.line.cut(Part.WATCHES)
        await split(ahead, 0)
        client = ahead.watch_topic()
        await settle()
        again = behind.watch_topic(seen=client.state.version_id)
        await settle()
        assert again.events == []
        assert first.state.layout.epoch == 0
        behind.process.store.line.mend()
        for _ in range(5):
            await world.pass_ms(1_000)
        assert again.events == client.events
        assert first.state == client.state

    run(scenario)


def test_h12_a_topic_that_a_lagging_broker_has_not_seen_yet_is_not_said_to_be_gone() -> None:
    async def scenario(world: World) -> None:
        broker, other = Broker(world), Broker(world)
        first = broker.watch_topic()
        await settle()
        broker.process.store.line.cut(Part.WATCHES)
        await other.create("t1")
        second = broker.watch_topic()
        broker.process.script.fail("get", Unavailable("away"), times=2)
        await settle()
        assert (first.events, second.events) == ([TopicGone()], [])
        broker.process.store.line.mend()
        for _ in range(5):
            await world.pass_ms(1_000)
        assert [each.layout.epoch for each in second.events if isinstance(each, TopicState)] == [0]
        assert second.events == first.events[1:]

    run(scenario)


@pytest.mark.parametrize("is_trimmed", [False, True])
def test_h12_a_topic_that_goes_before_a_lagging_broker_has_seen_it_is_said_to_be_gone(is_trimmed: bool) -> None:
    async def scenario(world: World) -> None:
        broker, other = Broker(world), Broker(world)
        broker.watch_topic()
        await settle()
        broker.process.store.line.cut(Part.WATCHES)
        await other.create("t1")
        client = broker.watch_topic()
        await settle()
        assert client.events == []
        await other.delete("t1")
        if is_trimmed:
            world.data.trim()
        broker.process.store.line.mend()
        for _ in range(5):
            await world.pass_ms(1_000)
        assert client.events == [TopicGone()]

    run(scenario)


def version(version_id: int, modifications: int) -> Version:
    return Version(version_id, modifications, 0, 0)


def test_h12_what_is_older_than_what_is_known_changes_nothing() -> None:
    record = TopicRecord(Layout.initial(1, 0))
    later = record.with_layout(record.layout.split(0, 1))
    picture = Picture(TOPIC).with_record(later, version(5, 1))
    assert picture.with_record(record, version(4, 0)) is picture
    gone = picture.without_record()
    assert gone.with_record(record, version(4, 0)) is gone
    assert gone.with_record(record, version(6, 0)).life == 2
    assert picture.with_record(replace(later, properties={"a": "b"}), version(6, 2)).life == 1
    led = picture.with_leader(Owner("b", "b:1", 7))
    assert led.with_leader(Owner("a", "a:1", 6)) is led
    assert led.with_leader(None).with_leader(Owner("a", "a:1", 6)).leader is None
