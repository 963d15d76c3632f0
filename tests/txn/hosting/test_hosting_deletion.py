"""A segment that is deleted leaves nothing, wherever it is interrupted; who is gone for good is told from others."""

from __future__ import annotations

import pytest
from hosting_world import Bare, Keeper, brokers

from metastore.coordination.stamps import FenceStamp
from metastore.faults import Faults
from metastore.interface import OutcomeUnknown, StoreError, Unavailable
from support.world import Process, World, run, settle
from txn.coordinator.collector import Collector
from txn.coordinator.coordinator import Coordinator
from txn.coordinator.registry import OpenTransactions
from txn.hosting.deletion import DELETES_AT_ONCE_MAX
from txn.hosting.descriptor import SegmentState
from txn.hosting.participants import StoredParticipants
from txn.model import paths
from txn.model.errors import SegmentUnavailable
from txn.model.ids import TxnId
from txn.model.operation import Operation, OperationKind
from txn.model.position import Position

every_kind = pytest.mark.parametrize("lacks", [(), ("transact", "every_change", "index_order")], ids=["full", "plain"])
every_size = pytest.mark.parametrize("shards", [1, 3, 8])
POINTS = [
    "txn.own.granted",
    "txn.delete.log.before",
    "txn.delete.log.after",
    "txn.delete.records.after",
    "txn.delete.operations.after",
    "txn.delete.descriptor.after",
]
S, NEIGHBOUR = "segment://t/1", "segment://t/10"


class Interruption(Faults):
    """Cuts the work short when it comes to a point for the first time."""

    def __init__(self) -> None:
        self.point = ""

    def reach(self, point: str) -> None:
        if point == self.point:
            self.point = ""
            raise SegmentUnavailable(f"interrupted at {point}")


async def operate(process: Process, txn_id: TxnId, segment: str, subscription: str | None = None) -> str:
    """An operation record as an owner would put it."""
    kind = OperationKind.WRITE if subscription is None else OperationKind.ACK
    operation = Operation(kind, segment, Position(1, 1), subscription=subscription)
    stored = await process.store.put(
        paths.operation_sequence(txn_id),
        operation.encode(),
        partition_key=paths.partition(txn_id),
        sequence_deltas=(1,),
        indexes=operation.indexes(),
    )
    return stored.key


async def subscribe(process: Process, segment: str, subscription: str) -> None:
    """A cursor's record, whatever it says."""
    key = paths.cursor_key(segment, subscription)
    await process.store.put(key, FenceStamp(1).on(b'{"format":1,"mark":"0:0"}'), partition_key=segment)


async def furnish(keeper: Keeper, segment: str) -> None:
    """A segment with something of everything."""
    process = keeper.process
    await keeper.descriptors.create(segment, "stored")
    await settle()
    served = keeper.takeover.find(segment)
    assert isinstance(served, Bare)
    await served.log.append([b"one"])
    for subscription in ("a", "b"):
        await subscribe(process, segment, subscription)
    for number in range(3):
        key = paths.aborted_key(segment, TxnId(0, number))
        index = (paths.ABORTED_BY_POSITION, paths.aborted_position_key(segment, Position(1, number)))
        await process.store.put(key, b"{}", partition_key=segment, indexes=[index])
    await process.store.put(paths.producers_key(segment), b"{}", partition_key=segment)
    for number in range(4):
        for each in (None, "a", "b"):
            await operate(process, TxnId(0, number), segment, each)


def of_segment(keys: list[str], segment: str) -> list[str]:
    return [key for key in keys if key.startswith(f"{paths.segment_path(segment)}/") or key == paths.owner_key(segment)]


