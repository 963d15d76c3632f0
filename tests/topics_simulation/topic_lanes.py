"""One segment, as a member of a subscription reads it, from being told to until being told not to."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from topics_simulation.topic_clients import TopicClient
from topics_simulation.topic_stage import TopicBroker
from txn.hosting import NoSuchSegment
from txn.model.errors import TxnFatal, TxnRetriable
from txn.model.position import Position
from txn.segment.log import START
from txn.segment.subscription import Assigned, Delivery, EndOfSegment, SubscriptionDeleted, SubscriptionKind
from txn.segment.subscription.errors import ConsumerReplaced
from txn_histories.clients import Reached
from txn_histories.consumers import READ_MAX, Taking, Waiting, attach

PATIENCE_S = 1.0
TAKEOVER_S = 5.0
"""So long somebody waits for those who have a segment that is his by now."""

Handle = Callable[[Taking, list[Delivery]], Awaitable[None]]
"""What a consumer does with what it gets."""


def _is_reachable(reached: Reached) -> bool:
    return not isinstance(reached.broker, TopicBroker) or reached.broker.is_reachable


class Lane(ABC):
    """Reads one segment. Ends by itself when all was read, or when there is no such segment."""

    def __init__(
        self, client: TopicClient, segment: str, at_end: Callable[[str], Awaitable[None]] | None = None
    ) -> None:
        self.segment = segment
        self._at_end = at_end
        self.is_wanted = True
        """Set to False the lane ends as soon as it can, in good order."""
        self._client = client
        self.task = asyncio.ensure_future(self._run())

    @abstractmethod
    async def _read(self) -> None:
        """Reads at one owner. EndOfSegment, or why it cannot go on."""

    async def _run(self) -> None:
        while self.is_wanted:
            try:
                await self._read()
            except EndOfSegment:
                if self._at_end is not None:
                    await self._at_end(self.segment)
                return
            except (NoSuchSegment, SubscriptionDeleted):
                return
            except (TxnRetriable, TxnFatal):
                self._client.forget(self.segment)
            await self._client.pause()

    async def _pauses(self) -> None:
        await self._client.pause(0.3)


class Division(NamedTuple):
    """By which division of the topic a consumer reads, and which part of the segment."""

    assigned: Assigned | None = None
    starts: tuple[int, ...] = (0,)
    """Where buckets begin, of a segment that is shared by keys."""


class ConsumerLane(Lane):
    """By a consumer of the subscription. Whoever is in its way is waited for, and then replaced."""

    def __init__(
        self,
        client: TopicClient,
        segment: str,
        subscription: str,
        kind: SubscriptionKind,
        handle: Handle,
        division: Callable[[], Division] = Division,
        outdated: Callable[[], None] = lambda: None,
    ) -> None:
        self._subscription = subscription
        self._kind = kind
        self._handle = handle
        self._division = division
        self._outdated = outdated
        """Called when a newer division is known here."""
        self._waiting_since_s: float | None = None
        super().__init__(client, segment)

    async def _read(self) -> None:
        taking = await self._attach()
        if taking is None:
            return
        try:
            while self.is_wanted and _is_reachable(taking.reached):
                deliveries = await taking.receive(PATIENCE_S)
                if deliveries:
                    await self._handle(taking, deliveries)
            self._client.forget(self.segment)
        finally:
            await taking.break_off()

    async def _attach(self) -> Taking | None:
        now_s = self._client.stage.clock.monotonic_s()
        since_s = self._waiting_since_s = now_s if self._waiting_since_s is None else self._waiting_since_s
        division = self._division()
        try:
            taking = await attach(
                self._client,
                self.segment,
                self._subscription,
                self._kind,
                creates=False,
                starts=division.starts,
                assigned=division.assigned,
                replaces=division.assigned is not None and now_s - since_s > TAKEOVER_S,
            )
        except ConsumerReplaced:
            self._outdated()
            raise
        if taking is not None:
            self._waiting_since_s = None
        return taking


class Checkpoint:
    """What a group of checkpoint's readers knows: how far each segment was worked through."""

    def __init__(self, topic: str, group: str) -> None:
        self.topic = topic
        self.group = group
        self.positions: dict[str, Position] = {}
        self.passed: dict[str, Position] = {}
        """How far they were looked through: behind what was worked through there may be what nobody is to see."""
        self.sightings: dict[str, tuple[str, str]] = {}
        """Who has read for the group."""
        self.ended: set[str] = set()
        """The segments that were read to their ends."""

    def advance(self, segment: str, behind: Position) -> None:
        """All before a bound is done."""
        self.positions[segment] = max(behind, self.positions.get(segment, START))


class ReaderLane(Lane):
    """By a reader, from where the group's checkpoint is."""

    def __init__(
        self, client: TopicClient, segment: str, checkpoint: Checkpoint, at_end: Callable[[str], Awaitable[None]]
    ) -> None:
        self._checkpoint = checkpoint
        super().__init__(client, segment, at_end)

    async def _read(self) -> None:
        client, checkpoint = self._client, self._checkpoint
        start = checkpoint.positions.get(self.segment, START)
        reached = await client.reach(self.segment)
        reader = reached.segment.reader(start)
        sighting = client.recorder.open(self.segment, start=start, term=reached.segment.term)
        checkpoint.sightings[sighting] = (checkpoint.topic, checkpoint.group)
        waiting = Waiting(client, reached, reader.read)
        try:
            while self.is_wanted and _is_reachable(reached):
                entries = await waiting.take(PATIENCE_S, READ_MAX)
                if entries:
                    shown = [(each.position, each.entry.payload.decode(), ()) for each in entries]
                    client.recorder.shown(sighting, waiting.since, shown)
                    await self._pauses()
                    last = entries[-1].position
                    checkpoint.advance(self.segment, Position(last.ledger, last.entry + 1))
                checkpoint.passed[self.segment] = reader.at
            client.forget(self.segment)
        finally:
            waiting.close()
