"""Topics that split and merge by themselves (V10), and what is written down of it."""

from __future__ import annotations

from typing import Any

import pytest
from leading_world import TOPIC, Admin, Lead, check_rest, leads, put_load, record_of, until, within

from controller.autoscale import Action, AutoScaleConfig, Decision
from controller.layout import Layout
from controller.leading import LeadersOptions, TopicLeader
from controller.leading.scaling import DECISIONS_KEPT, Considered, DecisionLog, last_changes
from controller.subscriptions import SubscriptionKind
from controller.topics import Topics
from controller.topics.policies import NamespacePolicy
from support.segments_at_work import Cluster
from support.vectors import cases, changed
from support.world import World, run
from txn.model.errors import SegmentUnavailable, TxnFatal

STREAM = SubscriptionKind.STREAM
EAGER = AutoScaleConfig(split_cooldown_ms=0, merge_cooldown_ms=0, merge_window_ms=0)
HOUR_MS = 3_600_000


async def topic(
    world: World, segments: int, config: AutoScaleConfig = EAGER, loads: dict[int, float] | None = None, **more: Any
) -> tuple[Admin, Cluster]:
    """A topic whose segments have these loads."""
    cluster = Cluster()
    admin = Admin(world, await leads(world, cluster, 2, auto_scale=config, **more))
    for number, load in (loads or {}).items():
        await put_load(world, number, load)
    await admin.create(segments, subscriptions={"sub": STREAM})
    await world.pass_ms(1_000)
    return admin, cluster


async def active(admin: Admin) -> int:
    record = await record_of(admin.world)
    assert record is not None
    return len(record.layout.active)


def test_a_topics_policy_stands_above_its_namespaces_and_is_heard_of_at_once() -> None:
    async def scenario(world: World) -> None:
        admin, cluster = await topic(
            world, 2, loads={0: 20_000.0}, policy=lambda topic: NamespacePolicy(auto_scale={"enabled": False})
        )
        assert await active(admin) == 2
        process = admin.made[1].process
        topics = Topics(process.store, process.pace)

        def switch_on(record: Any) -> Any:
            return type(record)(record.layout, record.properties, {"enabled": True, "maxSegments": 3})

        await within(world, topics.update(TOPIC, switch_on))
        await world.pass_ms(1_000)
        assert await active(admin) == 3
        await put_load(world, 1, 20_000.0)
        await world.pass_ms(1_000)
        record = await record_of(world)
        assert record is not None
        assert len(record.layout.active) == 3
        assert record.auto_scale_policy == {"enabled": True, "maxSegments": 3}, "it survives changes of the layout"
        leader = await admin.leader()
        assert leader.scaler.log.entries[-1].decision.reason == "max-segments"
        counts = [each.leaders.around.counts for each in admin.made]
        assert sum(each.split_suppressed_max_segments for each in counts) >= 1
        await check_rest(world, cluster)

    run(scenario)


async def join(world: World, leader: TopicLeader, name: str) -> None:
    await within(world, leader.join("sub", name, STREAM, lambda message: None))


@pytest.mark.parametrize("consumers", [2, 4])
def test_consumers_that_come_have_a_segment_each_without_any_tick(consumers: int) -> None:
    async def scenario(world: World) -> None:
        admin, cluster = await topic(world, 1)
        leader = await admin.leader()
        for number in range(consumers):
            await join(world, leader, f"c{number}")
        await world.pass_ms(1_000)
        assert await active(admin) == consumers
        assert {each.decision.reason for each in leader.scaler.log.entries if each.outcome} == {"consumer-count"}
        await check_rest(world, cluster)

    run(scenario)


def test_a_burst_of_consumers_waits_for_the_cooldown_and_for_nothing_else() -> None:
    async def scenario(world: World) -> None:
        config = AutoScaleConfig(split_cooldown_ms=10_000)
        admin, _ = await topic(world, 1, config)
        leader = await admin.leader()
        for number in range(3):
            await join(world, leader, f"c{number}")
        await world.pass_ms(5_000)
        assert await active(admin) == 2
        await world.pass_ms(5_000)
        assert await active(admin) == 2, "not before the cooldown is over"
        await world.pass_ms(2)
        assert await active(admin) == 3

    run(scenario)


def test_h8_cold_segments_are_merged_when_a_consumer_leaves_and_not_before() -> None:
    """H8: as many segments as consumers, and all of them cold: nothing goes round in circles."""

    async def scenario(world: World) -> None:
        admin, cluster = await topic(world, 1)
        leader = await admin.leader()
        attachments = [
            await within(world, leader.join("sub", name, STREAM, lambda message: None)) for name in ("a", "b")
        ]
        await world.pass_ms(1_000)
        assert await active(admin) == 2
        for number in (1, 2):
            await put_load(world, number, 1.0)
        for _ in range(10):
            await world.pass_ms(60_000)
        record = await record_of(world)
        assert record is not None
        assert (len(record.layout.active), record.layout.epoch) == (2, 1)
        assert leader.scaler.log.entries[-1].decision.reason == "consumers"
        await within(world, attachments[0].leave())
        await world.pass_ms(1_000)
        assert await active(admin) == 1, "event driven: no tick was needed"
        await check_rest(world, cluster)

    run(scenario)


