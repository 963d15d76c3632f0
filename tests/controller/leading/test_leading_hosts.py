"""Leaders over real segments: brokers own them, split them, read them, and say what was read to its end."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest
from leading_world import QUIET, SESSION_MS, TOPIC, pass_session, until, within

from controller.layout import Layout, TopicName, TopicRecord
from controller.leading import Drains, HostedSegments, Leaders, LeadersOptions, Surroundings, TopicLeader
from controller.operations import Bound, SegmentWork, Start, data_name
from controller.subscriptions import Assigned, Message, SubscriptionKind
from controller.topics import NotLeader, Topics, paths
from metastore.coordination.pace import PAUSE_FIRST_S
from metastore.interface import Unavailable
from support.world import World, run, settle
from txn.hosting import Host, HostOptions, OwnedElsewhere, Segment
from txn.hosting.places import STORED
from txn.model.errors import SegmentUnavailable
from txn.model.position import Position
from txn.segment.cursor import Ack
from txn.segment.entry import Entry
from txn.segment.errors import SegmentSealed
from txn.segment.log import StoredLogs

STREAM, QUEUE = SubscriptionKind.STREAM, SubscriptionKind.QUEUE
OLD = TopicName.parse("persistent://tenant/ns/my-topic")


class Whole:
    """A broker with segments and topics, and the way to the others."""

    brokers: dict[str, Whole]

    def __init__(self, world: World, brokers: dict[str, Whole], **around: Any) -> None:
        self.world = world
        self.process = process = world.process()
        self.brokers = brokers
        self.address = f"{process.name}:1"
        self.host = Host(
            process.store,
            {STORED: StoredLogs(process.store, pace=process.pace)},
            process.name,
            self.address,
            pace=process.pace,
            options=HostOptions(session_timeout_ms=SESSION_MS),
        )
        self.drains = Drains(self.host, process.store, process.pace)
        self.local = HostedSegments(self.host, self.drains)
        surroundings = Surroundings(HostedSegments(self.host, self.drains, self.remote), process.pace)
        self.leaders = Leaders(
            self.host.keeper,
            process.name,
            self.address,
            replace(surroundings, **{"auto_scale": QUIET, "retention_minutes": -1, **around}),
            options=LeadersOptions(),
        )
        brokers[self.address] = self
        self.task: asyncio.Task[None] | None = None

    def remote(self, address: str) -> SegmentWork:
        found = self.brokers.get(address)
        if found is None:
            raise SegmentUnavailable(f"nobody answers at {address}")
        return found.local

    async def start(self) -> Whole:
        self.task = self.process.start(self._serve())
        await settle()
        return self

    async def _serve(self) -> None:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.host)
            await stack.enter_async_context(self.leaders)
            await self.drains.run()

    async def kill(self) -> None:
        self.process.script.clear()
        self.process.store.line.close()
        del self.brokers[self.address]
        assert self.task is not None
        self.task.cancel()
        for _ in range(200):
            if self.task.done():
                return
            await self.world.pass_ms(10)
        raise AssertionError("it does not come to its end")


class Together:
    """Some brokers, and whoever asks the right one."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.by_address: dict[str, Whole] = {}

    @classmethod
    async def started(cls, world: World, count: int, **around: Any) -> Together:
        made = cls(world)
        for _ in range(count):
            await Whole(world, made.by_address, **around).start()
        return made

    @property
    def first(self) -> Whole:
        return next(iter(self.by_address.values()))

    async def leader(self) -> TopicLeader:
        for _ in range(100):
            try:
                return await within(self.world, self.first.leaders.get(TOPIC))
            except NotLeader as error:
                if error.leader in self.by_address:
                    return await within(self.world, self.by_address[error.leader].leaders.get(TOPIC))
                await self.world.pass_ms(500)
        raise AssertionError("nobody leads")

    async def segment(self, layout: Layout, segment_id: int) -> Segment:
        name = data_name(TOPIC, layout.segment(segment_id))
        for _ in range(100):
            try:
                return await within(self.world, self.first.host.get(name))
            except OwnedElsewhere as error:
                if error.address in self.by_address:
                    return await within(self.world, self.by_address[error.address].host.get(name))
                await self.world.pass_ms(500)
        raise AssertionError("nobody owns it")

    async def publish(self, segment: Segment, text: str, time_ms: int = 0) -> Position:
        async def publish() -> Position:
            published = await segment.publish(Entry(text.encode(), published_ms=time_ms))
            assert published.position is not None
            return published.position

        return await within(self.world, publish())


