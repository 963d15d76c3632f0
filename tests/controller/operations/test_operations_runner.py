"""Operations carried out over records: what cannot be done is undone, what fails is tried again, and never for ever."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace

import pytest

from controller.layout import Layout, TopicName, TopicRecord
from controller.operations import Kind, LeaderRecords, Operation, OperationFailed, Phase, Runner
from controller.operations.runner import ATTEMPTS_MAX
from controller.operations.steps import born
from controller.topics import Topics, paths
from metastore.coordination import Deposed, Election
from metastore.interface import Unavailable
from support.segments_at_work import Cluster, Work
from support.world import Process, World, run, settle
from txn.model.errors import SegmentUnavailable, TxnFatal

TOPIC = TopicName.parse("topic://tenant/ns/my-topic")
OWNER = {"owner": "alice"}
RECORD = TopicRecord(Layout.initial(2, 5), OWNER, {"maxSegments": 3})
every_store = pytest.mark.parametrize("lacks", [(), ("transact",)], ids=["transact", "plain"])


class Names:
    """The records of subscriptions, as far as operations care."""

    def __init__(self, **kinds: str) -> None:
        self.kinds = dict(kinds)

    async def names(self) -> Collection[str]:
        return list(self.kinds)

    async def with_cursors(self) -> Collection[str]:
        return list(self.kinds)

    async def create(self, name: str, kind: str) -> None:
        self.kinds[name] = kind

    async def delete(self, name: str) -> None:
        self.kinds.pop(name, None)


class Stage:
    """A leader of the topic, and its runner."""

    def __init__(self, process: Process, records: LeaderRecords, cluster: Cluster) -> None:
        self.process = process
        self.records = records
        self.cluster = cluster
        self.names = Names(s="STREAM")
        self.runner = Runner(records, Work(cluster, process), process.pace)

    @classmethod
    async def elected(cls, world: World) -> Stage:
        process = world.process()
        election = Election(process.store, paths.controller_key(TOPIC), partition_key=TOPIC.path, pace=process.pace)
        grant = await election.campaign()
        world.tasks.append(grant._guardian)
        return cls(process, LeaderRecords(grant, TOPIC, process.pace), Cluster())

    async def do(self, operation: Operation) -> TopicRecord | None:
        begun = await self.runner.begin(operation)
        assert begun is not None
        return await self.runner.run(begun, self.names)

    async def created(self) -> None:
        await self.do(Operation(Kind.CREATE, "c", 5, subscriptions={"s": "STREAM"}, record=RECORD))


def split() -> Operation:
    operation = Operation(Kind.SPLIT, "mark", 7, (0,))
    return replace(operation, names=born(TOPIC, RECORD.layout, operation.changed(RECORD.layout)))


def staged(scenario: Callable[[World, Stage], Awaitable[None]], lacks: tuple[str, ...] = ()) -> None:
    async def whole(world: World) -> None:
        stage = await Stage.elected(world)
        await stage.created()
        try:
            await scenario(world, stage)
        finally:
            stage.process.script.clear()
            await stage.records.grant.release()

    run(whole, lacks)


async def to_its_end(world: World, work: Awaitable[TopicRecord | None], step_ms: int = 5_000) -> TopicRecord | None:
    async def awaited() -> TopicRecord | None:
        return await work

    task = world.processes[0].start(awaited())
    for _ in range(2 * ATTEMPTS_MAX):
        await settle()
        if task.done():
            break
        await world.pass_ms(step_ms)
    return await task


@every_store
def test_only_the_layout_changes_and_only_once(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World, stage: Stage) -> None:
        after = await stage.do(split())
        assert after == RECORD.with_layout(RECORD.layout.split(0, 7))
        assert await stage.records.operation() is None

    staged(scenario, lacks)


@every_store
def test_while_one_operation_is_written_down_there_is_no_other(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World, stage: Stage) -> None:
        begun = await stage.runner.begin(split())
        assert begun is not None
        assert await stage.runner.begin(split()) == begun, "the same one, whose answer was lost"
        assert await stage.runner.begin(replace(split(), mark="another")) is None

    staged(scenario, lacks)


@every_store
@pytest.mark.parametrize("failing", [0, 1, 2])
def test_a_split_that_cannot_be_prepared_leaves_nothing(failing: int, lacks: tuple[str, ...]) -> None:
    async def scenario(world: World, stage: Stage) -> None:
        before = set(stage.cluster.segments)
        stage.cluster.failures += [("cursor", SegmentUnavailable("again"))] * failing
        stage.cluster.failures += [("create", TxnFatal("no room"))]
        with pytest.raises(OperationFailed, match="no room") as failed:
            await to_its_end(world, stage.do(split()))
        assert isinstance(failed.value.__cause__, TxnFatal)
        assert set(stage.cluster.segments) == before
        assert stage.cluster.open == before, "nothing was sealed"
        found = await stage.records.topic_record()
        assert found is not None
        assert found.record == RECORD
        assert await stage.records.operation() is None
        assert (await to_its_end(world, stage.do(split()))) is not None

    staged(scenario, lacks)


def test_what_is_only_put_off_is_tried_so_often_and_then_undone() -> None:
    async def scenario(world: World, stage: Stage) -> None:
        failures = stage.cluster.failures
        failures += [("create", SegmentUnavailable("nobody serves it"))] * (2 * ATTEMPTS_MAX + 5)
        with pytest.raises(OperationFailed, match="nobody serves it"):
            await to_its_end(world, stage.do(split()))
        assert len(failures) <= ATTEMPTS_MAX + 5
        failures[:] = [("cursor", SegmentUnavailable("not yet"))] * (ATTEMPTS_MAX - 1)
        assert await to_its_end(world, stage.do(split())) is not None, "once less often is not too often"

    staged(scenario)


def test_once_it_is_decided_there_is_no_way_back() -> None:
    async def scenario(world: World, stage: Stage) -> None:
        stage.cluster.failures += [("seal", TxnFatal("a bug"))] * (ATTEMPTS_MAX + 5)
        after = await to_its_end(world, stage.do(split()))
        assert after is not None
        assert len(after.layout.active) == 3
        assert stage.cluster.failures == []

    staged(scenario)


def test_the_store_may_be_away_for_as_long_as_it_likes() -> None:
    async def scenario(world: World, stage: Stage) -> None:
        stage.process.script.fail("transact", Unavailable("away"), times=ATTEMPTS_MAX + 5)
        after = await to_its_end(world, stage.do(split()))
        assert after is not None
        assert after.layout.epoch == 1

    staged(scenario)


@every_store
def test_a_subscription_that_cannot_be_is_taken_out_of_all_segments(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World, stage: Stage) -> None:
        stage.cluster.failures += [("subscribe", TxnFatal("too many"))]
        with pytest.raises(OperationFailed, match="too many"):
            await to_its_end(world, stage.do(Operation(Kind.SUBSCRIBE, "m", 5, subscriptions={"new": "QUEUE"})))
        assert all(each.cursors.keys() == {"s"} for each in stage.cluster.segments.values())
        assert stage.names.kinds.keys() == {"s"}

    staged(scenario, lacks)


def test_checkpoints_are_recorded_and_have_no_cursors() -> None:
    async def scenario(world: World, stage: Stage) -> None:
        await stage.do(Operation(Kind.SUBSCRIBE, "m", 5, subscriptions={"c": "CHECKPOINT"}))
        assert all("c" not in each.cursors for each in stage.cluster.segments.values())
        assert stage.names.kinds["c"] == "CHECKPOINT"

    staged(scenario)


@every_store
def test_properties_and_policy_that_change_meanwhile_are_kept(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World, stage: Stage) -> None:
        store, changed = stage.process.store, TopicRecord(RECORD.layout, {"owner": "bob"})

        class Meanwhile(Work):
            async def seal(self, segment: str) -> None:
                await store.put(TOPIC.path, changed.encode(), partition_key=TOPIC.path)
                await super().seal(segment)

        runner = Runner(stage.records, Meanwhile(stage.cluster, stage.process), stage.process.pace)
        begun = await runner.begin(split())
        assert begun is not None
        after = await runner.run(begun, stage.names)
        assert after is not None
        assert (after.properties, after.auto_scale_policy, after.layout.epoch) == ({"owner": "bob"}, None, 1)

    staged(scenario, lacks)


@every_store
def test_what_somebody_takes_away_by_force_is_said_to_be_taken_away(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World, stage: Stage) -> None:
        begun = await stage.runner.begin(split())
        assert begun is not None
        await stage.process.store.delete(paths.operation_key(TOPIC), partition_key=TOPIC.path)
        with pytest.raises(OperationFailed, match="by force"):
            await to_its_end(world, stage.runner.run(begun, stage.names))

    staged(scenario, lacks)


@every_store
def test_a_grant_that_is_over_ends_it_at_once(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World, stage: Stage) -> None:
        begun = await stage.runner.begin(split())
        assert begun is not None
        await stage.records.grant.release()
        with pytest.raises(Deposed):
            await stage.runner.run(begun, stage.names)
        assert begun.operation.phase is Phase.PREPARING

    staged(scenario, lacks)


@every_store
def test_who_takes_over_leaves_no_version_that_an_earlier_leader_knew(lacks: tuple[str, ...]) -> None:
    """H1: where only versions fence, a write that is on its way finds another one."""

    async def scenario(world: World, stage: Stage) -> None:
        begun = await stage.runner.begin(split())
        before = await stage.records.topic_record()
        await stage.records.take_over()
        after, there = await stage.records.topic_record(), await stage.records.operation()
        assert before is not None
        assert after is not None
        assert begun is not None
        assert there is not None
        assert (after.record, there.operation) == (before.record, begun.operation)
        assert (after.version_id > before.version_id) is bool(lacks)
        assert (there.version_id > begun.version_id) is bool(lacks)
        found = [name async for name in Topics(stage.process.store, stage.process.pace).names(TOPIC.parent, OWNER)]
        assert found == [TOPIC], "it is found by its properties as before"

    staged(scenario, lacks)
