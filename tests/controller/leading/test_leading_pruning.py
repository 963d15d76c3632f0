"""Sealed segments that nobody needs go, with their data, and none that somebody needs (V14, H4, H9)."""

from __future__ import annotations

from typing import Any

import pytest
from leading_world import TOPIC, Admin, check_rest, leads, pass_session, put_drained, put_load, record_of

from controller.assignment import servable
from controller.layout import Layout
from controller.operations import prunable
from controller.operations.retention import next_aged_ms, retention_ms
from controller.subscriptions import SubscriptionKind
from controller.topics import paths
from controller.topics.policies import NamespacePolicy
from support.segments_at_work import Cluster
from support.vectors import cases, changed
from support.world import World, run
from txn.model.errors import SegmentUnavailable

STREAM, QUEUE, CHECKPOINT = SubscriptionKind.STREAM, SubscriptionKind.QUEUE, SubscriptionKind.CHECKPOINT
YEAR_MS = 365 * 24 * 3_600_000


async def split_topic(world: World, minutes: int, **more: Any) -> tuple[Admin, Cluster]:
    cluster = Cluster()
    admin = Admin(world, await leads(world, cluster, 1, retention_minutes=minutes))
    await admin.create(1, **more)
    await admin.ask(lambda leader: leader.split(0))
    await world.pass_ms(1_000)
    return admin, cluster


async def sealed(world: World) -> list[int]:
    record = await record_of(world)
    assert record is not None
    return [each.segment_id for each in record.layout.sealed]


def test_a_retention_of_a_minute_is_kept_to_and_then_all_goes() -> None:
    async def scenario(world: World) -> None:
        admin, cluster = await split_topic(world, 1)
        await put_load(world, 0, 1.0)
        await put_drained(world, 0, "gone")
        assert await sealed(world) == [0]
        await world.pass_ms(58_000)
        assert await sealed(world) == [0]
        await world.pass_ms(2_000)
        assert await sealed(world) == []
        assert cluster.counted("delete") == 1
        assert [key for key in await world.keys() if "/segments/" in key] == [], "no load record is left"
        assert (await admin.leader()).loads == {}
        await check_rest(world, cluster)

    run(scenario)


async def reports_left(world: World) -> list[str]:
    return [key for key in await world.keys() if "/segments/" in key]


def test_a_report_that_is_stored_after_its_segment_has_gone_goes_too() -> None:
    """Where the store has no `transact`: who wrote it died, or was never told that it is stored."""

    async def scenario(world: World) -> None:
        admin, cluster = await split_topic(world, 0)
        assert await sealed(world) == []
        await put_load(world, 0, 1.0)
        await put_drained(world, 0, "gone")
        await put_load(world, 1, 1.0)
        await world.pass_ms(1_000)
        assert await reports_left(world) == [paths.load_key(TOPIC, 1)]
        assert (await admin.leader()).loads.keys() == {1}
        await check_rest(world, cluster)

    run(scenario, ("transact",))


def test_a_report_of_a_segment_that_has_gone_is_found_by_who_leads_next() -> None:
    async def scenario(world: World) -> None:
        admin, cluster = await split_topic(world, 0)
        assert await sealed(world) == []
        await (await admin.broker()).kill()
        await put_load(world, 0, 1.0)
        await pass_session(world)
        assert await reports_left(world) == [paths.load_key(TOPIC, 0)]
        await leads(world, cluster, 1, retention_minutes=0)
        await world.pass_ms(1_000)
        assert await reports_left(world) == []

    run(scenario, ("transact",))


@pytest.mark.parametrize("minutes", [-1, 0])
def test_negative_keeps_for_ever_and_nought_for_no_time(minutes: int) -> None:
    async def scenario(world: World) -> None:
        _, cluster = await split_topic(world, minutes)
        await world.pass_ms(YEAR_MS)
        assert await sealed(world) == ([] if minutes == 0 else [0])
        await check_rest(world, cluster)

    run(scenario)


def test_h4_h9_a_segment_stays_until_every_subscription_with_cursors_has_read_it() -> None:
    """H4: queues count; H9: groups of checkpoints, which have no cursors, do not."""

    async def scenario(world: World) -> None:
        admin, cluster = await split_topic(world, 0, subscriptions={"s": STREAM, "q": QUEUE, "c": CHECKPOINT})
        await put_drained(world, 0, "s")
        await world.pass_ms(YEAR_MS)
        assert await sealed(world) == [0]
        (name,) = [name for name, each in cluster.segments.items() if each.is_sealed]
        cluster.segments[name].backlogs["q"] = 3
        await put_drained(world, 0, "q")
        await world.pass_ms(1_000)
        assert await sealed(world) == [0], "its owner says that something was set back since"
        cluster.segments[name].backlogs["q"] = 0
        await admin.ask(lambda leader: leader.delete_subscription("q"))
        await world.pass_ms(1_000)
        assert await sealed(world) == []
        await check_rest(world, cluster)

    run(scenario)


