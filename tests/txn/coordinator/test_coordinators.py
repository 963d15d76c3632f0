"""Begin and end: one outcome, told truthfully whatever is lost or comes too late."""

from __future__ import annotations

import asyncio

import pytest

from metastore.interface import OutcomeUnknown, Unavailable
from support.world import Process, World, run, settle
from txn.coordinator.coordinator import Coordinator, CoordinatorLimits
from txn.coordinator.numbering import ATTEMPTS_MAX, BLOCK_IDS, Numbering
from txn.coordinator.registry import OpenTransactions
from txn.model import paths
from txn.model.errors import (
    CoordinatorUnavailable,
    InvalidTimeout,
    NotTheOwner,
    TooManyOpenTransactions,
    TxnAlreadyAborted,
    TxnAlreadyCommitted,
    TxnNotFound,
    TxnTimedOut,
)
from txn.model.header import Cause, TxnState
from txn.model.ids import TxnId
from txn.model.operation import Operation, OperationKind
from txn.model.position import Position

TIMEOUT_MS = 60_000


async def coordinator(process: Process, number: int = 0, limits: CoordinatorLimits | None = None) -> Coordinator:
    registry = OpenTransactions(process.store, process.pace)
    process.start(registry.follow())
    await registry.ready()
    return Coordinator(process.store, number, registry, limits=limits, pace=process.pace)


def test_a_transaction_begins_open_and_ends_once() -> None:
    async def scenario(world: World) -> None:
        one = await coordinator(world.process())
        txn_id = await one.begin(TIMEOUT_MS, owner="alice")
        header = await one.describe(txn_id)
        assert (header.state, header.owner) == (TxnState.OPEN, "alice")
        assert header.timeout_ms == header.created_ms + TIMEOUT_MS
        committed = await one.commit(txn_id, principal="alice")
        assert (committed.state, committed.cause) == (TxnState.COMMITTED, Cause.CLIENT)
        assert await one.commit(txn_id, principal="alice") == committed
        with pytest.raises(TxnAlreadyCommitted, match=str(txn_id)):
            await one.abort(txn_id, principal="alice")

    run(scenario)


def test_any_coordinator_ends_the_transactions_of_any_other() -> None:
    async def scenario(world: World) -> None:
        one, other = await coordinator(world.process(), 0), await coordinator(world.process(), 1)
        txn_id = await one.begin(TIMEOUT_MS)
        aborted = await other.abort(txn_id)
        assert await one.abort(txn_id) == aborted
        with pytest.raises(TxnAlreadyAborted, match=str(txn_id)):
            await one.commit(txn_id)

    run(scenario)


def test_of_a_commit_and_an_abort_at_the_same_time_one_wins_and_both_know_which() -> None:
    async def scenario(world: World) -> None:
        first, second = world.process(), world.process()
        one, other = await coordinator(first), await coordinator(second)
        txn_id = await one.begin(TIMEOUT_MS)
        gate = first.script.hold("put", prefix="/txn/")
        commit = first.start(one.commit(txn_id))
        await gate.arrived()
        aborted = await other.abort(txn_id)
        gate.release()
        with pytest.raises(TxnAlreadyAborted):
            await commit
        assert (await one.describe(txn_id)) == aborted

    run(scenario)


def test_an_open_transaction_is_decided_without_a_look_at_it_and_a_decided_one_is_looked_at() -> None:
    async def scenario(world: World) -> None:
        first, second, third = world.process(), world.process(), world.process()
        one, other = await coordinator(first), await coordinator(second)
        txn_id, another = await one.begin(TIMEOUT_MS), await one.begin(TIMEOUT_MS)
        await settle()
        looks = first.script.arrivals["memory.get.before"]
        await one.commit(txn_id)
        assert first.script.arrivals["memory.get.before"] == looks
        blind = Coordinator(third.store, 2, OpenTransactions(third.store, third.pace), pace=third.pace)
        await blind.abort(another)
        with pytest.raises(TxnAlreadyAborted):
            await other.commit(another)

    run(scenario)


