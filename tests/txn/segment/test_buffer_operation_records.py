"""Operation records: all or none, refused once the transaction is decided, and removed with a word."""

from __future__ import annotations

import asyncio

import pytest
from buffer_stage import ABORTED, COMMITTED, SEGMENT, Lacks, begin, both_stores, decide, forget, txn

from metastore.interface import ABSENT, OutcomeUnknown, StoreError, Unavailable
from support.world import World, run, settle
from txn.model import paths
from txn.model.applied import Applied
from txn.model.errors import TooManyOperations, TxnConflict
from txn.model.operation import Operation, OperationKind
from txn.model.position import Position
from txn.outcomes import Outcomes
from txn.segment.operations import OPERATIONS_AT_ONCE_MAX, OperationRecords

ONE = txn(1)
APPLIED = Applied(5, "broker", 7, 3, 1, 2)


def acks(count: int) -> list[Operation]:
    return [Operation(OperationKind.ACK, SEGMENT, Position(1, entry), subscription="s") for entry in range(count)]


async def version_of(outcomes: Outcomes) -> int:
    return (await outcomes.follow(ONE).known()).version_id


@both_stores
def test_they_are_put_together_stamped_watched_and_removed_with_a_word(lacks: Lacks) -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        await begin(process.store, ONE)
        records = OperationRecords(process.store, SEGMENT, "broker", 7, process.pace)
        async with Outcomes(process.store, process.pace) as outcomes, records.watch_acks("s") as view:
            assert await view.news() == frozenset()
            version = await version_of(outcomes)
            keys = await records.put(ONE, version, acks(3))
            write = Operation(OperationKind.WRITE, SEGMENT, Position(9, 0))
            await records.put(ONE, version, [write])
            found = await records.of_transaction(ONE, "s")
            assert sorted(each.key for each in found) == sorted(keys)
            assert {(each.operation.term, each.operation.broker) for each in found} == {(7, "broker")}
            assert [each.operation.position for each in await records.of_transaction(ONE)] == [Position(9, 0)]
            while len(view.records) < 3:
                await view.news()
            await decide(process.store, ONE, COMMITTED)
            await outcomes.follow(ONE).decided()
            version = await version_of(outcomes)
            for _ in range(2):
                await records.delete_acks(ONE, "s", keys, APPLIED, header_version=version)
            assert await records.of_transaction(ONE, "s") == []
            key = paths.applied_key(ONE, SEGMENT, "s")
            word = await process.store.get(key, partition_key=paths.partition(ONE))
            assert word is not None
            assert Applied.decode(word.value or b"") == APPLIED

    run(scenario, lacks)


@both_stores
def test_a_decided_transaction_gets_no_operation(lacks: Lacks) -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        await begin(process.store, ONE)
        records = OperationRecords(process.store, SEGMENT, "broker", 7, process.pace)
        async with Outcomes(process.store, process.pace) as outcomes:
            version = await version_of(outcomes)
            await decide(process.store, ONE, ABORTED)
            with pytest.raises(TxnConflict, match=str(ONE)):
                await records.put(ONE, version, acks(3))
            await forget(process.store, ONE)
            with pytest.raises(TxnConflict):
                await records.put(ONE, version, acks(1))
            assert await records.of_transaction(ONE, "s") == []

    run(scenario, lacks)


@both_stores
@pytest.mark.parametrize("error", [Unavailable("away"), OutcomeUnknown("cut")])
def test_a_put_that_fails_is_taken_back_as_far_as_can_be(lacks: Lacks, error: StoreError) -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        await begin(process.store, ONE)
        records = OperationRecords(process.store, SEGMENT, "broker", 7, process.pace)
        async with Outcomes(process.store, process.pace) as outcomes:
            version = await version_of(outcomes)
            process.script.fail("put" if lacks else "transact", error, prefix="/txn-op", skip=1 if lacks else 0)
            with pytest.raises(type(error)):
                await records.put(ONE, version, acks(3))
            assert await records.of_transaction(ONE, "s") == []
            if lacks:
                process.script.fail("get", Unavailable("away"), prefix="/txn/")
                with pytest.raises(Unavailable):
                    await records.put(ONE, version, acks(2))
                assert await records.of_transaction(ONE, "s") == []
                process.script.fail("get", Unavailable("away"), prefix="/txn/")
                process.script.fail("delete", Unavailable("away"), prefix="/txn-op", times=None)
                with pytest.raises(OutcomeUnknown):
                    await records.put(ONE, version, acks(2))
                assert len(await records.of_transaction(ONE, "s")) == 2

    run(scenario, lacks)


