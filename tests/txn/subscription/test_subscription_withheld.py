"""Key-shared subscriptions: what lies behind something that an open transaction holds comes to nobody else."""

from __future__ import annotations

import pytest
from subscription_world import (
    EXCLUSIVE,
    KEY_SHARED,
    Owner,
    abort,
    begin,
    commit,
    part,
    run_owned,
    stored,
    take_all,
    taken,
    up_to,
    whole,
)
from test_subscription_keys import STARTS, joined, keyed

from support.world import World
from txn.model.ids import TxnId
from txn.model.position import Position
from txn.segment.cursor import BatchBits
from txn.segment.subscription import Consumer, InitialPosition, Subscription

OUTCOMES = pytest.mark.parametrize("is_committed", [True, False], ids=["commit", "abort"])


async def with_a_gap(world: World, owner: Owner, subscription: Subscription) -> tuple[TxnId, list[Position], Consumer]:
    """One who left has acknowledged the second of bucket 0 in a transaction, and another one is there."""
    gone, other = joined(subscription, "a"), joined(subscription, "b")
    positions = await owner.append(keyed(0), keyed(0), keyed(1), keyed(0))
    assert await taken(gone) == positions
    txn_id = await begin(world, 1)
    await subscription.acknowledge(whole([positions[1]]), txn_id, gone)
    await gone.close()
    return txn_id, positions, other


async def decide(world: World, txn_id: TxnId, is_committed: bool) -> None:
    await (commit if is_committed else abort)(world, txn_id)


@OUTCOMES
def test_what_lies_behind_what_one_who_left_holds_waits_until_it_is_decided(is_committed: bool) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        txn_id, positions, other = await with_a_gap(world, owner, subscription)
        first, second, elsewhere, third = positions
        assert await taken(other) == [first, elsewhere], "before it, and of another bucket"
        await subscription.acknowledge(whole([first, elsewhere]), None, other)
        (newer,) = await owner.append(keyed(0))
        assert await taken(other) == []
        await decide(world, txn_id, is_committed)
        left = [third, newer] if is_committed else [second, third, newer]
        assert await taken(other) == left

    run_owned(scenario)


def test_who_has_acknowledged_it_goes_on_and_does_so_beside_others_that_come() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        one = joined(subscription, "a")
        first, batch = await owner.append(keyed(0), keyed(0, 3, 0))
        assert await taken(one) == [first, batch]
        txn_id = await begin(world, 1)
        await subscription.acknowledge(whole([first]), txn_id, one)
        await subscription.acknowledge(part(batch, 0, 1, size=3), txn_id, one)
        other = joined(subscription, "b")
        one.negative_acknowledge([batch])
        mine, others = await owner.append(keyed(0), keyed(3))
        assert await taken(one) == [batch, mine]
        assert await taken(other) == []
        await commit(world, txn_id)
        assert await taken(other) == [others]

    run_owned(scenario)


def test_who_comes_again_is_another_one() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        txn_id, (first, second, elsewhere, third), _ = await with_a_gap(world, owner, subscription)
        again = joined(subscription, "a")
        assert await taken(again) == [first, elsewhere]
        await abort(world, txn_id)
        assert await taken(again) == [second, third]

    run_owned(scenario)


@OUTCOMES
def test_after_a_restart_nobody_knows_whose_it_was(is_committed: bool) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        txn_id, (first, second, elsewhere, third), _ = await with_a_gap(world, owner, await owner.create())
        await owner.die()
        next_owner = await Owner.take(world)
        subscription = await next_owner.recover()
        one, other = joined(subscription, "a"), joined(subscription, "b")
        assert await taken(one) == [first, elsewhere]
        assert await taken(other) == []
        await decide(world, txn_id, is_committed)
        left = [third] if is_committed else [second, third]
        assert await taken(one) == left
        await next_owner.die()

    run_owned(scenario)


@OUTCOMES
def test_behind_everything_up_to_somewhere_all_buckets_wait(is_committed: bool) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        alone = subscription.attach("a", EXCLUSIVE)
        positions = await owner.append(keyed(0), keyed(3), keyed(0), keyed(3))
        assert await taken(alone) == positions
        txn_id = await begin(world, 1)
        await subscription.acknowledge(up_to(positions[1]), txn_id, alone)
        await alone.close()
        one, other = joined(subscription, "a"), joined(subscription, "b")
        assert (await taken(one), await taken(other)) == ([], [])
        await decide(world, txn_id, is_committed)
        left = positions[2:] if is_committed else positions
        assert (await taken(one), await taken(other)) == (left[::2], left[1::2])

    run_owned(scenario)


def test_of_a_batch_two_transactions_hold_parts_and_each_keeps_its_bucket() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        gone, other = joined(subscription, "a"), joined(subscription, "b")
        batch, zero, one = await owner.append(keyed(0, 1), keyed(0), keyed(1))
        assert await taken(gone) == [batch, zero, one]
        first, second = await begin(world, 1), await begin(world, 2)
        await subscription.acknowledge(part(batch, 0, size=2), first, gone)
        await subscription.acknowledge(part(batch, 1, size=2), second, gone)
        await gone.close()
        assert await taken(other) == []
        await commit(world, first)
        assert await taken(other) == [zero]
        await abort(world, second)
        (again, behind) = await take_all(other)
        assert (again.position, behind.position) == (batch, one)
        assert again.acknowledged == BatchBits(2, 0b01)

    run_owned(scenario)


def test_a_seek_beyond_it_waits_for_nothing() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        txn_id, (*_, third), other = await with_a_gap(world, owner, subscription)
        await subscription.seek(third)
        assert await taken(other) == [third]
        await abort(world, txn_id)
        assert await taken(other) == []
        await subscription.seek(InitialPosition.LATEST)
        assert (await stored(world)).mark > third
        assert subscription.stats.to_redeliver == 0

    run_owned(scenario)


def test_what_could_not_be_read_by_other_buckets_is_found_by_those_that_come_later() -> None:
    """All leave, and others come who divide the keys otherwise: nothing is remembered by numbers of buckets."""

    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        txn_id, (first, second, elsewhere, third), other = await with_a_gap(world, owner, subscription)
        await other.close()
        halves = subscription.attach("c", KEY_SHARED, starts=STARTS[::2])
        assert await taken(halves) == [first]
        await commit(world, txn_id)
        assert await taken(halves) == [elsewhere, third]

    run_owned(scenario)
