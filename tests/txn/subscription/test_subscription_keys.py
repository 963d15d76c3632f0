"""Key-shared subscriptions: who gets which messages, what moves and what waits, and what an acknowledgement means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from subscription_world import (
    KEY_SHARED,
    Owner,
    abort,
    begin,
    commit,
    part,
    records,
    run_owned,
    stored,
    take_all,
    taken,
    whole,
)

from support.vectors import cases
from support.world import World, settle
from txn.model import paths
from txn.model.errors import TxnConflict
from txn.model.operation import Operation
from txn.model.position import Position
from txn.segment.cursor import Ack, BatchBits
from txn.segment.entry import Entry, pack_hashes
from txn.segment.errors import InvalidAck
from txn.segment.subscription import (
    BUCKETS_MAX,
    Consumer,
    ConsumerBusy,
    EndOfSegment,
    InitialPosition,
    Subscription,
    values,
)
from txn.segment.subscription.keys import parts_of, spread
from txn.segment.subscription.ways import GAP_ENTRIES_MAX

STARTS = (0, 0x4000, 0x8000, 0xC000)


def keyed(*buckets: int, payload: bytes = b"x") -> Entry:
    """A batch of messages of these buckets."""
    hashes = [0xABCD << 16 | STARTS[bucket] + 5 for bucket in buckets]
    return Entry(payload, message_count=len(buckets), key_hashes=pack_hashes(hashes))


def joined(subscription: Subscription, name: str, permits: int = 100) -> Consumer:
    consumer = subscription.attach(name, KEY_SHARED, starts=STARTS)
    if permits:
        consumer.permit(permits)
    return consumer


async def masks(consumer: Consumer) -> list[tuple[Position, int | None]]:
    """What comes: where, and what of it is not the consumer's."""
    return [
        (each.position, None if each.acknowledged is None else each.acknowledged.bits)
        for each in await take_all(consumer, 1)
    ]


# ---- pure


def test_buckets_are_spread_as_recorded() -> None:
    for case in cases("head-bucket-spread"):
        consumers = [(name, number) for name, number in case["consumers"]]
        owners = spread(case["buckets"], consumers)
        assert owners or not consumers
        assert owners == [each for each in case["owners"] if each is not None], case


@given(st.integers(1, 64), st.lists(st.tuples(st.text(max_size=3), st.integers(0, 3)), min_size=1, max_size=80))
def test_every_bucket_has_one_owner_whoever_came_first(buckets: int, consumers: list[tuple[str, int]]) -> None:
    consumers = list(dict.fromkeys(consumers))
    owners = spread(buckets, consumers)
    assert len(owners) == buckets
    counts = [owners.count(place) for place in range(len(consumers))]
    assert max(counts) - min(counts) <= 1
    turned = consumers[::-1]
    assert [turned[place] for place in spread(buckets, turned)] == [consumers[place] for place in owners]


