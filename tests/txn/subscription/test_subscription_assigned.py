"""Consumers that come by a division of a topic: who may be there, who is sent away, who is replaced."""

from __future__ import annotations

import asyncio

import pytest
from subscription_world import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED, Owner, run_owned, take_all, taken

from support.world import World, settle
from txn.segment.subscription import Assigned, Consumer, ConsumerBusy, ConsumerReplaced, Subscription, SubscriptionKind

OLD, NEW, NEWER = Assigned(3, 7), Assigned(3, 8), Assigned(4, 1)


def join(
    subscription: Subscription,
    name: str,
    assigned: Assigned | None,
    kind: SubscriptionKind = EXCLUSIVE,
    *,
    replaces: bool = False,
) -> Consumer:
    return subscription.attach(name, kind, assigned=assigned, replaces=replaces)


def test_who_comes_by_an_older_division_than_was_heard_of_is_sent_away() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        one = join(subscription, "one", OLD)
        with pytest.raises(ConsumerBusy):
            join(subscription, "two", NEW)
        with pytest.raises(ConsumerBusy):
            join(subscription, "other", None)
        with pytest.raises(ConsumerReplaced, match="generation 7 of term 3, and generation 8"):
            join(subscription, "three", OLD, replaces=True)
        await one.close()
        two = join(subscription, "two", NEW)
        with pytest.raises(ConsumerReplaced):
            join(subscription, "three", OLD)
        await two.close()
        await join(subscription, "nobody is there who would remember", OLD).close()

    run_owned(scenario)


def test_a_newer_one_replaces_those_that_are_in_the_way_at_once() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        positions = await owner.publish(3)
        one = join(subscription, "one", OLD)
        await take_all(one)
        waiting, ended = asyncio.ensure_future(one.receive(1)), asyncio.ensure_future(one.wait_ended())
        await settle()
        two = join(subscription, "two", NEWER, KEY_SHARED, replaces=True)
        for each in (waiting, ended):
            with pytest.raises(ConsumerReplaced, match="'one'"):
                await each
        assert await taken(two) == positions
        await one.close()
        assert await taken(join(subscription, "three", NEWER, KEY_SHARED)) == []
        assert subscription.stats.consumers == ("two", "three")

    run_owned(scenario)


def test_one_without_a_division_is_in_the_way_of_one_with() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        join(subscription, "one", None)
        with pytest.raises(ConsumerBusy):
            join(subscription, "two", OLD)
        with pytest.raises(ConsumerBusy):
            subscription.attach("three", SHARED, replaces=True)
        join(subscription, "two", OLD, replaces=True)
        assert subscription.stats.consumers == ("two",)

    run_owned(scenario)


def test_those_who_share_by_buckets_are_together_whatever_their_divisions() -> None:
    """Who has what he had is told of no newer division, and may come again by the one that he knows."""

    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        join(subscription, "one", OLD, KEY_SHARED)
        join(subscription, "three", NEWER, KEY_SHARED)
        two = join(subscription, "two", NEW, KEY_SHARED)
        await two.close()
        join(subscription, "two", NEW, KEY_SHARED)
        assert subscription.stats.consumers == ("one", "three", "two")
        with pytest.raises(ConsumerReplaced, match="generation 8 of term 3, and generation 1 of term 4"):
            join(subscription, "four", NEW)
        with pytest.raises(ConsumerBusy, match="another division"):
            join(subscription, "four", None, KEY_SHARED)

    run_owned(scenario)


@pytest.mark.parametrize("kind", [SHARED, FAILOVER])
def test_those_of_one_division_live_together(kind: SubscriptionKind) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        join(subscription, "one", NEW, kind)
        join(subscription, "two", NEW, kind)
        with pytest.raises(ConsumerBusy, match="another division"):
            join(subscription, "three", None, kind)
        with pytest.raises(ConsumerBusy, match="another division"):
            join(subscription, "three", NEWER, kind)
        join(subscription, "three", NEWER, kind, replaces=True)
        assert subscription.stats.consumers == ("three",)

    run_owned(scenario)


def test_who_comes_back_on_another_stream_replaces_himself() -> None:
    async def scenario(world: World, owner: Owner) -> None:
        subscription = await owner.create()
        for name in ("one", "two", "two"):
            join(subscription, name, NEW, KEY_SHARED)
        join(subscription, "two", NEW, KEY_SHARED, replaces=True)
        assert subscription.stats.consumers == ("one", "two")

    run_owned(scenario)
