"""Acknowledgements in transactions: held, recorded, carried out; and given back whenever they are not."""

from __future__ import annotations

import pytest
from subscription_world import (
    EXCLUSIVE,
    SHARED,
    Owner,
    abort,
    begin,
    commit,
    decide_silently,
    every_store,
    part,
    records,
    run_owned,
    stored,
    taken,
    up_to,
    whole,
)

from metastore.interface import OutcomeUnknown, Unavailable
from support.world import World, settle
from txn.model.errors import SegmentUnavailable, TxnConflict
from txn.model.header import TxnState
from txn.segment.cursor import CURSOR_BYTES_MAX, RANGE_WEIGHT
from txn.segment.errors import CursorTooLarge, InvalidAck
from txn.segment.subscription import ACKS_AT_ONCE_MAX


@every_store
def test_a_commit_acknowledges_durably_and_then_the_records_go(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        first, second, third = await owner.publish(3)
        txn_id = await begin(world, 1)
        await subscription.acknowledge(whole([first, third]), txn_id)
        assert len(await records(world)) == 2
        assert (await stored(world)).mark == first
        await commit(world, txn_id)
        assert await records(world) == []
        state = await stored(world)
        assert [state.is_acknowledged(each) for each in (first, second, third)] == [True, False, True]
        assert subscription.stats.pending == {}

    run_owned(scenario, lacks)


@every_store
def test_an_abort_delivers_again_what_the_transaction_held(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        positions = await owner.publish(4)
        consumer = subscription.attach("one", SHARED)
        assert await taken(consumer) == positions
        txn_id = await begin(world, 1)
        await subscription.acknowledge(whole(positions[1:3]), txn_id)
        assert subscription.stats.unacked == 2
        await abort(world, txn_id)
        assert await taken(consumer) == positions[1:3]
        assert subscription.stats.unacked == 4
        assert await records(world) == []

    run_owned(scenario, lacks)


@every_store
def test_an_acknowledgement_may_be_repeated_and_writes_nothing_more(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        (position,) = await owner.publish(1, messages=4)
        txn_id = await begin(world, 1)
        for acks in (part(position, 0, 1), part(position, 1), part(position, 0, 1)):
            await subscription.acknowledge(acks, txn_id)
        assert len(await records(world)) == 1
        await subscription.acknowledge(part(position, 1, 2), txn_id)
        assert len(await records(world)) == 2

    run_owned(scenario, lacks)


@every_store
def test_a_decided_or_unknown_transaction_acknowledges_nothing(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        (position,) = await owner.publish(1)
        decided = await begin(world, 1)
        await commit(world, decided)
        unknown = await begin(world, 2)
        await world.process().store.delete(f"/txn/{unknown}", partition_key=str(unknown))
        for txn_id in (decided, unknown):
            with pytest.raises(TxnConflict, match=str(txn_id)):
                await subscription.acknowledge(whole([position]), txn_id)
        await subscription.acknowledge(whole([position]), await begin(world, 3))
        assert owner.outcomes.count == 1

    run_owned(scenario, lacks)


@every_store
def test_a_decision_while_the_record_is_being_put_refuses_it_and_gives_back(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        first, second = await owner.publish(2)
        txn_id = await begin(world, 1)
        await subscription.acknowledge(whole([first]), txn_id)
        gate = owner.process.script.hold("put" if lacks else "transact", prefix="/txn-op/")
        late = owner.process.start(subscription.acknowledge(whole([second]), txn_id))
        await gate.arrived()
        await decide_silently(world, txn_id, TxnState.COMMITTED)
        await settle()
        assert subscription.stats.pending, "nothing is settled while a put is under way"
        gate.release()
        with pytest.raises(TxnConflict):
            await late
        await settle()
        state = await stored(world)
        assert [state.is_acknowledged(each) for each in (first, second)] == [True, False]
        assert await records(world) == []
        await subscription.acknowledge(whole([second]), await begin(world, 2))

    run_owned(scenario, lacks)


@every_store
def test_a_put_that_failed_gives_back_and_one_whose_answer_was_lost_does_not(lacks: tuple[str, ...]) -> None:
    method = "put" if lacks else "transact"

    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        first, second = await owner.publish(2)
        one, other = await begin(world, 1), await begin(world, 2)
        owner.process.script.fail(method, Unavailable("away"), prefix="/txn-op/")
        with pytest.raises(SegmentUnavailable):
            await subscription.acknowledge(whole([first]), one)
        await subscription.acknowledge(whole([first]), other)
        owner.process.script.fail(method, OutcomeUnknown("cut"), prefix="/txn-op/", after=True)
        with pytest.raises(SegmentUnavailable, match="not known"):
            await subscription.acknowledge(whole([second]), one)
        with pytest.raises(TxnConflict):
            await subscription.acknowledge(whole([second]), other)
        await subscription.acknowledge(whole([second]), one)
        await commit(world, one)
        await commit(world, other)
        assert (await stored(world)).mark == owner.log.lengths.end
        assert await records(world) == []

    run_owned(scenario, lacks)


@every_store
@pytest.mark.parametrize("arrives", [False, True])
def test_what_was_in_doubt_is_part_of_the_commit_if_it_was_recorded(lacks: tuple[str, ...], arrives: bool) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        first, second = await owner.publish(2)
        consumer = subscription.attach("one", EXCLUSIVE)
        assert await taken(consumer) == [first, second]
        txn_id = await begin(world, 1)
        await subscription.acknowledge(whole([first]), txn_id)
        lost = owner.process.script.lose("put" if lacks else "transact", prefix="/txn-op/")
        with pytest.raises(SegmentUnavailable):
            await subscription.acknowledge(whole([second]), txn_id)
        if arrives:
            lost.arrive()
        await commit(world, txn_id)
        assert (await stored(world)).is_acknowledged(second) == arrives
        assert subscription.stats.unacked == (0 if arrives else 1)
        lost.arrive()
        await settle()
        assert await records(world) == []
        assert (await stored(world)).is_acknowledged(second) == arrives

    run_owned(scenario, lacks)


def test_calls_that_wait_are_recorded_together_and_fail_apart() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        positions = await owner.publish(10)
        txn_id = await begin(world, 1)
        process = owner.process
        gate = process.script.hold("transact", prefix="/txn-op/")
        calls = [process.start(subscription.acknowledge(whole(positions[:1]), txn_id))]
        await gate.arrived()
        calls += [process.start(subscription.acknowledge(whole([each]), txn_id)) for each in positions[1:]]
        calls.append(process.start(subscription.acknowledge(whole(positions[:2]), txn_id)))
        await settle()
        process.script.fail("transact", Unavailable("away"), prefix="/txn-op/")
        before = process.script.arrivals["memory.transact.before"]
        gate.release()
        await settle()
        assert [call.exception() is not None for call in calls] == [True, *[False] * 10]
        assert process.script.arrivals["memory.transact.before"] == before + 1
        assert subscription.stats.pending == {txn_id: 10}, "another call wanted the first one's too"
        assert len(await records(world)) == 10

    run_owned(scenario)


def test_what_is_acknowledged_must_be_there_readable_and_of_that_size() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        batch, late = *await owner.publish(1, messages=4), *await owner.publish(1)
        owner.sight.held_at = late
        txn_id = await begin(world, 1)
        beyond = type(late)(late.ledger, late.entry + 1)
        for acks in (whole([beyond]), whole([late]), up_to(late), part(batch, 0, size=5), []):
            for of in (None, txn_id):
                with pytest.raises(InvalidAck):
                    await subscription.acknowledge(acks, of)
        subscription.attach("one", SHARED)
        with pytest.raises(InvalidAck, match="shared"):
            await subscription.acknowledge(up_to(batch), txn_id)
        assert await records(world) == []

    run_owned(scenario)


@every_store
def test_a_cumulative_abort_delivers_everything_again(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        positions = await owner.publish(5)
        consumer = subscription.attach("one", EXCLUSIVE)
        assert await taken(consumer) == positions
        await subscription.acknowledge(whole(positions[1:2]))
        txn_id = await begin(world, 1)
        await subscription.acknowledge(up_to(positions[3]), txn_id)
        assert subscription.stats.unacked == 1
        await abort(world, txn_id)
        assert await taken(consumer) == [positions[0], *positions[2:]]

    run_owned(scenario, lacks)


def test_what_was_left_out_while_it_was_recorded_comes_again_if_that_fails() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        positions = await owner.publish(2)
        consumer = subscription.attach("one", SHARED)
        consumer.permit(3)
        await settle()
        gate = owner.process.script.hold("transact", prefix="/txn-op/")
        call = owner.process.start(subscription.acknowledge(whole(positions[:1]), await begin(world, 1)))
        await gate.arrived()
        assert [each.position for each in await consumer.receive(10)] == positions[1:]
        owner.process.script.fail("transact", Unavailable("away"), prefix="/txn-op/")
        gate.release()
        with pytest.raises(SegmentUnavailable):
            await call
        assert [each.position for each in await consumer.receive(10)] == positions[:1]

    run_owned(scenario)


@every_store
def test_a_cursor_that_would_not_fit_refuses_some_and_never_a_commit(lacks: tuple[str, ...]) -> None:
    count = CURSOR_BYTES_MAX // RANGE_WEIGHT

    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        positions = await owner.publish(6_000) + await owner.publish(2 * count + 4 - 6_000)
        txn_id = await begin(world, 1)
        held = whole(positions[1 : 2 * count - 200 : 2])
        for start in range(0, len(held), ACKS_AT_ONCE_MAX):
            await subscription.acknowledge(held[start : start + ACKS_AT_ONCE_MAX], txn_id)
        with pytest.raises(CursorTooLarge):
            await subscription.acknowledge(whole(positions[2 * count - 199 :: 2]))
        with pytest.raises(CursorTooLarge):
            await subscription.acknowledge(whole(positions[2 * count - 199 :: 2]), await begin(world, 2))
        small = owner.process.start(subscription.acknowledge(whole(positions[2 * count - 199 : 2 * count - 197])))
        large = owner.process.start(subscription.acknowledge(whole(positions[2 * count - 191 :: 2])))
        await settle()
        assert small.exception() is None
        assert isinstance(large.exception(), CursorTooLarge), "of calls that wait together only this one is too large"
        await commit(world, txn_id)
        await settle()
        state = await stored(world)
        assert state.is_acknowledged(held[-1].position)
        await subscription.acknowledge(up_to(positions[-1]))
        assert (await stored(world)).mark == owner.log.lengths.end

    run_owned(scenario, lacks)
