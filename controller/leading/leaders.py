"""The topics that a broker leads, and who leads the others."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from controller.layout import BUDGET, Domain, Layout, NamespaceName, TopicName, TopicRecord
from controller.leading.birth import Birth
from controller.leading.chart import TopicChart
from controller.leading.leader import TopicLeader
from controller.leading.leading import Leading
from controller.leading.removal import Removal
from controller.leading.surroundings import Surroundings
from controller.subscriptions import SubscriptionKind
from controller.topics import InvalidTopic, NotLeader, TopicNotFound, paths
from controller.topics.records import check_properties
from metastore.coordination import Pace, SessionKeeper
from metastore.coordination.unless import Unless
from txn.posts import Owner, Takeover
from txn.segment.bell import Bell

OPENINGS_AT_ONCE_MAX = 32
"""Topics that a broker claims and restores at the same time."""
TURN_S = 2.0
"""How long each broker that stands before another one has for claiming a topic, before that one does."""
WAIT_S = 10.0
"""How long a caller waits for a topic that is being taken over, or created."""
INTERVAL_S = 60.0
"""`scalableTopicAutoScaleIntervalSeconds`: how often all topics are considered, whatever happens. 0: never."""
BUCKET_BUDGET = BUDGET
"""`scalableTopicEntryBucketBudget`: buckets of a new topic, shared by the segments that it begins with."""
INITIAL_SEGMENTS_MAX = 1_000
"""Segments that a topic begins with."""


@dataclass(frozen=True, slots=True)
class LeadersOptions:
    """What a broker may be told."""

    openings_at_once_max: int = OPENINGS_AT_ONCE_MAX
    turn_s: float = TURN_S
    wait_s: float = WAIT_S
    interval_s: float = INTERVAL_S
    bucket_budget: int = BUCKET_BUDGET


class Leaders:
    """One for each broker, to be used in `async with`: if the store fails for good, the block is cancelled.

    The broker must be registered (`txn.hosting.Host` does that) to have its turns; what it leads hangs on the keeper's
    session.
    """

    def __init__(
        self,
        keeper: SessionKeeper,
        broker: str,
        address: str,
        around: Surroundings,
        *,
        options: LeadersOptions | None = None,
    ) -> None:
        self.broker = broker
        self.around = around
        self.options = options or LeadersOptions()
        self._store = keeper.store
        self._pace = around.pace
        self._bell = Bell()
        self._chart = TopicChart(keeper.store, around.pace, self._bell)
        means = Leading(
            keeper,
            broker,
            address,
            around,
            asyncio.Semaphore(self.options.openings_at_once_max),
            self.options.turn_s,
        )
        self._takeover = Takeover(means, self._chart, self._bell)
        self._stack = AsyncExitStack()

    # -- what others ask

    @property
    def led(self) -> Mapping[str, TopicLeader]:
        """The topics that are led here, by the paths of their records."""
        return self._takeover.served()

    @property
    def takeovers(self) -> int:
        """How often this broker has begun to lead a topic."""
        return self._takeover.begun

    @property
    def topics(self) -> int:
        """How many topics there are, as far as this broker has heard."""
        return sum(1 for _ in self._chart.posts())

    def leader(self, topic: TopicName) -> Owner | None:
        """Who leads a topic, as far as this broker has heard."""
        return self._chart.owners.get(topic.path)

    async def get(self, topic: TopicName) -> TopicLeader:
        """The topic, led here; it is taken over if nobody has it. NotLeader says who else leads it.

        TopicNotFound if there is none; NotLeader without an address when that is not decided in time.
        """
        post = topic.path
        served = self._takeover.find(post)
        if served is not None:
            return served
        if not self._chart.exists(post) and not await self._is_there(topic):
            raise TopicNotFound(f"there is no topic {topic.scalable}: create it first")
        async with self._within(NotLeader(f"{topic.scalable} is being taken over: ask again")):
            while True:
                found = self._look(topic)
                if found is not None:
                    return found
                await self._bell.wait()

    def _look(self, topic: TopicName) -> TopicLeader | None:
        """The topic if it is led here; None if that is not decided yet."""
        served = self._takeover.find(topic.path)
        owner = self._chart.owners.get(topic.path)
        if served is None and owner is not None and owner.broker != self.broker:
            raise NotLeader(
                f"{topic.scalable} is led by {owner.broker!r} at {owner.address} under term {owner.term}: ask there",
                owner.address,
            )
        if served is None:
            self._takeover.hurry(topic.path)
        return served

    async def _is_there(self, topic: TopicName) -> bool:
        record = await self._store.get(topic.path, partition_key=paths.partition(topic))
        return record is not None

    async def create(
        self,
        topic: TopicName,
        segments: int = 1,
        properties: Mapping[str, str] | None = None,
        subscriptions: Mapping[str, SubscriptionKind] | None = None,
    ) -> TopicRecord:
        """Creates a topic: when this returns it has its segments, and these subscriptions have cursors in them.

        On any broker: it is written down what is to be created, and whoever leads the topic does it. TopicExists if
        there is one; of what is just being created it is waited for what comes of it. NotLeader, which passes, if that
        takes too long: ask the same again.
        """
        if topic.domain is not Domain.TOPIC:
            raise InvalidTopic(f"{topic} is no scalable topic: {topic.scalable} would be")
        if segments > INITIAL_SEGMENTS_MAX:
            raise InvalidTopic(f"{segments} segments: at most {INITIAL_SEGMENTS_MAX} (INITIAL_SEGMENTS_MAX)")
        check_properties(properties or {})
        for name in subscriptions or {}:
            paths.checked(name, "subscription")
        now_ms, budget = self._pace.clock.wall_ms(), self.options.bucket_budget
        record = TopicRecord(Layout.initial(segments, now_ms, bucket_budget=budget), dict(properties or {}))
        birth = Birth(self._store, topic, self._pace)
        late = NotLeader(f"{topic} is being created, by whoever leads it first: ask again")
        async with self._within(late):
            return await birth.run(record, subscriptions or {})

    async def delete(self, topic: TopicName) -> None:
        """Deletes a topic; when this returns nothing is left of it. TopicNotFound if there is none.

        Where it is being deleted already it is waited for that, on any broker: who asks again, because an answer was
        lost, is told of the end of what he has begun. NotLeader, which passes, if that takes too long.
        """
        removal = Removal(self._store, topic, self._pace)
        if await removal.is_under_way():
            async with self._within(NotLeader(f"{topic} is being deleted, by whoever leads it: ask again")):
                await removal.wait_over()
            return
        await (await self.get(topic)).delete()

    def _within(self, late: Exception) -> Unless:
        """A block that is given up after a while."""
        return Unless(_sleep(self._pace, self.options.wait_s), lambda: late)

    # -- what happens to all

    def note_policy(self, namespace: NamespaceName) -> None:
        """A namespace says something else from now on."""
        for leader in self.led.values():
            if leader.topic.parent == namespace:
                leader.wake("policy")

    async def _tick(self) -> None:
        while self.options.interval_s > 0:
            await self._pace.sleep(self.options.interval_s)
            for leader in self.led.values():
                leader.wake("tick")

    async def __aenter__(self) -> Self:
        try:
            tasks = await self._stack.enter_async_context(asyncio.TaskGroup())
            for work in (self._chart.follow(), self._tick()):
                self._stack.callback(tasks.create_task(work).cancel)
            await self._stack.enter_async_context(self._takeover)
            self._stack.callback(tasks.create_task(self._takeover.run()).cancel)
            await self._chart.ready()
        except BaseException as error:
            await self._stack.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)


async def _sleep(pace: Pace, seconds: float) -> None:
    await pace.sleep(seconds)