def test_a_split_of_real_segments_and_its_drained_parent() -> None:
    async def scenario(world: World) -> None:
        all_ = await Together.started(world, 3)
        created = await within(world, all_.first.leaders.create(TOPIC, 1, subscriptions={"s": STREAM, "q": QUEUE}))
        parent = await all_.segment(created.layout, 0)
        position = await all_.publish(parent, "before")
        leader = await all_.leader()
        layout = await within(world, leader.split(0))
        assert parent.is_sealed
        with pytest.raises(SegmentSealed):
            await within(world, all_.publish(parent, "late"))
        for number in (1, 2):
            child = await all_.segment(layout, number)
            assert child.subscriptions.keys() == {"s", "q"}
        assert leader.drained == {}
        await within(world, parent.subscription("s").acknowledge([Ack(position)]))
        await until(world, lambda: bool(leader.drained))
        assert leader.drained == {"s": {0}}
        await within(world, leader.seek("s", 0))
        await until(world, lambda: not leader.drained["s"])
        await within(world, leader.skip_all("q"))
        await within(world, leader.skip_all("s"))
        await until(world, lambda: leader.drained == {"s": {0}, "q": {0}})
        await within(world, leader.delete_subscription("q"))
        await until(world, lambda: not leader.drained["q"])
        assert paths.drained_key(TOPIC, 0, "q") not in await world.keys()

    run(scenario)


async def drained_by(all_: Together, world: World, *names: str) -> tuple[TopicLeader, Segment, Position]:
    """A topic with such subscriptions, and its sealed segment, of which they have to acknowledge one entry."""
    kinds = dict.fromkeys(names, STREAM)
    created = await within(world, all_.first.leaders.create(TOPIC, 1, subscriptions=kinds))
    parent = await all_.segment(created.layout, 0)
    position = await all_.publish(parent, "before")
    leader = await all_.leader()
    await within(world, leader.split(0))
    return leader, parent, position


def test_h15_data_of_the_old_kind_are_read_to_their_end_and_then_the_segments_behind_them() -> None:
    """In Pulsar consumers are told names under which there is nothing, and nobody finds out that all was read."""

    async def scenario(world: World) -> None:
        all_ = await Together.started(world, 1)
        layout = Layout.migrated(OLD, 2, 1)
        names = {each.segment_id: data_name(TOPIC, each) for each in layout.segments.values()}
        for name in names.values():
            await within(world, all_.first.local.create(name, ["s"]))
        parents = [await all_.segment(layout, each.segment_id) for each in layout.sealed]
        positions = [await all_.publish(each, "old") for each in parents]
        for each in layout.sealed:
            await within(world, all_.first.local.seal(names[each.segment_id]))
        process = all_.first.process
        await within(world, Topics(process.store, process.pace).create(TOPIC, TopicRecord(layout)))
        leader, told = await all_.leader(), list[Message]()
        await within(world, leader.create_subscription("s", STREAM))
        await within(world, leader.join("s", "one", STREAM, told.append))
        await world.pass_ms(5_000)
        (assigned,) = (each for each in told if isinstance(each, Assigned))
        assert [each.name for each in assigned.segments] == [f"{OLD}-partition-0", f"{OLD}-partition-1"]
        for parent, position in zip(parents, positions, strict=True):
            await within(world, parent.subscription("s").acknowledge([Ack(position)]))
        await until(world, lambda: leader.drained == {"s": {0, 1}})
        last = told[-1]
        assert isinstance(last, Assigned)
        assert [each.segment_id for each in last.segments] == [2, 3]

    run(scenario)


def test_what_is_drained_while_another_report_is_written_is_written_next_in_no_time() -> None:
    async def scenario(world: World) -> None:
        all_ = await Together.started(world, 1)
        leader, parent, position = await drained_by(all_, world, "one", "other")
        process = all_.first.process
        gate = process.script.hold("transact", prefix=paths.drained_key(TOPIC, 0, "one"))
        process.start(parent.subscription("one").acknowledge([Ack(position)]))
        await settle()
        assert len(gate.held) == 1
        process.start(parent.subscription("other").acknowledge([Ack(position)]))
        await settle()
        assert leader.drained == {}
        gate.release()
        await settle()
        assert leader.drained == {"one": {0}, "other": {0}}

    run(scenario)


def test_each_report_that_is_refused_once_is_tried_again_after_a_first_pause() -> None:
    names = ["a", "b", "c", "d", "e", "f"]

    async def scenario(world: World) -> None:
        all_ = await Together.started(world, 1)
        leader, parent, position = await drained_by(all_, world, *names)
        process = all_.first.process
        for name in names:
            process.script.fail("transact", Unavailable("not now"), prefix=paths.drained_key(TOPIC, 0, name))
            process.start(parent.subscription(name).acknowledge([Ack(position)]))
            await settle()
            assert name not in leader.drained
            await world.pass_ms(round(1_000 * PAUSE_FIRST_S))
            assert leader.drained[name] == {0}

    run(scenario)


