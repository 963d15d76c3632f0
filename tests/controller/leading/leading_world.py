"""Brokers that lead topics, over segments that are not there: everything but the segments is real."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from controller.autoscale import AutoScaleConfig, Load, Metric
from controller.layout import TopicName, TopicRecord
from controller.leading import Leaders, LeadersOptions, Surroundings, TopicLeader
from controller.operations import data_name
from controller.topics import NotLeader, Topics, paths
from metastore.coordination import Pace, Registration, SessionKeeper
from metastore.faults import NO_FAULTS, Faults
from metastore.interface import ALL, Environment, StoreClosed
from metastore.providers.memory import MemoryStore, Part
from support.segments_at_work import Cluster, Work
from support.world import Process, World, settle
from txn.model.paths import below
from txn.posts import GROUP, Broker

SESSION_MS = 10_000
STEPS_MAX = 300
TOPIC = TopicName.parse("topic://tenant/ns/my-topic")
QUIET = AutoScaleConfig(enabled=False)

T = TypeVar("T")


class Lead:
    """A broker of which only the leading is real."""

    def __init__(
        self,
        world: World,
        cluster: Cluster,
        faults: Faults = NO_FAULTS,
        options: LeadersOptions | None = None,
        **around: Any,
    ) -> None:
        self.world = world
        self.process: Process = world.process()
        self.name = self.process.name
        self.keeper = SessionKeeper(
            self.process.store, timeout_ms=SESSION_MS, identity=self.name, pace=self.process.pace
        )
        surroundings = Surroundings(Work(cluster, self.process), self.process.pace, faults)
        self.leaders = Leaders(
            self.keeper,
            self.name,
            f"{self.name}:1",
            replace(surroundings, **{"auto_scale": QUIET, "retention_minutes": -1, **around}),
            options=options or LeadersOptions(),
        )
        self.is_dead = False
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> Lead:
        self._serving = self.process.start(self._serve())
        await settle()
        return self

    async def _serve(self) -> None:
        value = Broker(self.name, f"{self.name}:1", frozenset()).encode()
        registration = Registration(self.process.store, GROUP, self.name, value, keeper=self.keeper)
        async with self.keeper, self.leaders, registration:
            await asyncio.Event().wait()

    async def kill(self) -> None:
        """Nothing of it reaches anybody from now on."""
        self.process.script.clear()
        self.process.store.line.close()
        await self.stop()

    async def stop(self) -> None:
        """Ends it in good order."""
        assert self._serving is not None
        self.is_dead = True
        self._serving.cancel()
        for _ in range(STEPS_MAX):
            if self._serving.done():
                return
            await self.world.pass_ms(10)
        raise AssertionError(f"{self.name} does not come to its end")

    def cut(self) -> None:
        """Its session ends, and it hears of nothing; its calls still arrive."""
        self.process.store.line.cut(Part.HEARTBEATS, Part.WATCHES)


async def leads(world: World, cluster: Cluster, count: int, **around: Any) -> list[Lead]:
    """So many of them."""
    return [await Lead(world, cluster, **around).start() for _ in range(count)]


async def pass_session(world: World, *, frozen: tuple[Process, ...] = ()) -> None:
    """So much time that sessions without heartbeats end, in steps so that those with heartbeats do not."""
    for _ in range(4):
        await world.pass_ms(SESSION_MS // 3, frozen=frozen)


async def until(world: World, holds: Callable[[], bool], step_ms: int = 500) -> None:
    """Lets time pass until something is so."""
    for _ in range(STEPS_MAX):
        if holds():
            return
        await world.pass_ms(step_ms)
    raise AssertionError("it does not come to that")


async def within(world: World, work: Coroutine[Any, Any, T], step_ms: int = 200) -> T:
    """The result of something, while time passes."""
    task = asyncio.ensure_future(work)
    world.tasks.append(task)
    for _ in range(STEPS_MAX):
        await settle()
        if task.done():
            return task.result()
        await world.pass_ms(step_ms)
    task.cancel()
    raise AssertionError("it does not come to its end")


class Admin:
    """Asks whoever leads, and asks again where that is asked of it."""

    def __init__(self, world: World, made: list[Lead]) -> None:
        self.world = world
        self.made = made

    @property
    def living(self) -> list[Lead]:
        return [each for each in self.made if not each.is_dead]

    async def bury(self) -> None:
        """Ends what is left of those that have died at a point."""
        for each in self.living:
            if each.process.store.line.is_closed:
                await each.kill()

    async def leader(self, topic: TopicName = TOPIC) -> TopicLeader:
        """Whoever leads it."""
        return await self.repeated(lambda: self._leader(topic))

    async def broker(self, topic: TopicName = TOPIC) -> Lead:
        """The broker that leads it."""
        await self.leader(topic)
        (found,) = [each for each in self.living if topic.path in each.leaders.led]
        return found

    async def _leader(self, topic: TopicName) -> TopicLeader:
        try:
            return await self.living[0].leaders.get(topic)
        except NotLeader as error:
            for each in self.living:
                if error.leader == f"{each.name}:1":
                    return await each.leaders.get(topic)
            raise

    async def create(self, segments: int = 1, topic: TopicName = TOPIC, **more: Any) -> TopicRecord:
        return await within(self.world, self.living[0].leaders.create(topic, segments, **more))

    async def ask(self, call: Callable[[TopicLeader], Awaitable[T]], topic: TopicName = TOPIC) -> T:
        """Asks the leader once, and waits for the answer."""
        leader = await self.leader(topic)

        async def asked() -> T:
            return await call(leader)

        return await within(self.world, asked())

    async def repeated(self, call: Callable[[], Awaitable[T]]) -> T:
        async def asked() -> T:
            return await call()

        for _ in range(STEPS_MAX):
            try:
                return await within(self.world, asked())
            except (NotLeader, StoreClosed):
                await self.bury()
                await self.world.pass_ms(500)
        raise AssertionError("nobody leads")


async def record_of(world: World, topic: TopicName = TOPIC) -> TopicRecord | None:
    """What stands in the store."""
    async with MemoryStore(world.data, Environment(world.clock)) as store:
        found = await Topics(store, Pace(world.clock)).find(topic)
        return None if found is None else found.record


async def put_load(world: World, segment_id: int, rate_in: float, topic: TopicName = TOPIC) -> None:
    """As the owner of a segment reports it."""
    rates = {**dict.fromkeys(Metric, 0.0), Metric.MSG_RATE_IN: rate_in}
    await _report(world, paths.load_key(topic, segment_id), Load(rates).encode(), topic)


async def put_drained(world: World, segment_id: int, subscription: str, topic: TopicName = TOPIC) -> None:
    """As the owner of a segment reports it."""
    await _report(world, paths.drained_key(topic, segment_id, subscription), b"{}", topic)


async def _report(world: World, key: str, value: bytes, topic: TopicName) -> None:
    async with MemoryStore(world.data, Environment(world.clock)) as store:
        await store.put(key, value, partition_key=topic.path, indexes=paths.report_indexes(topic))
    await settle()


async def check_rest(world: World, cluster: Cluster, *topics: TopicName) -> None:
    """What must hold whenever nothing is under way."""
    names: set[str] = set()
    for topic in topics or (TOPIC,):
        record = await record_of(world, topic)
        if record is None:
            continue
        layout = record.layout
        async with MemoryStore(world.data, Environment(world.clock)) as store:
            subscriptions = {
                paths.subscription_of_key(record.key)
                async for record in store.scan(below(paths.subscriptions_path(topic), store.key_sorting))
                if record.key.count("/") == 6 and b"CHECKPOINT" not in (record.value or b"")
            }
        for segment in layout.segments.values():
            name = data_name(topic, segment)
            names.add(name)
            found = cluster.segments[name]
            assert found.is_sealed is not segment.is_active, f"{name} is sealed where the layout says so"
            assert found.cursors.keys() == subscriptions, f"cursors of {name}"
    assert cluster.segments.keys() == names, "nothing is left of what is in no layout"
    async with MemoryStore(world.data, Environment(world.clock)) as store:
        left = [key async for key in store.list(ALL) if key.endswith("/operation")]
    assert left == []
