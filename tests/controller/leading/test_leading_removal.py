"""Deletions: whoever has asked for one is told that it is done, whatever becomes of the leader and of answers."""

from __future__ import annotations

import asyncio

import pytest
from leading_world import TOPIC, Admin, Lead, check_rest, leads, pass_session, within

from controller.topics import NotLeader, TopicNotFound, paths
from metastore.providers.memory import Gate
from support.segments_at_work import Cluster
from support.world import World, run, settle
from txn.model.errors import SegmentUnavailable

every_store = pytest.mark.parametrize("lacks", [(), ("transact",)], ids=["transact", "plain"])


async def held_at_its_end(world: World, broker: Lead, lacks: tuple[str, ...]) -> tuple[asyncio.Task[None], Gate]:
    """A deletion that is done, and the store's answer to its last step, which is kept from its leader."""
    prefix = paths.operation_key(TOPIC)
    gate = broker.process.script.hold("delete" if lacks else "transact", prefix=prefix, after=True)
    deleting = broker.process.start(broker.leaders.delete(TOPIC))
    if not lacks:
        await settle()
        assert prefix in await world.keys()
        gate.release(1)  # it is written down what is to be done
    await settle()
    return deleting, gate


@every_store
def test_the_news_that_nothing_is_left_may_be_sooner_than_the_answer(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World) -> None:
        admin = Admin(world, await leads(world, Cluster(), 2))
        await admin.create(2)
        broker = await admin.broker()
        deleting, gate = await held_at_its_end(world, broker, lacks)
        await within(world, asyncio.wait_for(deleting, None))
        assert not [key for key in await world.keys() if key.startswith("/topics")]
        gate.release()
        await world.pass_ms(1_000)
        with pytest.raises(TopicNotFound):
            await within(world, broker.leaders.delete(TOPIC))

    run(scenario, lacks)


@every_store
def test_who_asks_while_it_is_being_deleted_is_told_when_it_is(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World) -> None:
        cluster = Cluster()
        admin = Admin(world, await leads(world, cluster, 2))
        await admin.create(2)
        broker = await admin.broker()
        (other,) = [each for each in admin.made if each is not broker]
        leader = await admin.leader()
        cluster.failures = [("delete", SegmentUnavailable("its owner is away"))] * 1_000
        deleting = [broker.process.start(leader.delete()) for _ in range(2)]
        await settle()
        deleting += [each.process.start(each.leaders.delete(TOPIC)) for each in (broker, other)]
        await world.pass_ms(3_000)
        assert not any(each.done() for each in deleting)
        cluster.failures.clear()
        await within(world, asyncio.wait(deleting))
        assert [each.exception() for each in deleting] == [None] * 4
        await check_rest(world, cluster)

    run(scenario, lacks)


def test_a_deletion_that_takes_too_long_is_to_be_asked_for_again() -> None:
    async def scenario(world: World) -> None:
        cluster = Cluster()
        admin = Admin(world, await leads(world, cluster, 2))
        await admin.create(2)
        broker = await admin.broker()
        cluster.failures = [("delete", SegmentUnavailable("its owner is away"))] * 1_000
        broker.process.start(broker.leaders.delete(TOPIC))
        await settle()
        with pytest.raises(NotLeader, match="is being deleted.*ask again"):
            await within(world, broker.leaders.delete(TOPIC))
        cluster.failures.clear()
        await within(world, broker.leaders.delete(TOPIC))

    run(scenario)


def test_a_leader_that_is_deposed_meanwhile_does_not_say_that_it_is_deleted() -> None:
    async def scenario(world: World) -> None:
        cluster = Cluster()
        admin = Admin(world, await leads(world, cluster, 2))
        await admin.create(2)
        broker = await admin.broker()
        cluster.failures = [("delete", SegmentUnavailable("its owner is away"))] * 1_000
        deleting = broker.process.start(broker.leaders.delete(TOPIC))
        await settle()
        broker.cut()
        await pass_session(world)
        await within(world, asyncio.wait({deleting}))
        assert isinstance(deleting.exception(), NotLeader)
        cluster.failures.clear()
        (other,) = [each for each in admin.made if each is not broker]
        await within(world, other.leaders.delete(TOPIC))
        assert not [key for key in await world.keys() if key.startswith("/topics")]

    run(scenario)
