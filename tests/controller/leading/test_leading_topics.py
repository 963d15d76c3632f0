"""Leaders of topics: creation, splits, merges, subscriptions, deletion (V14)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from leading_world import TOPIC, Admin, check_rest, leads, record_of, within

from controller.layout import FULL, InvalidRange, SegmentInWrongState, SegmentNotFound, TopicName, TopicRecord
from controller.operations import Start
from controller.subscriptions import SubscriptionKind, WrongKind
from controller.topics import (
    InvalidTopic,
    NotLeader,
    OperationUnderWay,
    TopicExists,
    TopicNotFound,
    Topics,
    paths,
)
from metastore.faults import Faults
from metastore.providers.memory import Gate
from support.segments_at_work import Cluster
from support.world import Process, World, run, settle
from txn.model.errors import SegmentUnavailable, TxnRetriable

STREAM, QUEUE, CHECKPOINT = SubscriptionKind.STREAM, SubscriptionKind.QUEUE, SubscriptionKind.CHECKPOINT
every_store = pytest.mark.parametrize("lacks", [(), ("transact",)], ids=["transact", "plain"])


@every_store
def test_a_topic_is_created_split_merged_and_deleted(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World) -> None:
        cluster = Cluster()
        admin = Admin(world, await leads(world, cluster, 3))
        created = await admin.create(4, properties={"owner": "alice"}, subscriptions={"s": STREAM, "q": QUEUE})
        assert (created.layout.epoch, len(created.layout.active), cluster.counted("create")) == (0, 4, 4)
        after = await admin.ask(lambda leader: leader.split(0))
        assert (after.epoch, len(after.active), len(after.sealed)) == (1, 5, 1)
        assert (cluster.counted("create"), cluster.counted("seal")) == (6, 1)
        after = await admin.ask(lambda leader: leader.merge(5, 4, 1))
        assert (after.epoch, len(after.active)) == (2, 3)
        record = await record_of(world)
        assert record is not None
        assert record.layout == after
        assert record.properties == {"owner": "alice"}
        await check_rest(world, cluster)
        await admin.ask(lambda leader: leader.delete())
        assert cluster.segments == {}
        assert [key for key in await world.keys() if key.startswith(TOPIC.path) and "controller" not in key] == []
        await world.pass_ms(1_000)
        assert all(TOPIC.path not in each.leaders.led for each in admin.made)
        with pytest.raises(TopicNotFound):
            await within(world, admin.made[0].leaders.get(TOPIC))

    run(scenario, lacks)


@every_store
def test_who_asks_again_for_what_is_being_created_gets_it_and_who_asks_for_another_is_told(
    lacks: tuple[str, ...],
) -> None:
    async def scenario(world: World) -> None:
        cluster = Cluster()
        one, two = await leads(world, cluster, 2)
        cluster.failures = [("create", SegmentUnavailable("its owner is away"))] * 1_000
        asked: dict[str, Any] = {"segments": 2, "properties": {"by": "ann"}, "subscriptions": {"s": STREAM}}
        with pytest.raises(NotLeader, match="is being created.*ask again") as late:
            await within(world, one.leaders.create(TOPIC, **asked))
        assert isinstance(late.value, TxnRetriable)
        again = [each.process.start(each.leaders.create(TOPIC, **asked)) for each in (one, two)]
        other = two.process.start(two.leaders.create(TOPIC, 3))
        await settle()
        cluster.failures.clear()
        for task in (*again, other):
            await within(world, settled(task))
        made = [task.result() for task in again]
        assert made[0] == made[1] == await record_of(world)
        assert len(made[0].layout.active) == 2
        assert isinstance(other.exception(), TopicExists)
        with pytest.raises(TopicExists):
            await within(world, one.leaders.create(TOPIC, **asked))
        await check_rest(world, cluster)

    run(scenario, lacks)


async def settled(task: asyncio.Task[TopicRecord]) -> None:
    await asyncio.wait([task])


def test_h4_children_have_all_cursors_and_parents_are_sealed_before_anybody_sees_it() -> None:
    async def scenario(world: World) -> None:
        cluster = Cluster()
        admin = Admin(world, await leads(world, cluster, 1))
        await admin.create(1, subscriptions={"s": STREAM, "q": QUEUE, "c": CHECKPOINT})
        cluster.calls.clear()
        await admin.ask(lambda leader: leader.split(0))
        methods = [call[0] for call in cluster.calls]
        assert sorted(methods) == ["create"] * 2 + ["cursor"] * 4 + ["seal"], "checkpoints have no cursors"
        assert methods[-1] == "seal"
        for number in (1, 2):
            (found,) = [each for name, each in cluster.segments.items() if name.endswith(f"-{number}")]
            assert found.cursors == {"s": Start.EARLIEST, "q": Start.EARLIEST}, "queues as well (H4)"

    run(scenario)


def test_what_cannot_be_is_refused_by_its_name_and_changes_nothing() -> None:
    async def scenario(world: World) -> None:
        cluster = Cluster()
        admin = Admin(world, await leads(world, cluster, 2))
        await admin.create(4)
        with pytest.raises(TopicExists):
            await admin.create(1)
        with pytest.raises(InvalidTopic):
            await admin.create(1, TopicName.parse("persistent://tenant/ns/x"))
        with pytest.raises(InvalidTopic):
            await admin.create(1_001, TopicName.parse("topic://tenant/ns/x"))
        with pytest.raises(InvalidRange):
            await admin.create(0, TopicName.parse("topic://tenant/ns/x"))
        before = await record_of(world)
        with pytest.raises(SegmentNotFound):
            await admin.ask(lambda leader: leader.split(9))
        with pytest.raises(InvalidRange, match="not adjacent"):
            await admin.ask(lambda leader: leader.merge(0, 2))
        await admin.ask(lambda leader: leader.split(0))
        with pytest.raises(SegmentInWrongState):
            await admin.ask(lambda leader: leader.split(0))
        assert before is not None
        assert before.layout.segments[0].range != FULL
        await check_rest(world, cluster)
        with pytest.raises(TopicNotFound):
            await within(world, admin.made[0].leaders.get(TopicName.parse("topic://tenant/ns/other")))

    run(scenario)


def test_h3_of_two_changes_at_once_one_is_refused_and_both_can_be_done_one_after_another() -> None:
    """H3: ids come from the operation's record, so no child is ever without its cursors."""

    async def scenario(world: World) -> None:
        cluster = Cluster()
        admin = Admin(world, await leads(world, cluster, 1))
        await admin.create(2, subscriptions={"s": STREAM})
        leader = await admin.leader()
        process = admin.made[0].process
        first, second = process.start(leader.split(0)), process.start(leader.split(1))
        await settle()
        assert first.done()
        assert (await first).epoch == 1
        with pytest.raises(OperationUnderWay):
            await second
        assert (await within(world, leader.split(1))).epoch == 2
        await check_rest(world, cluster)

    run(scenario)


