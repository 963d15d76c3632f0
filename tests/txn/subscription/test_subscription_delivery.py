"""What is delivered, to whom, in which order, and when it comes again."""

from __future__ import annotations

import asyncio

import pytest
from subscription_world import (
    EXCLUSIVE,
    FAILOVER,
    SHARED,
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

from support.world import World, settle
from txn.model.position import Position
from txn.segment.cursor import BatchBits
from txn.segment.subscription import (
    ConsumerBusy,
    ConsumerClosed,
    EndOfSegment,
    InitialPosition,
    Reader,
    SubscriptionKind,
    backlog,
    turns,
    ways,
)


def test_one_consumer_gets_all_in_order_and_no_other_may_attach() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        positions = await owner.publish(5)
        consumer = subscription.attach("one", EXCLUSIVE)
        for kind in SubscriptionKind:
            with pytest.raises(ConsumerBusy, match="one"):
                subscription.attach("two", kind)
        assert await taken(consumer) == positions
        await consumer.close()
        with pytest.raises(ConsumerClosed):
            await consumer.receive(1)
        again = subscription.attach("two", SHARED)
        found = await take_all(again)
        assert [(each.position, each.redeliveries) for each in found] == [(each, 1) for each in positions]

    run_owned(scenario)


def test_nothing_is_delivered_that_was_not_asked_for_and_the_slow_hold_up_nobody() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        positions = await owner.publish(10)
        slow, fast = subscription.attach("slow", SHARED), subscription.attach("fast", SHARED)
        slow.permit(2)
        await settle()
        assert [each.position for each in await slow.receive(10)] == positions[:2]
        assert await taken(fast) == positions[2:]
        more = await owner.publish(3)
        assert await taken(fast) == more

    run_owned(scenario)


def test_shared_consumers_get_entries_in_turn_and_those_of_one_that_goes() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        one, other = subscription.attach("one", SHARED), subscription.attach("other", SHARED)
        one.permit(100)
        other.permit(100)
        positions = await owner.publish(6)
        assert await taken(one) == positions[0::2]
        assert await taken(other) == positions[1::2]
        await subscription.acknowledge(whole(positions[0:2]))
        await one.close()
        assert await taken(other) == [positions[2], positions[4]]
        other.negative_acknowledge([positions[3], positions[0]])
        found = await take_all(other)
        assert [(each.position, each.redeliveries) for each in found] == [(positions[3], 1)]

    run_owned(scenario)


def test_the_next_consumer_takes_over_in_order() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        positions = await owner.publish(4)
        first, second = subscription.attach("first", FAILOVER), subscription.attach("second", FAILOVER)
        assert await taken(first) == positions
        assert await taken(second) == []
        assert (first.is_active, second.is_active) == (True, False)
        await subscription.acknowledge(up_to(positions[0]))
        await first.close()
        assert second.is_active
        assert await taken(second) == positions[1:]

    run_owned(scenario)


def test_in_order_what_comes_again_comes_with_everything_behind_it() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        positions = await owner.publish(6)
        consumer = subscription.attach("one", EXCLUSIVE)
        consumer.permit(5)
        await settle()
        given = await consumer.receive(3)
        assert [each.position for each in given] == positions[:3]
        await subscription.acknowledge(whole(positions[3:4]))
        consumer.negative_acknowledge([positions[1]])
        found = await take_all(consumer)
        assert [each.position for each in found] == [positions[1], positions[2], positions[4], positions[5]]
        assert {each.epoch for each in found} == {given[0].epoch + 1}

    run_owned(scenario)


def test_what_was_acknowledged_before_it_was_taken_is_not_given() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        positions = await owner.publish(3)
        (batch,) = await owner.publish(1, messages=4)
        consumer = subscription.attach("one", SHARED)
        consumer.permit(7)
        await settle()
        await subscription.acknowledge(whole(positions[:1]))
        txn_id = await begin(world, 1)
        await subscription.acknowledge([*whole(positions[1:2]), *part(batch, 3)], txn_id)
        found = await consumer.receive(100)
        assert [(each.position, each.acknowledged) for each in found] == [
            (positions[2], None),
            (batch, BatchBits(4, 0b1000)),
        ]
        assert consumer.permits == 2

    run_owned(scenario)


def test_what_a_transaction_holds_is_not_delivered_again_whoever_comes() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        positions = await owner.publish(4)
        consumer = subscription.attach("one", SHARED)
        await taken(consumer)
        txn_id = await begin(world, 1)
        await subscription.acknowledge(whole(positions[1:3]), txn_id)
        consumer.negative_acknowledge(positions)
        assert await taken(consumer) == [positions[0], positions[3]]
        await consumer.close()
        other = subscription.attach("two", EXCLUSIVE)
        assert await taken(other) == [positions[0], positions[3]]
        await abort(world, txn_id)
        assert await taken(other) == positions, "it goes back to the first that is not acknowledged"

    run_owned(scenario)


def test_of_a_batch_the_consumer_is_told_what_is_done() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        (batch,) = await owner.publish(1, messages=4)
        consumer = subscription.attach("one", SHARED)
        assert [each.acknowledged for each in await take_all(consumer)] == [None]
        one, other = await begin(world, 1), await begin(world, 2)
        await subscription.acknowledge(part(batch, 0))
        await subscription.acknowledge(part(batch, 1), one)
        await subscription.acknowledge(part(batch, 2), other)
        assert subscription.stats.unacked == 4
        await abort(world, one)
        assert [each.acknowledged for each in await take_all(consumer)] == [BatchBits(4, 0b1101)]
        await subscription.acknowledge(part(batch, 1, 3), await begin(world, 3))
        assert subscription.stats.unacked == 0
        await commit(world, other)
        assert (await stored(world)).batches == {batch: BatchBits(4, 0b0101)}

    run_owned(scenario)


def test_what_is_nobodys_is_passed_by_the_mark() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        txn_id = await begin(world, 1)
        owner.sight.aborted.add(txn_id)
        await owner.publish(1, txn_id=txn_id)
        await owner.publish_void()
        first, second = await owner.publish(2)
        await owner.publish(2, txn_id=txn_id)
        consumer = subscription.attach("one", EXCLUSIVE)
        assert await taken(consumer) == [first, second]
        await subscription.acknowledge(whole([second]))
        assert (await stored(world)).mark == first
        await subscription.acknowledge(whole([first]))
        assert (await stored(world)).mark == owner.log.lengths.end

    run_owned(scenario)


def test_gaps_that_are_nobodys_do_not_break_a_cursor_into_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog, "COMPACTION_RANGES_MIN", 4)

    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        consumer = subscription.attach("one", SHARED)
        kept = [position for _ in range(20) for position in (await owner.publish(1), await owner.publish_void())[0]]
        assert await taken(consumer) == kept
        await subscription.acknowledge(whole([kept[5], *kept[7:]]))
        await subscription.acknowledge(whole([kept[1]]))
        state = await stored(world)
        assert len(state.ranges) == 3
        assert [each for each in kept if not state.is_acknowledged(each)] == [
            kept[0],
            kept[2],
            kept[3],
            kept[4],
            kept[6],
        ]

    run_owned(scenario)


