"""Who may acknowledge what: who has taken it last; and what has been taken comes again to who may show it yet."""

from __future__ import annotations

import pytest
from subscription_world import (
    KEY_SHARED,
    SHARED,
    Owner,
    abort,
    begin,
    commit,
    part,
    run_owned,
    take_all,
    taken,
    whole,
)

from support.world import World, settle
from txn.model.position import Position
from txn.segment.cursor import BatchBits
from txn.segment.entry import Entry, pack_hashes
from txn.segment.subscription import AckTooLate, Consumer, Nack, Subscription, SubscriptionKind, dispatcher
from txn.segment.subscription.hands import LastHands

EITHER = pytest.mark.parametrize("kind", [KEY_SHARED, SHARED])
ALL = 1_000
STARTS = (0, 0x8000)


def joined(
    subscription: Subscription, name: str, kind: SubscriptionKind, *, instance: int = 1, permits: int = ALL
) -> Consumer:
    starts = STARTS if kind is KEY_SHARED else (0,)
    consumer = subscription.attach(name, kind, starts=starts, instance=instance)
    if permits:
        consumer.permit(permits)
    return consumer


def keyed(*halves: int) -> Entry:
    """Messages of these halves of the keys."""
    return Entry(
        b"x", message_count=len(halves), key_hashes=pack_hashes([0xABCD << 16 | STARTS[half] for half in halves])
    )


async def moved_on(
    subscription: Subscription, owner: Owner, kind: SubscriptionKind, count: int
) -> tuple[Consumer, Consumer, list[Position]]:
    """One who had all and has come back, and another one, who was given all meanwhile and has taken nothing yet."""
    one = joined(subscription, "one", kind)
    positions = await owner.append(*[keyed(0) for _ in range(count)])
    assert await taken(one) == positions
    other = joined(subscription, "two", kind)
    await one.close()
    await settle()
    return joined(subscription, "one", kind), other, positions


# ---- who may acknowledge


@EITHER
def test_what_somebody_else_has_taken_is_left_out_and_the_rest_acknowledged(kind: SubscriptionKind) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        one, other, positions = await moved_on(subscription, owner, kind, 3)
        assert [each.position for each in await other.receive(1)] == positions[:1]
        with pytest.raises(AckTooLate, match="another consumer"):
            await subscription.acknowledge(whole(positions), None, one)
        assert await taken(other) == [], "the others waited for him, and are acknowledged"
        assert subscription.stats.unacked == 1
        await subscription.acknowledge(whole(positions[:1]), None, other)
        await subscription.acknowledge(whole(positions), None, one)  # repeated, there is nothing left to be late for
        assert subscription.stats.backlog == 0

    run_owned(scenario)


@EITHER
def test_in_a_transaction_nothing_is_acknowledged_if_somebody_else_has_taken_some(kind: SubscriptionKind) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        one, other, positions = await moved_on(subscription, owner, kind, 2)
        await other.receive(1)
        txn_id = await begin(world, 1)
        with pytest.raises(AckTooLate):
            await subscription.acknowledge(whole(positions), txn_id, one)
        assert subscription.stats.pending == {}
        await subscription.acknowledge(whole(positions[1:]), txn_id, one)
        await subscription.acknowledge(whole(positions[1:]), txn_id, one)  # again: it is his
        await commit(world, txn_id)
        assert await taken(other) == []

    run_owned(scenario)


@EITHER
def test_who_had_it_last_acknowledges_it_when_nobody_has_it(kind: SubscriptionKind) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        one, other, positions = await moved_on(subscription, owner, kind, 2)
        assert await taken(other) == positions
        await other.close()
        with pytest.raises(AckTooLate):  # the other one may show it yet: he may not know that his stream has ended
            await subscription.acknowledge(whole(positions), None, one)
        other = joined(subscription, "two", kind)
        await subscription.acknowledge(whole(positions[:1]), None, other)
        assert await taken(one) == positions[1:], "it is given to him"
        with pytest.raises(AckTooLate):
            await subscription.acknowledge(whole(positions[1:]), None, other)
        await subscription.acknowledge(whole(positions[1:]), None, one)
        assert subscription.stats.backlog == 0

    run_owned(scenario)


@EITHER
def test_another_one_of_the_same_name_is_not_the_same(kind: SubscriptionKind) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        one = joined(subscription, "one", kind)
        positions = await owner.append(keyed(0))
        assert await taken(one) == positions
        other = joined(subscription, "one", kind, instance=2, permits=0)
        with pytest.raises(AckTooLate):
            await subscription.acknowledge(whole(positions), None, other)
        await one.close()
        with pytest.raises(AckTooLate):
            await subscription.acknowledge(whole(positions), None, other)

    run_owned(scenario)


@EITHER
def test_what_one_without_an_instance_had_is_anybodys_when_he_has_gone(kind: SubscriptionKind) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        one = joined(subscription, "one", kind, instance=0)
        positions = await owner.append(keyed(0))
        assert await taken(one) == positions
        other = joined(subscription, "one", kind, instance=0, permits=0)
        with pytest.raises(AckTooLate):
            await subscription.acknowledge(whole(positions), None, other)
        await one.close()
        await subscription.acknowledge(whole(positions), None, other)

    run_owned(scenario)


def test_so_many_entries_are_remembered_and_the_first_ones_forgotten() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        one, other = (joined(subscription, name, SHARED, permits=0) for name in "ab")
        hands = LastHands(2)
        for entry in range(3):
            hands.note(Position(1, entry), one, 0b11)
        assert [hands.of_others(Position(1, entry), other) for entry in range(3)] == [0, 0b11, 0b11]
        hands.taken(Position(1, 1), 0b01)
        hands.taken(Position(1, 2), 0b11)
        assert [hands.of_others(Position(1, entry), other) for entry in range(3)] == [0, 0b10, 0]
        assert hands.of(Position(1, 1), one) == 0b10

    run_owned(scenario)