@every_size
@every_kind
@pytest.mark.parametrize("point", ["", *POINTS])
def test_h9_a_deleted_segment_leaves_nothing_wherever_it_is_interrupted(
    point: str, lacks: tuple[str, ...], shards: int
) -> None:
    async def scenario(world: World) -> None:
        interruption = Interruption()
        one = Keeper(world.process(), faults=interruption)
        await one.start()
        for segment in (S, NEIGHBOUR):
            await furnish(one, segment)
        neighbours = sorted(of_segment(await world.keys(), NEIGHBOUR))
        operations = [key for key in await world.keys() if key.startswith(paths.OPERATIONS)]
        interruption.point = point
        await one.descriptors.advance(S, SegmentState.DELETING)
        for _ in range(4):
            await settle()
            await world.pass_ms(1_000)
        assert not interruption.point
        keys = await world.keys()
        assert of_segment(keys, S) == []
        assert sorted(of_segment(keys, NEIGHBOUR)) == neighbours
        assert len([key for key in keys if key.startswith(paths.OPERATIONS)]) == len(operations) // 2
        assert one.owned == [NEIGHBOUR]

    run(scenario, lacks, shards)


@pytest.mark.parametrize("point", POINTS)
def test_a_deletion_is_resumed_by_whoever_comes_next(point: str) -> None:
    async def scenario(world: World) -> None:
        interruption = Interruption()
        one = Keeper(world.process(), faults=interruption)
        await one.start()
        await furnish(one, S)
        (other,) = await brokers(world, 1)
        interruption.point = point
        await other.descriptors.advance(S, SegmentState.DELETING)
        await settle()
        await settle()
        assert not interruption.point, "it was interrupted, and waits before it tries again"
        one.process.store.line.cut()
        for _ in range(12):
            await world.pass_ms(1_500)
            await settle()
        assert of_segment(await world.keys(), S) == []
        assert not [key for key in await world.keys() if key.startswith(paths.OPERATIONS)]

    run(scenario)


@pytest.mark.parametrize(
    ("method", "error"),
    [
        ("delete", Unavailable("away")),
        ("delete", OutcomeUnknown("cut off")),
        ("delete_range", Unavailable("away")),
        ("delete_range", OutcomeUnknown("cut off")),
        ("scan", Unavailable("away")),
    ],
)
def test_a_deletion_goes_on_when_the_store_was_away(method: str, error: StoreError) -> None:
    async def scenario(world: World) -> None:
        (one,) = await brokers(world, 1)
        await furnish(one, S)
        one.process.script.fail(method, error, prefix="" if method == "scan" else "/segments/", times=3)
        await one.descriptors.advance(S, SegmentState.DELETING)
        for _ in range(30):
            await settle()
            await world.pass_ms(1_000)
        assert of_segment(await world.keys(), S) == []

    run(scenario)


def test_many_operations_are_deleted_in_bounded_batches() -> None:
    async def scenario(world: World) -> None:
        (one,) = await brokers(world, 1)
        await one.descriptors.create(S, "stored")
        for number in range(DELETES_AT_ONCE_MAX + 10):
            await operate(one.process, TxnId(0, number), S)
        gate = one.process.script.hold("delete", prefix=paths.OPERATIONS)
        await one.descriptors.advance(S, SegmentState.DELETING)
        await settle()
        assert len(gate.held) == DELETES_AT_ONCE_MAX
        gate.release()
        for _ in range(5):
            await settle()
        assert not [key for key in await world.keys() if key.startswith(paths.OPERATIONS)]

    run(scenario)


def test_an_operation_that_takes_a_number_anew_is_not_mistaken_for_a_deleted_one() -> None:
    async def scenario(world: World) -> None:
        (one,) = await brokers(world, 1)
        await furnish(one, S)
        txn_id = TxnId(5, 5)
        doomed = await operate(one.process, txn_id, S)
        gate = one.process.script.hold("delete", prefix=paths.operations_path(txn_id))
        await one.descriptors.advance(S, SegmentState.DELETING)
        await gate.arrived()
        other = world.process()
        await other.store.delete(doomed, partition_key=paths.partition(txn_id))
        wanted = await operate(other, txn_id, NEIGHBOUR)
        assert wanted == doomed, "a store may give the greatest number again"
        gate.release()
        for _ in range(5):
            await settle()
        assert wanted in await world.keys()
        assert of_segment(await world.keys(), S) == []

    run(scenario)


