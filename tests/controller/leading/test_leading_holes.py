"""Holes of Pulsar's scalable topics that belong to no single room, each against ours (V17)."""

from __future__ import annotations

import pytest
from leading_world import TOPIC, Admin, check_rest, leads, put_drained, record_of, within

from controller.layout import LayoutError
from controller.subscriptions import Assigned, Message, SubscriptionKind
from controller.topics import NotLeader, OperationUnderWay, paths
from metastore.interface import ConditionFailed
from support.segments_at_work import Cluster
from support.world import World, run, settle
from txn.model.errors import SegmentUnavailable

STREAM, QUEUE = SubscriptionKind.STREAM, SubscriptionKind.QUEUE
every_store = pytest.mark.parametrize("lacks", [(), ("transact",)], ids=["transact", "plain"])


@every_store
@pytest.mark.parametrize("step", ["create", "seal"])
def test_h2_a_split_that_was_written_down_is_finished_by_whoever_leads_next(step: str, lacks: tuple[str, ...]) -> None:
    """V17.2: Pulsar remembers nothing of it; a parent that is closed and has no children is so for ever."""

    async def scenario(world: World) -> None:
        cluster = Cluster()
        admin = Admin(world, await leads(world, cluster, 2))
        await admin.create(1, subscriptions={"s": STREAM})
        broker = await admin.broker()
        leader = broker.leaders.led[TOPIC.path]
        cluster.failures += [(step, SegmentUnavailable("not now"))] * 50
        splitting = broker.process.start(leader.split(0))
        await settle()
        assert not splitting.done()
        assert paths.operation_key(TOPIC) in await world.keys()
        await broker.kill()
        cluster.failures.clear()
        for _ in range(8):
            await world.pass_ms(3_000)
        assert isinstance(splitting.exception(), NotLeader)
        record = await record_of(world)
        assert record is not None
        assert len(record.layout.active) == 2
        assert len(cluster.open) == 2, "every range takes messages"
        await check_rest(world, cluster)

    run(scenario, lacks)


@every_store
def test_h3_splits_of_different_segments_and_a_pruning_at_once(lacks: tuple[str, ...]) -> None:
    """V17.3: numbers are given when an operation is written down, one operation at a time: whoever comes too late is
    told so, and no child is ever seen that lacks a cursor, nor one left behind that nobody knows."""

    async def scenario(world: World) -> None:
        cluster = Cluster()
        admin = Admin(world, await leads(world, cluster, 1, retention_minutes=0))
        await admin.create(4, subscriptions={"s": STREAM, "q": QUEUE})
        leader, process = await admin.leader(), admin.made[0].process
        await within(world, leader.split(0))
        for name in ("s", "q"):
            await put_drained(world, 0, name)  # from here on segment 0 may be pruned at any moment
        splits = [process.start(leader.split(each)) for each in (1, 2, 3)]
        for _ in range(20):
            await world.pass_ms(500)
        refused = [each.exception() for each in splits if each.exception() is not None]
        assert all(isinstance(each, OperationUnderWay | LayoutError) for each in refused)
        for segment_id in (1, 2, 3):
            if leader.layout.segment(segment_id).is_active:
                await within(world, leader.split(segment_id))
        assert len(leader.layout.active) == 8
        assert 0 not in leader.layout.segments
        born = [name for call, name, *_ in cluster.calls if call == "create"]
        assert len(born) == len(set(born)), "no segment was made twice under another number"
        await check_rest(world, cluster)

    run(scenario, lacks)


@every_store
def test_h6_a_new_leader_knows_what_was_drained_and_says_nothing_else_in_between(lacks: tuple[str, ...]) -> None:
    """Pulsar's new leader knows of nothing drained: he takes children away, and gives them back when he has asked."""

    async def scenario(world: World) -> None:
        admin = Admin(world, await leads(world, Cluster(), 2))
        await admin.create(1, subscriptions={"s": STREAM})
        told: list[Message] = []
        await admin.ask(lambda leader: leader.join("s", "one", STREAM, told.append))
        await admin.ask(lambda leader: leader.split(0))
        await put_drained(world, 0, "s")
        await world.pass_ms(1_000)
        assert segments_of(told)[-1] == [1, 2]
        before = await admin.leader()
        await (await admin.broker()).kill()
        after = await admin.leader()
        assert after.term > before.term
        told.clear()
        await within(world, after.join("s", "one", STREAM, told.append))
        for _ in range(10):
            await world.pass_ms(500)
        assert segments_of(told) == [[1, 2]]

    run(scenario, lacks)


def segments_of(told: list[Message]) -> list[list[int]]:
    """What a consumer was told to read, one after another."""
    return [[each.segment_id for each in one.segments] for one in told if isinstance(one, Assigned)]


