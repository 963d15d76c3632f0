"""Holes of Pulsar's scalable topics that belong to no single room, each against ours (V17)."""

from __future__ import annotations

import pytest
from leading_world import TOPIC, Admin, check_rest, leads, put_drained, record_of, within

from controller.layout import LayoutError
from controller.subscriptions import SubscriptionKind
from controller.topics import NotLeader, OperationUnderWay, paths
from support.segments_at_work import Cluster
from support.world import World, run, settle
from txn.model.errors import SegmentUnavailable

STREAM, QUEUE = SubscriptionKind.STREAM, SubscriptionKind.QUEUE
every_store = pytest.mark.parametrize("lacks", [(), ("transact",)], ids=["transact", "plain"])


@every_store
@pytest.mark.parametrize("step", ["create", "seal"])
def test_h2_a_split_that_was_written_down_is_finished_by_whoever_leads_next(
    step: str, lacks: tuple[str, ...]
) -> None:
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
