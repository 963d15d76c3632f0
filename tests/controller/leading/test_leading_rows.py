"""The rows of V10 and V14, one by one: what a leader does by itself, and what is asked of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from leading_world import TOPIC, Admin, Lead, check_rest, leads, put_load, record_of, until, within

from controller.autoscale import AutoScaleConfig
from controller.layout import InvalidRange, TopicName
from controller.leading import TopicLeader
from controller.subscriptions import Assigned, SubscriptionKind, SubscriptionRecord
from controller.topics import InvalidTopic, NotLeader, TopicNotFound, Topics, paths
from controller.topics.policies import NamespacePolicy
from support.segments_at_work import Cluster
from support.world import World, run
from txn.model.errors import SegmentUnavailable

STREAM, QUEUE = SubscriptionKind.STREAM, SubscriptionKind.QUEUE
HOUR_MS = 3_600_000
HOT, COLD = 20_000.0, 1.0


@dataclass(frozen=True)
class Scaled:
    """A topic, what is said of it, and the loads that are reported one after another; then so many are active."""

    segments: int
    loads: tuple[Mapping[int, float], ...] = ()
    expected: tuple[int, ...] = ()
    namespace: dict[str, Any] | None = None
    topic: dict[str, Any] | None = None
    broker: dict[str, Any] = field(default_factory=dict)


V10 = {
    "a hot one": Scaled(2, ({0: HOT},), (3,)),
    "a cool one": Scaled(2, ({0: 100.0},), (2,)),
    "disabled": Scaled(2, ({0: 1e6},), (2,), broker={"enabled": False}),
    "all are cold": Scaled(4, (dict.fromkeys(range(4), COLD),), (3,), broker={"merge_cooldown_ms": HOUR_MS}),
    "disabled in the namespace": Scaled(2, ({0: HOT},), (2,), {"enabled": False}),
    "enabled by the topic": Scaled(2, ({0: HOT},), (3,), {"enabled": False}, {"enabled": True}),
    "at most two by the topic": Scaled(2, ({0: HOT},), (2,), None, {"maxSegments": 2}),
    "at most three by the topic": Scaled(2, ({0: HOT}, {1: HOT}), (3, 3), None, {"maxSegments": 3}),
    "namespace and topic contradict each other": Scaled(
        2, ({0: HOT},), (2,), {"mergeMsgRateInThreshold": 5_000}, {"splitMsgRateInThreshold": 2_000}
    ),
    "the cooldown of a split": Scaled(2, ({0: HOT}, {1: HOT}), (3, 3), broker={"split_cooldown_ms": HOUR_MS}),
}


@pytest.mark.parametrize("row", V10)
def test_v10_loads_and_policies(row: str) -> None:
    case = V10[row]
    eager = {"split_cooldown_ms": 0, "merge_cooldown_ms": 0, "merge_window_ms": 0, **case.broker}

    async def scenario(world: World) -> None:
        cluster = Cluster()
        policy = NamespacePolicy(auto_scale=case.namespace)
        made = await leads(world, cluster, 1, auto_scale=AutoScaleConfig(**eager), policy=lambda topic: policy)
        admin, topics = Admin(world, made), Topics(made[0].process.store, made[0].process.pace)
        await admin.create(case.segments)
        await topics.update(TOPIC, lambda record: replace(record, auto_scale_policy=case.topic))
        await world.pass_ms(1_000)
        for loads, expected in zip(case.loads, case.expected, strict=True):
            for number, load in loads.items():
                await put_load(world, number, load)
            await world.pass_ms(1_000)
            record = await record_of(world)
            assert record is not None
            assert len(record.layout.active) == expected
            assert record.auto_scale_policy == case.topic, "what the topic says outlives changes of its layout"
        await check_rest(world, cluster)

    run(scenario)


# ---- V14

Story = Callable[[World, Admin, Cluster], Awaitable[None]]


async def initialized(world: World, admin: Admin, cluster: Cluster) -> None:
    record = await admin.create(4)
    assert (record.layout.epoch, len(record.layout.active), cluster.counted("create")) == (0, 4, 4)
    assert (await admin.leader()).layout == record.layout


async def missing(world: World, admin: Admin, cluster: Cluster) -> None:
    with pytest.raises(TopicNotFound, match="my-topic"):
        await within(world, admin.made[0].leaders.get(TOPIC))
    assert cluster.calls == []
    assert not [key for key in await world.keys() if key.startswith("/topics")]


async def lock(world: World, admin: Admin, cluster: Cluster) -> None:
    """Pulsar's value is the broker's name; ours says its address as well."""
    await admin.create(1)
    broker = await admin.broker()
    found = await broker.process.store.get(paths.controller_key(TOPIC), partition_key=paths.partition(TOPIC))
    assert found is not None
    assert broker.name.encode() in (found.value or b"")


ASKED: dict[str, Callable[[TopicLeader], Awaitable[object]]] = {
    "split": lambda leader: leader.split(0),
    "merge": lambda leader: leader.merge(0, 1),
    "create a subscription": lambda leader: leader.create_subscription("s", STREAM),
    "delete a subscription": lambda leader: leader.delete_subscription("s"),
    "register": lambda leader: leader.join("s", "c1", STREAM, print),
    "seek": lambda leader: leader.seek("s", 0),
    "skip all": lambda leader: leader.skip_all("s"),
    "delete": lambda leader: leader.delete(),
}


async def not_leading(world: World, admin: Admin, cluster: Cluster) -> None:
    """Of Pulsar's states that is the nearest: there is no leader here that was not initialized."""
    await admin.create(2, subscriptions={"s": STREAM})
    broker = await admin.broker()
    leader, before = broker.leaders.led[TOPIC.path], await record_of(world)
    await broker.stop()
    calls = list(cluster.calls)
    for ask in ASKED.values():
        with pytest.raises(NotLeader):
            await ask(leader)
    assert cluster.calls == calls
    assert await record_of(world) == before