@both_stores
def test_there_are_limits_at_once_and_more_are_removed_in_portions(lacks: Lacks) -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        await begin(process.store, ONE)
        records = OperationRecords(process.store, SEGMENT, "broker", 7, process.pace)
        async with Outcomes(process.store, process.pace) as outcomes:
            version = await version_of(outcomes)
            for count in (0, OPERATIONS_AT_ONCE_MAX + 1):
                with pytest.raises(TooManyOperations, match="OPERATIONS_AT_ONCE_MAX"):
                    await records.put(ONE, version, acks(count))
            keys = await records.put(ONE, version, acks(OPERATIONS_AT_ONCE_MAX))
            keys += await records.put(ONE, version, acks(1))
            assert len(set(keys)) == OPERATIONS_AT_ONCE_MAX + 1
            await records.delete_acks(ONE, "s", keys, APPLIED, header_version=version)
            assert await records.of_transaction(ONE, "s") == []

    run(scenario, lacks)


def test_a_removal_that_comes_when_the_header_has_gone_leaves_no_word() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        await begin(process.store, ONE)
        records = OperationRecords(process.store, SEGMENT, "broker", 7, process.pace)
        async with Outcomes(process.store, process.pace) as outcomes:
            version = await version_of(outcomes)
            keys = await records.put(ONE, version, acks(2))
            await forget(process.store, ONE)
            await records.delete_acks(ONE, "s", keys, APPLIED, header_version=version)
            await records.delete(ONE, keys, APPLIED, header_version=ABSENT)
            assert not [key for key in await world.keys() if key.startswith("/txn")]

    run(scenario)


def test_a_put_that_is_cancelled_may_be_there_and_is_found() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        await begin(process.store, ONE)
        records = OperationRecords(process.store, SEGMENT, "broker", 7, process.pace)
        async with Outcomes(process.store, process.pace) as outcomes:
            version = await version_of(outcomes)
            gate = process.script.hold("transact", prefix="/txn-op", after=True)
            put = process.start(records.put(ONE, version, acks(1)))
            await gate.arrived()
            put.cancel()
            await settle()
            assert put.cancelled()
            assert len(await records.of_transaction(ONE, "s")) == 1
            await asyncio.sleep(0)

    run(scenario)


def test_what_is_taken_back_late_is_never_the_record_of_another_owner() -> None:
    """On a store without `transact`: the greatest number of a sequence is given again once its record is gone."""

    async def scenario(world: World) -> None:
        one, other = world.process(), world.process()
        await begin(one.store, ONE)
        records = OperationRecords(one.store, SEGMENT, "broker", 7, one.pace)
        others = OperationRecords(other.store, SEGMENT, "other", 8, other.pace)
        async with Outcomes(one.store, one.pace) as outcomes:
            version = await version_of(outcomes)
            one.script.fail("get", Unavailable("away"), prefix="/txn/")
            gate = one.script.hold("delete", prefix="/txn-op")
            putting = one.start(records.put(ONE, version, acks(1)))
            await gate.arrived()
            (stored,) = await records.of_transaction(ONE, "s")
            await other.store.delete(stored.key, partition_key=paths.partition(ONE))
            assert await others.put(ONE, version, acks(1)) == [stored.key]
            gate.release()
            with pytest.raises(Unavailable):
                await putting
            (left,) = await records.of_transaction(ONE, "s")
            assert left.operation.broker == "other"

    run(scenario, ("transact",))