@every_size
def test_h5_who_is_gone_is_told_from_who_is_not_on_any_number_of_shards(shards: int) -> None:
    async def scenario(world: World) -> None:
        (one,) = await brokers(world, 1)
        participants = StoredParticipants(one.process.store)

        async def is_gone(subscription: str | None = None) -> bool:
            kind = OperationKind.WRITE if subscription is None else OperationKind.ACK
            return await participants.is_gone(Operation(kind, S, Position(1, 1), subscription=subscription))

        assert await is_gone()
        await one.descriptors.create(S, "stored")
        assert not await is_gone()
        assert await is_gone("a")
        await subscribe(one.process, S, "a")
        await subscribe(one.process, S, "ab")
        assert not await is_gone("a")
        await one.process.store.delete(paths.cursor_key(S, "a"), partition_key=S)
        assert await is_gone("a")
        key = paths.cursor_key(S, "ab")
        await one.process.store.put(key, FenceStamp(2, is_deleted=True).on(b""), partition_key=S)
        assert await is_gone("ab"), "a fence without a value is no subscription"
        await one.descriptors.advance(S, SegmentState.SEALED)
        assert not await is_gone()
        await one.descriptors.advance(S, SegmentState.DELETING)
        assert await is_gone(), "nobody will ever serve it again"

    run(scenario, shards=shards)


@every_size
@every_kind
@pytest.mark.parametrize("is_created_again", [False, True])
def test_h9_what_comes_late_for_a_deleted_segment_is_collected_and_nothing_of_its_namesake(
    is_created_again: bool, lacks: tuple[str, ...], shards: int
) -> None:
    async def scenario(world: World) -> None:
        (one,) = await brokers(world, 1)
        process = one.process
        registry = OpenTransactions(process.store, process.pace)
        process.start(registry.follow())
        coordinator = Coordinator(process.store, 0, registry, pace=process.pace)
        collector = Collector(process.store, StoredParticipants(process.store), process.pace, retention_ms=0)
        process.start(collector.run())
        await furnish(one, S)
        txn_id = await coordinator.begin(60_000)
        await one.descriptors.advance(S, SegmentState.DELETING)
        for _ in range(4):
            await settle()
            await world.pass_ms(1_000)
        late = await operate(process, txn_id, S)
        if is_created_again:
            await one.descriptors.create(S, "stored")
        await coordinator.commit(txn_id)
        for _ in range(4):
            await settle()
            await world.pass_ms(10_000)
        keys = await world.keys()
        # The new owner of the name finds it like his own, and would see to it; here there is none.
        assert (late in keys) == is_created_again
        assert (paths.header_key(txn_id) in keys) == is_created_again

    run(scenario, lacks, shards)


@every_size
@pytest.mark.parametrize("lacks", [(), ("transact", "every_change", "index_order")], ids=["full", "plain"])
def test_what_participants_have_said_goes_with_the_header_and_before_it(lacks: tuple[str, ...], shards: int) -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        registry = OpenTransactions(process.store, process.pace)
        process.start(registry.follow())
        coordinator = Coordinator(process.store, 0, registry, pace=process.pace)
        collector = Collector(process.store, StoredParticipants(process.store), process.pace, retention_ms=0)
        ids = [await coordinator.begin(60_000) for _ in range(12)]
        for txn_id in ids:
            for segment, subscription in ((S, None), ("~", "Z~"), ("%", None)):
                key = paths.applied_key(txn_id, segment, subscription)
                await process.store.put(key, b"{}", partition_key=paths.partition(txn_id))
        for txn_id in ids[:-1]:
            await coordinator.commit(txn_id)
        process.script.fail("delete", Unavailable("away"), prefix=paths.HEADERS, times=2)
        process.start(collector.run())
        for _ in range(10):
            await settle()
            await world.pass_ms(10_000)
        keys = await world.keys()
        assert [key for key in keys if key.startswith(f"{paths.HEADERS}/")] == [paths.header_key(ids[-1])]
        applied = [key for key in keys if key.startswith(paths.APPLIED)]
        assert len(applied) == 3
        assert all(key.startswith(f"{paths.applied_path(ids[-1])}/") for key in applied)

    run(scenario, lacks, shards)
