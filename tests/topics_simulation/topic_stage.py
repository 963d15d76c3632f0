"""The stage of a simulation of topics: brokers that own segments, lead topics and serve watches, over one store.

Between brokers, and between clients and brokers, there is no wire: a call is a call, which ends with the broker that
serves it. A broker that hears nothing for a while is given up by whoever is connected to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

from controller.autoscale import AutoScaleConfig
from controller.leading import (
    Drains,
    HostedSegments,
    Leaders,
    LeadersOptions,
    LoadReporter,
    Meter,
    Surroundings,
)
from controller.operations import Bound, OwnedWork, Start
from controller.subscriptions import Options
from controller.together import together
from controller.topics import Topics
from controller.topics.policies import StoredPolicies
from controller.watches import StoredOwners, TopicWatches
from metastore.faults import Faults
from support.world import Process, World
from txn.hosting import Host, HostOptions
from txn.hosting.places import STORED
from txn.segment.log import StoredLogs
from txn_histories.stage import ConnectionLost, SimulatedBroker, Stage

KEEPALIVE_MS = 4_000
"""So long nobody waits for a broker that gives no sign of life."""

T = TypeVar("T")
P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class TopicOptions:
    """What all brokers are told."""

    host: HostOptions
    auto_scale: AutoScaleConfig = field(default_factory=lambda: AutoScaleConfig(enabled=False))
    retention_minutes: int = 0
    grace_s: float = 20.0
    load_interval_s: float = 2.0
    tick_s: float = 5.0


class Trap(Faults):
    """What happens to a broker when it comes to certain points of the code next: chosen by whoever sets it."""

    def __init__(self) -> None:
        self._steps = 0
        self._prefix = ""
        self._spring: Callable[[str], None] | None = None
        self.reached: set[str] = set()
        """All points of topics that the broker came to."""

    def set(self, steps: int, spring: Callable[[str], None], prefix: str = "topic.") -> None:
        """At the point after so many others the trap springs."""
        self._steps, self._spring, self._prefix = steps, spring, prefix

    @property
    def is_set(self) -> bool:
        """Whether it will spring."""
        return self._spring is not None

    def clear(self) -> None:
        """Nothing happens."""
        self._spring = None

    def reach(self, point: str) -> None:
        """Called by the broker."""
        if point.startswith("topic."):
            self.reached.add(point)
        if self._spring is None or not point.startswith(self._prefix):
            return
        self._steps -= 1
        if self._steps < 0:
            spring, self._spring = self._spring, None
            spring(point)


class TopicBroker(SimulatedBroker):
    """A broker with all that it does for topics."""

    def __init__(self, stage: TopicStage, process: Process, name: str) -> None:
        self._stage = stage
        self._is_given_up = False
        self.silent_since_ms: int | None = None
        """Since when it is frozen."""
        self.trap = Trap()
        self.meter = Meter()
        self.address = f"{name}:1"
        store, pace, options = process.store, process.pace, stage.options
        self._host = Host(
            store,
            {STORED: StoredLogs(store, pace=pace)},
            name,
            self.address,
            pace=pace,
            options=options.host,
        )
        self.drains = Drains(self._host, store, pace)
        self.local = HostedSegments(self._host, self.drains)
        self.policies = StoredPolicies(store, pace)
        self.topics = Topics(store, pace)
        self.leaders = Leaders(
            self._host.keeper,
            name,
            self.address,
            Surroundings(
                HostedSegments(self._host, self.drains, stage.remote),
                pace,
                self.trap,
                options.auto_scale,
                options.retention_minutes,
                Options(grace_s=options.grace_s),
                lambda topic: self.policies.find(topic.parent),
            ),
            options=LeadersOptions(interval_s=options.tick_s),
        )
        self.policies.listen(self.leaders.note_policy)
        self._owners = StoredOwners(store, pace)
        self.watches = TopicWatches(store, self._owners, pace)
        super().__init__(process, name, options.host, stage.clock)

    async def _serve(self) -> None:
        reporter = LoadReporter(
            self._host,
            self.process.store,
            self.meter,
            self.process.pace,
            interval_s=self._stage.options.load_interval_s,
        )
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._host)
            await stack.enter_async_context(self.leaders)
            await stack.enter_async_context(self.watches)
            self.host = self._host
            await together(self.drains.run(), reporter.run(), self.policies.follow(), self._owners.follow())

    async def call(self, function: Callable[P, Coroutine[Any, Any, T]], *arguments: P.args, **options: P.kwargs) -> T:
        """A client's call; there is none to a broker that was given up, before it is heard again."""
        self._require_alive()
        return await super().call(function, *arguments, **options)

    def _require_alive(self) -> None:
        super()._require_alive()
        if self._is_given_up:
            raise ConnectionLost(f"{self.name} gives no sign of life")

    @property
    def is_reachable(self) -> bool:
        """Whether whoever is connected to it may think so."""
        return not self.is_dead and not self._is_given_up

    def give_up(self) -> None:
        """Whoever is connected to it goes elsewhere."""
        self._is_given_up = True
        for task in list(self._calls):
            task.cancel()
        self._thawed.set()
        self._thawed.clear()

    def freeze(self) -> None:
        if not self.is_frozen:
            self.silent_since_ms = self._stage.clock.wall_ms()
        super().freeze()

    def thaw(self) -> None:
        self.silent_since_ms, self._is_given_up = None, False
        super().thaw()


