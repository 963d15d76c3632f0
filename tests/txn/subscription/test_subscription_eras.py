"""What a cumulative acknowledgement takes: what its consumer was given, never what was withheld and comes after all."""

from __future__ import annotations

import pytest
from subscription_world import (
    EXCLUSIVE,
    FAILOVER,
    SEGMENT,
    SUB,
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
    take_all,
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
from txn.model.position import Position
from txn.segment.cursor import ERAS_OF_TERM_BITS, Ack
from txn.segment.subscription import AckTooLate, Consumer, Delivery, InitialPosition, Subscription, SubscriptionKind

CUMULATIVE = pytest.mark.parametrize("is_cumulative", [True, False], ids=["cumulative", "one-by-one"])


async def with_a_gap(
    world: World,
    owner: Owner,
    subscription: Subscription,
    *,
    is_cumulative: bool = True,
    kind: SubscriptionKind = EXCLUSIVE,
) -> tuple[TxnId, list[Position], Consumer, list[Delivery]]:
    """Three of five entries are held by a transaction of a consumer that has gone; another one is given the rest."""
    positions = await owner.publish(5)
    gone = subscription.attach("gone", kind)
    assert await taken(gone) == positions
    txn_id = await begin(world, 1)
    acks = up_to(positions[2]) if is_cumulative else whole(positions[:3])
    await subscription.acknowledge(acks, txn_id, gone)
    await gone.close()
    next_one = subscription.attach("next", kind)
    given = await take_all(next_one)
    assert [each.position for each in given] == positions[3:]
    return txn_id, positions, next_one, given


def last_of(given: list[Delivery]) -> tuple[list[Ack], int]:
    """Everything up to the last one, and the era in which that was given."""
    return up_to(given[-1].position), given[-1].era


@CUMULATIVE
@every_store
@pytest.mark.parametrize("kind", [EXCLUSIVE, FAILOVER])
def test_what_an_abort_lets_go_is_not_taken_by_an_acknowledgement_that_was_on_its_way(
    lacks: tuple[str, ...], is_cumulative: bool, kind: SubscriptionKind
) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        txn_id, positions, consumer, given = await with_a_gap(
            world, owner, subscription, is_cumulative=is_cumulative, kind=kind
        )
        acks, era = last_of(given)
        with pytest.raises(TxnConflict):
            await subscription.acknowledge(acks, None, consumer, era)
        await abort(world, txn_id)
        with pytest.raises(AckTooLate, match="comes again"):
            await subscription.acknowledge(acks, None, consumer, era)
        again = await take_all(consumer)
        assert [each.position for each in again] == positions
        acks, era = last_of(again)
        await subscription.acknowledge(acks, None, consumer, era)
        assert (await stored(world)).mark > positions[-1]

    run_owned(scenario, lacks)


def test_another_transaction_gets_none_of_it_either() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        first, positions, consumer, given = await with_a_gap(world, owner, subscription)
        second = await begin(world, 2)
        acks, era = last_of(given)
        await abort(world, first)
        with pytest.raises(AckTooLate):
            await subscription.acknowledge(acks, second, consumer, era)
        assert subscription.stats.pending == {}
        assert await taken(consumer) == positions

    run_owned(scenario)


def test_a_commit_is_no_new_era_and_what_was_given_before_is_acknowledged() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        txn_id, positions, consumer, given = await with_a_gap(world, owner, subscription)
        acks, era = last_of(given)
        await commit(world, txn_id)
        await subscription.acknowledge(acks, None, consumer, era)
        assert (await stored(world)).mark > positions[-1]
        assert (await stored(world)).era == 0

    run_owned(scenario)


def test_an_abort_of_what_is_acknowledged_since_is_no_new_era() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        positions = await owner.publish(5)
        txn_id = await begin(world, 1)
        await subscription.acknowledge(whole(positions[:2]), txn_id)
        await subscription.seek(InitialPosition.LATEST)
        era = (await stored(world)).era
        await abort(world, txn_id)
        assert (await stored(world)).era == era

    run_owned(scenario)


def test_of_what_is_acknowledged_already_every_era_may_say_so_and_one_by_one_none_is_needed() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        txn_id, positions, consumer, given = await with_a_gap(world, owner, subscription)
        era = given[0].era
        await abort(world, txn_id)
        again = await take_all(consumer)
        await subscription.acknowledge(up_to(positions[1]), None, consumer, again[1].era)
        for acks in (up_to(positions[0]), up_to(positions[1]), whole(positions[3:])):
            await subscription.acknowledge(acks, None, consumer, era)
        with pytest.raises(AckTooLate):
            await subscription.acknowledge(up_to(positions[2]), None, consumer, era)
        state = await stored(world)
        assert [state.is_acknowledged(each) for each in positions] == [True, True, False, True, True]

    run_owned(scenario)


def test_a_transaction_may_say_again_what_it_has_recorded_in_an_era_before() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        positions = await owner.publish(5)
        consumer = subscription.attach("one", EXCLUSIVE)
        (*_, last) = await take_all(consumer)
        first, second = await begin(world, 1), await begin(world, 2)
        await subscription.acknowledge(whole([positions[4]]), first, consumer)
        await subscription.acknowledge(up_to(positions[2]), second, consumer, last.era)
        await abort(world, first)
        await subscription.acknowledge(up_to(positions[2]), second, consumer, last.era)
        await commit(world, second)
        assert (await stored(world)).mark == positions[3]
        assert await taken(consumer) == positions[3:]

    run_owned(scenario)


@every_store
def test_a_seek_back_is_not_undone_by_an_acknowledgement_that_was_on_its_way(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        before = await owner.publish(3)
        subscription = await Subscription.create("late", InitialPosition.LATEST, owner.around)
        owner.subscriptions.append(subscription)
        positions = await owner.publish(2)
        consumer = subscription.attach("one", EXCLUSIVE)
        given = await take_all(consumer)
        assert [each.position for each in given] == positions
        await subscription.seek(InitialPosition.EARLIEST)
        acks, era = last_of(given)
        with pytest.raises(AckTooLate):
            await subscription.acknowledge(acks, None, consumer, era)
        assert await taken(consumer) == before + positions

    run_owned(scenario, lacks)


@every_store
def test_an_era_holds_beyond_its_owner(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        txn_id, positions, _, given = await with_a_gap(world, owner, await owner.create())
        await abort(world, txn_id)
        assert (await stored(world)).era == 1
        await owner.die()
        other = await Owner.take(world)
        subscription = await other.recover()
        consumer = subscription.attach("next", EXCLUSIVE)
        acks, era = last_of(given)
        with pytest.raises(AckTooLate):
            await subscription.acknowledge(acks, None, consumer, era)
        again = await take_all(consumer)
        assert [each.position for each in again] == positions
        await other.die()
        third = await Owner.take(world)
        subscription = await third.recover()
        acks, era = last_of(again)
        await subscription.acknowledge(acks, None, subscription.attach("next", EXCLUSIVE), era)
        await subscription.seek(InitialPosition.EARLIEST)
        assert (await stored(world)).era == third.grant.term << ERAS_OF_TERM_BITS, "each owner has its own"
        await third.die()

    run_owned(scenario, lacks)


@every_store
def test_an_abort_whose_era_was_not_written_is_carried_out_by_the_next_owner(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        txn_id, positions, consumer, given = await with_a_gap(world, owner, await owner.create())
        gate = owner.process.script.hold("put" if lacks else "transact", prefix=paths.cursor_key(SEGMENT, SUB))
        await decide_silently(world, txn_id, TxnState.ABORTED)
        await gate.arrived()
        assert len(await records(world)) == 1, "the records go when the era is durable"
        assert await taken(consumer) == positions
        await owner.die()
        other = await Owner.take(world)
        subscription = await other.recover()
        acks, era = last_of(given)
        with pytest.raises(AckTooLate):
            await subscription.acknowledge(acks, None, None, era)
        assert await taken(subscription.attach("next", EXCLUSIVE)) == positions
        await settle()
        assert await records(world) == []
        await other.die()

    run_owned(scenario, lacks)


@CUMULATIVE
def test_nothing_is_given_behind_what_is_held_and_not_recorded(is_cumulative: bool) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        positions = await owner.publish(5)
        gone = subscription.attach("gone", EXCLUSIVE)
        assert await taken(gone) == positions
        txn_id = await begin(world, 1)
        gate = owner.process.script.hold("transact", prefix="/txn-op/")
        acks = up_to(positions[2]) if is_cumulative else whole(positions[1:3])
        recording = owner.process.start(subscription.acknowledge(acks, txn_id, gone))
        await gate.arrived()
        await gone.close()
        consumer = subscription.attach("next", EXCLUSIVE)
        assert await taken(consumer) == ([] if is_cumulative else positions[:1])
        gate.release()
        await recording
        assert await taken(consumer) == positions[3:]

    run_owned(scenario)


def test_what_was_held_and_could_not_be_recorded_comes_and_nothing_was_given_behind_it() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        (batch, *rest) = [*await owner.publish(1, messages=4), *await owner.publish(2)]
        gone = subscription.attach("gone", EXCLUSIVE)
        assert await taken(gone) == [batch, *rest]
        txn_id = await begin(world, 1)
        owner.process.script.fail("transact", Unavailable("away"), prefix="/txn-op/")
        gate = owner.process.script.hold("transact", prefix="/txn-op/")
        recording = owner.process.start(subscription.acknowledge(part(batch, 1, 2), txn_id, gone))
        await gate.arrived()
        await gone.close()
        consumer = subscription.attach("next", EXCLUSIVE)
        assert await taken(consumer) == []
        gate.release()
        with pytest.raises(SegmentUnavailable):
            await recording
        given = await take_all(consumer)
        assert [(each.position, each.acknowledged) for each in given] == [(each, None) for each in (batch, *rest)]
        assert (await stored(world)).era == given[0].era == 0

    run_owned(scenario)
