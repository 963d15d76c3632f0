"""Delivers what may be read to the consumers of a subscription, as fast as they ask for it.

One task reads a number of entries at a time and hands them out; it sleeps until there is something to do: the bound of
what may be read has moved, somebody has asked for more, something is to come again. Nothing is asked for twice in vain.

A consumer that does not keep up asks for nothing, and gets nothing; the others of a shared subscription get it. Of an
ordered one only the active consumer does. What one consumer, and all together, have and do not acknowledge is bounded.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from txn.model.errors import TxnError
from txn.model.position import Position
from txn.segment.errors import EntriesTrimmed
from txn.segment.log import SegmentLog
from txn.segment.subscription.backlog import Backlog
from txn.segment.subscription.claims import WHOLE
from txn.segment.subscription.consumer import Consumer
from txn.segment.subscription.errors import ConsumerBusy, EndOfSegment
from txn.segment.subscription.keeper import CursorKeeper
from txn.segment.subscription.values import (
    CONSUMERS_MAX,
    READ_BYTES_MAX,
    READ_ENTRIES_MAX,
    UNACKED_CONSUMER_MAX,
    UNACKED_SUBSCRIPTION_MAX,
    Delivery,
    Readable,
    SubscriptionKind,
    VisibleEntry,
)


class Dispatcher:
    """Who is attached to a subscription, and what they get."""

    def __init__(
        self, subscription: str, log: SegmentLog, readable: Readable, keeper: CursorKeeper, backlog: Backlog
    ) -> None:
        self.consumers: list[Consumer] = []
        """In the order in which they came."""
        self.ends_changed: Callable[[], None] = lambda: None
        """Told when `is_drained` may be another answer."""
        self._subscription = subscription
        self._log = log
        self._readable = readable
        self._keeper = keeper
        self._backlog = backlog
        self._turns: deque[Consumer] = deque()
        """Whose turn it is, in a shared subscription."""
        self._wake = asyncio.Event()
        self._wake.set()
        self._is_at_end = False
        """Whether nothing will be appended, or become readable, behind what may be read now."""
        self._is_full = False
        """Whether somebody gets nothing because too much is not acknowledged."""

    # -- who is attached

    def attach(self, name: str, kind: SubscriptionKind) -> Consumer:
        """Another consumer. ConsumerBusy if those that are there do not allow it."""
        others = self.consumers
        if others and (kind is not others[0].kind or kind is SubscriptionKind.EXCLUSIVE):
            raise ConsumerBusy(
                f"the subscription {self._subscription!r} has {len(others)} consumers of kind "
                f"{others[0].kind.value}, {others[0].name!r} first: one of kind {kind.value} has to wait"
            )
        if len(others) >= CONSUMERS_MAX:
            raise ConsumerBusy(
                f"the subscription {self._subscription!r} has {len(others)} consumers: at most {CONSUMERS_MAX} "
                "(CONSUMERS_MAX)"
            )
        consumer = Consumer(name, kind, self)
        consumer.is_active = kind is SubscriptionKind.SHARED or not others
        self._backlog.is_ordered = kind.is_ordered
        self.consumers.append(consumer)
        self._turns.append(consumer)
        self.wake()
        return consumer

    def detach(self, consumer: Consumer) -> None:
        """A consumer goes; what it has comes again."""
        self.consumers.remove(consumer)
        self._turns.remove(consumer)
        if not self.consumers:
            self._backlog.restart(self._keeper.state.mark)
            return
        self._backlog.come_again(self._of(consumer))
        if not consumer.kind.is_ordered:
            self.wake()
        elif consumer.is_active:
            self.consumers[0].is_active = True
            self.consumers[0].notice()
            self.wake()

    def negative_acknowledge(self, consumer: Consumer, positions: Iterable[Position]) -> None:
        """A consumer wants others, or itself, to have these again."""
        own = self._backlog.outstanding
        found = {each for each in positions if each in own and own[each].consumer is consumer}
        self._backlog.come_again(found)
        self.wake()

    def current(self, consumer: Consumer, delivery: Delivery) -> Delivery | None:
        """What waits for a consumer, by what is acknowledged now; None if it is not the consumer's any more."""
        position = delivery.position
        found = self._backlog.outstanding.get(position)
        if found is None or found.consumer is not consumer or found.redeliveries != delivery.redeliveries:
            return None
        share = self._backlog.claimed(position, found.messages)
        if share == WHOLE:
            # Somebody acknowledges it just now; should that fail, it comes again because nobody has it.
            self._backlog.acknowledged(position)
            return None
        return delivery._replace(acknowledged=share) if share.bits else delivery

    def _of(self, consumer: Consumer) -> list[Position]:
        return [at for at, outstanding in self._backlog.outstanding.items() if outstanding.consumer is consumer]

    # -- the end

    @property
    def is_drained(self) -> bool:
        """Whether the segment is sealed, and everything in it is acknowledged, durably."""
        return self._is_at_end and self._keeper.durable.normalise(self._log.lengths).mark >= self._log.lengths.end

    def end_of_segment(self) -> TxnError:
        """What consumers are told then."""
        return EndOfSegment(
            f"the segment {self._log.segment!r} is sealed, and {self._subscription!r} has acknowledged everything in "
            "it: go on with its successors"
        )

    def end(self, error: TxnError) -> None:
        """Every consumer raises this from now on."""
        for consumer in self.consumers:
            consumer.end(error)

    # -- delivering

    def wake(self) -> None:
        """There may be something to do."""
        self._wake.set()

    def acknowledged(self) -> None:
        """Something was acknowledged, durably."""
        if self._is_full or self._is_at_end:
            self._wake.set()

    async def follow_bound(self) -> None:
        """Wakes the dispatcher whenever more may be read, until nothing ever will."""
        seen = self._readable.bound
        while await self._readable.wait_moved(seen):
            seen = self._readable.bound
            self.wake()
        self._is_at_end = True
        self.wake()

    async def run(self) -> None:
        """Delivers, until it is cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while await self._deliver_some():
                pass
            if self._is_at_end:
                await self._finish()

    async def _deliver_some(self) -> bool:
        """Reads once, and hands out what there is. Whether it may be worth to do so again."""
        room = self._room()
        if room <= 0:
            return False
        start, count = self._wanted(room)
        bound = self._readable.bound
        if start >= bound or count <= 0:
            return False
        epoch, is_again = self._backlog.epoch, bool(self._backlog.again)
        try:
            found = await self._log.read(start, count, READ_BYTES_MAX)
        except EntriesTrimmed as error:
            self._skip_trimmed(error.oldest)
            return True
        entries = [each for each in found if each.position < bound]
        visible = await self._readable.filter(entries)
        if epoch != self._backlog.epoch:
            return True  # something is to come again, from before what was read
        if is_again:
            self._hand_out_again([each.position for each in entries], visible)
        else:
            behind = _behind(entries[-1].position) if entries else bound
            self._hand_out(visible, self._log.lengths.ceiling(behind))
        return True

    def _room(self) -> int:
        """How many entries somebody could get now."""
        self._is_full = self._backlog.unacked >= UNACKED_SUBSCRIPTION_MAX or any(
            each.unacked >= UNACKED_CONSUMER_MAX for each in self.consumers
        )
        if self._backlog.unacked >= UNACKED_SUBSCRIPTION_MAX:
            return 0
        return min(READ_ENTRIES_MAX, sum(each.permits for each in self.consumers if _may_get(each)))

    def _wanted(self, room: int) -> tuple[Position, int]:
        """What to read next: where, and how many entries."""
        again = self._backlog.again
        if not again:
            at = self._log.lengths.ceiling(self._backlog.read_at)
            self._backlog.read_at = max(at, self._keeper.state.mark)
            return self._backlog.read_at, room
        first: Position = again[0]
        count = 0
        for count, each in enumerate(islice(again, room), 1):
            if each != Position(first.ledger, first.entry + count - 1):
                return first, count - 1
        return first, count

    def _skip_trimmed(self, oldest: Position) -> None:
        again = self._backlog.again
        del again[: again.bisect_left(oldest)]
        if self._backlog.read_at < oldest:
            self._backlog.read_to(oldest)

    def _hand_out_again(self, read: Sequence[Position], visible: Sequence[VisibleEntry]) -> None:
        """What came again, as far as somebody takes it; what is not there, or is nobody's to deliver, is forgotten."""
        assert read, "what was delivered once is there"
        again = self._backlog.again
        undelivered = self._give([each for each in visible if each.position in again])
        kept = {each.position for each in undelivered}
        again.difference_update(position for position in read if position not in kept)

    def _hand_out(self, visible: Sequence[VisibleEntry], behind: Position) -> None:
        undelivered = self._give(visible)
        self._backlog.read_to(undelivered[0].position if undelivered else behind)

    def _give(self, visible: Sequence[VisibleEntry]) -> Sequence[VisibleEntry]:
        """Gives entries to consumers; those for which nobody has room."""
        backlog = self._backlog
        for place, (position, entry) in enumerate((each.position, each.entry) for each in visible):
            if position in backlog.outstanding:
                continue
            share = backlog.claimed(position, entry.message_count)
            if share == WHOLE:
                continue
            consumer = self._next_consumer()
            if consumer is None:
                return visible[place:]
            backlog.deliver(position, consumer, entry.message_count)
            redeliveries = backlog.outstanding[position].redeliveries
            consumer.give(Delivery(position, entry, redeliveries, share if share.bits else None, backlog.epoch))
        return ()

    def _next_consumer(self) -> Consumer | None:
        """Who gets the next entry."""
        if self._backlog.unacked >= UNACKED_SUBSCRIPTION_MAX:
            return None
        for _ in range(len(self._turns)):
            consumer = self._turns[0]
            self._turns.rotate(-1)
            if _may_get(consumer):
                return consumer
        return None

    async def _finish(self) -> None:
        """At the end of the segment: what is nobody's is passed, durably, and consumers are told when all is done."""
        lengths = self._log.lengths
        state = self._backlog.passed(self._keeper.state).normalise(lengths)
        if state.mark >= lengths.end and not self.is_drained:
            await asyncio.shield(self._keeper.flush())
        if self.is_drained:
            for consumer in self.consumers:
                consumer.notice()
        self.ends_changed()


def _may_get(consumer: Consumer) -> bool:
    return consumer.is_active and consumer.has_room and consumer.unacked < UNACKED_CONSUMER_MAX


def _behind(position: Position) -> Position:
    return Position(position.ledger, position.entry + 1)
