"""What the next owner finds: whatever was cut off, and wherever, it goes on as if nothing had happened."""

from __future__ import annotations

import errno

import pytest
from subscription_world import (
    EXCLUSIVE,
    SEGMENT,
    SHARED,
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

from metastore.faults import Faults
from metastore.interface import OutcomeUnknown, Unavailable
from support.world import World, settle
from txn.model import paths
from txn.model.errors import SegmentUnavailable, TxnConflict
from txn.model.header import TxnState
from txn.segment.cursor import BatchBits
from txn.segment.subscription import (
    DELETING,
    Subscription,
    SubscriptionClosed,
    SubscriptionDeleted,
    has_cursor,
    subscriptions_of,
)


class Stop(Faults):
    """Fails once, at one point, as if the process had been killed there."""

    def __init__(self, point: str) -> None:
        self.point = point
        self.is_reached = False

    def reach(self, point: str) -> None:
        if point == self.point and not self.is_reached:
            self.is_reached = True
            raise OSError(errno.EIO, f"stopped at {point}")


@every_store
def test_h1_what_open_transactions_hold_survives_a_restart(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        positions = await owner.publish(5)
        (batch,) = await owner.publish(1, messages=4)
        one, other = await begin(world, 1), await begin(world, 2)
        await subscription.acknowledge(up_to(positions[1]), one)
        await subscription.acknowledge(whole(positions[3:4]), other)
        await subscription.acknowledge(part(batch, 0, 2), other)
        await owner.die()
        owner = await Owner.take(world)
        subscription = await owner.recover()
        for acks in (whole(positions[:1]), whole(positions[3:4]), part(batch, 2), up_to(positions[4])):
            with pytest.raises(TxnConflict):
                await subscription.acknowledge(acks, await begin(world, 3))
        await subscription.acknowledge(whole(positions[3:4]), other)
        found = await take_all(subscription.attach("fresh", EXCLUSIVE))
        assert [(each.position, each.acknowledged) for each in found] == [
            (positions[2], None),
            (positions[4], None),
            (batch, BatchBits(4, 0b0101)),
        ]
        await commit(world, one)
        await commit(world, other)
        assert await records(world) == []
        state = await stored(world)
        assert state.mark == positions[2]
        assert state.is_acknowledged(positions[3])
        assert state.batches == {batch: BatchBits(4, 0b0101)}
        await owner.die()

    run_owned(scenario, lacks)


@every_store
@pytest.mark.parametrize(
    "point",
    [
        "txn.ack.record.after",
        "txn.settle.cursor.before",
        "txn.cursor.write.before",
        "txn.cursor.write.after",
        "txn.settle.cursor.after",
        "txn.settle.operations.before",
        "txn.settle.operations.after",
    ],
)
@pytest.mark.parametrize("state", [TxnState.COMMITTED, TxnState.ABORTED])
def test_h2_an_outcome_is_carried_out_wherever_it_was_cut_off(
    lacks: tuple[str, ...], point: str, state: TxnState
) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        await (await owner.create()).acknowledge(whole(await owner.publish(1)))
        await owner.die()
        stop = Stop(point)
        owner = await Owner.take(world, stop)
        subscription = await owner.recover()
        positions = await owner.publish(3)
        txn_id = await begin(world, 1)
        try:
            await subscription.acknowledge(whole(positions[:2]), txn_id)
        except SegmentUnavailable:
            assert stop.is_reached, "the records are there, and nobody was told"
        await decide_silently(world, txn_id, state)
        await settle()
        assert stop.is_reached or state is TxnState.ABORTED
        if stop.is_reached:
            assert isinstance(await subscription.wait_failed(), SubscriptionClosed)
            with pytest.raises(SegmentUnavailable):
                await subscription.acknowledge(whole(positions), None)
        await owner.die()
        owner = await Owner.take(world)
        subscription = await owner.recover()
        fresh = subscription.attach("fresh", EXCLUSIVE)
        committed = state is TxnState.COMMITTED
        assert await taken(fresh) == positions[2 if committed else 0 :]
        assert await records(world) == []
        found = await stored(world)
        assert [found.is_acknowledged(each) for each in positions] == [committed, committed, False]
        await owner.die()

    run_owned(scenario, lacks)


@every_store
def test_what_was_decided_while_nobody_owned_it_counts_from_the_first_moment(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        positions = await owner.publish(4)
        one, other = await begin(world, 1), await begin(world, 2)
        await subscription.acknowledge(whole(positions[:1]), one)
        await subscription.acknowledge(whole(positions[1:2]), other)
        await owner.die()
        await decide_silently(world, one, TxnState.COMMITTED)
        await decide_silently(world, other, TxnState.ABORTED)
        owner = await Owner.take(world)
        gate = owner.process.script.hold("transact" if not lacks else "put", prefix=paths.cursors_path(SEGMENT))
        if lacks:
            gate.release()  # the fence is raised by a put as well
        subscription = await owner.recover()
        third = await begin(world, 3)
        with pytest.raises(TxnConflict, match="already"):
            await subscription.acknowledge(whole(positions[:1]), third)
        await subscription.acknowledge(whole(positions[1:2]), third)
        gate.release()
        await settle()
        assert len(await records(world)) == 1
        await owner.die()

    run_owned(scenario, lacks)


@every_store
def test_h6_h7_names_that_begin_alike_are_not_confused(lacks: tuple[str, ...]) -> None:
    names = ["a", "ab", "s", "s-1", "s/1", "s:1"]

    async def scenario(world: World, owner: Owner) -> None:
        subscriptions = {name: await owner.create(name) for name in names}
        positions = await owner.publish(len(names))
        txn_id = await begin(world, 1)
        for name, position in zip(names, positions, strict=True):
            await subscriptions[name].acknowledge(whole([position]), txn_id)
        assert sorted(await subscriptions_of(owner.process.store, SEGMENT)) == sorted(names)
        await owner.die()
        owner = await Owner.take(world)
        subscriptions = {name: await owner.recover(name) for name in names}
        assert all(each.stats.pending == {txn_id: 1} for each in subscriptions.values())
        await subscriptions["a"].delete()
        await subscriptions["s"].delete()
        assert len(await records(world)) == len(names) - 2
        await commit(world, txn_id)
        for name, position in zip(names, positions, strict=True):
            if name not in ("a", "s"):
                state = await stored(world, name)
                assert [each for each in positions if state.is_acknowledged(each)] == [position]
        assert await records(world) == []
        await owner.die()

    run_owned(scenario, lacks)


@every_store
def test_h12_a_record_that_comes_when_all_is_over_is_removed(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        positions = await owner.publish(2)
        txn_id = await begin(world, 1)
        lost = owner.process.script.lose("put" if lacks else "transact", prefix="/txn-op/")
        with pytest.raises(SegmentUnavailable):
            await subscription.acknowledge(whole(positions[:1]), txn_id)
        await owner.die()
        owner = await Owner.take(world)
        subscription = await owner.recover()
        await subscription.acknowledge(whole(positions[1:]), txn_id)
        lost.arrive()
        await settle()
        assert len(await records(world)) == 1
        await abort(world, txn_id)
        assert await records(world) == []
        assert await taken(subscription.attach("one", SHARED)) == positions
        await owner.die()

    run_owned(scenario, lacks)


@every_store
@pytest.mark.parametrize("is_committed", [False, True])
def test_a_record_that_comes_behind_a_takeover_promises_nothing(lacks: tuple[str, ...], is_committed: bool) -> None:
    """Else its transaction would be told that it has what another one got meanwhile, and both would commit."""

    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        positions = await owner.publish(2)
        late, other = await begin(world, 1), await begin(world, 2)
        gate = owner.process.script.hold("put" if lacks else "transact", prefix="/txn-op/")
        asked = owner.process.start(subscription.acknowledge(whole(positions[:1]), late))
        await gate.arrived()
        await owner.grant.release()
        successor = await Owner.take(world)
        after = await successor.recover()
        await after.acknowledge(whole(positions[:1]), other)
        if is_committed:
            await commit(world, other)
        gate.release()
        with pytest.raises(SegmentUnavailable, match="not known"):
            await asked
        await settle()
        with pytest.raises(TxnConflict):
            await after.acknowledge(whole(positions[:1]), late)
        await after.acknowledge(whole(positions[1:]), late)
        assert len(await records(world)) == (1 if is_committed else 2)
        await successor.die()
        last = await Owner.take(world)
        found = await last.recover()
        with pytest.raises(TxnConflict):
            await found.acknowledge(whole(positions[:1]), late)
        await abort(world, late)
        if not is_committed:
            await commit(world, other)
        assert await records(world) == []
        assert await taken(found.attach("one", SHARED)) == positions[1:]
        await last.die()

    run_owned(scenario, lacks)


@every_store
def test_a_deposed_owner_leaves_the_records_of_the_next_one_alone(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        positions = await owner.publish(2)
        txn_id = await begin(world, 1)
        lost = owner.process.script.lose("put" if lacks else "transact", prefix="/txn-op/")
        with pytest.raises(SegmentUnavailable, match="not known"):
            await subscription.acknowledge(whole(positions[:1]), txn_id)
        await owner.grant.release()
        successor = await Owner.take(world)
        after = await successor.recover()
        kept = successor.process.script.hold("transact" if not lacks else "put", prefix=paths.cursors_path(SEGMENT))
        await after.acknowledge(whole(positions[:1]), txn_id)
        await commit(world, txn_id)  # the one before hears of it first, and its put never comes
        assert len(await records(world)) == 1
        kept.release()
        await settle()
        assert (await stored(world)).is_acknowledged(positions[0])
        assert await records(world) == []
        lost.arrive()
        await successor.die()

    run_owned(scenario, lacks)


@every_store
def test_h17_an_abort_needs_no_consumer_and_individual_and_cumulative_do_not_mix(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        positions = await owner.publish(4)
        zero, one = await begin(world, 0), await begin(world, 1)
        await subscription.acknowledge(up_to(positions[1]), zero)
        await subscription.acknowledge(whole(positions[3:]), one)
        for acks in (up_to(positions[3]), whole(positions[:1])):
            with pytest.raises(TxnConflict):
                await subscription.acknowledge(acks, one)
        await abort(world, zero)
        assert subscription.stats.pending == {one: 1}
        assert await taken(subscription.attach("one", EXCLUSIVE)) == positions[:3]
        await commit(world, one)
        assert (await stored(world)).is_acknowledged(positions[3])

    run_owned(scenario, lacks)


@every_store
def test_h19_parts_of_batches_are_recorded_and_kept(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        (batch,) = await owner.publish(1, messages=4)
        one, other = await begin(world, 1), await begin(world, 2)
        await subscription.acknowledge(part(batch, 0), one)
        await subscription.acknowledge(part(batch, 1, 2), other)
        await commit(world, one)
        await owner.die()
        owner = await Owner.take(world)
        subscription = await owner.recover()
        for index in (0, 1, 2):
            with pytest.raises(TxnConflict):
                await subscription.acknowledge(part(batch, index), await begin(world, 3 + index))
        (delivery,) = await take_all(subscription.attach("one", SHARED))
        assert delivery.acknowledged == BatchBits(4, 0b0111)
        await subscription.acknowledge(part(batch, 3))
        await commit(world, other)
        assert (await stored(world)).mark == owner.log.lengths.end
        await owner.die()

    run_owned(scenario, lacks)


@every_store
def test_a_deposed_owner_acknowledges_nothing(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        positions = await owner.publish(3)
        txn_id, late = await begin(world, 1), await begin(world, 2)
        await subscription.acknowledge(whole(positions[:1]), txn_id)
        gate = owner.process.script.hold("put" if lacks else "transact", prefix="/txn-op/")
        promised = owner.process.start(subscription.acknowledge(whole(positions[1:2]), late))
        await gate.arrived()
        await owner.grant.release()
        successor = await Owner.take(world)
        after = await successor.recover()
        gate.release()
        with pytest.raises(SegmentUnavailable, match="not known"):
            await promised
        with pytest.raises(SegmentUnavailable):
            await subscription.acknowledge(whole(positions[2:]))
        with pytest.raises(SubscriptionClosed):
            await subscription.acknowledge(whole(positions[2:]))
        await after.acknowledge(whole(positions[2:]))
        await commit(world, txn_id)
        await abort(world, late)
        state = await stored(world)
        assert [state.is_acknowledged(each) for each in positions] == [True, False, True]
        assert await records(world) == []
        await successor.die()

    run_owned(scenario, lacks)


@every_store
@pytest.mark.parametrize("is_applied", [False, True])
def test_a_cursor_is_written_until_it_is_durable_and_many_changes_at_once(
    lacks: tuple[str, ...], is_applied: bool
) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        positions = await owner.publish(50)
        method = "put" if lacks else "transact"
        script = owner.process.script
        cursor = paths.cursors_path(SEGMENT)
        gate = script.hold(method, prefix=cursor)
        calls = [owner.process.start(subscription.acknowledge(whole([each]))) for each in positions]
        await gate.arrived()
        await settle()
        assert not any(call.done() for call in calls)
        script.fail(method, OutcomeUnknown("cut"), prefix=cursor, after=is_applied)
        script.fail(method, Unavailable("away"), prefix=cursor)
        gate.release()
        for _ in range(10):
            await world.pass_ms(1_000)
        assert all(call.done() and call.exception() is None for call in calls)
        assert script.arrivals[f"memory.{method}.before"] < 30
        assert (await stored(world)).mark == owner.log.lengths.end

    run_owned(scenario, lacks)


@every_store
def test_a_deleted_subscription_leaves_nothing_and_may_be_made_anew(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        positions = await owner.publish(2)
        txn_id = await begin(world, 1)
        await subscription.acknowledge(whole(positions[:1]), txn_id)
        consumer = subscription.attach("one", SHARED)
        await subscription.delete()
        with pytest.raises(SubscriptionDeleted):
            await consumer.receive(1)
        with pytest.raises(SubscriptionDeleted):
            await subscription.acknowledge(whole(positions))
        assert await records(world) == []
        assert not await has_cursor(owner.process.store, SEGMENT, SUB)
        assert await subscriptions_of(owner.process.store, SEGMENT) == []
        assert await Subscription.recover(SUB, owner.around) is None
        again = await owner.create()
        await commit(world, txn_id)
        assert await taken(again.attach("one", SHARED)) == positions

    run_owned(scenario, lacks)


@every_store
@pytest.mark.parametrize("point", ["txn.cursor.deleting.after", "txn.cursor.delete.before", "txn.cursor.delete.after"])
def test_a_deletion_that_was_cut_off_is_finished_by_the_next_owner(lacks: tuple[str, ...], point: str) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        await owner.die()
        owner = await Owner.take(world, Stop(point))
        subscription = await owner.create()
        positions = await owner.publish(1)
        await subscription.acknowledge(whole(positions), await begin(world, 1))
        with pytest.raises(OSError, match=point):
            await subscription.delete()
        await owner.die()
        owner = await Owner.take(world)
        assert await Subscription.recover(SUB, owner.around) is None
        assert await records(world) == []
        assert not await has_cursor(owner.process.store, SEGMENT, SUB)
        assert DELETING not in [await _value(owner)]
        await owner.die()

    run_owned(scenario, lacks)


async def _value(owner: Owner) -> bytes | None:
    record = await owner.process.store.get(paths.cursor_key(SEGMENT, SUB), partition_key=SEGMENT)
    return None if record is None else record.value


@every_store
@pytest.mark.parametrize("is_applied", [False, True])
def test_creating_again_after_a_lost_answer_is_the_same(lacks: tuple[str, ...], is_applied: bool) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        method = "put" if lacks else "transact"
        owner.process.script.fail(method, OutcomeUnknown("cut"), prefix=paths.cursors_path(SEGMENT), after=is_applied)
        creating = owner.process.start(owner.create())
        await settle()
        await world.pass_ms(1_000)
        subscription = await creating
        positions = await owner.publish(1)
        await subscription.acknowledge(whole(positions))
        await subscription.close()
        assert (await owner.create()).mark == owner.log.lengths.end

    run_owned(scenario, lacks)
