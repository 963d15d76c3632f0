"""Key-shared subscriptions: acknowledgements of what has moved to another consumer, who has not taken it yet."""

from __future__ import annotations

import asyncio

import pytest
from subscription_world import Owner, abort, begin, commit, part, run_owned, take_all, taken, whole
from test_subscription_keys import joined, keyed

from metastore.interface import Unavailable
from support.world import World, settle
from txn.model.errors import SegmentUnavailable
from txn.model.position import Position
from txn.segment.cursor import BatchBits
from txn.segment.entry import Entry
from txn.segment.subscription import Consumer, Subscription


async def moved(owner: Owner, subscription: Subscription, *entries: Entry) -> tuple[list[Position], Consumer, Consumer]:
    """One who has had these entries and has gone, and another one, for whom they wait."""
    gone, other = joined(subscription, "a"), joined(subscription, "b")
    positions = await owner.append(*entries)
    assert await taken(gone) == positions
    await gone.close()
    await settle()
    assert other.unacked == sum(each.message_count for each in entries), "they wait for it"
    return positions, gone, other


@pytest.mark.parametrize("is_committed", [True, False], ids=["commit", "abort"])
def test_what_lies_behind_it_waits_until_it_is_decided(is_committed: bool) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        positions, gone, other = await moved(owner, subscription, keyed(0), keyed(0), keyed(1), keyed(0))
        first, late, elsewhere, behind = positions
        txn_id = await begin(world, 1)
        await subscription.acknowledge(whole([late]), txn_id, gone)
        assert await taken(other) == [first, elsewhere]
        await subscription.acknowledge(whole([first, elsewhere]), None, other)
        assert await taken(other) == []
        await (commit if is_committed else abort)(world, txn_id)
        assert await taken(other) == ([behind] if is_committed else [late, behind])

    run_owned(scenario)


def test_of_a_batch_what_lies_behind_the_message_in_it_waits_as_well() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        (batch, behind), gone, other = await moved(owner, subscription, keyed(0, 1, 0), keyed(0))
        txn_id = await begin(world, 1)
        await subscription.acknowledge(part(batch, 0, size=3), txn_id, gone)
        (only,) = await take_all(other)
        assert (only.position, only.acknowledged) == (batch, BatchBits(3, 0b101))
        await abort(world, txn_id)
        again, last = await take_all(other)
        assert (again.position, again.acknowledged, last.position) == (batch, BatchBits(3, 0b010), behind)

    run_owned(scenario)


def test_what_comes_before_it_again_does_not_bring_what_lies_behind_it() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        gone, other = joined(subscription, "a"), joined(subscription, "b", permits=0)
        first, late, behind = await owner.append(keyed(0), keyed(0), keyed(0))
        assert await taken(gone) == [first, late, behind]
        await gone.close()
        other.permit(3)
        await settle()
        assert [each.position for each in await other.receive(1)] == [first]
        txn_id = await begin(world, 1)
        await subscription.acknowledge(whole([late]), txn_id, gone)
        other.negative_acknowledge([first])
        assert await taken(other) == [first]
        await abort(world, txn_id)
        assert await taken(other) == [late, behind]

    run_owned(scenario)


@pytest.mark.parametrize("size", [1, 2])
def test_one_that_is_not_recorded_after_all_leaves_nothing_with_nobody(size: int) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        (late, behind), gone, other = await moved(owner, subscription, keyed(*[0] * size), keyed(0))
        txn_id = await begin(world, 1)
        gate = owner.process.script.hold("transact", prefix="/txn-op/")
        owner.process.script.fail("transact", Unavailable("away"), prefix="/txn-op/")
        asking = owner.process.start(subscription.acknowledge(part(late, 0, size=size), txn_id, gone))
        await gate.arrived()
        assert await taken(other) == [], "it is held"
        gate.release()
        with pytest.raises(SegmentUnavailable):
            await asyncio.wait_for(asking, 60)
        assert await taken(other) == [late, behind]

    run_owned(scenario)
