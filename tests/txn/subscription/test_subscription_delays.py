"""Entries that are not to be delivered before a time: held back where no order is kept, and by every owner."""

from __future__ import annotations

import asyncio

import pytest
from subscription_world import EXCLUSIVE, KEY_SHARED, SHARED, Owner, run_owned, stored, take_all, taken, whole

from support.world import World, running, settle
from txn.model.position import Position
from txn.segment.entry import Entry, pack_hashes
from txn.segment.subscription import Assigned, Consumer, Subscription, SubscriptionKind, values
from txn.segment.subscription.delays import LOOK_S

unordered = pytest.mark.parametrize("kind", [SHARED, KEY_SHARED])


async def delayed(world: World, owner: Owner, *delays_ms: int) -> list[Position]:
    """Entries that are to be delivered so much later; 0: at once."""
    now_ms = world.clock.wall_ms()
    return await owner.append(
        *(Entry(b"x", deliver_at_ms=now_ms + each if each else 0, key_hashes=pack_hashes([each])) for each in delays_ms)
    )


def joined(subscription: Subscription, kind: SubscriptionKind, name: str = "one") -> Consumer:
    return subscription.attach(name, kind)


@unordered
def test_nothing_comes_before_its_time_and_all_comes_then(kind: SubscriptionKind) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        consumer = joined(subscription, kind)
        late, now, early, same = await delayed(world, owner, 5_000, 0, 1_000, 1_000)
        assert await taken(consumer) == [now]
        await world.pass_ms(999)
        assert await taken(consumer) == []
        await world.pass_ms(1)
        found = await take_all(consumer)
        assert [(each.position, each.redeliveries) for each in found] == [(early, 0), (same, 0)]
        await world.pass_ms(4_000)
        assert await taken(consumer) == [late]
        await subscription.acknowledge(whole([now, early, same]))
        consumer.negative_acknowledge([late])
        assert [each.redeliveries for each in await take_all(consumer)] == [1]

    run_owned(scenario)


@pytest.mark.parametrize("kind", [EXCLUSIVE, SubscriptionKind.FAILOVER])
def test_where_order_is_kept_it_comes_at_once(kind: SubscriptionKind) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        positions = await delayed(world, owner, 5_000, 0, 1_000)
        assert await taken(joined(subscription, kind)) == positions
        assert not owner.process.sleeper.slept

    run_owned(scenario)


def test_who_share_a_segment_by_a_division_of_its_topic_keep_order_and_do_not_wait() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        positions = await delayed(world, owner, 5_000, 0, 1_000)
        alone = joined(subscription, KEY_SHARED)
        assert await taken(alone) == [positions[1]]
        await alone.close()
        consumer = subscription.attach("one", KEY_SHARED, assigned=Assigned(1, 1))
        assert await taken(consumer) == positions

    run_owned(scenario)


@unordered
def test_a_restart_holds_it_back_as_well(kind: SubscriptionKind) -> None:
    async def whole_of_it() -> None:
        async with running() as world:
            owner = await Owner.take(world)
            subscription = await owner.create()
            late, now = await delayed(world, owner, 5_000, 0)
            consumer = joined(subscription, kind)
            assert await taken(consumer) == [now]
            await subscription.acknowledge(whole([now]))
            assert (await stored(world)).mark == late
            await owner.die()
            owner = await Owner.take(world)
            consumer = joined(await owner.recover(), kind)
            assert await taken(consumer) == []
            await world.pass_ms(5_000)
            assert await taken(consumer) == [late]
            await owner.die()

    asyncio.run(whole_of_it())


@unordered
def test_a_sealed_segment_has_not_ended_before(kind: SubscriptionKind) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        consumer = joined(subscription, kind)
        (late,) = await delayed(world, owner, 5_000)
        await owner.seal()
        assert await taken(consumer) == []
        assert not subscription.is_drained
        await world.pass_ms(5_000)
        assert await taken(consumer) == [late]
        await subscription.acknowledge(whole([late]))
        await settle()
        assert subscription.is_drained

    run_owned(scenario)


@unordered
def test_so_many_are_held_back_and_then_nothing_is_read_ahead(
    kind: SubscriptionKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "DELAYED_MAX", 2)

    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        consumer = joined(subscription, kind)
        positions = await delayed(world, owner, 2_000, 1_000, 3_000, 0)
        assert await taken(consumer) == []
        await world.pass_ms(1_000)
        assert await taken(consumer) == [positions[1], positions[3]]
        await world.pass_ms(1_000)
        assert await taken(consumer) == [positions[0]]
        await world.pass_ms(1_000)
        assert await taken(consumer) == [positions[2]]

    run_owned(scenario)


def test_there_is_one_timer_and_none_without_need() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        consumer = joined(subscription, SHARED)
        slept = owner.process.sleeper.slept
        await delayed(world, owner, 0, 2_000, 3_000, 4_000)
        await take_all(consumer)
        assert slept == [2.0]
        await delayed(world, owner, 1_000, 1_500_000)
        await take_all(consumer)
        assert slept == [2.0, 1.0]
        await world.pass_ms(4_000)
        assert len(await take_all(consumer)) == 4
        assert slept == [2.0, 1.0, LOOK_S]
        await consumer.close()
        await world.pass_ms(3_000_000)
        assert len(slept) == 3

    run_owned(scenario)


@unordered
def test_who_comes_later_and_a_seek_find_it_held_back(kind: SubscriptionKind) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        first = joined(subscription, kind)
        late, now = await delayed(world, owner, 5_000, 0)
        assert await taken(first) == [now]
        second = joined(subscription, kind, "two")
        await first.close()
        assert await taken(second) == [now]
        await subscription.seek(late)
        assert await taken(second) == [now]
        await world.pass_ms(5_000)
        assert await taken(second) == [late]

    run_owned(scenario)
