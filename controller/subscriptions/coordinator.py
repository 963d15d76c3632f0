"""One subscription on its topic's leader: wishes come in at any time, divisions go out one after another.

A wish (a consumer who joins or leaves, another layout, another set of drained segments) changes what is wanted, and no
more. One task makes it so: it computes the division of what is wanted by then, writes it down if it is a new one, and
tells it to those who are concerned. So a burst of wishes is one division, and nothing is told that is not durable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import count

from controller.layout import Layout
from controller.subscriptions.errors import LimitReached, MemberReplaced
from controller.subscriptions.group import Group, Strategy
from controller.subscriptions.messages import Ended, EndReason, Message, assigned
from controller.subscriptions.sessions import Sessions
from controller.subscriptions.store import Stored, SubscriptionStore
from controller.together import together
from controller.topics import SubscriptionNotFound, paths
from txn.segment.bell import Bell

GRACE_S = 60.0
"""`scalableTopicConsumerSessionGracePeriodSeconds`: how long a consumer may be away before others get what it has."""
CONSUMERS_MAX = 1_000
"""Of a subscription: connected or in grace."""
NAMES_BYTES_MAX = 1 << 20
"""Of all these consumers' names together: they all are in one record."""

Outgoing = Callable[[Message], None]
"""Takes a message to its consumer. It must neither wait nor raise; of two `Assigned` the later one is enough."""


@dataclass(slots=True)
class DivisionCounts:
    """What is counted over all subscriptions of a broker."""

    divisions: int = 0
    """Times that segments were divided anew."""
    told: int = 0
    """Assignments that consumers were told."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a broker says of all its subscriptions."""

    strategy: Strategy = Strategy.STICKY
    grace_s: float = GRACE_S
    counts: DivisionCounts = field(default_factory=DivisionCounts)


class Attachment:
    """A consumer's connection to its subscription; another connection of the same name takes its place."""

    def __init__(self, coordinator: Coordinator, consumer: str, connection: int, outgoing: Outgoing) -> None:
        self.consumer = consumer
        self.connection = connection
        self._coordinator = coordinator
        self._outgoing = outgoing
        self.ended: EndReason | None = None
        """Why it is told nothing any more."""

    def disconnect(self) -> None:
        """The connection is gone, and the consumer's grace begins. If it was replaced, nothing happens (H10)."""
        self._coordinator.disconnected(self)

    async def leave(self) -> None:
        """The consumer goes for good, and others get what it had: durable when this returns (H10)."""
        await self._coordinator.left(self)

    def tell(self, message: Message) -> None:
        """Sends a message, unless the last one was sent."""
        if self.ended is None:
            self.ended = message.reason if isinstance(message, Ended) else None
            self._outgoing(message)