def test_h4_what_nobody_needs_is_pruned_and_its_log_is_gone() -> None:
    """H4: a queue that a client has made keeps what it has not read, under the retention of the broker's default."""

    async def scenario(world: World) -> None:
        all_ = await Together.started(world, 2, retention_minutes=0)
        created = await within(world, all_.first.leaders.create(TOPIC, 1))
        leader = await all_.leader()
        await within(world, leader.create_subscription("q", QUEUE))
        parent = await all_.segment(created.layout, 0)
        position = await all_.publish(parent, "unread")
        await within(world, leader.split(0))
        await world.pass_ms(60_000)
        assert [each.segment_id for each in leader.layout.sealed] == [0]
        await within(world, parent.subscription("q").acknowledge([Ack(position)]))
        await until(world, lambda: not leader.layout.sealed)
        await until(world, lambda: all(len(each.host.segments) == 2 for each in all_.by_address.values()))
        assert not [key for key in await world.keys() if "ffff-0" in key]
        assert not [key for key in await world.keys() if "/drained/" in key]

    run(scenario)


def test_what_is_pruned_is_given_to_nobody_while_it_goes() -> None:
    async def scenario(world: World) -> None:
        all_ = await Together.started(world, 1, retention_minutes=0)
        leader, parent, position = await drained_by(all_, world, "s")
        told: list[Message] = []
        await within(world, leader.join("s", "consumer", STREAM, told.append))
        await within(world, parent.subscription("s").acknowledge([Ack(position)]))
        await until(world, lambda: not leader.layout.sealed and not leader.is_busy)
        await world.pass_ms(5_000)
        divisions = [[each.segment_id for each in one.segments] for one in told if isinstance(one, Assigned)]
        assert divisions == [[0], [1, 2]]

    run(scenario)


def test_a_broker_that_leads_and_owns_dies_in_the_middle_and_the_range_is_writable_again() -> None:
    async def scenario(world: World) -> None:
        all_ = await Together.started(world, 3)
        await within(world, all_.first.leaders.create(TOPIC, 2, subscriptions={"s": STREAM}))
        leader = await all_.leader()
        (broker,) = [each for each in all_.by_address.values() if each.leaders.led.get(TOPIC.path) is leader]
        gate = broker.process.script.hold("transact", prefix=paths.operation_key(TOPIC))
        splitting = broker.process.start(leader.split(0))
        await settle()
        gate.release(2)  # what is to be done is written down, and nothing has come of it
        await settle()
        await broker.kill()
        await asyncio.gather(splitting, return_exceptions=True)
        await pass_session(world)
        after = await all_.leader()
        await until(world, lambda: len(after.layout.active) in (2, 3))
        for segment in after.layout.active:
            await all_.publish(await all_.segment(after.layout, segment.segment_id), "again")
        layout = await within(world, after.split(after.layout.active[-1].segment_id))
        for segment in layout.active:
            found = await all_.segment(layout, segment.segment_id)
            assert found.subscriptions.keys() == {"s"}

    run(scenario)


def test_a_seek_to_a_time_finds_the_first_entry_of_it() -> None:
    async def scenario(world: World) -> None:
        all_ = await Together.started(world, 1)
        created = await within(world, all_.first.leaders.create(TOPIC, 1, subscriptions={"s": STREAM}))
        segment = await all_.segment(created.layout, 0)
        start_ms = world.clock.wall_ms()
        positions = [await all_.publish(segment, str(number), start_ms + 10 * number) for number in range(20)]
        leader = await all_.leader()
        for time_ms, expected in ((1, 1), (0, 0), (10, 1), (95, 10), (190, 19)):
            await within(world, leader.seek("s", start_ms + time_ms))
            assert segment.subscription("s").mark == positions[expected]
        await within(world, leader.seek("s", start_ms + 1_000))
        assert segment.subscription("s").stats.backlog == 0

    run(scenario)


def test_what_is_asked_twice_is_done_once_and_what_is_gone_needs_nothing() -> None:
    async def scenario(world: World) -> None:
        work = (await Together.started(world, 1)).first.local
        name = str(TOPIC.segment(Layout.initial(1, 0).segments[0].range, 7))
        for _ in range(2):
            await within(world, work.create(name, ["s"]))
            await within(world, work.subscribe(name, "late", Start.LATEST))
        assert await within(world, work.backlog(name, "s")) == 0
        assert await within(world, work.backlog(name, "other")) is None
        await within(world, work.seek(name, "other", Bound.END))
        for _ in range(2):
            await within(world, work.unsubscribe(name, "late"))
            await within(world, work.seal(name))
        for _ in range(2):
            await within(world, work.delete(name))
        await world.pass_ms(5_000)
        await within(world, work.seal(name))
        await within(world, work.unsubscribe(name, "s"))
        await within(world, work.seek(name, "s", 5))
        assert await within(world, work.backlog(name, "s")) is None

    run(scenario)
