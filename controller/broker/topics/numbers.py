"""A topic in numbers. Loads, consumers and what is drained the leader knows; backlogs he asks the owners for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from controller.broker.topics.desk import TopicDesk, named
from controller.broker.topics.directory import Directory
from controller.broker.topics.policies import PolicyDesk, effective
from controller.broker.topics.words import assigned_message, kind_message, load_message
from controller.leading import TopicLeader
from controller.operations import data_name
from controller.pb import topics_pb2 as pb
from controller.subscriptions import SubscriptionKind
from controller.subscriptions.messages import assigned
from controller.together import together
from metastore.coordination.unless import Unless
from txn.model.errors import SegmentUnavailable, TxnError

logger = logging.getLogger("tidemark.broker")

OWNERS_ASKED_AT_ONCE_MAX = 32
"""Of all who ask for numbers at the same time, together."""
BACKLOG_WITHIN_S = 3.0
"""How long an owner has to say its numbers; those of one that is slower are missing."""

Backlogs = Mapping[int, Mapping[str, int]]
"""By segment and subscription."""


class Numbers:
    """The method that tells them."""

    def __init__(self, desk: TopicDesk, directory: Directory, policies: PolicyDesk) -> None:
        self._desk = desk
        self._directory = directory
        self._policies = policies
        self._around = desk.leaders.around
        self._asking = asyncio.Semaphore(OWNERS_ASKED_AT_ONCE_MAX)

    async def stats(self, request: pb.TopicStatsRequest, principal: str | None) -> pb.TopicStatsResponse:
        """As it is now."""
        topic = named(request.topic)
        leader = await self._desk.leader(request.topic)
        above = self._around.policy(topic)
        backlogs = await self._backlogs(leader)
        return pb.TopicStatsResponse(
            topic=await self._directory.described(topic),
            segments={each: _segment(leader, each, backlogs) for each in leader.layout.segments},
            subscriptions={
                name: _subscription(leader, name, kind, backlogs)
                for name, kind in sorted(leader.subscriptions.kinds.items())
            },
            effective_auto_scale=effective(self._around.auto_scale, above.auto_scale, leader.record.auto_scale_policy),
            effective_retention_minutes=self._policies.minutes(above),
            is_busy=leader.is_busy,
        )

    async def _backlogs(self, leader: TopicLeader) -> Backlogs:
        found: dict[int, Mapping[str, int]] = {}
        known = leader.subscriptions.kinds

        async def ask(segment_id: int, segment: str) -> None:
            try:
                async with self._asking, Unless(self._wait(), lambda: SegmentUnavailable("its owner is slow")):
                    told = await self._around.work.backlogs(segment)
            except TxnError as error:
                logger.info("the numbers of %s are left out: %s", segment, error)
            else:
                found[segment_id] = {name: entries for name, entries in told.items() if name in known}

        segments = leader.layout.segments.values()
        await together(*(ask(each.segment_id, data_name(leader.topic, each)) for each in segments))
        return found

    async def _wait(self) -> None:
        await self._desk.pace.sleep(BACKLOG_WITHIN_S)


def _segment(leader: TopicLeader, segment_id: int, backlogs: Backlogs) -> pb.SegmentNumbers:
    load = leader.loads.get(segment_id)
    return pb.SegmentNumbers(
        load=None if load is None else load_message(load),
        backlog_entries=backlogs.get(segment_id, {}),
        drained_by=sorted(name for name, drained in leader.drained.items() if segment_id in drained),
    )


def _subscription(leader: TopicLeader, name: str, kind: SubscriptionKind, backlogs: Backlogs) -> pb.SubscriptionNumbers:
    numbers = pb.SubscriptionNumbers(
        kind=kind_message(kind), backlog_entries=sum(each.get(name, 0) for each in backlogs.values())
    )
    if kind.is_divided:
        coordinator = leader.subscriptions.coordinator(name)
        group, sessions = coordinator.group, coordinator.sessions.by_name
        numbers.generation = group.generation
        for consumer in sorted(group.assignment):
            told = assigned(leader.topic, leader.term, group, consumer)
            session = sessions.get(consumer)
            numbers.consumers.add(
                consumer=consumer,
                is_connected=session is not None and session.is_connected,
                segments=[assigned_message(each) for each in told.segments],
            )
    return numbers