class RemoteWork:
    """Segments at work at another broker."""

    def __init__(self, broker: TopicBroker) -> None:
        self._broker = broker

    async def create(self, segment: str, subscriptions: Collection[str]) -> None:
        await self._broker.call(self._broker.local.create, segment, subscriptions)

    async def seal(self, segment: str) -> None:
        await self._broker.call(self._broker.local.seal, segment)

    async def subscribe(self, segment: str, subscription: str, start: Start) -> None:
        await self._broker.call(self._broker.local.subscribe, segment, subscription, start)

    async def unsubscribe(self, segment: str, subscription: str) -> None:
        await self._broker.call(self._broker.local.unsubscribe, segment, subscription)

    async def seek(self, segment: str, subscription: str, to: int | Bound) -> None:
        await self._broker.call(self._broker.local.seek, segment, subscription, to)

    async def backlog(self, segment: str, subscription: str) -> int | None:
        return await self._broker.call(self._broker.local.backlog, segment, subscription)

    async def backlogs(self, segment: str) -> Mapping[str, int]:
        return await self._broker.call(self._broker.local.backlogs, segment)

    async def set_claim(self, segment: str, claim: int, is_released: bool) -> None:
        await self._broker.call(self._broker.local.set_claim, segment, claim, is_released)


class TopicStage(Stage):
    """All brokers, and the time."""

    def __init__(self, world: World, seed: int, options: TopicOptions) -> None:
        super().__init__(world, seed, options.host)
        self.options = options
        self.started: list[TopicBroker] = []
        """All there ever were."""

    def make_broker(self, process: Process, name: str) -> TopicBroker:
        """A broker that begins to serve."""
        self.started.append(TopicBroker(self, process, name))
        return self.started[-1]

    @property
    def leading(self) -> list[TopicBroker]:
        """The brokers that have started and are not dead; a frozen one as well."""
        return [each for each in self.started if not each.is_dead and each.host is not None]

    def at(self, address: str | None) -> TopicBroker | None:
        """The broker with an address."""
        return next((each for each in self.leading if each.address == address), None)

    def remote(self, address: str) -> OwnedWork:
        """Segments at work at the broker with an address."""
        found = self.at(address)
        if found is None:
            raise ConnectionLost(f"nobody answers at {address}")
        return RemoteWork(found)

    async def step(self, milliseconds: int | None = None) -> None:
        """Something happens, and then a little time passes."""
        await super().step(milliseconds)
        now_ms = self.clock.wall_ms()
        for broker in self.leading:
            since_ms = broker.silent_since_ms
            if since_ms is not None and broker.is_reachable and now_ms - since_ms > KEEPALIVE_MS:
                broker.give_up()

    async def wait(self, is_so: Callable[[], bool], step_ms: int, limit_ms: int) -> bool:
        """Lets time pass until something is so; whether it was, within that time."""
        since_ms = self.clock.wall_ms()
        while not is_so():
            if self.clock.wall_ms() - since_ms > limit_ms:
                return False
            await self.step(step_ms)
        return True

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of something, while time passes."""
        task = asyncio.ensure_future(work)
        await self.until(task.done)
        return task.result()
