"""The backlog where an entry is with one consumer at a time: exclusive, shared and failover subscriptions.

In an ordered subscription what comes again comes with everything behind it that is not acknowledged, so that order is
kept; in a shared one single entries come again, until they are too many to be told one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from sortedcontainers import SortedSet

from txn.model.position import Position
from txn.segment.cursor import CursorState
from txn.segment.log import START
from txn.segment.subscription.backlog import Backlog
from txn.segment.subscription.claims import WHOLE, Claims
from txn.segment.subscription.consumer import Consumer
from txn.segment.subscription.delays import Delays
from txn.segment.subscription.pending import PendingAcks, covers, covers_all


class Outstanding(NamedTuple):
    """An entry that a consumer has and has not acknowledged."""

    consumer: Consumer
    messages: int
    redeliveries: int


class WholeEntries(Backlog):
    """Who has which entries, and which are to come again."""

    def __init__(
        self, cursor: Callable[[], CursorState], pending: PendingAcks, redeliveries_max: int, delays: Delays
    ) -> None:
        super().__init__(cursor, pending, redeliveries_max, delays)
        self.is_ordered = True
        self.again: SortedSet[Position] = SortedSet()
        """What is to be delivered again, one by one."""
        self.outstanding: dict[Position, Outstanding] = {}

    @property
    def to_redeliver(self) -> int:
        return len(self.again)

    def messages_of(self, position: Position) -> int | None:
        found = self.outstanding.get(position)
        return None if found is None else found.messages

    def deliver(self, position: Position, consumer: Consumer, messages: int) -> None:
        """A consumer gets it."""
        assert position not in self.outstanding, "an entry is with one consumer at a time"
        self.outstanding[position] = Outstanding(consumer, messages, self.redeliveries(position))
        self.unacked += messages
        consumer.unacked += messages
        self.again.discard(position)

    def is_kept_waiting(self, position: Position) -> bool:
        """Whether nothing is given from there on until it is known whether what is held there is recorded."""
        return self.is_ordered and self._pending.is_unsure(position)

    # -- what comes back

    def acknowledged(self, position: Position) -> None:
        found = self.outstanding.get(position)
        if found is not None and self.claimed(position, found.messages) == WHOLE:
            self._take(position, found)
            self._counts.pop(position, None)

    def acknowledged_up_to(self, position: Position) -> None:
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
        self._wait_again(found)

    def due(self, positions: Collection[Position]) -> None:
        for position in positions:
            if position not in self._counts:
                self._remember(position, 0)
        self._wait_again(each for each in positions if each < self.read_at)

    def _wait_again(self, positions: Iterable[Position]) -> None:
        self.again.update(positions)
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
        cursor = self._cursor()
        if self.is_ordered and was_aborted:
            if not covers_all(cursor, claims):
                self.go_back(cursor.mark)  # all that is not acknowledged: it is of another era now
            return
        free = [each for each in claims.shares if was_aborted or each not in self.outstanding]
        self.come_again(each for each in free if not cursor.is_acknowledged(each))
        is_reach_free = claims.reach is not None and not covers(cursor, claims.reach)
        if is_reach_free and (was_aborted or cursor.mark not in self.outstanding):
            self.go_back(cursor.mark)

    def restart(self, position: Position) -> None:
        self._withdraw(START)
        self.again.clear()
        self.delays.clear()
        self.read_at = position
        self.epoch += 1

    def trimmed(self, oldest: Position) -> None:
        del self.again[: self.again.bisect_left(oldest)]
        if self.read_at < oldest:
            self.read_to(oldest)

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
            self._remember(position, found.redeliveries + 1)

    def _take(self, position: Position, found: Outstanding) -> None:
        del self.outstanding[position]
        self.unacked -= found.messages
        found.consumer.unacked -= found.messages

    # -- what is nobody's

    def _is_somebodys(self, position: Position) -> bool:
        is_here = position in self.outstanding or position in self.again or position in self.delays.positions
        return is_here or self._pending.share(position).bits != 0

    def _somebodys(self) -> Iterable[Position]:
        yield from self.outstanding
        yield from self.again
        yield from self.delays.positions
        yield from self._pending.positions()