def test_h11_an_operation_that_is_written_down_late_is_not_done_again() -> None:
    """H11: its answer was lost, it was written down once more and done, and then the first one arrives. Whatever it
    was about may be there again by then, under the same name."""

    async def scenario(world: World) -> None:
        cluster = Cluster()
        admin = Admin(world, await leads(world, cluster, 2))
        await admin.create(1, subscriptions={"s": QUEUE})
        broker = await admin.broker()
        before = broker.leaders.led[TOPIC.path]
        lost = broker.process.script.lose("transact", prefix=paths.operation_key(TOPIC))
        await within(world, before.delete_subscription("s"))
        await admin.ask(lambda leader: leader.create_subscription("s", QUEUE))
        assert (await admin.leader()).term > before.term, "what comes late comes under a grant that is over"
        lost.arrive()
        assert [type(each) for each in lost.outcomes] == [ConditionFailed]
        await settle()
        await admin.ask(lambda leader: leader.split(0))
        assert (await admin.leader()).subscriptions.names == {"s"}
        await check_rest(world, cluster)

    run(scenario)


@pytest.mark.parametrize("is_made", [False, True], ids=["removed", "made"])
def test_h11_one_that_is_written_down_late_where_nothing_can_refuse_it_comes_to_nothing(is_made: bool) -> None:
    """The same on a store without `transact`, where it is written down: whoever leads by then found none, and led."""

    async def scenario(world: World) -> None:
        cluster = Cluster()
        admin = Admin(world, await leads(world, cluster, 2))
        await admin.create(1, subscriptions={} if is_made else {"s": QUEUE})
        broker = await admin.broker()
        before = broker.leaders.led[TOPIC.path]
        lost = broker.process.script.lose("put", prefix=paths.operation_key(TOPIC))
        if is_made:
            await within(world, before.create_subscription("s", QUEUE))
            await admin.ask(lambda leader: leader.delete_subscription("s"))
        else:
            await within(world, before.delete_subscription("s"))
            await admin.ask(lambda leader: leader.create_subscription("s", QUEUE))
        names = (await admin.leader()).subscriptions.names
        lost.arrive()
        assert lost.outcomes == [None]
        await admin.ask(lambda leader: leader.split(0))
        assert paths.operation_key(TOPIC) not in await world.keys()
        assert (await admin.leader()).subscriptions.names == names == (set() if is_made else {"s"})
        await check_rest(world, cluster)

    run(scenario, ("transact",))


@pytest.mark.parametrize("kind", ["deletion", "split"])
def test_h11_what_comes_late_of_a_topic_is_no_business_of_the_one_that_is_there(kind: str) -> None:
    async def scenario(world: World) -> None:
        cluster = Cluster()
        admin = Admin(world, await leads(world, cluster, 2))
        await admin.create(1, subscriptions={"s": QUEUE})
        broker = await admin.broker()
        before = broker.leaders.led[TOPIC.path]
        lost = broker.process.script.lose("put", prefix=paths.operation_key(TOPIC))
        if kind == "deletion":
            await within(world, before.delete())
            await admin.create(1, subscriptions={"s": QUEUE})
        else:
            await within(world, before.split(0))
        layout = (await admin.leader()).layout
        lost.arrive()
        await admin.ask(lambda leader: leader.create_subscription("other", QUEUE))
        leader = await admin.leader()
        assert leader.layout == layout
        assert leader.subscriptions.names == {"s", "other"}
        assert paths.operation_key(TOPIC) not in await world.keys()
        await check_rest(world, cluster)

    run(scenario, ("transact",))


@every_store
@pytest.mark.parametrize("write", [0, 1])
def test_h11_a_topic_leaves_no_consumers_behind_wherever_its_deletion_is_cut_off(
    write: int, lacks: tuple[str, ...]
) -> None:
    """H11: the names of subscriptions come from their records, so these go when nothing else is left of them."""

    async def scenario(world: World) -> None:
        cluster = Cluster()
        admin = Admin(world, await leads(world, cluster, 2))
        await admin.create(1, subscriptions={"s": STREAM})
        broker = await admin.broker()
        leader = broker.leaders.led[TOPIC.path]
        await within(world, leader.join("s", "one", STREAM, lambda message: None))
        prefix = paths.subscription_key(TOPIC, "s")
        method = ("delete_range", "delete" if lacks else "transact")[write]
        gate = broker.process.script.hold(method, prefix=prefix)
        deleting = broker.process.start(leader.delete())
        await settle()
        assert gate.held
        await broker.kill()
        for _ in range(8):
            await world.pass_ms(3_000)
        assert isinstance(deleting.exception(), NotLeader)
        assert not [key for key in await world.keys() if key.startswith("/topics")]
        assert cluster.segments == {}

    run(scenario, lacks)
