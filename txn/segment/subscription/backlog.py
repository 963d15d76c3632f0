"""What of a segment is still to be delivered in a subscription, and who has what: decisions, no I/O.

Everything before `read_at` is acknowledged, or held by a transaction, or outstanding with a consumer, or waits to come
again; or it is nobody's: void, or of an aborted transaction, and then the mark may pass it. What lies at or behind
`read_at` is to be read. Going back is moving `read_at` back: what is acknowledged, held or outstanding is skipped when
it is read once more.

In an ordered subscription what comes again comes with everything behind it that is not acknowledged, so that order is
kept; in a shared one single entries come again, until they are too many to be told one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from sortedcontainers import SortedSet

from txn.model.position import Position
from txn.segment.cursor import AckedRange, BatchBits, CursorState
from txn.segment.log import START
from txn.segment.subscription.claims import NOTHING, WHOLE, Claims, joined
from txn.segment.subscription.consumer import Consumer
from txn.segment.subscription.pending import PendingAcks, covers

COMPACTION_RANGES_MIN = 256
"""So many ranges of a cursor are looked through for gaps that are nobody's; then again when they are twice as many."""


class Outstanding(NamedTuple):
    """An entry that a consumer has and has not acknowledged."""

    consumer: Consumer
    messages: int
    redeliveries: int