def test_what_is_not_acknowledged_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ways, "UNACKED_CONSUMER_MAX", 3)
    monkeypatch.setattr(turns, "UNACKED_SUBSCRIPTION_MAX", 5)

    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        positions = await owner.publish(10)
        one, other = subscription.attach("one", SHARED), subscription.attach("other", SHARED)
        assert await taken(one) == positions[:3]
        assert await taken(other) == positions[3:5]
        await subscription.acknowledge(whole(positions[:1]))
        assert await taken(one) == positions[5:6]

    run_owned(scenario)


def test_too_many_that_come_again_are_read_again_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        monkeypatch.setattr(subscription._backlog, "_redeliveries_max", 3)
        positions = await owner.publish(10)
        consumer = subscription.attach("one", SHARED)
        await taken(consumer)
        for position in positions[2:8]:
            consumer.negative_acknowledge([position])
            assert subscription.stats.to_redeliver <= 3
        assert sorted(await taken(consumer)) == positions[2:8]

    run_owned(scenario)


def test_a_sealed_segment_ends_when_everything_is_acknowledged() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        first, second = await owner.publish(2)
        await owner.publish_void()
        consumer = subscription.attach("one", SHARED)
        assert await taken(consumer) == [first, second]
        waiting = asyncio.ensure_future(consumer.receive(1))
        txn_id = await begin(world, 1)
        await subscription.acknowledge(whole([first]), txn_id)
        await subscription.acknowledge(whole([second]))
        await owner.seal()
        await settle()
        assert (waiting.done(), subscription.is_drained) == (False, False)
        await commit(world, txn_id)
        with pytest.raises(EndOfSegment):
            await waiting
        assert subscription.is_drained
        assert (await stored(world)).mark == owner.log.lengths.end
        await subscription.seek(first)
        assert await taken(consumer) == [first, second]

    run_owned(scenario)


