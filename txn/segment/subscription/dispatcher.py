"""Delivers what may be read to the consumers of a subscription, as fast as they ask for it.

One task reads a number of entries at a time and has them handed out; it sleeps until there is something to do: the
bound of what may be read has moved, somebody has asked for more, something is to come again, or its time has come.
Nothing is asked for twice in vain. Who gets what says the way of the subscription's kind. What one consumer, and all
together, have and do not acknowledge is bounded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence

from metastore.coordination import Pace
from txn.model.errors import TxnError
from txn.model.position import Position
from txn.segment.cursor import Ack
from txn.segment.errors import EntriesTrimmed
from txn.segment.log import SegmentLog
from txn.segment.subscription.attached import Attached
from txn.segment.subscription.backlog import Backlog
from txn.segment.subscription.consumer import Consumer
from txn.segment.subscription.delays import Delays
from txn.segment.subscription.entries import WholeEntries
from txn.segment.subscription.errors import EndOfSegment
from txn.segment.subscription.hands import acknowledged_bits, divided
from txn.segment.subscription.keeper import CursorKeeper
from txn.segment.subscription.keys import ByKey
from txn.segment.subscription.pending import PendingAcks
from txn.segment.subscription.shares import Shares
from txn.segment.subscription.turns import InTurn
from txn.segment.subscription.values import (
    READ_BYTES_MAX,
    REDELIVERIES_MAX,
    Asking,
    Delivery,
    Nack,
    Readable,
    SubscriptionKind,
)
from txn.segment.subscription.ways import Way


class Dispatcher:
    """Who is attached to a subscription, and what they get."""

    def __init__(
        self,
        subscription: str,
        log: SegmentLog,
        readable: Readable,
        keeper: CursorKeeper,
        pending: PendingAcks,
        pace: Pace,
    ) -> None:
        self.ends_changed: Callable[[], None] = lambda: None
        """Told when `is_drained` may be another answer."""
        self._subscription = subscription
        self._log = log
        self._readable = readable
        self._keeper = keeper
        self._attached = Attached(subscription)
        self._numbers = 0
        """Of the consumers that ever came."""
        self._delays = Delays(pace, self._due)
        cursor, consumers = (lambda: keeper.state), self._attached.consumers
        whole = WholeEntries(cursor, pending, REDELIVERIES_MAX, self._delays)
        shares = Shares(cursor, pending, REDELIVERIES_MAX, self._delays)
        self._in_turn = InTurn(whole, consumers, lambda: log.lengths, lambda: keeper.state.mark)
        self._by_key = ByKey(shares, consumers, lambda: log.lengths, lambda: keeper.state.mark)
        self._way: Way = self._in_turn
        self._wake = asyncio.Event()
        self._wake.set()
        self._is_at_end = False
        """Whether nothing will be appended, or become readable, behind what may be read now."""

    # -- who is attached

    @property
    def consumers(self) -> Sequence[Consumer]:
        """In the order in which they came."""
        return self._attached.consumers

    @property
    def backlog(self) -> Backlog:
        """What is to be delivered to those who are there."""
        return self._way.backlog

    def attach(self, asking: Asking) -> Consumer:
        """Another consumer. ConsumerBusy, ConsumerReplaced if those that are there do not allow it."""
        for each in self._attached.judge(asking):
            each.end(self._attached.replaced(each))
            self.detach(each)
        if not self.consumers:
            self._take_way(self._by_key if asking.kind is SubscriptionKind.KEY_SHARED else self._in_turn)
        self._numbers += 1
        consumer = Consumer(asking, self._numbers, self)
        self._attached.add(consumer)
        self._way.attached(consumer)
        self.wake()
        return consumer

    def _take_way(self, way: Way) -> None:
        if way is not self._way:
            self._way = way
            way.backlog.restart(self._keeper.state.mark)

    def detach(self, consumer: Consumer) -> None:
        """A consumer goes; what it has comes again."""
        self._attached.remove(consumer)
        self._way.detached(consumer)
        self.wake()

    def negative_acknowledge(self, consumer: Consumer, nacks: Iterable[Nack]) -> None:
        """A consumer wants others, or itself, to have these again."""
        self._way.negative_acknowledge(consumer, nacks)
        self.wake()

    def current(self, consumer: Consumer, delivery: Delivery) -> Delivery | None:
        """What waits for a consumer, by what is acknowledged now; None if it is not the consumer's any more."""
        return self._way.current(consumer, delivery)

    def own_part(self, consumer: Consumer | None, ack: Ack, messages: int | None) -> Ack:
        """An acknowledgement of an entry as its consumer means it; see `ByKey.own_part`."""
        return self._by_key.own_part(consumer, ack, messages) if self._way is self._by_key else ack

    def parted(self, acks: Iterable[Ack], consumer: Consumer | None) -> tuple[list[Ack], list[Ack]]:
        """What of these a consumer may acknowledge, and what is in others' hands; None: whoever says so may."""
        free: list[Ack] = []
        late: list[Ack] = []
        for ack in acks:
            others = 0 if consumer is None else self._way.in_others_hands(ack.position, consumer)
            if others:
                others &= ~acknowledged_bits(self._keeper.state, ack.position)
            own, foreign = divided(ack, others, self.backlog.messages_of(ack.position))
            free += own
            late += foreign
        return free, late

    @property
    def shares_entries(self) -> bool:
        """Whether several consumers may have parts of an entry."""
        return self._way is self._by_key

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
        self._delays.stop()
        for consumer in self.consumers:
            consumer.end(error)

    # -- delivering

    def wake(self) -> None:
        """There may be something to do."""
        self._wake.set()

    def acknowledged(self) -> None:
        """Something was acknowledged, durably."""
        if self._way.is_held_up or self._is_at_end or self._in_turn.backlog.again:
            self._wake.set()

    def _due(self, positions: Collection[Position]) -> None:
        self.backlog.due(positions)
        self.wake()

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
        way, bound = self._way, self._readable.bound
        wanted = way.wanted()
        if wanted is None or wanted.start >= bound:
            return False
        try:
            found = await self._log.read(wanted.start, wanted.entries, READ_BYTES_MAX)
        except EntriesTrimmed as error:
            self.backlog.trimmed(error.oldest)
            return True
        only = wanted.only
        entries = [each for each in found if each.position < bound and (only is None or each.position in only)]
        visible = await self._readable.filter(entries)
        if way is self._way:
            behind = _behind(entries[-1].position) if entries else bound
            way.hand_out(wanted, [each.position for each in entries], visible, self._log.lengths.ceiling(behind))
        return True

    async def _finish(self) -> None:
        """At the end of the segment: what is nobody's is passed, durably, and consumers are told when all is done."""
        lengths = self._log.lengths
        state = self.backlog.passed(self._keeper.state).normalise(lengths)
        if state.mark >= lengths.end and not self.is_drained:
            await asyncio.shield(self._keeper.flush())
        if self.is_drained:
            for consumer in self.consumers:
                consumer.notice()
        self.ends_changed()


def _behind(position: Position) -> Position:
    return Position(position.ledger, position.entry + 1)
