"""What of a segment is still to be delivered in a subscription: what all kinds have in common. Decisions, no I/O.

Everything before `read_at` is acknowledged, or held by a transaction, or outstanding with a consumer, or waits: to come
again, for its time, or for the one consumer that may get it. Or it is nobody's: void, or of an aborted transaction, and
then the mark may pass it. What lies at or behind `read_at` is to be read. Going back is moving `read_at` back: what is
acknowledged, held or outstanding is skipped when it is read once more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from sortedcontainers import SortedSet

from txn.model.position import Position
from txn.segment.cursor import AckedRange, BatchBits, CursorState
from txn.segment.subscription.claims import NOTHING, WHOLE, Claims, joined
from txn.segment.subscription.delays import Delays
from txn.segment.subscription.pending import PendingAcks

COMPACTION_RANGES_MIN = 256
"""So many ranges of a cursor are looked through for gaps that are nobody's; then again when they are twice as many."""


class Backlog(ABC):
    """The state of delivery in one subscription."""

    outstanding: Mapping[Position, object]
    """Entries of which somebody has something."""

    def __init__(
        self, cursor: Callable[[], CursorState], pending: PendingAcks, redeliveries_max: int, delays: Delays
    ) -> None:
        self.read_at = cursor().mark
        self.epoch = 0
        """Grows whenever what was read meanwhile must not be delivered any more."""
        self.unacked = 0
        """Messages that are outstanding."""
        self.delays = delays
        self._cursor = cursor
        self._pending = pending
        self._redeliveries_max = redeliveries_max
        self._reached = self.read_at
        """Everything before it has been read once."""
        self._counts: dict[Position, int] = {}
        """How often an entry was delivered, of those that came back, or were read long before."""
        self._compacted_ranges = COMPACTION_RANGES_MIN // 2

    # -- what to deliver

    def claimed(self, position: Position, messages: int) -> BatchBits:
        """What of an entry is acknowledged or held; WHOLE if nothing is left to deliver."""
        cursor = self._cursor()
        if cursor.is_acknowledged(position):
            return WHOLE
        share = joined(position, cursor.batches.get(position, NOTHING), self._pending.share(position))
        return WHOLE if share.size <= messages and share.bits == (1 << messages) - 1 else share

    @property
    def era(self) -> int:
        """Of what is delivered now."""
        return self._cursor().era

    def redeliveries(self, position: Position) -> int:
        """How often it was delivered before."""
        return self._counts.get(position, 1 if position < self._reached else 0)

    def read_to(self, position: Position) -> None:
        """Everything before it was looked at, and delivered if it was to be."""
        self.read_at = position
        self._reached = max(self._reached, position)

    @property
    @abstractmethod
    def to_redeliver(self) -> int:
        """How many entries wait to be delivered, though they were read before."""

    @abstractmethod
    def messages_of(self, position: Position) -> int | None:
        """How many messages an entry has that somebody has."""

    # -- what comes back

    @abstractmethod
    def acknowledged(self, position: Position) -> None:
        """Something of an entry was acknowledged, or recorded by a transaction."""

    @abstractmethod
    def acknowledged_up_to(self, position: Position) -> None:
        """The same for everything up to it."""

    @abstractmethod
    def give_back(self, claims: Claims, *, was_aborted: bool) -> None:
        """What a transaction held is free again.

        After an abort it all comes again, also what somebody still has: it was acknowledged, so nobody works at it any
        more. What could not be recorded stays with the consumer that has it, to be acknowledged once more.
        """

    @abstractmethod
    def due(self, positions: Collection[Position]) -> None:
        """The time of entries has come that were held back."""

    @abstractmethod
    def restart(self, position: Position) -> None:
        """Nobody has anything any more: a seek, or the last consumer has gone."""

    @abstractmethod
    def trimmed(self, oldest: Position) -> None:
        """What lies before it is not there any more."""

    def _remember(self, position: Position, count: int) -> None:
        self._counts[position] = count
        if len(self._counts) > self._redeliveries_max:
            del self._counts[next(iter(self._counts))]

    # -- what is nobody's

    @abstractmethod
    def _is_somebodys(self, position: Position) -> bool:
        """Whether an entry before `read_at` is outstanding, held, or waits."""

    @abstractmethod
    def _somebodys(self) -> Iterable[Position]:
        """All of them, in any order."""

    def passed(self, cursor: CursorState) -> CursorState:
        """The cursor, once it has passed what is behind the dispatcher and is nobody's."""
        if cursor.mark < self.read_at and not self._is_somebodys(cursor.mark):
            first = min((each for each in self._somebodys() if each > cursor.mark), default=self.read_at)
            mark = min(first, self.read_at)
            ranges = tuple(each for each in cursor.ranges if each.end > mark)
            if ranges and ranges[0].start <= mark:
                mark, ranges = ranges[0].end, ranges[1:]
            batches = {at: cursor.batches[at] for at in cursor.batches if at >= mark}
            cursor = replace(cursor, mark=mark, ranges=ranges, batches=batches)
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
        return replace(cursor, ranges=tuple(ranges))