def test_to_end_a_transaction_costs_the_same_whatever_it_has_done() -> None:
    async def scenario(world: World) -> None:
        process, owner = world.process(), world.process()
        one = await coordinator(process)
        costs = []
        for count in (0, 1, 500):
            txn_id = await one.begin(TIMEOUT_MS)
            for number in range(count):
                operation = Operation(OperationKind.WRITE, f"segment://t/{number % 50}", Position(1, number))
                await owner.store.put(
                    paths.operation_sequence(txn_id),
                    operation.encode(),
                    partition_key=paths.partition(txn_id),
                    sequence_deltas=(1,),
                    indexes=operation.indexes(),
                )
            await settle()
            before = process.script.arrivals.copy()
            await (one.commit(txn_id) if count else one.abort(txn_id))
            costs.append(process.script.arrivals - before)
        assert costs[0] == costs[1] == costs[2]
        assert costs[0]["memory.put.before"] == 1, "its header, and nothing else"

    run(scenario)


@pytest.mark.parametrize("applies", [False, True])
def test_a_lost_answer_to_a_decision_is_made_up_by_a_read(applies: bool) -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        one = await coordinator(process)
        txn_id = await one.begin(TIMEOUT_MS)
        process.script.fail("put", OutcomeUnknown("cut off"), prefix="/txn/", after=applies)
        committed = await one.commit(txn_id)
        assert committed.state is TxnState.COMMITTED
        assert await one.describe(txn_id) == committed

    run(scenario)


@pytest.mark.parametrize("applies", [False, True])
def test_a_lost_answer_to_a_begin_never_makes_two_of_it(applies: bool) -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        one = await coordinator(process)
        process.script.fail("put", OutcomeUnknown("cut off"), prefix="/txn/", after=applies)
        if applies:
            assert (await one.describe(await one.begin(TIMEOUT_MS))).is_open
        else:
            with pytest.raises(CoordinatorUnavailable, match="begin another"):
                await one.begin(TIMEOUT_MS)
        assert len([key for key in await world.keys() if key.startswith("/txn/")]) == int(applies)

    run(scenario)


def test_h21_a_commit_at_the_deadline_loses_and_aborts() -> None:
    async def scenario(world: World) -> None:
        one = await coordinator(world.process())
        early, late = await one.begin(TIMEOUT_MS), await one.begin(TIMEOUT_MS)
        await world.pass_ms(TIMEOUT_MS - 1)
        assert (await one.commit(early)).state is TxnState.COMMITTED
        await world.pass_ms(1)
        with pytest.raises(TxnTimedOut, match=str(late)):
            await one.commit(late)
        header = await one.describe(late)
        assert (header.state, header.cause) == (TxnState.ABORTED, Cause.DEADLINE)
        with pytest.raises(TxnTimedOut):
            await one.commit(late)
        assert await one.abort(late) == header

    run(scenario)


def test_only_its_owner_and_an_operator_end_a_transaction() -> None:
    async def scenario(world: World) -> None:
        one = await coordinator(world.process())
        txn_id = await one.begin(TIMEOUT_MS, owner="alice")
        for principal in (None, "bob"):
            with pytest.raises(NotTheOwner, match=str(txn_id)):
                await one.commit(txn_id, principal=principal)
        header = await one.abort(txn_id, principal="bob", cause=Cause.OPERATOR)
        assert header.cause is Cause.OPERATOR
        with pytest.raises(TxnAlreadyAborted, match="an operator"):
            await one.commit(txn_id, principal="alice")

    run(scenario)


def test_what_was_never_begun_is_not_found() -> None:
    async def scenario(world: World) -> None:
        one = await coordinator(world.process())
        for end in (one.commit, one.abort, one.describe):
            with pytest.raises(TxnNotFound, match="md_0_5"):
                await end(TxnId(0, 5))

    run(scenario)


