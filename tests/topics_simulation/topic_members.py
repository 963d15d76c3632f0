"""Members of subscriptions: they hold a connection to the topic's leader, and read what they are told to."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from controller.layout import LayoutError, SegmentName, TopicName
from controller.leading import TopicLeader
from controller.operations import data_name
from controller.subscriptions import Assigned, Attachment, Ended, EndReason, Message, SubscriptionKind, WrongKind
from controller.topics import SubscriptionNotFound, TopicNotFound
from metastore.interface import StoreError
from topics_simulation.topic_clients import TopicClient, TopicView
from topics_simulation.topic_lanes import Checkpoint, ConsumerLane, Division, Handle, Lane, ReaderLane
from topics_simulation.topic_stage import TopicBroker
from txn.model.errors import TxnFatal, TxnRetriable
from txn.segment.subscription import Assigned as Number
from txn.segment.subscription import SubscriptionKind as ConsumerKind

HEARTBEAT_S = 1.0
"""How often a member looks whether its connection is still there."""


class Share(NamedTuple):
    """A segment to be read."""

    segment: str
    is_shared: bool


class Lanes:
    """The segments that a member reads, and how."""

    def __init__(self) -> None:
        self._lanes: dict[Share, Lane] = {}
        self._leaving: list[Lane] = []

    def read(self, wanted: Iterable[Share]) -> list[Share]:
        """Just these from now on; those that are not being read yet."""
        shares = set(wanted)
        for share in sorted(self._lanes.keys() - shares):
            lane = self._lanes.pop(share)
            lane.is_wanted = False
            self._leaving.append(lane)
        self._leaving = [each for each in self._leaving if not each.task.done()]
        return sorted(shares - self._lanes.keys())

    def add(self, share: Share, lane: Lane) -> None:
        self._lanes[share] = lane

    async def end(self) -> None:
        """None any more, in good order."""
        self.read(())
        tasks = [each.task for each in self._leaving]
        if tasks:
            await asyncio.gather(*tasks)

    def check(self) -> None:
        """Raises what a lane has failed with."""
        for lane in [*self._lanes.values(), *self._leaving]:
            if lane.task.done() and not lane.task.cancelled():
                lane.task.result()

    def break_off(self) -> None:
        """None any more, here and now."""
        for lane in [*self._lanes.values(), *self._leaving]:
            lane.task.cancel()


class Member(ABC):
    """Somebody who reads for a subscription, until told to end."""

    def __init__(self, client: TopicClient, topic: TopicName, subscription: str) -> None:
        self.client = client
        self.topic = topic
        self.subscription = subscription
        self.lanes = Lanes()
        self.is_ending = False
        """It goes for good, as soon as it can."""
        self.task = asyncio.ensure_future(self._run())

    @abstractmethod
    async def _run(self) -> None:
        """All that it does."""

    def break_off(self) -> None:
        """It dies without a word; its connections break."""
        self.task.cancel()
        self.lanes.break_off()


class DividedMember(Member):
    """One of those among whom segments are divided. It goes where the leader is."""

    kind: SubscriptionKind

    def __init__(self, client: TopicClient, topic: TopicName, subscription: str, name: str) -> None:
        self.name = name
        self.assigned: Assigned | None = None
        self._ended: EndReason | None = None
        self._is_outdated = False
        self._attachments: list[Attachment] = []
        """Of all its connections, also those that it has not heard of."""
        super().__init__(client, topic, subscription)

    @abstractmethod
    def _lane(self, share: Share) -> Lane: ...

    async def _run(self) -> None:
        while not self.is_ending:
            try:
                broker, leader = await self.client.leader(self.topic)
                self._ended, self._is_outdated = None, False
                attachment = await broker.call(self._join, leader)
            except (TopicNotFound, SubscriptionNotFound, WrongKind):
                break
            except (TxnRetriable, TxnFatal, StoreError):
                self._hang_up()
                await self.client.pause()
                continue
            await self._stay(broker)
            reason, leaves = self._how_it_is()
            if reason in (EndReason.DELETED, EndReason.REPLACED):
                break
            if leaves and broker.is_reachable and reason is None:
                await self._leave(broker, attachment)
            self._hang_up()
        await self.lanes.end()

    async def _join(self, leader: TopicLeader) -> Attachment:
        """At the leader: what becomes of the answer is another question."""
        attachment = await leader.join(self.subscription, self.name, self.kind, self._hear)
        self._attachments.append(attachment)
        return attachment

    def _hang_up(self) -> None:
        """Its connections are gone, and those at the other ends notice."""
        for attachment in self._attachments:
            attachment.disconnect()
        self._attachments.clear()

    def _how_it_is(self) -> tuple[EndReason | None, bool]:
        """Why its connection has ended, if it has; and whether it is to go for good."""
        return self._ended, self.is_ending

    async def _leave(self, broker: TopicBroker, attachment: Attachment) -> None:
        """What it was given is released first, and then it goes."""
        await self.lanes.end()
        with suppress(TxnRetriable, TxnFatal, StoreError):
            await broker.call(attachment.leave)

    def _hear(self, message: Message) -> None:
        if isinstance(message, Ended):
            self._ended = message.reason
            return
        newest = self.assigned
        if newest is None or (message.term, message.generation) >= (newest.term, newest.generation):
            self.assigned = message

    async def _stay(self, broker: TopicBroker) -> None:
        """While the connection lasts, or seems to."""
        while not (self.is_ending or self._is_outdated) and self._ended is None and broker.is_reachable:
            self._read_assigned()
            self.lanes.check()
            await self.client.pause(HEARTBEAT_S)

    def _read_assigned(self) -> None:
        if self.assigned is not None:
            wanted = [Share(each.name, bool(each.buckets)) for each in self.assigned.segments]
            for share in self.lanes.read(wanted):
                self.lanes.add(share, self._lane(share))

    def break_off(self) -> None:
        """It dies without a word; its connections break."""
        super().break_off()
        self._hang_up()


class StreamMember(DividedMember):
    """A consumer of a stream."""

    kind = SubscriptionKind.STREAM

    def __init__(self, client: TopicClient, topic: TopicName, subscription: str, name: str, handle: Handle) -> None:
        self._handle = handle
        super().__init__(client, topic, subscription, name)

    def _lane(self, share: Share) -> Lane:
        kind = ConsumerKind.KEY_SHARED if share.is_shared else ConsumerKind.EXCLUSIVE
        return ConsumerLane(
            self.client,
            share.segment,
            self.subscription,
            kind,
            self._handle,
            lambda: self._division(share),
            self._ask_again,
        )

    def _division(self, share: Share) -> Division:
        """The newest that it was told."""
        assert self.assigned is not None, "who was told nothing reads nothing"
        number = Number(self.assigned.term, self.assigned.generation)
        found = [each.buckets for each in self.assigned.segments if each.name == share.segment]
        starts = tuple(bucket.start for buckets in found for bucket in buckets) if share.is_shared else ()
        return Division(number, starts or (0,))

    def _ask_again(self) -> None:
        """Somebody has come by a newer division, of which it was not told because it has what it had."""
        self._is_outdated = True


class CheckpointMember(DividedMember):
    """One of a group that reads by checkpoint."""

    kind = SubscriptionKind.CHECKPOINT

    def __init__(
        self, client: TopicClient, topic: TopicName, subscription: str, name: str, checkpoint: Checkpoint
    ) -> None:
        self._checkpoint = checkpoint
        super().__init__(client, topic, subscription, name)

    def _lane(self, share: Share) -> Lane:
        return ReaderLane(self.client, share.segment, self._checkpoint, self._tell_end)

    async def _tell_end(self, segment: str) -> None:
        self._checkpoint.ended.add(segment)
        segment_id = SegmentName.parse(segment).segment_id
        try:
            await self.client.ask(self.topic, lambda leader: leader.note_drained(self.subscription, segment_id))
        except (TopicNotFound, WrongKind, LayoutError):
            return  # there is no such topic, group or segment any more


class QueueMember(Member):
    """A consumer of a queue: it reads every segment there is."""

    def __init__(self, client: TopicClient, view: TopicView, subscription: str, handle: Handle) -> None:
        self._view = view
        self._handle = handle
        super().__init__(client, view.topic, subscription)

    async def _run(self) -> None:
        while not self.is_ending:
            layout = await self._view.known()
            if layout is None:
                break
            wanted = [Share(data_name(self.topic, each), True) for each in layout.segments.values()]
            for share in self.lanes.read(wanted):
                lane = ConsumerLane(self.client, share.segment, self.subscription, ConsumerKind.SHARED, self._handle)
                self.lanes.add(share, lane)
            self.lanes.check()
            await self.client.pause(HEARTBEAT_S)
        await self.lanes.end()
