"""Settling: the order of what is durable, repetition until it is done, late records, and what is kept for how long."""

from __future__ import annotations

import asyncio

import pytest
from buffer_stage import (
    ABORTED,
    COMMITTED,
    SEGMENT,
    SESSION_OVER_MS,
    Lacks,
    Stage,
    begin,
    both_stores,
    confirmed,
    decide,
    forget,
    play,
    txn,
)

from metastore.interface import OutcomeUnknown, StoreError, Unavailable
from support.world import settle
from txn.model import paths
from txn.model.aborted import AbortedRange
from txn.model.applied import Applied
from txn.model.errors import SegmentUnavailable, TxnConflict
from txn.model.operation import Operation, OperationKind
from txn.model.position import Position
from txn.segment.buffer import BufferOptions
from txn.segment.operations import OperationRecords

CUT = OutcomeUnknown("the connection broke")


def put_of(lacks: Lacks) -> str:
    return "put" if lacks else "transact"


def delete_of(lacks: Lacks) -> str:
    return "delete" if lacks else "transact"


@both_stores
def test_the_abort_is_durable_before_the_operation_records_go(lacks: Lacks) -> None:
    async def scenario(stage: Stage) -> None:
        (one,) = await stage.begin(1)
        owner = await stage.own()
        first, last = await confirmed([owner.publish("a", one), owner.publish("b", one)])
        aborting = owner.process.script.hold(put_of(lacks), prefix="/segments/")
        deleting = owner.process.script.hold(delete_of(lacks), prefix="/txn-op")
        await decide(stage.outside, one, ABORTED)
        await aborting.arrived()
        assert (await stage.aborted(), len(await stage.records())) == ([], 1)
        assert (owner.bound, await owner.texts()) == (2, []), "in memory it is known at once"
        aborting.release()
        await deleting.arrived()
        assert (await stage.aborted(), len(await stage.records())) == ([one], 1)
        record = await stage.outside.get(paths.aborted_key(SEGMENT, one), partition_key=SEGMENT)
        assert record is not None
        assert AbortedRange.decode(record.value or b"") == AbortedRange(first, last)
        deleting.release()
        await settle()
        assert (await stage.records(), owner.buffer.stats.in_hand) == ([], 0)
        await owner.close()

    play(scenario, lacks)


@both_stores
@pytest.mark.parametrize("error", [Unavailable("away"), CUT])
@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("state", [COMMITTED, ABORTED])
def test_h10_a_step_that_fails_is_repeated_until_it_is_done(
    lacks: Lacks, error: StoreError, is_after: bool, state: object
) -> None:
    async def scenario(stage: Stage) -> None:
        assert state in (COMMITTED, ABORTED)
        outcome = ABORTED if state is ABORTED else COMMITTED
        (one,) = await stage.begin(1)
        owner = await stage.own()
        await confirmed([owner.publish("a", one), owner.publish("b")])
        is_told = not is_after or error is CUT
        if is_told:
            owner.process.script.fail(put_of(lacks), error, prefix="/segments/", after=is_after, times=3)
            owner.process.script.fail(delete_of(lacks), error, prefix="/txn-op", after=is_after, times=3)
        owner.process.script.fail("scan", Unavailable("away"), prefix="/txn-op", times=2)
        await stage.decide(one, outcome)
        assert owner.bound == 2
        for _ in range(20):
            await stage.world.pass_ms(5_000)
        assert (await stage.records(), owner.buffer.stats.in_hand) == ([], 0)
        assert await stage.aborted() == ([one] if outcome is ABORTED else [])
        assert await owner.texts() == (["b"] if outcome is ABORTED else ["a", "b"])
        assert await stage.applied(one)
        await owner.close()

    play(scenario, lacks)


def test_the_word_that_is_left_says_what_was_done() -> None:
    async def scenario(stage: Stage) -> None:
        (one,) = await stage.begin(1)
        owner = await stage.own()
        first_ms = stage.world.clock.wall_ms()
        await owner.publish("a", one)
        await stage.world.pass_ms(70)
        await owner.publish("b", one)
        await stage.world.pass_ms(30)
        await stage.decide(one, COMMITTED)
        key = paths.applied_key(one, owner.log.segment)
        record = await stage.outside.get(key, partition_key=paths.partition(one))
        assert record is not None
        assert Applied.decode(record.value or b"") == Applied(
            first_ms + 100, owner.process.name, owner.grant.term, 2, first_ms, first_ms + 70
        )
        await owner.close()

    play(scenario)


