"""How a topic is claimed, taken over, served and let go, by whoever leads it: the means of its tenures.

The order at the beginning: the grant; what an earlier leader could still change is put out of its reach; the operation
that is under way is finished; what there is to know is read; the consumers' sessions are restored; and only then is
the topic served. At the end the other way round, and the grant last.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from controller.layout import TopicName
from controller.leading.chart import topic_of
from controller.leading.leader import TopicLeader
from controller.leading.reports import Reports
from controller.leading.subscribing import StoredSubscriptions
from controller.leading.surroundings import Surroundings
from controller.operations import LeaderRecords, OperationFailed, Runner
from controller.subscriptions import Subscriptions
from controller.topics import paths
from metastore.coordination import Grant, Lock, Pace, SessionKeeper
from txn.posts import Owner, Phase
from txn.posts.tenure import Enter

logger = logging.getLogger("tidemark.leading")


@dataclass(frozen=True, slots=True)
class Leading:
    """What all tenures of a broker as the leader of topics work with: `txn.posts.Means`."""

    keeper: SessionKeeper
    broker: str
    address: str
    around: Surroundings
    openings: asyncio.Semaphore
    turn_s: float

    @property
    def pace(self) -> Pace:
        """How it waits."""
        return self.around.pace

    async def claim(self, post: str) -> Grant | None:
        """The grant of a topic, in one attempt."""
        topic = topic_of(post)
        lock = Lock(
            self.keeper.store,
            paths.controller_key(topic),
            Owner.value(self.broker, self.address),
            partition_key=paths.partition(topic),
            keeper=self.keeper,
            indexes=[(paths.LEADERS_BY_TOPIC, topic.path)],
        )
        return await lock.try_acquire()

    @asynccontextmanager
    async def open(self, post: str, grant: Grant, enter: Enter) -> AsyncIterator[TopicLeader | None]:
        """The topic, served; None if there is none, or none any more."""
        around, topic = self.around, topic_of(post)
        enter(Phase.OPENING)
        around.faults.reach("topic.lead.granted")
        records = LeaderRecords(grant, topic, around.pace)
        await records.take_over()
        runner = Runner(records, around.work, around.pace, around.faults, around.operations)
        await self._finish(records, runner, topic)
        around.faults.reach("topic.lead.finished")
        found = await records.topic_record()
        if found is None:
            yield None
            return
        claim = await records.claim()
        served: list[TopicLeader] = []

        def members_changed() -> None:
            for leader in served:
                leader.wake("consumers")

        async with (
            Reports(grant.store, topic, around.pace) as reports,
            Subscriptions(
                grant,
                topic,
                found.record.layout,
                reports.drained,
                pace=around.pace,
                options=around.subscriptions,
                members_changed=members_changed,
            ) as subscriptions,
            TopicLeader(records, runner, found.record, subscriptions, reports, claim, around) as leader,
        ):
            served.append(leader)
            around.faults.reach("topic.lead.restored")
            yield leader

    async def _finish(self, records: LeaderRecords, runner: Runner, topic: TopicName) -> None:
        """Brings to its end what an earlier leader has begun."""
        under_way = await records.operation()
        if under_way is not None:
            logger.info("%s: the %s that was under way goes on", topic, under_way.operation.kind.value)
            try:
                await runner.run(under_way, StoredSubscriptions(records.grant, topic, self.around.pace))
            except OperationFailed as error:
                logger.warning("%s", error)
