"""Whole topics by chance: operations, consumers, deaths, frozen leaders at any instant, and what must always hold."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from leading_world import QUIET, Admin, Lead, check_rest, leads, put_drained, put_load, record_of
from promises import Promises

from controller.autoscale import AutoScaleConfig
from controller.layout import LayoutError, TopicName
from controller.leading import TopicLeader
from controller.operations import Start
from controller.subscriptions import SubscriptionKind
from controller.topics import TopicError
from metastore.interface import OutcomeUnknown, StoreError, Unavailable
from support.segments_at_work import Cluster
from support.world import World, run, settle
from txn.model.errors import SegmentUnavailable, TxnFatal

SEEDS = int(os.environ.get("TIDEMARK_SIMULATION_SEEDS", "8"))
STEPS = 60
BROKERS = 3
TOPICS = [TopicName.parse(f"topic://tenant/ns/{name}") for name in ("one", "t/two")]
NAMES = ["a", "b/c", "d%"]
EAGER = AutoScaleConfig(split_cooldown_ms=3_000, merge_cooldown_ms=3_000, merge_window_ms=1_000, max_segments=8)


class Simulation:
    """One run, which its seed decides."""

    def __init__(self, seed: int, world: World) -> None:
        self.random = random.Random(seed)
        self.world = world
        self.cluster = Cluster()
        self.promises = Promises(world.data, self.cluster, TOPICS)
        self.admin = Admin(world, [])
        self.tasks: list[asyncio.Task[Any]] = []
        self.done: Counter[str] = Counter()
        self.config: dict[str, Any] = {"auto_scale": EAGER if seed % 2 else QUIET, "retention_minutes": 0}

    async def run(self) -> None:
        self.admin.made = await leads(self.world, self.cluster, BROKERS, **self.config)
        for topic in TOPICS:
            await self.admin.create(self.random.randint(1, 4), topic)
        actions = [
            (self.create, 6),
            (self.change, 14),
            (self.subscribe, 6),
            (self.consume, 4),
            (self.report, 8),
            (self.disturb, 5),
            (self.kill, 3),
            (self.freeze, 2),
        ]
        kinds, weights = [each for each, _ in actions], [weight for _, weight in actions]
        for _ in range(STEPS):
            (action,) = self.random.choices(kinds, weights)
            await action()
            for _ in range(self.random.randrange(40)):
                await asyncio.sleep(0)
            if self.random.random() < 0.5:
                await self.world.pass_ms(self.random.choice([10, 500, 3_000]))
        await self.rest()

    async def rest(self) -> None:
        """Everything is mended, and comes to rest; then nothing may be left of anything."""
        for each in self.admin.living:
            each.process.script.clear()
            each.process.store.line.mend()
        self.cluster.failures.clear()
        for _ in range(25):
            await self.world.pass_ms(3_000)
        for task in self.tasks:
            if not task.done():
                task.cancel()
        await settle()
        for topic in TOPICS:
            if await record_of(self.world, topic) is not None:
                await self.admin.leader(topic)
        await check_rest(self.world, self.cluster, *TOPICS)
        for each in self.admin.made:
            if not each.is_dead:
                await each.stop()

    # -- what happens

    def topic(self) -> TopicName:
        return self.random.choice(TOPICS)

    def begin(self, name: str, work: Awaitable[Any], process_of: Lead) -> None:
        async def attempt() -> None:
            try:
                await work
                self.done[name] += 1
            except (TopicError, LayoutError, StoreError) as error:
                self.done[type(error).__name__] += 1

        self.tasks.append(process_of.process.start(attempt()))

    def ask(self, name: str, call: Callable[[TopicLeader], Awaitable[Any]]) -> None:
        topic = self.topic()
        for each in self.admin.living:
            leader = each.leaders.led.get(topic.path)
            if leader is not None:
                self.begin(name, call(leader), each)

    async def create(self) -> None:
        lead = self.random.choice(self.admin.living)
        kinds = {name: self.kind() for name in NAMES if self.random.random() < 0.3}
        count = self.random.randint(1, 4)
        self.begin("create", lead.leaders.create(self.topic(), count, {}, kinds), lead)

    def kind(self) -> SubscriptionKind:
        return self.random.choice(list(SubscriptionKind))

    async def change(self) -> None:
        if self.random.random() < 0.08:
            self.ask("delete", lambda leader: leader.delete())
        elif self.random.random() < 0.55:
            self.ask("split", lambda leader: leader.split(self.random.choice(leader.layout.active).segment_id))
        else:
            self.ask("merge", self.merge)

    async def merge(self, leader: TopicLeader) -> None:
        active = leader.layout.active
        start = self.random.randrange(len(active))
        chosen = [each.segment_id for each in active[start : start + self.random.randint(2, 3)]]
        self.random.shuffle(chosen)
        await leader.merge(*chosen)

    async def subscribe(self) -> None:
        name = self.random.choice(NAMES)
        kind, start = self.kind(), self.random.choice(list(Start))
        if self.random.random() < 0.6:
            self.ask("subscribe", lambda leader: leader.create_subscription(name, kind, start))
        elif self.random.random() < 0.5:
            self.ask("unsubscribe", lambda leader: leader.delete_subscription(name))
        else:
            self.ask("skip", lambda leader: leader.skip_all(name))

    async def consume(self) -> None:
        name, consumer = self.random.choice(NAMES), f"c{self.random.randrange(4)}"
        self.ask("join", lambda leader: leader.join(name, consumer, SubscriptionKind.STREAM, lambda message: None))

    async def report(self) -> None:
        topic = self.topic()
        record = await record_of(self.world, topic)
        if record is None:
            return
        segment = self.random.choice(list(record.layout.segments.values()))
        if segment.is_active:
            await put_load(self.world, segment.segment_id, self.random.choice([0.0, 1.0, 5e4]), topic)
            return
        for name in NAMES:
            if self.random.random() < 0.7:
                await put_drained(self.world, segment.segment_id, name, topic)

    async def disturb(self) -> None:
        """Calls fail, having done nothing or everything."""
        script = self.random.choice(self.admin.living).process.script
        method = self.random.choice(["put", "transact", "get", "delete"])
        skip = self.random.randrange(6)
        if method == "get":
            script.fail(method, Unavailable("not now"), skip=skip)
        else:
            script.fail(method, OutcomeUnknown("lost"), after=self.random.random() < 0.5, skip=skip, prefix="/topics")
        error = self.random.choice([SegmentUnavailable("not now"), TxnFatal("never")])
        self.cluster.failures.append((self.random.choice(["create", "seal", "delete", "cursor", "subscribe"]), error))

    async def kill(self) -> None:
        victim = self.random.choice(self.admin.living)
        await victim.kill()
        self.done["killed"] += 1
        self.admin.made.append(await Lead(self.world, self.cluster, **self.config).start())

    async def freeze(self) -> None:
        victim = self.random.choice(self.admin.living)
        victim.cut()
        for _ in range(5):
            await self.world.pass_ms(3_000, frozen=(victim.process,) if self.random.random() < 0.5 else ())
        victim.process.store.line.mend()
        self.done["frozen"] += 1


@pytest.mark.parametrize("lacks", [(), ("transact",)], ids=["transact", "plain"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_happens_the_promises_hold(seed: int, lacks: tuple[str, ...]) -> None:
    print(f"seed {seed}")

    async def scenario(world: World) -> None:
        simulation = Simulation(seed, world)
        await simulation.run()
        print(dict(simulation.done), simulation.promises.looks)
        assert simulation.promises.looks > STEPS

    run(scenario, lacks)


def test_the_promises_are_looked_at() -> None:
    """A segment that is to be seen, and lacks a cursor, is found."""

    async def scenario(world: World) -> None:
        cluster = Cluster()
        promises = Promises(world.data, cluster, TOPICS)
        admin = Admin(world, await leads(world, cluster, 1))
        await admin.create(1, TOPICS[0], subscriptions={"a": SubscriptionKind.QUEUE})
        (segment,) = cluster.segments.values()
        start = segment.cursors.pop("a")
        with pytest.raises(AssertionError, match="without the cursors"):
            promises.check()
        segment.cursors["a"] = start
        segment.is_sealed = True
        promises.check()  # a parent that is sealed before its children are seen: nobody writes for a moment
        await admin.ask(lambda leader: leader.split(0), TOPICS[0])
        segment.is_sealed = False
        with pytest.raises(AssertionError, match="takes messages"):
            promises.check()
        segment.is_sealed = True

    run(scenario)