@given(st.lists(st.integers(0, 0xFFFFFFFF), min_size=1, max_size=40))
def test_each_message_is_in_one_bucket(hashes: list[int]) -> None:
    entry = Entry(b"", message_count=len(hashes), key_hashes=pack_hashes(hashes))
    parts = parts_of(entry, STARTS)
    for index, each in enumerate(hashes):
        assert [bucket for bucket, bits in parts.items() if bits >> index & 1] == [(each & 0xFFFF) // 0x4000]
    assert sum(parts.values()) == (1 << len(hashes)) - 1
    assert parts_of(Entry(b"", message_count=3), STARTS) == {0: 0b111}


# ---- who gets what


def test_one_batch_goes_to_several_consumers_each_with_its_mask() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        one, other = joined(subscription, "a"), joined(subscription, "b")
        first, second, third = await owner.append(keyed(0, 3, 1, 3), keyed(2), keyed(1, 0))
        assert await masks(one) == [(first, 0b1010), (third, None)]
        assert await masks(other) == [(first, 0b0101), (second, None)]
        assert (one.unacked, other.unacked, subscription.stats.unacked) == (4, 3, 7)
        await subscription.acknowledge(part(first, 0))
        await subscription.acknowledge(whole([first]), None, other)
        assert (await stored(world)).batches == {first: BatchBits(4, 0b1011)}
        assert (one.unacked, other.unacked) == (3, 1)
        await subscription.acknowledge(whole([first, third]), None, one)
        await subscription.acknowledge(whole([second]))
        assert (await stored(world)).mark == owner.log.lengths.end
        assert subscription.stats.unacked == 0

    run_owned(scenario)


def test_what_has_no_hashes_goes_by_the_hash_0() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        one, other = joined(subscription, "a"), joined(subscription, "b")
        positions = await owner.publish(3, messages=2)
        assert await taken(one) == positions
        assert await taken(other) == []

    run_owned(scenario)


def test_a_whole_entry_is_only_acknowledged_by_who_has_something_of_it() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        one, other = joined(subscription, "a"), joined(subscription, "b")
        (batch,) = await owner.append(keyed(0, 3))
        await take_all(one)
        with pytest.raises(InvalidAck, match="say which messages"):
            await subscription.acknowledge(whole([batch]))
        with pytest.raises(InvalidAck, match="shared"):
            await subscription.acknowledge([Ack(batch, is_cumulative=True)], None, one)
        await subscription.acknowledge(whole([batch]), None, one)
        await subscription.acknowledge(whole([batch]), None, other)
        await subscription.acknowledge(whole([batch]), None, one)  # it was lost, and is repeated
        assert (await stored(world)).mark == owner.log.lengths.end

    run_owned(scenario)


@pytest.mark.parametrize("lacks", [(), ("transact",)])
def test_messages_that_are_named_are_acknowledged_whoever_has_them_by_now(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        one = joined(subscription, "a")
        (batch,) = await owner.append(keyed(0, 3, 1, 3))
        assert await masks(one) == [(batch, None)]
        await one.close()  # its stream has broken, with an acknowledgement of all four on its way
        one, other = joined(subscription, "a"), joined(subscription, "b")
        assert await masks(one) == [(batch, 0b1010)]
        txn_id = await begin(world, 1)
        await subscription.acknowledge(part(batch, 0, 1, 2, 3), txn_id, one)
        (key,) = await records(world)
        record = await world.process().store.get(key, partition_key=paths.partition(txn_id))
        assert record is not None
        assert Operation.decode(record.value or b"").batch == ()
        with pytest.raises(TxnConflict):
            await subscription.acknowledge(part(batch, 1, 3), await begin(world, 2), other)
        await commit(world, txn_id)
        assert (await stored(world)).mark == owner.log.lengths.end
        assert subscription.stats.unacked == 0

    run_owned(scenario, lacks)


def test_all_have_to_name_the_same_buckets() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        joined(subscription, "a")
        with pytest.raises(ConsumerBusy, match="with 1 buckets that begin at 0, not 0, 16384, 32768, 49152"):
            subscription.attach("b", KEY_SHARED)
        for starts in ((), (1,), (0, 5, 5), range(BUCKETS_MAX + 1)):
            with pytest.raises(ValueError, match="bucket"):
                subscription.attach("b", KEY_SHARED, starts=tuple(starts))

    run_owned(scenario)


# ---- order


def test_a_bucket_that_moves_is_withheld_until_what_was_given_of_it_is_acknowledged() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        one = joined(subscription, "a")
        old = await owner.append(keyed(0), keyed(3), keyed(3))
        assert await taken(one) == old
        other = joined(subscription, "b")
        new = await owner.append(keyed(3), keyed(2), keyed(0))
        assert await taken(other) == [new[1]]
        assert await taken(one) == [new[2]]
        await subscription.acknowledge(whole([old[1]]))
        assert await taken(other) == []
        txn_id = await begin(world, 1)
        await subscription.acknowledge(whole([old[2]]), txn_id)
        assert await taken(other) == []
        await commit(world, txn_id)
        assert await taken(other) == [new[0]]

    run_owned(scenario)


def test_what_a_consumer_has_that_goes_comes_to_the_next_in_order() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        one, other = joined(subscription, "a"), joined(subscription, "b", permits=0)
        first, second, third, fourth = await owner.append(keyed(0, 3), keyed(3), keyed(1), keyed(3, 0))
        assert await masks(one) == [(first, 0b10), (third, None), (fourth, 0b01)]
        await subscription.acknowledge(part(first, 0, size=2))
        await one.close()
        found = await take_all(other, 100)
        assert [(each.position, each.redeliveries) for each in found] == [
            (first, 0),
            (second, 0),
            (third, 1),
            (fourth, 1),
        ]
        assert found[0].acknowledged == BatchBits(2, 0b01)
        assert found[3].acknowledged is None

    run_owned(scenario)


def test_what_is_refused_comes_before_what_is_newer_of_its_bucket() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        one = joined(subscription, "a")
        positions = await owner.append(keyed(0), keyed(1), keyed(0), keyed(1), keyed(0))
        assert await taken(one) == positions
        await subscription.acknowledge(whole([positions[2]]))
        one.negative_acknowledge([positions[0]])
        found = await take_all(one)
        assert [(each.position, each.redeliveries) for each in found] == [(positions[0], 1), (positions[4], 1)]
        one.negative_acknowledge([positions[2], Position(9, 9)])
        assert await taken(one) == []

    run_owned(scenario)


def test_what_was_refused_while_it_waits_to_be_taken_is_taken_once() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        one = joined(subscription, "a")
        first, second = await owner.append(keyed(0, 1), keyed(0))
        await settle()
        one.negative_acknowledge([first])
        assert await taken(one) == [first, second]
        assert one.unacked == 3

    run_owned(scenario)


def test_what_an_aborted_transaction_held_comes_before_what_is_newer() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        one = joined(subscription, "a")
        positions = await owner.append(keyed(0, 1), keyed(1), keyed(0), keyed(1))
        await take_all(one)
        txn_id, kept = await begin(world, 1), await begin(world, 2)
        await subscription.acknowledge(whole([positions[0]]), txn_id, one)
        await subscription.acknowledge(whole([positions[1]]), kept, one)
        with pytest.raises(TxnConflict):
            await subscription.acknowledge(part(positions[0], 1, size=2), None, one)
        await abort(world, txn_id)
        assert await taken(one) == [positions[0], positions[2], positions[3]]
        await subscription.acknowledge(part(positions[0], 1, size=2), None, one)
        await commit(world, kept)
        assert (await stored(world)).batches == {positions[0]: BatchBits(2, 0b10)}

    run_owned(scenario)


def test_after_an_abort_it_comes_to_whoever_has_the_bucket_now() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        one = joined(subscription, "b")
        (batch,) = await owner.append(keyed(0, 3))
        await take_all(one)
        txn_id = await begin(world, 1)
        await subscription.acknowledge(whole([batch]), txn_id, one)
        other = joined(subscription, "a")
        assert await masks(other) == []
        await abort(world, txn_id)
        assert await masks(other) == [(batch, 0b10)]
        assert await masks(one) == [(batch, 0b01)]

    run_owned(scenario)


# ---- bounds


def test_a_slow_consumer_holds_up_nobody_else_until_too_much_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "WAITING_MAX", 3)

    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        slow, fast = joined(subscription, "a", permits=1), joined(subscription, "b")
        slows = [position for _ in range(6) for position in await owner.append(keyed(0))]
        fasts = await owner.append(keyed(3))
        assert await taken(fast) == []
        assert (subscription.stats.to_redeliver, slow.unacked) == (3, 1)
        slow.permit(3)
        assert await taken(fast) == fasts
        assert await taken(slow) == slows

    run_owned(scenario)


def test_what_waits_among_what_others_have_is_read_together() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        fast, slow = joined(subscription, "a", 1_000), joined(subscription, "b", permits=0)
        near = await owner.append(*(keyed(number % len(STARTS)) for number in range(200)))
        await owner.append(*(keyed(0) for _ in range(2 * GAP_ENTRIES_MAX)))
        far = await owner.append(*(keyed(3) for _ in range(2)))
        others = len(near) // 2
        assert len(await take_all(fast)) == len(near) - others + 2 * GAP_ENTRIES_MAX
        asked, taken_by_slow = owner.sight.asked, [each for at, each in enumerate(near) if at % len(STARTS) >= 2]
        slow.permit(1_000)
        assert await taken(slow) == taken_by_slow + far
        assert owner.sight.asked - asked == 2, "one read for each place where something waits"

    run_owned(scenario)


def test_a_seek_gives_everything_anew() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        one, other = joined(subscription, "a"), joined(subscription, "b", permits=1)
        positions = await owner.append(keyed(0, 3), keyed(3), keyed(1))
        before = await take_all(one)
        await subscription.acknowledge(part(positions[0], 0, size=2))
        await subscription.seek(InitialPosition.EARLIEST)
        again = await take_all(one)
        assert [each.position for each in again] == [positions[0], positions[2]]
        assert {each.epoch for each in again} == {before[0].epoch + 1}
        assert await taken(other) == positions[:2]
        await subscription.seek(positions[2])
        assert await taken(one) == positions[2:]
        assert await taken(other) == []

    run_owned(scenario)


def test_what_waits_is_nobodys_to_pass_and_what_is_trimmed_waits_no_more() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        one, slow = joined(subscription, "a"), joined(subscription, "b", permits=0)
        (first,) = await owner.append(keyed(3))
        (second,) = await owner.append(keyed(0))
        assert await taken(one) == [second]
        await subscription.acknowledge(whole([second]))
        assert (await stored(world)).mark == first
        await owner.seal()
        await settle()
        assert not subscription.is_drained
        await owner.log.trim(second)
        subscription.notice_trimmed()
        await settle()
        slow.permit(1)
        with pytest.raises(EndOfSegment):
            await slow.receive(1)

    run_owned(scenario)


def test_the_kinds_follow_each_other() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        one = joined(subscription, "a")
        positions = await owner.append(keyed(0, 3), keyed(1))
        await take_all(one)
        await subscription.acknowledge(part(positions[0], 1, size=2))
        await one.close()
        exclusive = subscription.attach("x", values.SubscriptionKind.EXCLUSIVE)
        found = await take_all(exclusive)
        assert [(each.position, each.acknowledged) for each in found] == [
            (positions[0], BatchBits(2, 0b10)),
            (positions[1], None),
        ]
        await exclusive.close()
        assert await masks(joined(subscription, "a")) == [(positions[0], 0b10), (positions[1], None)]

    run_owned(scenario)