@both_stores
def test_a_deposed_owner_settles_nothing_and_its_successor_everything(lacks: Lacks) -> None:
    async def scenario(stage: Stage) -> None:
        one, two = await stage.begin(1, 2)
        owner = await stage.own()
        await confirmed([owner.publish("a", one), owner.publish("b", two), owner.publish("c")])
        gate = owner.process.script.hold(put_of(lacks), prefix="/segments/")
        await decide(stage.outside, one, ABORTED)
        await gate.arrived()
        await stage.outside.delete(owner.grant.name, partition_key=owner.grant.partition_key)
        successor = await stage.own()
        await settle()
        assert (await stage.aborted(), len(await stage.records())) == ([one], 1)
        gate.release()
        await settle()
        await stage.world.pass_ms(SESSION_OVER_MS)
        with pytest.raises(SegmentUnavailable):
            await owner.publish("late", two)
        await stage.decide(two, COMMITTED)
        assert await successor.texts() == ["b", "c"]
        assert await stage.records() == []
        await successor.close()

    play(scenario, lacks)


@both_stores
def test_a_deposed_owners_late_intent_is_settled_by_its_successor(lacks: Lacks) -> None:
    async def scenario(stage: Stage) -> None:
        one, two = await stage.begin(1, 2)
        owner = await stage.own()
        await confirmed([owner.publish("a", one), owner.publish("x", two)])
        gate = owner.process.script.hold(put_of(lacks), prefix="/txn-op")
        late = owner.publish("late", two)
        await gate.arrived()
        await stage.outside.delete(owner.grant.name, partition_key=owner.grant.partition_key)
        successor = await stage.own()
        gate.release()
        await settle()
        assert late.done()
        assert late.exception() is not None
        assert len(await stage.records()) == 3
        assert successor.buffer.visibility.bound == Position(owner.grant.term, 0)
        await stage.decide(one, COMMITTED)
        assert await successor.texts() == ["a"]
        await stage.decide(two, ABORTED)
        await settle()
        assert (await successor.texts(), await stage.records()) == (["a"], [])
        assert successor.buffer.stats.in_hand == 0
        await successor.close()

    play(scenario, lacks)


@pytest.mark.parametrize("state", [COMMITTED, ABORTED])
@pytest.mark.parametrize("is_header_gone", [False, True])
def test_h8_a_record_that_lands_when_all_is_settled_hides_nothing_and_shows_nothing(
    state: object, is_header_gone: bool
) -> None:
    async def scenario(stage: Stage) -> None:
        assert state in (COMMITTED, ABORTED)
        outcome = ABORTED if state is ABORTED else COMMITTED
        (one,) = await stage.begin(1)
        owner = await stage.own()
        await confirmed([owner.publish("a", one), owner.publish("b")])
        lost = owner.process.script.lose("put", prefix="/txn-op")
        send = owner.publish("c", one)
        await settle()
        assert isinstance(send.exception(), SegmentUnavailable)
        await stage.decide(one, outcome)
        await settle()
        if is_header_gone:
            await forget(stage.outside, one)
        before = await stage.aborted()
        lost.arrive()
        await settle()
        assert (await stage.records(), await stage.aborted()) == ([], before)
        assert owner.buffer.stats.in_hand == owner.outcomes.count == 0
        seen = ["b"] if outcome is ABORTED else ["a", "b"]
        assert await owner.texts() == seen
        successor = await stage.succeed(owner)
        assert await successor.texts() == seen
        await successor.close()

    play(scenario, ("transact",))


@pytest.mark.parametrize("state", [COMMITTED, ABORTED])
@pytest.mark.parametrize("is_header_gone", [False, True])
def test_h8_a_record_that_lands_while_nobody_owns_the_segment(state: object, is_header_gone: bool) -> None:
    async def scenario(stage: Stage) -> None:
        assert state in (COMMITTED, ABORTED)
        outcome = ABORTED if state is ABORTED else COMMITTED
        (one,) = await stage.begin(1)
        owner = await stage.own()
        await confirmed([owner.publish("a", one), owner.publish("b")])
        lost = owner.process.script.lose("put", prefix="/txn-op")
        await asyncio.gather(owner.publish("c", one), return_exceptions=True)
        await stage.decide(one, outcome)
        await settle()
        if is_header_gone:
            await forget(stage.outside, one)
        await owner.crash()
        lost.arrive()
        assert len(await stage.records()) == 1
        await stage.world.pass_ms(SESSION_OVER_MS)
        successor = await stage.own()
        await settle()
        assert await successor.texts() == (["b"] if outcome is ABORTED else ["a", "b"])
        assert (await stage.records(), successor.buffer.stats.in_hand) == ([], 0)
        await successor.close()

    play(scenario, ("transact",))


def test_a_record_without_a_header_that_points_to_its_own_entry_is_an_abort() -> None:
    async def scenario(stage: Stage) -> None:
        (one,) = await stage.begin(1)
        owner = await stage.own()
        await confirmed([owner.publish("a", one), owner.publish("b")])
        await owner.crash()
        await stage.outside.delete(paths.header_key(one), partition_key=paths.partition(one))
        await stage.world.pass_ms(SESSION_OVER_MS)
        successor = await stage.own()
        assert await successor.texts() == ["b"]
        await settle()
        assert (await stage.records(), await stage.aborted()) == ([], [one])
        assert not await stage.applied(one), "nobody would collect it"
        await successor.close()

    play(scenario)


