"""The watch of a topic: its layout, leader and owners, on any broker (V13, H12)."""

from __future__ import annotations

import asyncio

import pytest
from watches_stage import TOPIC, WINDOW_MS, Broker, lead, own, split, topic

from controller.layout import FULL, HashRange, InvalidName, Layout, LayoutError, TopicName, TopicRecord
from controller.topics import paths
from controller.watches import TooManyWatches, TopicGone, TopicState, TopicWatches
from controller.watches.errors import WatchesEnded
from controller.watches.owners import Heard
from metastore.interface import ABSENT
from support.world import World, run, settle
from txn.hosting import Owner
from txn.model import paths as segment_paths

OLD = TopicName.parse("persistent://tenant/ns/t1")


def test_the_state_comes_first_and_then_every_change() -> None:
    async def scenario(world: World) -> None:
        broker = Broker(world)
        await broker.create("t1")
        client = broker.watch_topic()
        await settle()
        assert client.state == TopicState(TOPIC, TopicRecord(Layout.initial(1, 0)), client.state.version_id)
        await split(broker, 0)
        await settle()
        assert client.state.layout == Layout.initial(1, 0).split(0, 1_000)
        assert [each.layout.epoch for each in client.events if isinstance(each, TopicState)] == [0, 1]

    run(scenario)


def test_h12_the_leader_is_told_and_every_other_one() -> None:
    """In Pulsar a change of the leader is told only when something else changes."""

    async def scenario(world: World) -> None:
        broker, one, two = Broker(world), world.process(), world.process()
        await broker.create("t1")
        client = broker.watch_topic()
        await settle()
        first = await lead(one, "one:1")
        await settle()
        await first.release()
        await settle()
        second = await lead(two, "two:1")
        await settle()
        leaders = [each.leader for each in client.events if isinstance(each, TopicState)]
        assert leaders == [None, Owner(one.name, "one:1", first.term), None, Owner(two.name, "two:1", second.term)]

    run(scenario)


def test_owners_of_segments_are_told_a_moment_after_the_first_of_them() -> None:
    async def scenario(world: World) -> None:
        broker, owner = Broker(world), world.process()
        await broker.create("t1")
        await split(broker, 0)
        client = broker.watch_topic()
        await settle()
        names = [str(TOPIC.segment(each.range, each.segment_id)) for each in client.state.layout.segments.values()]
        grants = [await own(owner, name, f"owner:{number}") for number, name in enumerate(names)]
        await own(owner, str(topic("other").segment(FULL, 0)), "elsewhere:1")
        await own(owner, "no segment of a topic", "elsewhere:1")
        await settle()
        assert len(client.events) == 1
        await world.pass_ms(WINDOW_MS)
        assert len(client.events) == 2
        assert {key: each.address for key, each in client.state.owners.items()} == {
            number: f"owner:{number}" for number in range(3)
        }
        await grants[1].release()
        await broker.tell()
        assert set(client.state.owners) == {0, 2}
        later = broker.watch_topic()
        await settle()
        assert later.events == [client.state]

    run(scenario)


def test_a_change_of_the_layout_is_told_with_the_owners_and_at_once() -> None:
    async def scenario(world: World) -> None:
        broker, owner = Broker(world), world.process()
        await broker.create("t1")
        client = broker.watch_topic()
        await settle()
        for segment_id, half in ((1, HashRange(0, 0x7FFF)), (2, HashRange(0x8000, 0xFFFF))):
            await own(owner, str(TOPIC.segment(half, segment_id)), "owner:1")
        await broker.tell()
        await split(broker, 0)
        await settle()
        assert set(client.state.owners) == {1, 2}
        assert len(client.events) == 2

    run(scenario)


def test_a_topic_that_is_not_there_is_said_not_to_be_and_followed() -> None:
    async def scenario(world: World) -> None:
        broker = Broker(world)
        client = broker.watch_topic()
        await settle()
        assert client.events == [TopicGone()]
        await broker.create("t1")
        await settle()
        assert client.state.layout.epoch == 0

    run(scenario)


def test_who_is_slow_is_told_the_newest_state_alone() -> None:
    async def scenario(world: World) -> None:
        broker = Broker(world)
        await broker.create("t1")
        async with broker.topic_watches.open(TOPIC) as session:
            await anext(session)
            for segment_id in range(5):
                await split(broker, segment_id)
                await settle()
            newest = await anext(session)
            assert isinstance(newest, TopicState)
            assert newest.layout.epoch == 5

    run(scenario)


def test_a_topic_of_the_old_kind_is_told_as_one_whose_segments_are_its_partitions() -> None:
    async def scenario(world: World) -> None:
        broker = Broker(world)
        client = broker.watch_topic(OLD, otherwise=Layout.synthetic(OLD, 4))
        await settle()
        assert (client.state.topic, client.state.layout.epoch, client.state.version_id) == (TOPIC, 0, ABSENT)
        segments = list(client.state.layout.segments.values())
        assert [each.legacy_topic for each in segments] == [f"{OLD}-partition-{number}" for number in range(4)]
        assert (segments[0].range.start, segments[-1].range.end) == (0, 0xFFFF)
        await broker.topics.create(TOPIC, TopicRecord(Layout.migrated(OLD, 4, 0)))
        await settle()
        assert len(client.events) == 2
        assert len(client.state.layout.segments) == 8

    run(scenario)