def test_an_empty_sealed_segment_has_ended_for_whoever_comes() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        await owner.publish_void()
        await owner.seal()
        await settle()
        consumer = subscription.attach("one", EXCLUSIVE)
        consumer.permit(1)
        with pytest.raises(EndOfSegment):
            await consumer.receive(1)
        reader = Reader(owner.log, owner.sight, Position(0, 0))
        with pytest.raises(EndOfSegment):
            await reader.read()

    run_owned(scenario)


def test_h21_who_waits_at_the_tail_is_woken_and_asks_for_nothing() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        consumer = subscription.attach("one", EXCLUSIVE)
        held, behind = await owner.publish(2)
        owner.sight.held_at = held
        consumer.permit(10)
        reader = Reader(owner.log, owner.sight, Position(0, 0))
        reading, receiving = asyncio.ensure_future(reader.read()), asyncio.ensure_future(consumer.receive(10))
        await settle()
        asked, slept = owner.sight.asked, len(owner.process.sleeper.slept)
        await world.pass_ms(1_000)
        await settle()
        assert (owner.sight.asked, len(owner.process.sleeper.slept)) == (asked, slept)
        assert not reading.done()
        assert not receiving.done()
        owner.sight.held_at = None
        owner.sight.ring()
        assert [each.position for each in await reading] == [held, behind]
        assert [each.position for each in await receiving] == [held, behind]

    run_owned(scenario)


def test_a_seek_leaves_what_transactions_hold() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        positions = await owner.publish(6)
        consumer = subscription.attach("one", EXCLUSIVE)
        await taken(consumer)
        txn_id = await begin(world, 1)
        await subscription.acknowledge(whole([positions[2]]), txn_id)
        await subscription.acknowledge(up_to(positions[1]))
        await subscription.seek(positions[1])
        assert (await stored(world)).mark == positions[1]
        assert await taken(consumer) == [positions[1], *positions[3:]]
        await commit(world, txn_id)
        await subscription.seek(positions[4])
        assert await taken(consumer) == positions[4:]
        await subscription.seek(InitialPosition.LATEST)
        assert await taken(consumer) == []
        assert subscription.stats.backlog == 0
        await subscription.seek(InitialPosition.EARLIEST)
        assert await taken(consumer) == positions

    run_owned(scenario)


def test_what_is_trimmed_counts_as_acknowledged() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        old = [(await owner.publish(1))[0] for _ in range(3)]
        kept = await owner.publish(1)
        consumer = subscription.attach("one", EXCLUSIVE)
        txn_id = await begin(world, 1)
        await subscription.acknowledge(whole(old[1:2]), txn_id)
        await owner.log.trim(kept[0])
        subscription.notice_trimmed()
        reader = Reader(owner.log, owner.sight, old[0])
        assert [each.position for each in await reader.read()] == kept
        assert await taken(consumer) == kept
        assert subscription.stats.backlog == 1
        await commit(world, txn_id)
        await subscription.acknowledge(whole(kept))
        assert (await stored(world)).mark == owner.log.lengths.end

    run_owned(scenario)