def segments_told(messages: list[Any]) -> list[int]:
    (*_, last) = (each for each in messages if isinstance(each, Assigned))
    return [each.segment_id for each in last.segments]


async def recorded(world: World, leader: TopicLeader, subscription: str) -> list[str]:
    path = paths.consumers_path(TOPIC, subscription) + "/"
    return [paths.consumer_of_key(key) for key in await world.keys() if key.startswith(path)]


async def registered(world: World, admin: Admin, cluster: Cluster) -> None:
    await admin.create(4, subscriptions={"s": STREAM})
    leader, told = await admin.leader(), list[Any]()
    for _ in range(2):
        await within(world, leader.join("s", "c1", STREAM, told.append))
        assert segments_told(told) == [0, 1, 2, 3]
        assert await recorded(world, leader, "s") == ["c1"]


async def unregistered(world: World, admin: Admin, cluster: Cluster) -> None:
    await admin.create(4, subscriptions={"s": STREAM})
    leader, told = await admin.leader(), list[Any]()
    one = await within(world, leader.join("s", "c1", STREAM, print))
    await within(world, leader.join("s", "c2", STREAM, told.append))
    for _ in range(2):
        await within(world, one.leave())
        one.disconnect()
        assert await recorded(world, leader, "s") == ["c2"]
    assert segments_told(told) == [0, 1, 2, 3]


async def subscribed(world: World, admin: Admin, cluster: Cluster) -> None:
    await admin.create(4)
    for name, kind in (("s", STREAM), ("q", QUEUE)):
        cluster.calls.clear()
        for _ in range(2):
            await admin.ask(lambda leader, name=name, kind=kind: leader.create_subscription(name, kind))  # type: ignore[misc]
        assert cluster.counted("subscribe") == 4
        store = admin.made[0].process.store
        found = await store.get(paths.subscription_key(TOPIC, name), partition_key=paths.partition(TOPIC))
        assert found is not None
        assert SubscriptionRecord.decode(found.value or b"").kind is kind


async def unsubscribed(world: World, admin: Admin, cluster: Cluster) -> None:
    await admin.create(4, subscriptions={"s": STREAM})
    leader = await admin.leader()
    await within(world, leader.join("s", "c1", STREAM, print))
    await admin.ask(lambda leader: leader.delete_subscription("s"))
    assert cluster.counted("unsubscribe") == 4
    assert not [key for key in await world.keys() if key.startswith(paths.subscriptions_path(TOPIC))]


async def split(world: World, admin: Admin, cluster: Cluster) -> None:
    await admin.create(4)
    cluster.calls.clear()
    layout = await admin.ask(lambda leader: leader.split(0))
    assert (layout.epoch, len(layout.active)) == (1, 5)
    assert (cluster.counted("create"), cluster.counted("seal")) == (2, 1)


async def merge(world: World, admin: Admin, cluster: Cluster) -> None:
    await admin.create(4)
    cluster.calls.clear()
    layout = await admin.ask(lambda leader: leader.merge(0, 1))
    assert (layout.epoch, len(layout.active)) == (1, 3)
    assert (cluster.counted("create"), cluster.counted("seal")) == (1, 2)


