"""Whole entries for whoever's turn it is: exclusive, shared and failover subscriptions.

A consumer that does not keep up asks for nothing, and gets nothing; the others of a shared subscription get it. Of an
ordered one only the active consumer does. In a shared subscription an entry whose time has not come is held back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from txn.model.position import Position
from txn.segment.cursor import BatchBits
from txn.segment.entry import Entry
from txn.segment.log import LedgerLengths
from txn.segment.subscription.claims import WHOLE
from txn.segment.subscription.consumer import Consumer, given_bits, without
from txn.segment.subscription.entries import WholeEntries
from txn.segment.subscription.values import (
    READ_ENTRIES_MAX,
    UNACKED_SUBSCRIPTION_MAX,
    Delivery,
    Nack,
    SubscriptionKind,
    VisibleEntry,
)
from txn.segment.subscription.ways import Wanted, is_full, may_get, read_together


class InTurn:
    """Gives entries to consumers."""

    def __init__(
        self,
        backlog: WholeEntries,
        consumers: Sequence[Consumer],
        lengths: Callable[[], LedgerLengths],
        mark: Callable[[], Position],
    ) -> None:
        self.backlog = backlog
        self.is_held_up = False
        self._consumers = consumers
        self._lengths = lengths
        self._mark = mark
        self._turns: deque[Consumer] = deque()
        """Whose turn it is, in a shared subscription."""
        self._holds_back = False
        """Whether entries wait for their time."""

    # -- who is there

    def attached(self, consumer: Consumer) -> None:
        consumer.is_active = consumer.kind is SubscriptionKind.SHARED or self._consumers[0] is consumer
        self.backlog.is_ordered = consumer.kind.is_ordered
        self._holds_back = not consumer.kind.is_ordered
        self._turns.append(consumer)

    def detached(self, consumer: Consumer) -> None:
        self._turns.remove(consumer)
        if not self._consumers:
            self.backlog.restart(self._mark())
            return
        self.backlog.come_again(self._of(consumer))
        if consumer.kind.is_ordered and consumer.is_active:
            self._consumers[0].is_active = True
            self._consumers[0].notice()

    def negative_acknowledge(self, consumer: Consumer, nacks: Iterable[Nack]) -> None:
        if not self.backlog.is_ordered:
            for nack in nacks:
                self.backlog.take_back(consumer, nack)
            return
        own = self.backlog.outstanding
        positions = {each.position for each in nacks}
        self.backlog.come_again({each for each in positions if each in own and own[each].consumer is consumer})

    def current(self, consumer: Consumer, delivery: Delivery) -> Delivery | None:
        wanted = given_bits(delivery)
        got = self.backlog.take(delivery.position, consumer, wanted, delivery.redeliveries)
        return delivery if got == wanted else without(delivery, wanted & ~got)

    def in_others_hands(self, position: Position, consumer: Consumer) -> int:
        return self.backlog.in_others_hands(position, consumer)

    def _of(self, consumer: Consumer) -> list[Position]:
        return [at for at, outstanding in self.backlog.outstanding.items() if outstanding.consumer is consumer]

    # -- what to read

    def wanted(self) -> Wanted | None:
        room, backlog = self._room(), self.backlog
        if room <= 0:
            return None
        for consumer, returned in backlog.returned.items():
            if may_get(consumer):
                return Wanted.again(read_together(returned, min(room, consumer.permits)), backlog.epoch)
        again = backlog.again
        if not again:
            if backlog.delays.is_full:
                return None
            backlog.read_at = max(self._lengths().ceiling(backlog.read_at), self._mark())
            if backlog.is_kept_waiting(backlog.read_at):
                self.is_held_up = True
                return None
            return Wanted(backlog.read_at, room, False, backlog.epoch)
        first: Position = again[0]
        count = 0
        for each in islice(again, room):
            if each != Position(first.ledger, first.entry + count):
                break
            count += 1
        return Wanted(first, count, True, backlog.epoch)

    def _room(self) -> int:
        """How many entries somebody could get now."""
        is_too_much = self.backlog.unacked >= UNACKED_SUBSCRIPTION_MAX
        self.is_held_up = is_too_much or any(map(is_full, self._consumers))
        if is_too_much:
            return 0
        return min(READ_ENTRIES_MAX, sum(each.permits for each in self._consumers if may_get(each)))

    # -- giving

    def hand_out(
        self, wanted: Wanted, read: Sequence[Position], visible: Sequence[VisibleEntry], behind: Position
    ) -> None:
        if wanted.epoch != self.backlog.epoch:
            return  # something is to come again, from before what was read
        if wanted.only is not None:
            self._hand_back(read, visible)
        elif wanted.is_again:
            self._hand_out_again(read, visible)
        else:
            undelivered = self._give(visible, self._holds_back)
            self.backlog.read_to(undelivered[0].position if undelivered else behind)

    def _hand_out_again(self, read: Sequence[Position], visible: Sequence[VisibleEntry]) -> None:
        """What came again, as far as somebody takes it; what is not there, or is nobody's to deliver, is forgotten."""
        assert read, "what was delivered once is there"
        again = self.backlog.again
        undelivered = self._give([each for each in visible if each.position in again], False)
        kept = {each.position for each in undelivered}
        again.difference_update(position for position in read if position not in kept)

    def _hand_back(self, read: Sequence[Position], visible: Sequence[VisibleEntry]) -> None:
        """Gives what has come back to who has the rest of its entry."""
        backlog = self.backlog
        entries = {each.position: each.entry for each in visible}
        for position in read:
            found, entry = backlog.outstanding.get(position), entries.get(position)
            if found is None:
                continue
            bits = 0 if entry is None else backlog.left_of(position, found.messages)
            if entry is None or not bits:
                backlog.not_returned(position, found.consumer)
            elif may_get(found.consumer) and found.consumer.fits(len(entry.payload)):
                self._hand(found.consumer, position, entry, bits)

    def _hand(self, consumer: Consumer, position: Position, entry: Entry, bits: int) -> None:
        backlog, everything = self.backlog, (1 << entry.message_count) - 1
        redeliveries = backlog.deliver(position, consumer, entry.message_count, bits)
        mask = None if bits == everything else BatchBits(entry.message_count, everything & ~bits)
        consumer.give(Delivery(position, entry, redeliveries, mask, backlog.epoch, backlog.era))

    def _give(self, visible: Sequence[VisibleEntry], holds_back: bool) -> Sequence[VisibleEntry]:
        """Gives entries to consumers; those for which nobody has room."""
        backlog = self.backlog
        for place, (position, entry) in enumerate((each.position, each.entry) for each in visible):
            if position in backlog.outstanding:
                continue
            share = backlog.claimed(position, entry.message_count)
            if share.bits and backlog.is_kept_waiting(position):
                return visible[place:]
            if share == WHOLE:
                continue
            if holds_back and entry.deliver_at_ms:
                delays = backlog.delays
                if position in delays.positions:
                    continue
                if delays.is_early(entry):
                    if delays.is_full:
                        return visible[place:]
                    delays.hold(position, entry.deliver_at_ms)
                    continue
            consumer = self._next_consumer(len(entry.payload))
            if consumer is None:
                return visible[place:]
            self._hand(consumer, position, entry, backlog.left_of(position, entry.message_count))
        return ()

    def _next_consumer(self, size: int) -> Consumer | None:
        """Who gets the next entry, of so many bytes."""
        if self.backlog.unacked >= UNACKED_SUBSCRIPTION_MAX:
            return None
        for _ in range(len(self._turns)):
            consumer = self._turns[0]
            self._turns.rotate(-1)
            if may_get(consumer) and consumer.fits(size):
                return consumer
        return None
