"""The backlog where an entry is with one consumer at a time: exclusive, shared and failover subscriptions.

In an ordered subscription what comes again comes with everything behind it that is not acknowledged, so that order is
kept; in a shared one single messages come again, until they are too many to be told one by one. As long as a consumer
has any message of an entry, the others of it come again to him: so a message that he may still show to his application
is never with somebody else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from sortedcontainers import SortedSet

from txn.model.position import Position
from txn.segment.cursor import CursorState
from txn.segment.log import START
from txn.segment.subscription.backlog import Backlog
from txn.segment.subscription.claims import WHOLE, Claims
from txn.segment.subscription.consumer import Consumer
from txn.segment.subscription.delays import Delays
from txn.segment.subscription.hands import LastHands, acknowledged_bits
from txn.segment.subscription.pending import PendingAcks, covers, covers_all
from txn.segment.subscription.values import Nack


@dataclass(slots=True)
class Outstanding:
    """An entry that a consumer has and has not acknowledged."""

    consumer: Consumer
    messages: int
    given: dict[int, int] = field(default_factory=dict)
    """Which messages he was given and has not given back, by how often the entry had been delivered before."""
    taken: int = 0
    """Which messages he has taken."""

    @property
    def redeliveries(self) -> int:
        """How often it was delivered before the last time."""
        return max(self.given, default=0)

    @property
    def bits(self) -> int:
        """Which messages he was given and has not given back."""
        return sum(self.given.values())

    def strip(self, bits: int, redeliveries: int | None = None) -> int:
        """He has these no more, or those of them that came by one delivery: which they were."""
        stripped = 0
        for each in list(self.given) if redeliveries is None else [redeliveries]:
            found = self.given.get(each, 0) & bits
            stripped |= found
            if found:
                self.given[each] &= ~found
        return stripped


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
        self.returned: dict[Consumer, SortedSet[Position]] = {}
        """Entries of which something is to be delivered again to who has the rest of them."""
        self._last_hands = LastHands(redeliveries_max)

    @property
    def to_redeliver(self) -> int:
        return len(self.again)

    def messages_of(self, position: Position) -> int | None:
        found = self.outstanding.get(position)
        return None if found is None else found.messages

    def deliver(self, position: Position, consumer: Consumer, messages: int, bits: int) -> int:
        """A consumer gets these messages of it; how often the entry was delivered before."""
        redeliveries = self.redeliveries(position)
        found = self.outstanding.get(position)
        if found is None:
            found = self.outstanding[position] = Outstanding(consumer, messages)
            self.unacked += messages
            consumer.unacked += messages
        assert found.consumer is consumer, "an entry is with one consumer at a time"
        found.given[redeliveries] = found.given.get(redeliveries, 0) | bits
        self.again.discard(position)
        self.not_returned(position, consumer)
        return redeliveries

    def take(self, position: Position, consumer: Consumer, bits: int, redeliveries: int) -> int:
        """A consumer comes for messages that it was given; those that it gets."""
        found = self.outstanding.get(position)
        if found is None or found.consumer is not consumer:
            return 0
        claimed = self.claimed(position, found.messages)
        got = bits & found.given.get(redeliveries, 0) & ~claimed.bits
        found.taken |= got
        if not self.is_ordered:
            self._last_hands.taken(position, got)
        if not got:
            # Somebody acknowledges it just now; should that fail, it comes again because nobody has it.
            self.acknowledged(position)
        return got

    def left_of(self, position: Position, messages: int) -> int:
        """Which messages of an entry are neither acknowledged nor held, and with nobody."""
        claimed = self.claimed(position, messages)
        found = self.outstanding.get(position)
        return (1 << messages) - 1 & ~claimed.bits & ~(0 if found is None else found.bits)

    def in_others_hands(self, position: Position, consumer: Consumer) -> int:
        """Which messages of an entry are not this consumer's to acknowledge: somebody else has taken them, or had them
        last. What waits for somebody to take it he will not get any more."""
        if self.is_ordered:
            return 0
        found = self.outstanding.get(position)
        others = 0 if found is None or found.consumer.is_same(consumer) else found.bits & found.taken
        return others | self._last_hands.of_others(position, consumer)

    def is_kept_waiting(self, position: Position) -> bool:
        """Whether nothing is given from there on until it is known whether what is held there is recorded."""
        return self.is_ordered and self._pending.is_unsure(position)

    # -- what comes back

    def acknowledged(self, position: Position) -> None:
        found = self.outstanding.get(position)
        if not self.is_ordered:
            self._last_hands.taken(position, acknowledged_bits(self._cursor(), position))
        if found is None:
            return
        claimed = self.claimed(position, found.messages)
        if claimed == WHOLE:
            self._take(position, found)
            self._counts.pop(position, None)
        elif not self.is_ordered and not found.bits & ~claimed.bits:
            self._take(position, found)  # he is done with all that he has
            self._wait_again([position])

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

    def take_back(self, consumer: Consumer, nack: Nack) -> None:
        """A consumer gives messages back: others may get them, if he has nothing else of the entry."""
        found = self.outstanding.get(nack.position)
        if found is not None and found.consumer is consumer:
            self._return(nack.position, found, nack.bits, nack.redeliveries)

    def _return(self, position: Position, found: Outstanding, bits: int, redeliveries: int | None = None) -> None:
        times = found.redeliveries if redeliveries is None else redeliveries
        back = found.strip(bits, redeliveries)
        if back:
            self._note_hands(position, found, back)
            self._remember(position, max(times + 1, self._counts.get(position, 0)))
        claimed = self.claimed(position, found.messages)
        if not found.bits & ~claimed.bits:
            self._take(position, found)
            self._wait_again([position])
        elif self.left_of(position, found.messages):
            self.returned.setdefault(found.consumer, SortedSet()).add(position)

    def _note_hands(self, position: Position, found: Outstanding, bits: int) -> None:
        if not self.is_ordered:
            free = ~acknowledged_bits(self._cursor(), position)
            self._last_hands.note(position, found.consumer, bits & found.taken & free)

    def not_returned(self, position: Position, consumer: Consumer) -> None:
        """Nothing of it is to be delivered again to who has the rest."""
        waiting = self.returned.get(consumer)
        if waiting is not None:
            waiting.discard(position)
            if not waiting:
                del self.returned[consumer]

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
        free = [each for each in claims.shares if not cursor.is_acknowledged(each)]
        if self.is_ordered:
            self.come_again(each for each in free if each not in self.outstanding)
        else:
            for position in free:
                found = self.outstanding.get(position)
                if found is None:
                    self.come_again([position])
                else:
                    self._return(position, found, claims.shares[position].bits if was_aborted else 0)
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
        for consumer, waiting in list(self.returned.items()):
            for position in list(waiting.irange(maximum=oldest, inclusive=(True, False))):
                self.not_returned(position, consumer)
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
            self._note_hands(position, found, found.bits)
            self._take(position, found)
            self._remember(position, max(found.redeliveries + 1, self._counts.get(position, 0)))

    def _take(self, position: Position, found: Outstanding) -> None:
        del self.outstanding[position]
        self.not_returned(position, found.consumer)
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