def test_a_change_waits_for_what_leaves_the_active_segments_as_they_are() -> None:
    async def scenario(world: World) -> None:
        cluster = Cluster()
        admin = Admin(world, await leads(world, cluster, 1))
        await admin.create(1)
        leader = await admin.leader()
        process = admin.made[0].process
        subscribing = process.start(leader.create_subscription("s", STREAM))
        splitting = process.start(leader.split(0))
        await settle()
        await subscribing
        assert (await splitting).epoch == 1
        await check_rest(world, cluster)

    run(scenario)


class HeldCommit(Faults):
    """A split is committed, and its leader is not told so until the gate is released."""

    def __init__(self, method: str) -> None:
        self.process: Process | None = None
        self.gate: Gate | None = None
        self._method = method

    def reach(self, point: str) -> None:
        if point == "topic.split.seal.after" and self.process is not None:
            self.gate = self.process.script.hold(self._method, prefix=TOPIC.path, after=True)


@every_store
def test_what_others_change_while_a_split_is_answered_is_not_lost(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World) -> None:
        held = HeldCommit("put" if lacks else "transact")
        admin = Admin(world, await leads(world, Cluster(), 1, faults=held))
        await admin.create(1)
        leader = await admin.leader()
        held.process = admin.made[0].process
        splitting = held.process.start(leader.split(0))
        await settle()
        assert held.gate is not None
        assert held.gate.held
        other = world.process()
        topics = Topics(other.store, other.pace)
        policy = {"enabled": False}
        await within(world, topics.update(TOPIC, lambda record: replace(record, auto_scale_policy=policy)))
        await settle()
        held.gate.release()
        assert (await splitting).epoch == 1
        await settle()
        assert (leader.layout.epoch, leader.record.auto_scale_policy) == (1, policy)

    run(scenario, lacks)


def test_h20_a_subscription_that_comes_during_a_split_is_made_on_the_children_too() -> None:
    """H20: subscriptions and changes of the layout stand in one line."""

    async def scenario(world: World) -> None:
        cluster = Cluster()
        admin = Admin(world, await leads(world, cluster, 1))
        await admin.create(1)
        leader = await admin.leader()
        process = admin.made[0].process
        splitting = process.start(leader.split(0))
        subscribing = process.start(leader.create_subscription("late", QUEUE, Start.LATEST))
        deleting = process.start(leader.create_subscription("other", STREAM))
        await settle()
        assert splitting.done()
        assert subscribing.done()
        assert deleting.done()
        assert {each.cursors["late"] for each in cluster.segments.values()} == {Start.LATEST}
        assert len(cluster.segments) == 3
        await check_rest(world, cluster)

    run(scenario)


