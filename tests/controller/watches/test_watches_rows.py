"""The rows of V13, one by one: what a session of a topic is told, and what a client reads of it.

Pulsar tells a layout field by field, ours the topic's record as it stands in the store: the same fields, named as
there. That a topic is created for who watches it is in test_topics_wire_watches.py; there is no policy that forbids it,
for who asks says whether it is wanted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from watches_stage import TOPIC, Broker, split, topic

from controller.broker.topics.words import description
from controller.client.topics.layouts import TopicState as ToldState
from controller.client.topics.layouts import state_of
from controller.layout import Layout, TopicName, TopicRecord
from controller.pb import topics_pb2 as pb
from controller.watches import TopicGone, TopicState
from support.world import World, run, settle
from txn.posts import Owner

OLD = TopicName.parse("persistent://tenant/ns/t1")


def told(state: TopicState) -> ToldState:
    """A state as the wire brings it to a client."""
    message = description(state.topic, state.record, state.version_id, state.leader, state.owners)
    return state_of(pb.TopicDescription.FromString(message.SerializeToString()))


async def missing(world: World) -> None:
    broker = Broker(world)
    client = broker.watch_topic()
    await settle()
    assert client.events == [TopicGone()]
    assert not [key for key in await world.keys() if key.startswith("/topics")], "nothing is created"


async def not_partitioned(world: World) -> None:
    broker = Broker(world)
    client = broker.watch_topic(OLD, otherwise=Layout.synthetic(OLD, 0))
    await settle()
    state = told(client.state)
    (segment,) = state.layout.active
    assert (str(state.topic), state.layout.epoch) == ("topic://tenant/ns/t1", 0)
    assert (segment.segment_id, segment.range.hex, segment.legacy_topic) == (0, "0000-ffff", str(OLD))
    assert state.name_of(segment) == str(OLD)


async def partitioned(world: World) -> None:
    broker = Broker(world)
    client = broker.watch_topic(OLD, otherwise=Layout.synthetic(OLD, 4))
    await settle()
    state = told(client.state)
    assert [each.segment_id for each in state.layout.active] == [0, 1, 2, 3]
    assert [state.name_of(each) for each in state.layout.active] == [f"{OLD}-partition-{n}" for n in range(4)]
    ranges = [each.range for each in state.layout.active]
    assert (ranges[0].start, ranges[-1].end) == (0, 0xFFFF)
    assert all(one.end + 1 == other.start for one, other in pairwise(ranges))


async def named_in_the_old_way(world: World) -> None:
    broker = Broker(world)
    await broker.create("t1")
    client = broker.watch_topic(OLD)
    await settle()
    assert str(told(client.state).topic) == "topic://tenant/ns/t1"


async def begun_and_closed(world: World) -> None:
    broker = Broker(world)
    await broker.create("t1")
    client = broker.watch_topic()
    await settle()
    assert (broker.topic_watches.sessions, broker.topic_watches.topics) == (1, 1)
    for _ in range(2):
        await client.session.close()
        assert (broker.topic_watches.sessions, broker.topic_watches.topics) == (0, 0)


async def others(world: World) -> None:
    """Pulsar tells nothing of a deletion (H12); here that is the one thing of the three that is told."""
    broker = Broker(world)
    await broker.create("t1")
    await broker.create("t10")
    client = broker.watch_topic()
    await settle()
    (first,) = client.events
    await broker.change("t10", owner="alice")
    await broker.delete("t10")
    await settle()
    assert client.events == [first], "another topic"
    await broker.delete("t1")
    await settle()
    assert client.events == [first, TopicGone()]
    await client.session.close()
    await broker.create("t1")
    await settle()
    assert client.events == [first, TopicGone()], "nothing behind its end"


async def modified(world: World) -> None:
    broker = Broker(world)
    await broker.create("t1")
    client = broker.watch_topic()
    await settle()
    await broker.change("t1", owner="alice")
    await settle()
    assert len(client.events) == 2
    assert client.state.record.properties == {"owner": "alice"}


V13: dict[str, Callable[[World], Awaitable[None]]] = {
    "a topic that is not there": missing,
    "an old one that is not partitioned": not_partitioned,
    "an old one with four partitions": partitioned,
    "a scalable one by its old name": named_in_the_old_way,
    "begun, and closed twice": begun_and_closed,
    "another topic, a deletion, behind the end": others,
    "modified": modified,
}


@pytest.mark.parametrize("row", V13)
def test_v13(row: str) -> None:
    run(V13[row])


def test_v13_a_partition_by_itself() -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(ValueError, match="individual partition"):
            Broker(world).watch_topic(TopicName.parse(f"{OLD}-partition-3"))

    run(scenario)


EPOCH_7 = replace(Layout.initial(2, 1_000), epoch=6).split(0, 1_100)


def test_v13_all_fields_of_a_layout() -> None:
    owners = {2: Owner("b2", "b2:1", 5), 3: Owner("b3", "b3:1", 6)}
    state = told(TopicState(TOPIC, TopicRecord(EPOCH_7), 9, Owner("b1", "b1:1", 4), owners))
    assert (state.layout, state.version_id) == (EPOCH_7, 9)
    assert state.layout.epoch == 7
    parent, left, right = (state.layout.segment(each) for each in (0, 2, 3))
    assert (parent.is_active, parent.children, parent.sealed_epoch) == (False, (2, 3), 7)
    assert (parent.created_ms, parent.sealed_ms) == (1_000, 1_100)
    for each in (left, right):
        assert (each.is_active, each.parents, each.sealed_epoch, each.sealed_ms) == (True, (0,), -1, -1)
    assert state.name_of(left) == str(TOPIC.segment(left.range, 2))
    assert {key: each.address for key, each in state.owners.items()} == {2: "b2:1", 3: "b3:1"}
    assert state.leader is not None
    assert (state.leader.address, state.leader.term) == ("b1:1", 4)


def test_v13_nobody_serves_anything() -> None:
    state = told(TopicState(TOPIC, TopicRecord(EPOCH_7), 9))
    assert (state.owners, state.leader) == ({}, None)


def test_v13_the_newest_alone_is_told_and_nothing_behind_the_end() -> None:
    async def scenario(world: World) -> None:
        broker = Broker(world)
        await broker.create("t1")
        async with broker.topic_watches.open(topic("t1")) as session:
            await anext(session)
            await split(broker, 0)
            await settle()
            await session.close()
            with pytest.raises(StopAsyncIteration):
                await anext(session)

    run(scenario)
