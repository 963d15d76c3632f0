"""What the mark may pass and what it may not, and what a consumer that has let something wait still gets."""

from __future__ import annotations

import asyncio

import pytest
from subscription_world import (
    EXCLUSIVE,
    SHARED,
    Owner,
    abort,
    begin,
    decide_silently,
    part,
    run_owned,
    stored,
    take_all,
    taken,
    whole,
)

from support.world import World, settle
from txn.model.header import TxnState
from txn.model.position import Position
from txn.outcomes import Followed
from txn.segment.cursor import AckedRange
from txn.segment.subscription import InitialPosition, backlog


def test_the_mark_does_not_pass_what_is_to_come_again() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        (first, second), void = await owner.publish(2), await owner.publish_void()
        (third, fourth) = await owner.publish(2)
        consumer = subscription.attach("one", SHARED)
        assert len(await take_all(consumer, permits=4)) == 4
        consumer.negative_acknowledge([first])
        await subscription.acknowledge(whole([fourth]))
        assert subscription.stats.to_redeliver == 1
        assert (await stored(world)).mark == first
        assert await taken(consumer) == [first]
        await subscription.acknowledge(whole([first, second]))
        await consumer.close()
        # Now the mark stands at what is nobody's, and what comes next is to come again.
        consumer = subscription.attach("one", SHARED)
        assert len(await take_all(consumer, permits=1)) == 1
        consumer.negative_acknowledge([third])
        await subscription.acknowledge(whole([fourth]))
        assert void < (await stored(world)).mark == third
        assert await taken(consumer) == [third]

    run_owned(scenario)


def test_the_mark_does_not_pass_what_a_transaction_holds() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        await owner.publish_void()
        first, second, third = await owner.publish(3)
        consumer = subscription.attach("one", SHARED)
        assert await taken(consumer) == [first, second, third]
        txn_id = await begin(world, 1)
        await subscription.acknowledge(whole([first]), txn_id)
        await subscription.acknowledge(whole([second]))
        state = await stored(world)
        assert (state.mark, state.is_acknowledged(first)) == (first, False)
        await abort(world, txn_id)
        assert await taken(consumer) == [first]

    run_owned(scenario)


def test_ranges_are_not_joined_over_what_somebody_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog, "COMPACTION_RANGES_MIN", 3)

    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        positions = await owner.publish(9)
        consumer = subscription.attach("one", SHARED)
        assert len(await take_all(consumer, permits=9)) == 9
        txn_id = await begin(world, 1)
        await subscription.acknowledge(whole([positions[2]]), txn_id)
        consumer.negative_acknowledge([positions[4]])
        await subscription.acknowledge(whole(positions[1::2]))
        state = await stored(world)
        assert [each for each in positions if state.is_acknowledged(each)] == positions[1::2]
        assert len(state.ranges) == 4
        await abort(world, txn_id)
        assert await taken(consumer) == [positions[2], positions[4]]

    run_owned(scenario)


@pytest.mark.parametrize("is_sought", [False, True], ids=["the last consumer goes", "a seek"])
def test_what_was_to_come_again_is_forgotten_when_all_begins_anew(is_sought: bool) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        positions = await owner.publish(4)
        consumer = subscription.attach("one", SHARED)
        assert len(await take_all(consumer, permits=4)) == 4
        consumer.negative_acknowledge([positions[2]])
        assert subscription.stats.to_redeliver == 1
        if is_sought:
            await subscription.seek(InitialPosition.LATEST)
            assert subscription.stats.to_redeliver == 0
            assert await taken(consumer) == []
        else:
            await consumer.close()
            assert subscription.stats.to_redeliver == 0
            assert await taken(subscription.attach("two", EXCLUSIVE)) == positions

    run_owned(scenario)


@pytest.mark.parametrize("state", [TxnState.COMMITTED, TxnState.ABORTED])
def test_what_is_decided_counts_before_a_recovery_returns(state: TxnState, monkeypatch: pytest.MonkeyPatch) -> None:
    decided = Followed.decided

    async def decided_late(followed: Followed) -> TxnState:
        for _ in range(20):
            await asyncio.sleep(0)
        return await decided(followed)

    async def scenario(world: World, owner: Owner) -> None:
        (position,) = await owner.publish(1)
        txn_id = await begin(world, 1)
        await (await owner.create()).acknowledge(whole([position]), txn_id)
        await owner.die()
        await decide_silently(world, txn_id, state)
        owner = await Owner.take(world)
        monkeypatch.setattr(Followed, "decided", decided_late)
        subscription = await owner.recover()
        assert subscription.stats.pending == {}
        assert subscription.stats.backlog == (0 if state is TxnState.COMMITTED else 1)
        await owner.die()

    run_owned(scenario)


def test_a_cursor_is_written_as_the_ledgers_are_known_then() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        old = await owner.publish(2)
        await subscription.acknowledge(whole(old))
        assert (await stored(world)).mark == Position(old[1].ledger, old[1].entry + 1)
        await owner.publish(1)
        await owner.die()
        owner = await Owner.take(world)
        subscription = await owner.recover()
        new = await owner.publish(3)
        await subscription.acknowledge(whole([new[1]]))
        await owner.log.trim(new[0])
        subscription.notice_trimmed()
        txn_id = await begin(world, 1)
        await subscription.acknowledge(part(new[2], 0, size=1), txn_id)
        await abort(world, txn_id)
        await subscription._keeper.flush()
        state = await stored(world)
        assert (state.mark, state.ranges) == (new[0], (AckedRange(new[1], new[2]),))
        await owner.die()

    run_owned(scenario)


def test_what_came_again_while_it_waited_is_taken_once() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        (position,) = await owner.publish(1)
        consumer = subscription.attach("one", SHARED)
        consumer.permit(10)
        await settle()
        # It waits in the consumer's queue, comes again, and waits there twice.
        consumer.negative_acknowledge([position])
        await settle()
        found = await take_all(consumer, permits=1)
        assert [(each.position, each.redeliveries) for each in found] == [(position, 1)]
        assert consumer.permits == 10

    run_owned(scenario)


def test_what_went_to_another_while_it_waited_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        # How often something was delivered is forgotten at once, so only who has it tells the two apart.
        monkeypatch.setattr(subscription._backlog, "_redeliveries_max", 0)
        (position,) = await owner.publish(1)
        one = subscription.attach("one", SHARED)
        assert len(await take_all(one, permits=1)) == 1
        one.permit(1)
        one.negative_acknowledge([position])
        await settle()  # it comes again, and waits with the one
        other = subscription.attach("other", SHARED)
        one.negative_acknowledge([position])
        assert len(await take_all(other, permits=1)) == 1
        assert await taken(one) == []

    run_owned(scenario)