@both_stores
def test_what_was_aborted_is_remembered_until_its_last_entry_is_trimmed(lacks: Lacks) -> None:
    async def scenario(stage: Stage) -> None:
        one, two = await stage.begin(1, 2)
        owner = await stage.own()
        term = owner.grant.term
        for text, txn_id in [("a", one), ("b", two), ("c", None), ("d", two), ("e", None)]:
            await owner.publish(text, txn_id)
        await stage.decide(one, ABORTED)
        await stage.decide(two, ABORTED)
        assert await stage.aborted() == [one, two]
        await owner.buffer.trim(Position(term, 3))
        assert await stage.aborted() == [two]
        assert await owner.texts() == ["e"]
        successor = await stage.succeed(owner)
        assert await successor.texts() == ["e"]
        await successor.buffer.trim(Position(term, 4))
        assert (await stage.aborted(), await successor.texts()) == ([], ["e"])
        await successor.close()

    play(scenario, lacks)


def test_a_transaction_whose_entries_are_trimmed_before_it_is_aborted_leaves_nothing() -> None:
    async def scenario(stage: Stage) -> None:
        (one,) = await stage.begin(1)
        owner = await stage.own()
        for text, txn_id in [("a", one), ("b", None)]:
            await owner.publish(text, txn_id)
        await owner.buffer.trim(Position(owner.grant.term, 1))
        await stage.decide(one, ABORTED)
        assert (await stage.aborted(), await stage.records(), await owner.texts()) == ([], [], ["b"])
        await owner.close()

    play(scenario)


def test_h6_names_and_numbers_that_begin_alike_are_kept_apart() -> None:
    async def scenario(stage: Stage) -> None:
        one, eleven = await stage.begin(1, 11)
        owner = await stage.own()
        other = OperationRecords(stage.outside, owner.log.segment + "0", "other", 1, owner.process.pace)
        await confirmed([owner.publish("a", one), owner.publish("b", eleven)])
        version = (await owner.outcomes.follow(one).known()).version_id
        write = Operation(OperationKind.WRITE, other.segment, Position(1, 0))
        ack = Operation(OperationKind.ACK, owner.log.segment, Position(1, 0), subscription="s")
        await other.put(one, version, [write])
        await owner.operations.put(one, version, [ack])
        await stage.decide(one, ABORTED)
        await settle()
        assert [each.operation.position for each in await other.of_transaction(one)] == [Position(1, 0)]
        assert len(await owner.operations.of_transaction(one, "s")) == 1
        assert [each.position.entry for each in await stage.records()] == [1]
        assert await stage.aborted() == [one]
        await stage.decide(eleven, COMMITTED)
        assert await owner.texts() == ["b"]
        await owner.close()

    play(scenario)


def test_at_most_so_many_are_settled_at_the_same_time() -> None:
    async def scenario(stage: Stage) -> None:
        txn_ids = await stage.begin(*range(6))
        owner = await stage.own(BufferOptions(settlements_at_once_max=2))
        await confirmed([owner.publish("a", each) for each in txn_ids])
        gate = owner.process.script.hold("transact", prefix="/txn-op")
        for each in txn_ids:
            await stage.decide(each, COMMITTED)
        assert (len(gate.held), owner.bound, owner.buffer.stats.in_hand) == (2, 6, 6)
        gate.release()
        await settle()
        assert (await stage.records(), owner.buffer.stats.in_hand) == ([], 0)
        await owner.close()

    play(scenario)


def test_a_transaction_may_come_back_when_only_a_late_record_of_it_was_there() -> None:
    async def scenario(stage: Stage) -> None:
        await begin(stage.outside, txn(1))
        one = txn(1)
        owner = await stage.own()
        lost = owner.process.script.lose("put", prefix="/txn-op")
        await asyncio.gather(owner.publish("a", one), return_exceptions=True)
        successor = await stage.succeed(owner)
        assert successor.buffer.stats.in_hand == 0
        lost.arrive()
        await settle()
        assert (successor.buffer.stats.in_hand, successor.buffer.stats.open) == (1, 0)
        await successor.publish("b", one)
        assert (successor.bound, successor.buffer.stats.oldest_open) == (0, one)
        await stage.decide(one, COMMITTED)
        assert (await successor.texts(), await stage.records(), await stage.applied(one)) == (["b"], [], True)
        with pytest.raises(TxnConflict):
            await successor.publish("c", one)
        await successor.close()

    play(scenario, ("transact",))