class Coordinator:
    """A subscription whose consumers divide the segments among them. `run` works for it until cancelled."""

    def __init__(
        self,
        store: SubscriptionStore,
        name: str,
        stored: Stored,
        layout: Layout,
        drained: Collection[int],
        options: Options,
        members_changed: Callable[[], None],
    ) -> None:
        self.name = name
        self._store = store
        self._options = options
        self._members_changed = members_changed
        """Told when consumers have come or gone."""
        self._clock = store.pace.clock
        self._group = Group.restored(stored.record, stored.members, layout, drained)
        """What is durable."""
        self._version_id = stored.version_id
        self._sessions = Sessions.restored(stored.members, self._clock.monotonic_s() + options.grace_s)
        self._layout = layout
        self._drained = frozenset(drained)
        self._attachments: dict[str, Attachment] = {}
        self._to_tell: set[str] = set()
        """Who has joined, or come back, and was told nothing yet."""
        self._connections = count(1)
        self._wishes = 1
        """How many there were. What was restored may not be as it should: that is the first."""
        self._fulfilled = 0
        self._bell = Bell()
        self._failure: Exception | None = None

    @property
    def group(self) -> Group:
        """Who reads what, as it was last written down."""
        return self._group

    @property
    def sessions(self) -> Sessions:
        """Who is connected and who is in grace."""
        return self._sessions

    # -- wishes

    async def join(self, consumer: str, outgoing: Outgoing) -> Attachment:
        """A consumer has come, or has come back: when this returns it is told what it has.

        MemberReplaced if another one of the same name comes before that.
        """
        if self._failure is not None:
            raise self._failure
        self._check_room(consumer)
        self._end(consumer, EndReason.REPLACED)
        attachment = Attachment(self, consumer, next(self._connections), outgoing)
        self._attachments[consumer] = attachment
        self._sessions = self._sessions.connected(consumer, attachment.connection)
        self._to_tell.add(consumer)
        try:
            await self._fulfilment(attachment)
        except asyncio.CancelledError:
            attachment.disconnect()
            raise
        if attachment.ended is not None:
            raise MemberReplaced(f"{consumer!r} came to {self.name!r} once more: the newer one stays")
        return attachment

    def disconnected(self, attachment: Attachment) -> None:
        """See `Attachment.disconnect`. Nothing is divided anew before the grace is over."""
        until_s = self._clock.monotonic_s() + self._options.grace_s
        before = self._sessions
        self._sessions = before.disconnected(attachment.consumer, attachment.connection, until_s)
        if self._sessions is not before:
            self._attachments.pop(attachment.consumer, None)
            self._bell.ring()

    async def left(self, attachment: Attachment) -> None:
        """See `Attachment.leave`."""
        before = self._sessions
        self._sessions = before.left(attachment.consumer, attachment.connection)
        if self._sessions is not before:
            self._attachments.pop(attachment.consumer, None)
            await self._fulfilment(None)

    def divide(self, layout: Layout, drained: Collection[int]) -> None:
        """This layout, and these of its segments drained, from now on."""
        assert layout.epoch >= self._layout.epoch, "a leader's layouts come in their order"
        self._layout, self._drained = layout, frozenset(drained)
        self._wish()

    async def settled(self) -> None:
        """Returns when all that was wished so far is durable and told; raises what the work has ended with."""
        await self._until(self._wishes)

    def _wish(self) -> int:
        self._wishes += 1
        self._bell.ring()
        return self._wishes

    async def _fulfilment(self, attachment: Attachment | None) -> None:
        await self._until(self._wish(), attachment)

    async def _until(self, wish: int, attachment: Attachment | None = None) -> None:
        """Until a wish is fulfilled, or cannot be, or its connection is not what it was."""
        await self._bell.until(
            lambda: self._fulfilled >= wish
            or self._failure is not None
            or (attachment is not None and attachment.ended is not None)
        )
        if self._fulfilled < wish and self._failure is not None:
            raise self._failure

    def _check_room(self, consumer: str) -> None:
        paths.checked(consumer, "consumer")
        if consumer in self._sessions.names:
            return
        names = [*self._sessions.names, consumer]
        if len(names) > CONSUMERS_MAX or sum(len(name.encode()) for name in names) > NAMES_BYTES_MAX:
            raise LimitReached(
                f"subscription {self.name!r} of {self._store.topic} has {len(names) - 1} consumers: at most "
                f"{CONSUMERS_MAX} (CONSUMERS_MAX) with {NAMES_BYTES_MAX} bytes of names (NAMES_BYTES_MAX)"
            )

    # -- the work

    async def run(self) -> None:
        """Works until cancelled, or until it cannot go on: Deposed, SubscriptionNotFound, or what the store refuses."""
        try:
            await together(self._keep_divided(), self._keep_time())
        except Exception as failure:
            gone = isinstance(failure, SubscriptionNotFound)
            self.end(EndReason.DELETED if gone else EndReason.MOVED, failure)
            raise

    def end(self, reason: EndReason, failure: Exception) -> None:
        """Nobody is told anything any more, and nobody waits in vain."""
        self._failure = failure
        for consumer in list(self._attachments):
            self._end(consumer, reason)
        self._bell.ring()

    async def _keep_divided(self) -> None:
        while True:
            await self._bell.until(lambda: self._fulfilled < self._wishes)
            wishes, arrivals, self._to_tell = self._wishes, self._to_tell, set()
            before, members = self._group, frozenset(self._sessions.names)
            after = before.regrouped(members, self._layout, self._drained, self._options.strategy)
            if after.assignment != before.assignment:
                self._version_id = await self._store.write(
                    self.name,
                    after.record,
                    self._version_id,
                    joined=members - before.assignment.keys(),
                    left=before.assignment.keys() - members,
                )
            self._options.counts.divisions += after.generation - before.generation
            self._group = after
            self._tell(after.differing(before) | arrivals)
            if after.assignment.keys() != before.assignment.keys():
                self._members_changed()
            self._fulfilled = wishes
            self._bell.ring()

    async def _keep_time(self) -> None:
        """Lets those go whose grace is over."""
        while True:
            await self._bell.until(lambda: self._sessions.next_due_s is not None)
            due_s = self._sessions.next_due_s
            assert due_s is not None
            await self._store.pace.sleep(max(0.0, due_s - self._clock.monotonic_s()))
            before = self._sessions
            self._sessions = before.expired(self._clock.monotonic_s())
            if self._sessions is not before:
                self._wish()

    def _tell(self, consumers: Collection[str]) -> None:
        """Tells the division to those of them who are connected, and are members by now."""
        for consumer in sorted(consumers & self._group.assignment.keys() & self._attachments.keys()):
            message = assigned(self._store.topic, self._store.term, self._group, consumer)
            self._attachments[consumer].tell(message)
            self._options.counts.told += 1

    def _end(self, consumer: str, reason: EndReason) -> None:
        attachment = self._attachments.pop(consumer, None)
        if attachment is not None:
            attachment.tell(Ended(reason))
            self._bell.ring()