@every_store
def test_subscriptions_are_created_twice_and_deleted_with_all_that_is_theirs(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World) -> None:
        cluster = Cluster()
        admin = Admin(world, await leads(world, cluster, 2))
        await admin.create(4)
        name = "a/b %"
        for _ in range(2):
            await admin.ask(lambda leader: leader.create_subscription(name, STREAM))
        assert cluster.counted("subscribe") == 4
        with pytest.raises(WrongKind):
            await admin.ask(lambda leader: leader.create_subscription(name, QUEUE))
        leader = await admin.leader()
        await within(world, leader.join(name, "c1", STREAM, lambda message: None))
        for _ in range(2):
            await admin.ask(lambda leader: leader.delete_subscription(name))
        assert cluster.counted("unsubscribe") == 4
        assert not [key for key in await world.keys() if key.startswith(paths.subscriptions_path(TOPIC))]
        await check_rest(world, cluster)

    run(scenario, lacks)


def test_a_seek_goes_to_each_segment_as_its_time_says() -> None:
    """V14: sealed before it: all of it is skipped; created behind it: from its beginning; else to the time."""

    async def scenario(world: World) -> None:
        cluster = Cluster()
        admin = Admin(world, await leads(world, cluster, 1))
        await admin.create(2, subscriptions={"s": STREAM})
        await world.pass_ms(1_000_000)
        await admin.ask(lambda leader: leader.split(0))
        await world.pass_ms(1_000_000)
        cluster.calls.clear()
        at_ms = world.clock.wall_ms() - 500_000
        await admin.ask(lambda leader: leader.seek("s", at_ms))
        sought = {call[1].rpartition("-")[2]: call[3] for call in cluster.calls if call[0] == "seek"}
        assert sought == {"0": "Bound.END", "1": str(at_ms), "2": str(at_ms), "3": str(at_ms)}
        cluster.calls.clear()
        await admin.ask(lambda leader: leader.seek("s", at_ms - 1_000_000))
        sought = {call[1].rpartition("-")[2]: call[3] for call in cluster.calls if call[0] == "seek"}
        assert sought["2"] == sought["3"] == "Bound.BEGINNING"
        assert sought["0"] == str(at_ms - 1_000_000)
        cluster.calls.clear()
        await admin.ask(lambda leader: leader.skip_all("s"))
        assert [call[3] for call in cluster.calls if call[0] == "seek"] == ["Bound.END"] * 4

    run(scenario)


def test_h11_a_topic_can_be_created_anew_under_the_same_name() -> None:
    """H11: no leader is left that could make a ghost of the deleted one."""

    async def scenario(world: World) -> None:
        cluster = Cluster()
        admin = Admin(world, await leads(world, cluster, 3))
        for _ in range(3):
            await admin.create(2, subscriptions={"s": STREAM})
            await admin.ask(lambda leader: leader.delete())
            await world.pass_ms(5_000)
            assert [key for key in await world.keys() if key.startswith("/topics")] == []
        created = await admin.create(1)
        assert created.layout.epoch == 0
        await check_rest(world, cluster)

    run(scenario)


def test_brokers_share_topics_and_every_one_knows_who_leads() -> None:
    async def scenario(world: World) -> None:
        admin = Admin(world, await leads(world, Cluster(), 3))
        topics = [TopicName.parse(f"topic://tenant/ns/t-{number}") for number in range(12)]
        for topic in topics:
            await admin.create(1, topic)
        await world.pass_ms(3_000)
        assert all(each.leaders.led for each in admin.made), "every one leads some"
        assert sum(len(each.leaders.led) for each in admin.made) == 12
        for topic in topics:
            owners = {each.leaders.leader(topic) for each in admin.made}
            assert len(owners) == 1
            (owner,) = owners
            assert owner is not None
            for each in admin.made:
                if each.name != owner.broker:
                    with pytest.raises(NotLeader) as refused:
                        await within(world, each.leaders.get(topic))
                    assert refused.value.leader == owner.address

    run(scenario)


def test_h13_every_broker_reads_the_layout_as_it_is() -> None:
    """H13: what a follower tells of a topic is never older than the topic's record."""

    async def scenario(world: World) -> None:
        made = await leads(world, Cluster(), 2)
        admin = Admin(world, made)
        await admin.create(1)
        for epoch in range(1, 4):
            await admin.ask(lambda leader: leader.split(leader.layout.active[0].segment_id))
            for each in made:
                found = await Topics(each.process.store, each.process.pace).read(TOPIC)
                assert found.record.layout.epoch == epoch

    run(scenario)


def test_many_topics_that_rest_cost_no_call() -> None:
    """Nothing polls: with fifty topics an hour passes without a call but the one heartbeat of the session."""

    async def scenario(world: World) -> None:
        (lead,) = await leads(world, Cluster(), 1)
        admin = Admin(world, [lead])
        for number in range(50):
            await admin.create(2, TopicName.parse(f"topic://tenant/ns/t-{number}"), subscriptions={"s": STREAM})
        await world.pass_ms(5_000)
        assert len(lead.leaders.led) == 50
        before = {point: count for point, count in lead.process.script.arrivals.items() if "heartbeat" not in point}
        for _ in range(60):
            await world.pass_ms(60_000)
        after = {point: count for point, count in lead.process.script.arrivals.items() if "heartbeat" not in point}
        assert after == before

    run(scenario)