# ---- what has been taken comes again to who may show it yet


def test_what_comes_again_of_a_bucket_comes_to_who_has_taken_it_until_he_is_done_with_it() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        one = joined(subscription, "b", KEY_SHARED)
        first, second, third = await owner.append(keyed(0), keyed(0), keyed(0))
        assert await taken(one) == [first, second, third]
        txn_id = await begin(world, 1)
        await subscription.acknowledge(whole([first]), txn_id, one)
        other = joined(subscription, "a", KEY_SHARED)  # the half is his from now on
        await abort(world, txn_id)
        assert await taken(other) == []
        assert await taken(one) == [first, second, third], "he may show the later ones yet, and has to have this before"
        (newer,) = await owner.append(keyed(0))
        assert await taken(other) == []
        await subscription.acknowledge(whole([first, second]), None, one)
        assert await taken(other) == []
        await subscription.acknowledge(whole([third]), None, one)
        assert await taken(other) == [newer]

    run_owned(scenario)


def test_what_was_owed_to_one_who_goes_comes_to_the_next_one() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        one = joined(subscription, "b", KEY_SHARED)
        first, second = await owner.append(keyed(0), keyed(0))
        assert await taken(one) == [first, second]
        other = joined(subscription, "a", KEY_SHARED)
        one.negative_acknowledge([first])
        assert await taken(other) == []
        await one.close()
        assert await taken(other) == [first, second]

    run_owned(scenario)


def test_a_seek_beyond_what_is_owed_leaves_nothing_to_wait_for() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        one = joined(subscription, "b", KEY_SHARED)
        first, second = await owner.append(keyed(0), keyed(0))
        assert await taken(one) == [first, second]
        other = joined(subscription, "a", KEY_SHARED)
        await subscription.seek(second)
        assert await taken(other) == []
        await subscription.seek(Position(second.ledger, second.entry + 1))
        (newer,) = await owner.append(keyed(0))
        assert await taken(other) == [newer]

    run_owned(scenario)


# ---- queues: message by message


def test_of_a_batch_only_that_message_comes_again_and_to_who_has_the_others() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        one, other = joined(subscription, "one", SHARED), joined(subscription, "two", SHARED, permits=0)
        (batch,) = await owner.append(keyed(0, 0, 0))
        assert await taken(one) == [batch]
        other.permit(ALL)
        one.give_back([Nack(batch, 0b010, 0)])
        assert await taken(other) == []
        (again,) = await take_all(one)
        assert (again.redeliveries, again.acknowledged) == (1, BatchBits(3, 0b101))
        await subscription.acknowledge(part(batch, 0, 2, size=3), None, one)
        one.give_back([Nack(batch, 0b010, 1)])
        found = [*await take_all(other), *await take_all(one)]
        assert [(each.redeliveries, each.acknowledged) for each in found] == [(2, BatchBits(3, 0b101))]

    run_owned(scenario)


def test_what_is_given_back_by_an_earlier_delivery_or_twice_stays() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        one = joined(subscription, "one", SHARED)
        (batch,) = await owner.append(keyed(0, 0))
        assert await taken(one) == [batch]
        one.give_back([Nack(batch, 0b01, 0), Nack(batch, 0b01, 0)])
        assert [each.redeliveries for each in await take_all(one)] == [1]
        one.give_back([Nack(batch, 0b01, 0), Nack(batch, 0b10, 1), Nack(batch, -1, 7)])
        assert await taken(one) == []
        one.give_back([Nack(batch, 0b11, 1)])
        (again,) = await take_all(one)
        assert (again.redeliveries, again.acknowledged) == (2, BatchBits(2, 0b10))

    run_owned(scenario)


def test_what_comes_again_of_many_entries_comes_however_much_is_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "READ_BYTES_MAX", 1)

    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        one = joined(subscription, "one", SHARED)
        batches = await owner.append(*[keyed(0, 0) for _ in range(5)])
        assert await taken(one) == batches
        one.give_back([Nack(batch, 0b01, 0) for batch in batches])
        found = await take_all(one)
        assert [(each.position, each.acknowledged) for each in found] == [(at, BatchBits(2, 0b10)) for at in batches]

    run_owned(scenario)


def test_when_one_is_done_with_the_rest_of_a_batch_what_he_gave_back_is_anybodys() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        one = joined(subscription, "one", SHARED, permits=2)
        (batch,) = await owner.append(keyed(0, 0))
        assert [each.position for each in await one.receive(9)] == [batch]
        one.give_back([Nack(batch, 0b01, 0)])
        other = joined(subscription, "two", SHARED)
        assert await taken(other) == [], "who gave it back has no room, and has the rest"
        await subscription.acknowledge(part(batch, 1, size=2), None, one)
        assert await taken(other) == [batch]
        with pytest.raises(AckTooLate):
            await subscription.acknowledge(part(batch, 0, size=2), None, one)

    run_owned(scenario)


def test_what_a_transaction_lets_go_of_a_batch_comes_to_who_has_the_rest() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        one, other = joined(subscription, "one", SHARED), joined(subscription, "two", SHARED, permits=0)
        (batch,) = await owner.append(keyed(0, 0))
        assert await taken(one) == [batch]
        other.permit(ALL)
        txn_id = await begin(world, 1)
        await subscription.acknowledge(part(batch, 0, size=2), txn_id, one)
        await abort(world, txn_id)
        assert await taken(other) == []
        (again,) = await take_all(one)
        assert again.acknowledged == BatchBits(2, 0b10)
        await one.close()
        assert [each.acknowledged for each in await take_all(other)] == [None]

    run_owned(scenario)