def test_a_topic_that_is_not_partitioned_is_told_as_one_segment() -> None:
    async def scenario(world: World) -> None:
        broker = Broker(world)
        client = broker.watch_topic(OLD, otherwise=Layout.synthetic(OLD, 0))
        await settle()
        (segment,) = client.state.layout.active
        assert (segment.range, segment.legacy_topic) == (FULL, str(OLD))

    run(scenario)


def test_a_partition_is_not_watched_by_itself() -> None:
    async def scenario(world: World) -> None:
        broker = Broker(world)
        with pytest.raises(InvalidName, match="individual partition"):
            broker.watch_topic(TopicName.parse("persistent://tenant/ns/my-regular-partition-3"))
        assert broker.topic_watches.sessions == 0
        broker.watch_topic(topic("x-partition-3"))  # a scalable topic may be called so

    run(scenario)


def test_a_damaged_record_is_an_error_and_not_a_silence() -> None:
    async def scenario(world: World) -> None:
        broker = Broker(world)
        await broker.create("t1")
        client = broker.watch_topic()
        await settle()
        store, partition = broker.process.store, paths.partition(TOPIC)
        await store.put(TOPIC.path, b"{", partition_key=partition)
        await settle()
        with pytest.raises(LayoutError, match="damaged|says"):
            await client.task
        await store.put(TOPIC.path, b"", partition_key=partition)  # the parent of what another software has put
        again = broker.watch_topic()
        await settle()
        assert again.events == [TopicGone()]

    run(scenario)


def test_a_damaged_grant_is_nobodys() -> None:
    async def scenario(world: World) -> None:
        broker = Broker(world)
        await broker.create("t1")
        store = broker.process.store
        await store.put(paths.controller_key(TOPIC), b"{", partition_key=paths.partition(TOPIC))
        segment = str(TOPIC.segment(FULL, 0))
        await store.put(segment_paths.owner_key(segment), b"{", partition_key=segment)
        client = broker.watch_topic()
        await broker.tell()
        assert (client.state.leader, client.state.owners) == (None, {})

    run(scenario)


def test_ten_thousand_sessions_are_one_follower_of_a_topic() -> None:
    async def scenario(world: World) -> None:
        broker = Broker(world)
        await broker.create("t1")
        sessions = [broker.topic_watches.open(TOPIC) for _ in range(10_000)]
        for each in sessions:
            await anext(each)
        waiting = [asyncio.ensure_future(anext(each)) for each in sessions]
        await settle()
        await split(broker, 0)
        await settle()
        assert {task.result().layout.epoch for task in waiting} == {1}  # type: ignore[union-attr]
        assert (broker.topic_watches.sessions, broker.topic_watches.topics) == (10_000, 1)
        for each in sessions:
            await each.close()
        assert (broker.topic_watches.sessions, broker.topic_watches.topics) == (0, 0)

    run(scenario)


def test_a_session_ends_when_it_is_closed() -> None:
    async def scenario(world: World) -> None:
        broker = Broker(world)
        await broker.create("t1")
        async with broker.topic_watches.open(TOPIC) as session:
            await anext(session)
            await session.close()
            with pytest.raises(StopAsyncIteration):
                await anext(session)
        assert broker.topic_watches.topics == 0

    run(scenario)


class Listened:
    """Owners of whom nothing is known, and who wants to."""

    def __init__(self) -> None:
        self.listeners: set[Heard] = set()

    def find(self, segment: str) -> Owner | None:
        return None

    def listen(self, topic: TopicName, heard: Heard) -> None:
        self.listeners.add(heard)

    def stop_listening(self, topic: TopicName, heard: Heard) -> None:
        self.listeners.remove(heard)


def test_what_nobody_watches_costs_nothing() -> None:
    async def scenario(world: World) -> None:
        process, owners = world.process(), Listened()
        before = asyncio.all_tasks()
        watches = TopicWatches(process.store, owners, process.pace)
        async with watches.open(TOPIC) as one, watches.open(TOPIC) as two:
            await asyncio.gather(anext(one), anext(two))
            assert len(owners.listeners) == 1
        await settle()
        assert (asyncio.all_tasks(), owners.listeners) == (before, set())

    run(scenario)


def test_so_many_sessions_are_served_and_no_more() -> None:
    async def scenario(world: World) -> None:
        broker = Broker(world)
        process = broker.process
        async with TopicWatches(process.store, broker.owners, process.pace, sessions_max=2) as watches:
            sessions = [watches.open(TOPIC) for _ in range(2)]
            with pytest.raises(TooManyWatches, match="TOPIC_SESSIONS_MAX"):
                watches.open(TOPIC)
            await sessions[0].close()
            watches.open(TOPIC)
        with pytest.raises(WatchesEnded):
            await anext(sessions[1])

    run(scenario)
