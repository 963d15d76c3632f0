"""Deadlines and collection: nothing stays open, nothing is removed that somebody still needs."""

from __future__ import annotations

import pytest

from metastore.interface import Unavailable
from support.world import Process, World, run, settle
from txn.coordinator.collector import RETENTION_MS, REVISIT_MS, Collector
from txn.coordinator.coordinator import Coordinator
from txn.coordinator.deadlines import ABORTS_AT_ONCE_MAX, NAP_S_MAX, RETRY_S, DeadlineSweep
from txn.coordinator.registry import STALE_DEADLINES_MAX, OpenTransactions
from txn.model import paths
from txn.model.header import Cause, TxnState
from txn.model.ids import TxnId
from txn.model.operation import Operation, OperationKind
from txn.model.position import Position

TIMEOUT_MS = 60_000


class KnownGone:
    """Participants of which a test says which are gone."""

    def __init__(self) -> None:
        self.segments: set[str] = set()

    async def is_gone(self, operation: Operation) -> bool:
        return operation.segment in self.segments


class Sweeper:
    """A process with a coordinator and all sweeps."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.gone = KnownGone()
        self.registry = OpenTransactions(process.store, process.pace)
        self.coordinator = Coordinator(process.store, 0, self.registry, pace=process.pace)
        self.deadlines = DeadlineSweep(self.coordinator, self.registry, process.pace)
        self.collector = Collector(process.store, self.gone, process.pace)

    async def start(self) -> None:
        self.process.start(self.registry.follow())
        self.process.start(self.deadlines.run())
        self.process.start(self.collector.run())
        await settle()

    async def operate(self, txn_id: TxnId, segment: str = "segment://s") -> str:
        operation = Operation(OperationKind.WRITE, segment, Position(1, 1))
        stored = await self.process.store.put(
            paths.operation_sequence(txn_id),
            operation.encode(),
            partition_key=paths.partition(txn_id),
            sequence_deltas=(1,),
            indexes=operation.indexes(),
        )
        return stored.key


async def sweeper(world: World) -> Sweeper:
    made = Sweeper(world.process())
    await made.start()
    return made


def test_a_transaction_is_aborted_at_its_deadline_and_not_before() -> None:
    async def scenario(world: World) -> None:
        one = await sweeper(world)
        soon, later = await one.coordinator.begin(TIMEOUT_MS), await one.coordinator.begin(TIMEOUT_MS + 5_000)
        await settle()
        for _ in range(TIMEOUT_MS // 10_000 - 1):
            await world.pass_ms(10_000)
        await world.pass_ms(9_999)
        assert (await one.coordinator.describe(soon)).is_open
        await world.pass_ms(1)
        header = await one.coordinator.describe(soon)
        assert (header.state, header.cause) == (TxnState.ABORTED, Cause.DEADLINE)
        assert (await one.coordinator.describe(later)).is_open
        await world.pass_ms(5_000)
        assert not (await one.coordinator.describe(later)).is_open
        assert one.deadlines.expired == 2

    run(scenario)


def test_deadlines_are_kept_for_transactions_of_coordinators_that_are_gone() -> None:
    async def scenario(world: World) -> None:
        first = await sweeper(world)
        txn_id = await first.coordinator.begin(TIMEOUT_MS)
        for task in world.tasks:
            task.cancel()
        await world.pass_ms(TIMEOUT_MS)
        second = await sweeper(world)
        assert (await second.coordinator.describe(txn_id)).cause is Cause.DEADLINE

    run(scenario)


def test_a_commit_in_time_wins_against_a_sweep_that_is_late() -> None:
    async def scenario(world: World) -> None:
        one = await sweeper(world)
        txn_id = await one.coordinator.begin(TIMEOUT_MS)
        header = await one.coordinator.commit(txn_id)
        for _ in range(10):
            await world.pass_ms(10_000)
        assert header.state is TxnState.COMMITTED
        assert one.deadlines.expired == 0

    run(scenario)


def test_a_sweep_goes_on_when_the_store_was_away() -> None:
    async def scenario(world: World) -> None:
        one = await sweeper(world)
        txn_id = await one.coordinator.begin(5_000)
        await settle()
        one.process.script.fail("put", Unavailable("no leader"), prefix="/txn/", times=2)
        await world.pass_ms(5_000)
        assert (await one.coordinator.describe(txn_id)).is_open
        for _ in range(3):
            await world.pass_ms(int(RETRY_S * 1000))
        assert not (await one.coordinator.describe(txn_id)).is_open

    run(scenario)


def test_many_that_run_out_together_are_aborted_in_bounded_batches() -> None:
    async def scenario(world: World) -> None:
        one = await sweeper(world)
        ids = [await one.coordinator.begin(5_000) for _ in range(ABORTS_AT_ONCE_MAX + 10)]
        await settle()
        gate = one.process.script.hold("put", prefix="/txn/")
        await world.pass_ms(5_000)
        assert len(gate.held) == ABORTS_AT_ONCE_MAX
        gate.release()
        await settle()
        await settle()
        assert all([not (await one.coordinator.describe(txn_id)).is_open for txn_id in ids])

    run(scenario)


def test_a_registry_keeps_few_deadlines_of_what_has_ended() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        registry = OpenTransactions(process.store, process.pace)
        coordinator = Coordinator(process.store, 0, registry, pace=process.pace)
        kept = await coordinator.begin(TIMEOUT_MS)
        for _ in range(STALE_DEADLINES_MAX + 10):
            await coordinator.commit(await coordinator.begin(TIMEOUT_MS))
        assert registry.count == 1
        assert len(registry._deadlines) <= STALE_DEADLINES_MAX
        assert registry.due(process.clock.wall_ms() + TIMEOUT_MS) == [kept]

    run(scenario)


def test_a_header_goes_after_its_retention_when_no_operation_is_left() -> None:
    async def scenario(world: World) -> None:
        one = await sweeper(world)
        txn_id = await one.coordinator.begin(TIMEOUT_MS)
        await one.coordinator.commit(txn_id)
        await settle()
        for _ in range(RETENTION_MS // 10_000 - 1):
            await world.pass_ms(10_000)
        await world.pass_ms(9_999)
        assert paths.header_key(txn_id) in await world.keys()
        await world.pass_ms(1)
        assert paths.header_key(txn_id) not in await world.keys()
        assert one.collector.collected == 1

    run(scenario)


@pytest.mark.parametrize("is_gone", [False, True])
def test_operations_of_who_is_away_are_kept_and_those_of_who_is_gone_removed(is_gone: bool) -> None:
    async def scenario(world: World) -> None:
        one = await sweeper(world)
        txn_id = await one.coordinator.begin(TIMEOUT_MS)
        key = await one.operate(txn_id)
        await one.coordinator.abort(txn_id)
        if is_gone:
            one.gone.segments.add("segment://s")
        for _ in range(RETENTION_MS // 10_000):
            await world.pass_ms(10_000)
        kept = [paths.header_key(txn_id), key]
        assert [each in await world.keys() for each in kept] == [not is_gone] * 2
        if not is_gone:
            await one.process.store.delete(key, partition_key=paths.partition(txn_id))
            for _ in range(REVISIT_MS // 10_000):
                await world.pass_ms(10_000)
            assert paths.header_key(txn_id) not in await world.keys()

    run(scenario)


def test_two_collectors_do_not_hinder_each_other() -> None:
    async def scenario(world: World) -> None:
        one, other = await sweeper(world), await sweeper(world)
        ids = [await one.coordinator.begin(TIMEOUT_MS) for _ in range(20)]
        for txn_id in ids:
            await one.coordinator.commit(txn_id)
        for _ in range(RETENTION_MS // 10_000 + int(NAP_S_MAX) // 10):
            await world.pass_ms(10_000)
        assert [key for key in await world.keys() if key.startswith("/txn/")] == []
        assert one.collector.collected + other.collector.collected >= 20

    run(scenario)


def test_a_damaged_record_keeps_no_other_transaction_from_ending() -> None:
    async def scenario(world: World) -> None:
        one = await sweeper(world)
        store = one.process.store
        for index, secondary in ((paths.BY_DEADLINE, paths.deadline_key(1)), (paths.BY_FINAL_STATE, "ABORTED:1")):
            for key in (f"/txn/md_9_{len(index)}", f"/txn/{len(index)}_9"):
                await store.put(key, b"damaged", partition_key=key, indexes=[(index, secondary)])
        ended, open_one = await one.coordinator.begin(TIMEOUT_MS), await one.coordinator.begin(TIMEOUT_MS)
        await one.coordinator.commit(ended)
        damaged = await one.operate(ended)
        await store.put(damaged, b"damaged", partition_key=paths.partition(ended))
        for _ in range((TIMEOUT_MS + RETENTION_MS + REVISIT_MS) // 10_000 + 1):
            await world.pass_ms(10_000)
        assert one.collector.collected == 1, "the one that was open, ended at its deadline; the damaged one stays"
        assert paths.header_key(ended) in await world.keys()
        await store.delete(damaged, partition_key=paths.partition(ended))
        for _ in range(REVISIT_MS // 10_000 + 1):
            await world.pass_ms(10_000)
        assert one.collector.collected == 2
        assert one.registry.count == 0
        assert open_one != ended

    run(scenario)