class Backlog:
    """The state of delivery in one subscription."""

    def __init__(self, cursor: Callable[[], CursorState], pending: PendingAcks, redeliveries_max: int) -> None:
        self.read_at = cursor().mark
        self.is_ordered = True
        self.epoch = 0
        """Grows whenever what was read meanwhile must not be delivered any more."""
        self.again: SortedSet[Position] = SortedSet()
        """What is to be delivered again, one by one."""
        self.outstanding: dict[Position, Outstanding] = {}
        self.unacked = 0
        """Messages that are outstanding."""
        self._cursor = cursor
        self._pending = pending
        self._redeliveries_max = redeliveries_max
        self._reached = self.read_at
        """Everything before it has been read once."""
        self._counts: dict[Position, int] = {}
        """How often an entry was delivered, of those that came back."""
        self._compacted_ranges = COMPACTION_RANGES_MIN // 2

    # -- what to deliver

    def claimed(self, position: Position, messages: int) -> BatchBits:
        """What of an entry is acknowledged or held; WHOLE if nothing is left to deliver."""
        cursor = self._cursor()
        if cursor.is_acknowledged(position):
            return WHOLE
        share = joined(position, cursor.batches.get(position, NOTHING), self._pending.share(position))
        return WHOLE if share.size <= messages and share.bits == (1 << messages) - 1 else share

    def redeliveries(self, position: Position) -> int:
        """How often it was delivered before."""
        return self._counts.get(position, 1 if position < self._reached else 0)

    def deliver(self, position: Position, consumer: Consumer, messages: int) -> None:
        """A consumer gets it."""
        assert position not in self.outstanding, "an entry is with one consumer at a time"
        self.outstanding[position] = Outstanding(consumer, messages, self.redeliveries(position))
        self.unacked += messages
        consumer.unacked += messages
        self.again.discard(position)

    def read_to(self, position: Position) -> None:
        """Everything before it was looked at, and delivered if it was to be."""
        self.read_at = position
        self._reached = max(self._reached, position)

    # -- what comes back

    def acknowledged(self, position: Position) -> None:
        """Something of an entry was acknowledged, or recorded by a transaction."""
        found = self.outstanding.get(position)
        if found is not None and self.claimed(position, found.messages) == WHOLE:
            self._take(position, found)
            self._counts.pop(position, None)

    def acknowledged_up_to(self, position: Position) -> None:
        """The same for everything up to it."""
        found = []
        for each in self.outstanding:
            if each <= position:
                found.append(each)
            elif self.is_ordered:
                break  # they were delivered in their order
        for each in found:
            self.acknowledged(each)

    def come_again(self, positions: Iterable[Position]) -> None:
        """Entries are to be delivered again, whoever has them."""
        found = [each for each in positions if each < self.read_at or each in self.outstanding]
        if not found:
            return
        if self.is_ordered:
            self.go_back(min(found))
            return
        for position in found:
            self._count(position)
        self.again.update(found)
        if len(self.again) > self._redeliveries_max:
            self.go_back(self.again[0])

    def go_back(self, position: Position) -> None:
        """Reading goes back; in an ordered subscription all that is outstanding behind that comes again as well."""
        if self.is_ordered:
            self._withdraw(position)
        self.again.clear()
        self.read_at = min(self.read_at, position)
        self.epoch += 1

    def give_back(self, claims: Claims, *, was_aborted: bool) -> None:
        """What a transaction held is free again.

        After an abort it all comes again, also what somebody still has: it was acknowledged, so nobody works at it any
        more. What could not be recorded stays with the consumer that has it, to be acknowledged once more.
        """
        cursor = self._cursor()
        free = [each for each in claims.shares if was_aborted or each not in self.outstanding]
        self.come_again(each for each in free if not cursor.is_acknowledged(each))
        is_reach_free = claims.reach is not None and not covers(cursor, claims.reach)
        if is_reach_free and (was_aborted or cursor.mark not in self.outstanding):
            self.go_back(cursor.mark)

    def restart(self, position: Position) -> None:
        """Nobody has anything any more: a seek, or the last consumer has gone."""
        self._withdraw(START)
        self.again.clear()
        self.read_at = position
        self.epoch += 1

    def _withdraw(self, position: Position) -> None:
        """What is outstanding from there on is not any more."""
        found = [each for each in self.outstanding if each >= position]
        for consumer in {self.outstanding[each].consumer for each in found}:
            consumer.withdraw(position)
        for each in found:
            self._count(each)

    def _count(self, position: Position) -> None:
        """An entry comes back that may have been delivered."""
        found = self.outstanding.get(position)
        if found is not None:
            self._take(position, found)
            self._counts[position] = found.redeliveries + 1
            if len(self._counts) > self._redeliveries_max:
                del self._counts[next(iter(self._counts))]

    def _take(self, position: Position, found: Outstanding) -> None:
        del self.outstanding[position]
        self.unacked -= found.messages
        found.consumer.unacked -= found.messages

    # -- what is nobody's

    def passed(self, cursor: CursorState) -> CursorState:
        """The cursor, once it has passed what is behind the dispatcher and is nobody's."""
        if cursor.mark < self.read_at and not self._is_somebodys(cursor.mark):
            first = min((each for each in self._somebodys() if each > cursor.mark), default=self.read_at)
            mark = min(first, self.read_at)
            ranges = tuple(each for each in cursor.ranges if each.end > mark)
            if ranges and ranges[0].start <= mark:
                mark, ranges = ranges[0].end, ranges[1:]
            cursor = CursorState(mark, ranges, {at: cursor.batches[at] for at in cursor.batches if at >= mark})
        if len(cursor.ranges) >= max(COMPACTION_RANGES_MIN, 2 * self._compacted_ranges):
            cursor = self._compacted(cursor)
            self._compacted_ranges = len(cursor.ranges)
        return cursor

    def _compacted(self, cursor: CursorState) -> CursorState:
        """Joins ranges with nothing between them that is anybody's."""
        somebodys = SortedSet(self._somebodys())
        ranges = [cursor.ranges[0]]
        for each in cursor.ranges[1:]:
            place = somebodys.bisect_left(ranges[-1].end)
            is_clear = place == len(somebodys) or somebodys[place] >= each.start
            if is_clear and each.start <= self.read_at:
                ranges[-1] = AckedRange(ranges[-1].start, each.end)
            else:
                ranges.append(each)
        return CursorState(cursor.mark, tuple(ranges), cursor.batches)

    def _is_somebodys(self, position: Position) -> bool:
        is_here = position in self.outstanding or position in self.again
        return is_here or self._pending.share(position).bits != 0

    def _somebodys(self) -> Iterable[Position]:
        yield from self.outstanding
        yield from self.again
        yield from self._pending.positions()

