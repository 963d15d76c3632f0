"""Acknowledgements after a decision that nobody has told the owner of the segment yet."""

from __future__ import annotations

import asyncio

import pytest
from subscription_world import (
    EXCLUSIVE,
    Owner,
    abort,
    begin,
    commit,
    decide_silently,
    every_store,
    run_owned,
    stored,
    taken,
    up_to,
    whole,
)

from metastore.interface import Unavailable
from support.world import World, settle
from txn.model import paths
from txn.model.errors import SegmentUnavailable, TxnConflict
from txn.model.header import TxnState
from txn.model.ids import TxnId
from txn.segment.cursor import Ack
from txn.segment.subscription import Subscription


async def held_and_decided(
    world: World, owner: Owner, subscription: Subscription, acks: list[Ack], state: TxnState
) -> TxnId:
    """A transaction that has acknowledged, and was decided; no watch tells anything any more."""
    txn_id = await begin(world, 1)
    await subscription.acknowledge(acks, txn_id)
    owner.process.script.hold("watch")
    await decide_silently(world, txn_id, state)
    return txn_id


@every_store
def test_what_was_committed_is_acknowledged_once_more_without_a_conflict(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        (position,) = await owner.publish()
        await held_and_decided(world, owner, subscription, whole([position]), TxnState.COMMITTED)
        await subscription.acknowledge(whole([position]))
        assert (await stored(world)).is_acknowledged(position)

    run_owned(scenario, lacks)


@every_store
def test_one_transaction_after_another_acknowledges_everything_up_to_somewhere(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        positions = await owner.publish(4)
        await held_and_decided(world, owner, subscription, up_to(positions[1]), TxnState.COMMITTED)
        later = await begin(world, 2)
        await subscription.acknowledge(up_to(positions[2]), later)
        assert subscription.stats.pending == {later: 1}
        assert (await stored(world)).mark == positions[2]

    run_owned(scenario, lacks)


def test_what_was_aborted_is_free() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        first, second = await owner.publish(2)
        await held_and_decided(world, owner, subscription, whole([first]), TxnState.ABORTED)
        later = await begin(world, 2)
        await subscription.acknowledge(whole([first, second]), later)
        assert subscription.stats.pending == {later: 2}

    run_owned(scenario)


def test_what_was_committed_is_no_other_transactions() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        (position,) = await owner.publish()
        await held_and_decided(world, owner, subscription, whole([position]), TxnState.COMMITTED)
        with pytest.raises(TxnConflict, match="already"):
            await subscription.acknowledge(whole([position]), await begin(world, 2))

    run_owned(scenario)


def test_who_holds_it_and_is_open_is_in_the_way_and_so_is_a_store_that_does_not_say() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        (position,) = await owner.publish()
        holder = await begin(world, 1)
        await subscription.acknowledge(whole([position]), holder)
        with pytest.raises(TxnConflict, match=f"{holder} holds it"):
            await subscription.acknowledge(whole([position]))
        owner.process.script.fail("get", Unavailable("away"), prefix=paths.header_key(holder))
        with pytest.raises(SegmentUnavailable, match=f"{holder} is open cannot be learned"):
            await subscription.acknowledge(whole([position]), await begin(world, 2))
        assert subscription.stats.pending == {holder: 1}

    run_owned(scenario)


@pytest.mark.parametrize("has_acknowledged", [False, True])
def test_who_ended_while_the_holder_was_looked_at_holds_nothing(has_acknowledged: bool) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        wanted, other = await owner.publish(2)
        holder, late = await begin(world, 1), await begin(world, 2)
        await subscription.acknowledge(whole([wanted]), holder)
        if has_acknowledged:
            await subscription.acknowledge(whole([other]), late)
        gate = owner.process.script.hold("get", prefix=paths.header_key(holder))
        asking = owner.process.start(subscription.acknowledge(whole([wanted]), late))
        await gate.arrived()
        await abort(world, late)
        await abort(world, holder)
        gate.release()
        with pytest.raises(TxnConflict, match="was decided: ABORTED"):
            await asyncio.wait_for(asking, 60)
        assert subscription.stats.pending == {}
        assert await taken(subscription.attach("one", EXCLUSIVE)) == [wanted, other]

    run_owned(scenario)


def test_a_subscription_that_is_closed_keeps_nobody_waiting_for_a_decision_to_count() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        (position,) = await owner.publish()
        holder = await begin(world, 1)
        gate = owner.process.script.hold("transact", prefix="/txn-op/")
        holding = owner.process.start(subscription.acknowledge(whole([position]), holder))
        await gate.arrived()
        await commit(world, holder)
        asking = owner.process.start(subscription.acknowledge(whole([position])))
        await settle()
        assert not asking.done(), "what is on its way may yet be recorded"
        await subscription.close()
        for each in (holding, asking):
            with pytest.raises(SegmentUnavailable):
                await asyncio.wait_for(each, 60)

    run_owned(scenario)