def test_h8_a_hot_segment_of_a_single_hash_harms_nobody() -> None:
    """H8: every consideration of Pulsar's throws; here the next segment is split."""

    async def scenario(world: World) -> None:
        policy: dict[str, Any] = {"enabled": False, "maxSegments": 100}
        admin, cluster = await topic(world, 1, policy=lambda topic: NamespacePolicy(policy))
        for _ in range(16):
            await admin.ask(lambda leader: leader.split(leader.layout.active[0].segment_id))
        leader = await admin.leader()
        single = leader.layout.active[0]
        assert single.range.size == 1
        policy["enabled"] = True
        await put_load(world, single.segment_id, 1e6)
        await world.pass_ms(1_000)
        assert leader.scaler.log.entries[-1].decision.reason == "unsplittable"
        await put_load(world, leader.layout.active[-1].segment_id, 1e5)
        await world.pass_ms(1_000)
        assert leader.layout.active[-1].range.size < 1 << 15
        await check_rest(world, cluster)

    run(scenario)


def test_h7_the_cooldown_survives_the_leader_and_the_pruning_of_parents() -> None:
    """H7: Pulsar reads it from relatives that pruning erases."""

    async def scenario(world: World) -> None:
        config = AutoScaleConfig(split_cooldown_ms=HOUR_MS)
        admin, cluster = await topic(world, 2, config, loads={0: 20_000.0})
        assert await active(admin) == 3
        await put_load(world, 1, 20_000.0)
        await world.pass_ms(1_000)
        assert await active(admin) == 3
        broker = await admin.broker()
        await broker.kill()
        await until(world, lambda: any(TOPIC.path in each.leaders.led for each in admin.living))
        leader = await admin.leader()
        assert leader.scaler.dry_run().reason == "split-cooldown"
        await world.pass_ms(HOUR_MS)
        await until(world, lambda: len(leader.layout.active) == 4)
        await check_rest(world, cluster)

    run(scenario)


def test_what_fails_burns_no_cooldown_and_is_tried_again() -> None:
    async def scenario(world: World) -> None:
        cluster = Cluster()
        config = AutoScaleConfig(split_cooldown_ms=HOUR_MS, merge_cooldown_ms=0, merge_window_ms=0)
        admin = Admin(world, [await Lead(world, cluster, auto_scale=config).start()])
        await admin.create(2)
        cluster.failures += [("create", TxnFatal("no room")), ("create", SegmentUnavailable("not now"))]
        await put_load(world, 0, 20_000.0)
        leader = await admin.leader()
        assert await active(admin) == 2
        assert "no room" in leader.scaler.log.entries[-1].outcome
        assert len(cluster.segments) == 2, "what was undone leaves nothing"
        await until(world, lambda: len(leader.layout.active) == 3)
        assert leader.scaler.log.entries[-1].decision.reason in ("split-cooldown", "")
        await check_rest(world, cluster)

    run(scenario)


def test_a_dry_run_says_what_would_be_done_and_does_nothing() -> None:
    async def scenario(world: World) -> None:
        policy: dict[str, Any] = {"enabled": False}
        admin, _ = await topic(world, 2, policy=lambda topic: NamespacePolicy(policy), loads={0: 20_000.0})
        leader = await admin.leader()
        before = leader.scaler.log.entries
        assert leader.scaler.dry_run().reason == "disabled"
        policy["enabled"] = True
        decision = leader.scaler.dry_run()
        assert (decision.action, decision.segments, decision.reason) == (Action.SPLIT, (0,), "msgRateIn")
        await world.pass_ms(1_000)
        assert leader.scaler.log.entries == before
        assert await active(admin) == 2

    run(scenario)


def test_the_log_has_an_end_and_counts_what_is_the_same() -> None:
    async def scenario(world: World) -> None:
        admin, _ = await topic(world, 2, AutoScaleConfig(enabled=False))
        leader = await admin.leader()
        before = leader.scaler.log.entries[-1].times
        for _ in range(5):
            leader.wake("test")
            await world.pass_ms(1)
        (entry,) = leader.scaler.log.entries
        assert (entry.times, entry.triggers) == (before + 5, ("test",))
        assert entry.at_ms == world.clock.wall_ms()

    run(scenario)
    log = DecisionLog()
    for number in range(2 * DECISIONS_KEPT):
        log.add(Considered(number, ("load",), Decision(Action.NONE, reason=str(number))))
    assert [each.at_ms for each in log.entries] == list(range(DECISIONS_KEPT, 2 * DECISIONS_KEPT))


def test_ticks_consider_what_has_become_cold_by_the_passing_of_time() -> None:
    async def scenario(world: World) -> None:
        config = AutoScaleConfig(split_cooldown_ms=0, merge_cooldown_ms=0, merge_window_ms=300_000)
        admin, _ = await topic(world, 2, config, loads={0: 0.0, 1: 0.0}, options=LeadersOptions(interval_s=60.0))
        for _ in range(4):
            await world.pass_ms(60_000)
        assert await active(admin) == 2
        for _ in range(2):
            await world.pass_ms(60_000)
        assert await active(admin) == 1

    run(scenario)


@pytest.mark.parametrize("case", [each for each in cases("gc") if each["kind"] == "tick"])
def test_cooldowns_are_seeded_from_the_layout(case: dict[str, Any]) -> None:
    """As Pulsar does, but for what it forgets with relatives that are pruned (H7)."""
    layout = changed(Layout.initial(case["start"], 1_700_000_000_000), case["ops"])
    seeded = last_changes(layout)
    if not any(name == "prune" for name, *_ in case["ops"]):
        assert seeded == (case["lastSplit"], case["lastMerge"])
    else:
        for ours, theirs in zip(seeded, (case["lastSplit"], case["lastMerge"]), strict=True):
            assert theirs is None or (ours is not None and ours >= theirs)