async def succeeded(world: World, admin: Admin, cluster: Cluster) -> None:
    await admin.create(2)
    before = await admin.leader()
    await (await admin.broker()).stop()
    after = await admin.leader()
    assert after.term > before.term
    assert after.layout == before.layout


async def skipped(world: World, admin: Admin, cluster: Cluster) -> None:
    await admin.create(4, subscriptions={"s": STREAM})
    cluster.calls.clear()
    await admin.ask(lambda leader: leader.skip_all("s"))
    assert [call[3] for call in cluster.calls if call[0] == "seek"] == ["Bound.END"] * 4


async def sought_where_no_cursor_is(world: World, admin: Admin, cluster: Cluster) -> None:
    await admin.create(2, subscriptions={"s": STREAM})
    for each in cluster.segments.values():
        each.cursors.clear()
    await admin.ask(lambda leader: leader.seek("s", 5))
    await admin.ask(lambda leader: leader.skip_all("s"))
    assert [each.cursors for each in cluster.segments.values()] == [{}, {}]


async def sought_where_nobody_answers(world: World, admin: Admin, cluster: Cluster) -> None:
    await admin.create(2, subscriptions={"s": STREAM})
    for ask in (ASKED["seek"], ASKED["skip all"]):
        cluster.failures.append(("seek", SegmentUnavailable("not loaded")))
        with pytest.raises(SegmentUnavailable, match="not loaded"):
            await admin.ask(ask)


async def created(world: World, admin: Admin, cluster: Cluster) -> None:
    record = await admin.create(3, properties={"owner": "alice"})
    assert cluster.counted("create") == 3
    assert record.properties == {"owner": "alice"}
    for segments, name, error in ((0, "topic://t/ns/x", InvalidRange), (1, "persistent://t/ns/x", InvalidTopic)):
        with pytest.raises(error):
            await admin.create(segments, TopicName.parse(name))
    assert cluster.counted("create") == 3


async def got_again(world: World, admin: Admin, cluster: Cluster) -> None:
    await admin.create(1)
    broker = await admin.broker()
    first = await within(world, broker.leaders.get(TOPIC))
    assert await within(world, broker.leaders.get(TOPIC)) is first
    await broker.stop()
    assert await admin.leader() is not first


async def deleted(world: World, admin: Admin, cluster: Cluster) -> None:
    await admin.create(2, subscriptions={"s": STREAM})
    await put_load(world, 0, 5.0)
    await world.pass_ms(1_000)
    assert [key for key in await world.keys() if key == paths.load_key(TOPIC, 0)]
    await admin.ask(lambda leader: leader.delete())
    assert cluster.counted("delete") == 2
    assert cluster.segments == {}
    assert not [key for key in await world.keys() if key.startswith(TOPIC.path) and "controller" not in key]


async def kept_for_ever(world: World, admin: Admin, cluster: Cluster) -> None:
    await admin.create(1)
    layout = await admin.ask(lambda leader: leader.split(0))
    await world.pass_ms(365 * 24 * HOUR_MS)
    assert (await admin.leader()).layout == layout
    assert cluster.counted("delete") == 0


V14: dict[str, Story] = {
    "initialize": initialized,
    "a topic that is missing": missing,
    "the lock": lock,
    "not leading": not_leading,
    "register, twice": registered,
    "unregister, and what is unknown": unregistered,
    "create a subscription": subscribed,
    "delete a subscription": unsubscribed,
    "split": split,
    "merge": merge,
    "closed, and a new one": succeeded,
    "skip all": skipped,
    "seek without cursors": sought_where_no_cursor_is,
    "seek that fails": sought_where_nobody_answers,
    "retention for ever": kept_for_ever,
    "create": created,
    "get, twice": got_again,
    "delete": deleted,
}


@pytest.mark.parametrize("row", V14)
def test_v14(row: str) -> None:
    async def scenario(world: World) -> None:
        cluster = Cluster()
        await V14[row](world, Admin(world, await leads(world, cluster, 2)), cluster)

    run(scenario)


def test_v14_a_retention_of_a_minute() -> None:
    async def scenario(world: World) -> None:
        cluster = Cluster()
        admin = Admin(world, [await Lead(world, cluster, retention_minutes=1).start()])
        await admin.create(1)
        await admin.ask(lambda leader: leader.split(0))
        await put_load(world, 0, 5.0)
        leader = await admin.leader()
        assert [each.segment_id for each in leader.layout.sealed] == [0]
        await world.pass_ms(61_000)
        await until(world, lambda: not leader.layout.sealed)
        await world.pass_ms(1_000)
        assert cluster.counted("delete") == 1
        assert not [key for key in await world.keys() if key == paths.load_key(TOPIC, 0)]

    run(scenario)
