"""Bytes that a consumer asks for: it gets no more, but for one entry when nothing is under way."""

from __future__ import annotations

import pytest
from subscription_world import EXCLUSIVE, KEY_SHARED, SHARED, Owner, run_owned, whole

from support.world import World, settle
from txn.model.position import Position
from txn.segment.entry import Entry
from txn.segment.subscription import Consumer, SubscriptionKind

every_kind = pytest.mark.parametrize("kind", [EXCLUSIVE, SHARED, KEY_SHARED])


async def sized(owner: Owner, *sizes: int) -> list[Position]:
    return await owner.append(*(Entry(bytes(size)) for size in sizes))


async def what_comes(consumer: Consumer) -> list[int]:
    """The sizes of what comes without anything new happening."""
    await settle()
    return [len(each.entry.payload) for each in consumer._take(1_000)]


@every_kind
def test_no_more_comes_than_was_asked_for(kind: SubscriptionKind) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        consumer = subscription.attach("one", kind)
        consumer.permit(100, 1_000)
        await sized(owner, 400, 401, 200, 100, 900)
        assert await what_comes(consumer) == [400, 401]
        consumer.permit(0, 0 + 1)
        assert await what_comes(consumer) == [200]
        consumer.permit(1)
        assert await what_comes(consumer) == []
        consumer.permit(0, 1_000)
        assert await what_comes(consumer) == [100, 900]

    run_owned(scenario)


@every_kind
def test_one_entry_goes_when_nothing_is_under_way(kind: SubscriptionKind) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        consumer = subscription.attach("one", kind)
        consumer.permit(100, 100)
        first, second, *_ = await sized(owner, 5_000, 10, 3_000, 20)
        assert await what_comes(consumer) == [5_000]
        consumer.permit(0, 5_000)  # all that it got
        assert await what_comes(consumer) == [10]
        await subscription.acknowledge(whole([first, second]))
        assert await what_comes(consumer) == [3_000]
        consumer.permit(0, 3_000)
        assert await what_comes(consumer) == [20]

    run_owned(scenario)


def test_what_is_not_taken_was_not_used_up() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        consumer = subscription.attach("one", EXCLUSIVE)
        consumer.permit(100, 100)
        first, *_ = await sized(owner, 60, 30, 70)
        await settle()
        consumer.negative_acknowledge([first])
        assert await what_comes(consumer) == [60, 30]
        consumer.permit(0, 60)
        assert await what_comes(consumer) == [70]

    run_owned(scenario)


def test_the_others_get_what_does_not_fit_one() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        small, large = subscription.attach("small", SHARED), subscription.attach("large", SHARED)
        small.permit(100, 10)
        large.permit(100)
        await sized(owner, 5, 5, 50, 50)
        assert await what_comes(large) == [5, 50, 50]
        assert await what_comes(small) == [5]

    run_owned(scenario)


def test_bytes_of_an_entry_that_does_not_fit_are_not_asked_of_the_log_again_and_again() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        consumer = subscription.attach("one", EXCLUSIVE)
        consumer.permit(100, 100)
        await sized(owner, 60, 70)
        assert await what_comes(consumer) == [60]
        asked = owner.sight.asked
        await sized(owner, 10)
        await settle()
        assert owner.sight.asked == asked

    run_owned(scenario)
