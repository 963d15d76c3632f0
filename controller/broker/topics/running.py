"""All that a broker has for topics, from its beginning to its end.

What follows the store begins before anything is led: nothing is decided before it is known what namespaces say. At the
end it goes the other way round, and topics are let go before the segments are.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from controller.broker.limits import BrokerLimits
from controller.broker.topics.config import TopicsConfig
from controller.broker.topics.desk import TopicDesk
from controller.leading import (
    Drains,
    HostedSegments,
    Leaders,
    LeadersOptions,
    LoadReporter,
    Meter,
    Surroundings,
)
from controller.operations import SegmentWork
from controller.peers import Peers
from controller.subscriptions import Options
from controller.topics import Topics
from controller.topics.policies import StoredPolicies
from controller.watches import NamespaceWatches, StoredOwners, TopicWatches
from metastore.coordination import Pace
from metastore.dialling import Security
from metastore.faults import Faults
from metastore.interface import MetadataStore
from txn.hosting import Host


class RunningTopics:
    """One for each broker, to be used in `async with`: if the store fails for good, the block is cancelled."""

    def __init__(
        self,
        host: Host,
        store: MetadataStore,
        config: TopicsConfig,
        security: Security,
        limits: BrokerLimits,
        meter: Meter,
        pace: Pace,
        faults: Faults,
    ) -> None:
        self._peers = Peers(security, pace.clock)
        self._drains = Drains(host, store, pace)
        self._policies = StoredPolicies(store, pace)
        self._owners = StoredOwners(store, pace)
        self._reporter = LoadReporter(
            host,
            store,
            meter,
            pace,
            interval_s=config.scalable_topic_load_report_interval_s,
            threshold=config.scalable_topic_load_report_rate_change_threshold,
        )
        self.here: SegmentWork = HostedSegments(host, self._drains)
        """Work on the segments of this broker, for the leaders of topics at others."""
        around = Surroundings(
            HostedSegments(host, self._drains, self._peers.work),
            pace,
            faults,
            config.auto_scale(),
            config.scalable_topic_retention_minutes,
            Options(config.strategy, config.scalable_topic_consumer_session_grace_period_s),
            lambda topic: self._policies.find(topic.parent),
            config.scalable_topic_producer_claim_grace_period_s,
        )
        options = LeadersOptions(
            turn_s=host.options.turn_s,
            wait_s=host.options.wait_s,
            interval_s=config.scalable_topic_auto_scale_interval_s,
            bucket_budget=config.scalable_topic_entry_bucket_budget,
        )
        self.leaders = Leaders(host.keeper, host.broker, host.address, around, options=options)
        self._policies.listen(self.leaders.note_policy)
        self.desk = TopicDesk(
            self.leaders,
            Topics(store, pace),
            self._policies,
            self._owners,
            TopicWatches(store, self._owners, pace),
            NamespaceWatches(store, pace),
            limits,
            pace,
        )
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        stack = self._stack
        try:
            stack.push_async_callback(self._peers.close)
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            works = (self._drains.run(), self._reporter.run(), self._policies.follow(), self._owners.follow())
            for work in works:
                stack.callback(tasks.create_task(work).cancel)
            await stack.enter_async_context(self.desk.topic_watches)
            await stack.enter_async_context(self.desk.namespace_watches)
            await self._policies.ready()
            await stack.enter_async_context(self.leaders)
        except BaseException as error:
            await stack.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)