def test_h5_an_empty_segment_that_was_read_at_once_stays_behind_its_parents() -> None:
    """H5: were it gone, its children would be the first ones for everybody, and be read before its parents are."""

    async def scenario(world: World) -> None:
        admin, _ = await split_topic(world, 0, subscriptions={"s": STREAM})
        await admin.ask(lambda leader: leader.split(2))  # nobody has written to it: it is read to its end
        await put_drained(world, 2, "s")
        await world.pass_ms(YEAR_MS)
        assert await sealed(world) == [0, 2]
        assert [each.segment_id for each in servable((await admin.leader()).layout, {2})] == [0]
        await put_drained(world, 0, "s")
        await world.pass_ms(1_000)
        assert await sealed(world) == []

    run(scenario)


def test_what_goes_goes_with_all_that_it_comes_from() -> None:
    layout = Layout.initial(2, 0).split(0, 1).split(2, 2).merge([3, 1], 3)
    assert [each.segment_id for each in layout.sealed] == [0, 1, 2, 3]
    assert prunable(layout, 0, 9, {"s": {1, 2, 3}, "q": {0, 1, 2, 3}}) == (1,)
    assert prunable(layout, 0, 9, {"s": {0, 2, 3}}) == (0, 2, 3)
    assert prunable(layout, 0, 9, {"s": {0}}) == (0,)
    assert prunable(layout, 0, 9, {}) == (0, 1, 2, 3)


def test_h9_a_deletion_that_fails_is_done_later_and_nothing_leaks() -> None:
    """H9: Pulsar logs the failure, and leaves the data for ever."""

    async def scenario(world: World) -> None:
        cluster = Cluster()
        cluster.failures += [("delete", SegmentUnavailable("not now")), ("delete", RuntimeError("a bug"))]
        admin = Admin(world, await leads(world, cluster, 2, retention_minutes=0))
        await admin.create(1)
        await admin.ask(lambda leader: leader.split(0))
        for _ in range(10):
            await world.pass_ms(1_000)
        assert cluster.failures == []
        assert await sealed(world) == []
        await check_rest(world, cluster)

    run(scenario)


def test_a_namespace_may_keep_longer_than_its_broker_says() -> None:
    async def scenario(world: World) -> None:
        cluster = Cluster()
        minutes = [5]
        admin = Admin(
            world,
            await leads(
                world,
                cluster,
                1,
                retention_minutes=0,
                policy=lambda topic: NamespacePolicy(retention_minutes=minutes[0]),
            ),
        )
        await admin.create(1)
        await admin.ask(lambda leader: leader.split(0))
        await world.pass_ms(60_000)
        assert await sealed(world) == [0]
        minutes[0] = 0
        admin.made[0].leaders.note_policy(TOPIC.parent)
        await world.pass_ms(1_000)
        assert await sealed(world) == []

    run(scenario)


def test_groups_of_checkpoints_say_themselves_what_they_have_read() -> None:
    async def scenario(world: World) -> None:
        admin, _ = await split_topic(world, -1, subscriptions={"c": CHECKPOINT})
        await admin.ask(lambda leader: leader.note_drained("c", 0))
        await world.pass_ms(100)
        assert (await admin.leader()).drained == {"c": {0}}
        await admin.ask(lambda leader: leader.note_drained("c", 1))
        await world.pass_ms(100)
        assert paths.drained_key(TOPIC, 1, "c") not in await world.keys(), "one that is open is not read to its end"

    run(scenario)


@pytest.mark.parametrize("case", cases("gc"))
def test_retentions_and_what_goes_by_them(case: dict[str, Any]) -> None:
    if case["kind"] == "retention":
        assert retention_ms(case["minutes"]) == case["result"]["ok"]
        return
    layout = changed(Layout.initial(case["start"], 1_700_000_000_000), case["ops"])
    found = prunable(layout, case["retentionMs"], case["now"], {})
    assert sorted(found) == case["pruned"]
    assert prunable(layout, case["retentionMs"], case["now"], {"s": ()}) == ()
    assert prunable(layout, case["retentionMs"], case["now"], {"s": found}) == found
    due_ms = next_aged_ms(layout, case["retentionMs"], case["now"])
    if due_ms is not None:
        assert len(prunable(layout, case["retentionMs"], due_ms, {})) > len(found)
        assert prunable(layout, case["retentionMs"], due_ms - 1, {}) == found