@pytest.mark.parametrize("timeout_ms", [-1, 0, 3_600_001])
def test_h21_a_timeout_out_of_bounds_is_refused_and_changes_nothing(timeout_ms: int) -> None:
    async def scenario(world: World) -> None:
        one = await coordinator(world.process())
        with pytest.raises(InvalidTimeout, match=f"{timeout_ms} ms: 1 to 3600000 ms"):
            await one.begin(timeout_ms)
        assert await world.keys() == []

    run(scenario)


def test_h21_open_transactions_are_limited_in_all_and_per_owner() -> None:
    async def scenario(world: World) -> None:
        one = await coordinator(world.process(), limits=CoordinatorLimits(open_max=3, open_per_owner_max=2))
        first = await one.begin(TIMEOUT_MS, owner="alice")
        await one.begin(TIMEOUT_MS, owner="alice")
        with pytest.raises(TooManyOpenTransactions, match="open_per_owner_max"):
            await one.begin(TIMEOUT_MS, owner="alice")
        await one.begin(TIMEOUT_MS, owner="bob")
        with pytest.raises(TooManyOpenTransactions, match=r"\(open_max\)"):
            await one.begin(TIMEOUT_MS, owner="carol")
        await one.commit(first, principal="alice")
        await one.begin(TIMEOUT_MS, owner="alice")

    run(scenario)


def test_limits_count_what_other_coordinators_have_begun() -> None:
    async def scenario(world: World) -> None:
        limits = CoordinatorLimits(open_max=2)
        one, other = await coordinator(world.process(), 0, limits), await coordinator(world.process(), 1, limits)
        txn_id = await one.begin(TIMEOUT_MS)
        await other.begin(TIMEOUT_MS)
        await settle()
        for each in (one, other):
            with pytest.raises(TooManyOpenTransactions):
                await each.begin(TIMEOUT_MS)
        await other.abort(txn_id)
        await settle()
        await one.begin(TIMEOUT_MS)

    run(scenario)


def test_while_the_store_is_away_calls_fail_and_may_be_repeated() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        one = await coordinator(process)
        txn_id = await one.begin(TIMEOUT_MS)
        process.script.fail("put", Unavailable("no leader"), prefix="/txn/")
        with pytest.raises(CoordinatorUnavailable, match="no leader"):
            await one.commit(txn_id)
        process.script.fail("get", Unavailable("no leader"), prefix="/txn/")
        with pytest.raises(CoordinatorUnavailable, match="no leader"):
            await one.describe(txn_id)
        process.script.fail("put", Unavailable("no leader"), prefix="/txn/")
        with pytest.raises(CoordinatorUnavailable, match="no leader"):
            await one.begin(TIMEOUT_MS)
        assert (await one.commit(txn_id)).state is TxnState.COMMITTED

    run(scenario)


def test_no_id_is_given_twice_whoever_asks_and_whatever_is_lost() -> None:
    async def scenario(world: World) -> None:
        given: list[TxnId] = []
        for _ in range(3):
            process = world.process()
            numbering = Numbering(process.store, 7, process.pace)
            given += await asyncio.gather(*(numbering.next_id() for _ in range(5)))
            process.script.fail("put", OutcomeUnknown("cut off"), prefix="/txn-ids/", after=True)
        lossy = world.process()
        lossy.script.fail("put", OutcomeUnknown("cut off"), prefix="/txn-ids/", after=True)
        asking = lossy.start(Numbering(lossy.store, 7, lossy.pace).next_id())
        await settle()
        await world.pass_ms(1_000)
        given.append(await asking)
        assert len(set(given)) == len(given) == 16
        assert given[-1].sequence >= 4 * BLOCK_IDS

    run(scenario)


def test_a_numbering_gives_up_after_a_bounded_number_of_lost_races() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        process.script.fail("put", OutcomeUnknown("cut off"), prefix="/txn-ids/", times=ATTEMPTS_MAX)
        asking = process.start(Numbering(process.store, 7, process.pace).next_id())
        for _ in range(ATTEMPTS_MAX):
            await settle()
            await world.pass_ms(10_000)
        with pytest.raises(CoordinatorUnavailable, match="ATTEMPTS_MAX"):
            await asking

    run(scenario)
