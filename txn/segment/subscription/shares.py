"""The backlog where an entry is shared among consumers, message by message: key-shared subscriptions.

The messages of an entry are told apart by their *buckets*. What of an entry is in one bucket is a *share*: it is given
to one consumer, acknowledged, and comes again as a whole. All shares of a bucket that are outstanding are with the same
consumer, the bucket's *holder*; and it comes again to him what he has taken: see `owed`.

Shares that were read and cannot be given wait in the line of their bucket, in order; and nothing of a bucket is given
while something older waits in its line. So of each bucket everything is given in its order. What comes again comes with
everything of its bucket behind it that is outstanding. Of what is waiting only the positions are kept.

What lies behind something that a transaction holds is withheld in the same way from all but who has acknowledged that.
Who was given it, and had not taken it yet when somebody else acknowledged it, late, is not that one: it never sees it.

Where it is not at hand which buckets an entry has left that comes again, it waits as *unknown*, and whatever is behind
it waits for it, until it was read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from sortedcontainers import SortedSet

from txn.model.position import Position
from txn.segment.cursor import CursorState
from txn.segment.log import START
from txn.segment.subscription.backlog import Backlog
from txn.segment.subscription.claims import Claims
from txn.segment.subscription.consumer import Consumer
from txn.segment.subscription.delays import Delays
from txn.segment.subscription.hands import LastHands, acknowledged_bits
from txn.segment.subscription.owed import Owed
from txn.segment.subscription.pending import PendingAcks, covers
from txn.segment.subscription.values import Nack
from txn.segment.subscription.withheld import Withheld


class Share(NamedTuple):
    """What of an entry is with a consumer, of one bucket."""

    consumer: Consumer
    bits: int
    """Which messages: bit 0 is the first."""
    redeliveries: int

    @property
    def messages(self) -> int:
        """How many."""
        return self.bits.bit_count()


class SharedEntry(NamedTuple):
    """An entry of which somebody has something."""

    messages: int
    shares: dict[int, Share]
    """By bucket."""

    def bits_of(self, consumer: Consumer | None) -> int:
        """What of it a consumer has."""
        return sum(share.bits for share in self.shares.values() if share.consumer is consumer)

    @property
    def bits(self) -> int:
        """What of it anybody has."""
        return sum(share.bits for share in self.shares.values())


class Shares(Backlog):
    """Who has what of which entries, and what waits for whom."""

    def __init__(
        self, cursor: Callable[[], CursorState], pending: PendingAcks, redeliveries_max: int, delays: Delays
    ) -> None:
        super().__init__(cursor, pending, redeliveries_max, delays)
        self.outstanding: dict[Position, SharedEntry] = {}
        self.lines: dict[int, SortedSet[Position]] = {}
        """What waits, by bucket; only those in which something does."""
        self.waiting = 0
        """How much waits in all of them."""
        self.unknown: SortedSet[Position] = SortedSet()
        """What waits for being read again."""
        self.holders: dict[int, Consumer] = {}
        """Who has something of a bucket."""
        self._held: dict[int, SortedSet[Position]] = {}
        """The entries of which it is."""
        self._untaken: dict[Position, int] = {}
        """Messages that wait for the consumers that they were given to."""
        self.withheld = Withheld()
        self._last_hands = LastHands(redeliveries_max)
        self.owed = Owed()

    @property
    def to_redeliver(self) -> int:
        return self.waiting + len(self.unknown)

    def messages_of(self, position: Position) -> int | None:
        found = self.outstanding.get(position)
        return None if found is None else found.messages

    # -- waiting

    def wait(self, bucket: int, position: Position) -> None:
        """Something of an entry waits in the line of its bucket."""
        line = self.lines.get(bucket)
        if line is None:
            line = self.lines[bucket] = SortedSet()
        if position not in line:
            line.add(position)
            self.waiting += 1

    def stop_waiting(self, bucket: int, position: Position) -> None:
        """Nothing of it waits there."""
        line = self.lines.get(bucket)
        if line is not None and position in line:
            line.remove(position)
            self.waiting -= 1
            if not line:
                del self.lines[bucket]

    def forget(self, position: Position) -> None:
        """Nothing of an entry waits anywhere."""
        self.unknown.discard(position)
        for bucket in [bucket for bucket, line in self.lines.items() if position in line]:
            self.stop_waiting(bucket, position)

    def is_first(self, bucket: int, position: Position) -> bool:
        """Whether nothing older of a bucket waits, as far as that is known."""
        line = self.lines.get(bucket)
        is_first_known = line is None or line[0] >= position
        return is_first_known and (not self.unknown or self.unknown[0] >= position)

    def is_withheld(self, bucket: int, position: Position, consumer: Consumer) -> bool:
        """Whether something of a bucket must not be given before a transaction is decided; see `withheld`."""
        return self.withheld.is_behind(bucket, position, consumer) or self._pending.holds_up_to(self._cursor())

    def note_held(self, position: Position, parts: Mapping[int, int]) -> None:
        """An entry was read, of which these messages are of these buckets: nobody knows who had what is held of it."""
        held = self._pending.share_alone(position).bits
        if held:
            entry = self.outstanding.get(position)
            for bucket, bits in parts.items():
                share = None if entry is None else entry.shares.get(bucket)
                found = bits & held & ~(0 if share is None else share.bits)
                if found:
                    self.withheld.note(position, bucket, None, found)

    def read_to(self, position: Position) -> None:
        self.read_at = position  # what waits was read, and never delivered

    # -- giving

    def give(self, position: Position, messages: int, bucket: int, consumer: Consumer, bits: int) -> None:
        """A consumer gets a share, or more of one that it has."""
        assert self.holders.get(bucket, consumer) is consumer, "a bucket is with one consumer at a time"
        entry = self.outstanding.get(position)
        if entry is None:
            entry = self.outstanding[position] = SharedEntry(messages, {})
        known = entry.shares.get(bucket)
        assert known is None or not known.bits & bits, "a message is with one consumer at a time"
        redeliveries = self.redeliveries(position)
        entry.shares[bucket] = Share(consumer, bits if known is None else known.bits | bits, redeliveries)
        self.holders[bucket] = consumer
        held = self._held.get(bucket)
        if held is None:
            held = self._held[bucket] = SortedSet()
        held.add(position)
        self._untaken[position] = self._untaken.get(position, 0) | bits
        self.unacked += bits.bit_count()
        consumer.unacked += bits.bit_count()

    def take(self, position: Position, consumer: Consumer, bits: int, parts: Callable[[], Mapping[int, int]]) -> int:
        """A consumer comes for messages that it was given; those that it gets.

        Somebody else may have acknowledged some of them meanwhile. If that is in doubt, what lies behind it in its
        bucket is to come behind it: all of that comes again. `parts` says which messages of the entry are of which
        bucket.
        """
        held = bits & self._pending.share_alone(position).bits
        if held:
            passed_over = (bucket for bucket, found in parts().items() if found & held)
            self.take_back({each: position for each in passed_over if self.holders.get(each) is consumer})
        entry = self.outstanding.get(position)
        if entry is None:
            return 0
        claimed = self.claimed(position, entry.messages).bits
        got = bits & entry.bits_of(consumer) & self._untaken.get(position, 0) & ~claimed
        if got:
            self._note_taken(position, got)
            self._last_hands.taken(position, got)
        else:
            self.acknowledged(position)
        return got

    def in_others_hands(self, position: Position, consumer: Consumer) -> int:
        """Which messages of an entry are not this consumer's to acknowledge: somebody else has taken them, or had them
        last. What waits for somebody to take it he will not get any more."""
        found = self._last_hands.of_others(position, consumer)
        entry = self.outstanding.get(position)
        if entry is not None:
            others = sum(each.bits for each in entry.shares.values() if not each.consumer.is_same(consumer))
            found |= others & ~self._untaken.get(position, 0)
        return found

    def _note_taken(self, position: Position, bits: int) -> None:
        left = self._untaken.get(position, 0) & ~bits
        if left:
            self._untaken[position] = left
        else:
            self._untaken.pop(position, None)

    def _take(self, position: Position, bucket: int) -> Share:
        entry = self.outstanding[position]
        share = entry.shares.pop(bucket)
        self._note_held_of(position, bucket, share)
        self._note_taken(position, share.bits)
        if not entry.shares:
            del self.outstanding[position]
        held = self._held[bucket]
        held.remove(position)
        if not held:
            del self._held[bucket], self.holders[bucket]
        self.unacked -= share.messages
        share.consumer.unacked -= share.messages
        return share

    def _let_go(self, position: Position, bucket: int) -> Share:
        """A share is with nobody now. Who had it last is remembered, for as long as it may come again."""
        taken = self.outstanding[position].shares[bucket].bits & ~self._untaken.get(position, 0)
        share = self._take(position, bucket)
        free = ~acknowledged_bits(self._cursor(), position)
        self._last_hands.note(position, share.consumer, taken & free)
        return share

    def _note_held_of(self, position: Position, bucket: int, share: Share) -> None:
        """What transactions hold of a share was its consumer's, if that has taken it."""
        held = share.bits & self._pending.share_alone(position).bits
        if held:
            is_unseen = held & self._untaken.get(position, 0)
            self.withheld.note(position, bucket, None if is_unseen else share.consumer, held)

    # -- what comes back

    def acknowledged(self, position: Position) -> None:
        entry = self.outstanding.get(position)
        done = acknowledged_bits(self._cursor(), position)
        self._last_hands.taken(position, done)
        self.owed.acknowledged(position, done)
        if entry is None:
            return
        claimed = self.claimed(position, entry.messages).bits
        for bucket, share in entry.shares.items():
            self._note_held_of(position, bucket, share)
        for bucket in [bucket for bucket, share in entry.shares.items() if not share.bits & ~claimed]:
            self._let_go(position, bucket)
        if claimed & (1 << entry.messages) - 1 == (1 << entry.messages) - 1:
            self._counts.pop(position, None)

    def acknowledged_up_to(self, position: Position) -> None:
        for each in [each for each in self.outstanding if each <= position]:
            self.acknowledged(each)
        self.owed.forget_before(self._cursor().mark)

    def _take_back(self, position: Position, bucket: int) -> Share:
        """A share comes again: to who has taken it, for as long as he is there."""
        share = self._let_go(position, bucket)
        taken = share.bits & self._last_hands.of(position, share.consumer)
        if taken:
            self.owed.add(bucket, position, share.consumer, taken)
        self._remember(position, share.redeliveries + 1)
        return share

    def take_back(self, since: Mapping[int, Position]) -> None:
        """Of these buckets everything that is outstanding comes again, from those positions on."""
        lost: dict[Consumer, dict[Position, int]] = {}
        for bucket, first in since.items():
            held = self._held.get(bucket)
            for position in list(held.irange(first)) if held is not None else ():
                share = self._take_back(position, bucket)
                self.wait(bucket, position)
                of_consumer = lost.setdefault(share.consumer, {})
                of_consumer[position] = of_consumer.get(position, 0) | share.bits
        for consumer, messages in lost.items():
            consumer.withdraw_messages(messages)

    def take_back_from(self, consumer: Consumer, nacks: Iterable[Nack]) -> None:
        """What a consumer has of these comes again: to him, whichever delivery he means."""
        since: dict[int, Position] = {}
        for position, bits, _ in nacks:
            entry = self.outstanding.get(position)
            for bucket, share in entry.shares.items() if entry is not None else ():
                if share.consumer is consumer and share.bits & bits:
                    since[bucket] = min(position, since.get(bucket, position))
        self.take_back(since)

    def take_all_back_from(self, consumer: Consumer) -> None:
        """A consumer goes: all that it has comes again."""
        self.take_back({bucket: START for bucket, holder in self.holders.items() if holder is consumer})
        self.owed.forget(consumer)

    def give_back(self, claims: Claims, *, was_aborted: bool) -> None:
        cursor = self._cursor()
        for position, freed in claims.shares.items():
            self.withheld.released(position, self._pending.share_alone(position).bits)
            entry = self.outstanding.get(position)
            if cursor.is_acknowledged(position) or position >= self.read_at:
                continue
            if entry is not None:
                if not was_aborted and not freed.bits & ~entry.bits & (1 << entry.messages) - 1:
                    continue
                met = [bucket for bucket, share in entry.shares.items() if share.bits & freed.bits]
                self.take_back(dict.fromkeys(met if was_aborted else (), position))
            if position not in self._counts:
                self._remember(position, 1)
            self.unknown.add(position)
        is_reach_free = claims.reach is not None and not covers(cursor, claims.reach)
        is_all_free = is_reach_free and (was_aborted or cursor.mark not in self.outstanding)
        if is_all_free or len(self.unknown) > self._redeliveries_max:
            self.restart(cursor.mark)

    def due(self, positions: Collection[Position]) -> None:
        for position in positions:
            if position not in self._counts:
                self._remember(position, 0)
        self.unknown.update(each for each in positions if each < self.read_at)

    def restart(self, position: Position) -> None:
        for consumer in set(self.holders.values()):
            consumer.withdraw(START)
        for at, entry in list(self.outstanding.items()):
            for bucket in list(entry.shares):
                self._take_back(at, bucket)
        self.lines.clear()
        self.waiting = 0
        self.unknown.clear()
        self.delays.clear()
        self.withheld.forget_before(position)
        self.owed.forget_before(position)
        self._reached = max(self._reached, self.read_at)
        self.read_at = position
        self.epoch += 1

    def trimmed(self, oldest: Position) -> None:
        for bucket in list(self.lines):
            for position in list(self.lines[bucket].irange(maximum=oldest, inclusive=(True, False))):
                self.stop_waiting(bucket, position)
        del self.unknown[: self.unknown.bisect_left(oldest)]
        self.owed.forget_before(oldest)
        if self.read_at < oldest:
            self.read_to(oldest)

    # -- what is nobody's

    def _is_somebodys(self, position: Position) -> bool:
        is_here = position in self.outstanding or position in self.unknown or position in self.delays.positions
        return is_here or self._is_waiting(position) or self._pending.share(position).bits != 0

    def _is_waiting(self, position: Position) -> bool:
        return any(position in line for line in self.lines.values())

    def _somebodys(self) -> Iterable[Position]:
        yield from self.outstanding
        yield from self.unknown
        yield from self.delays.positions
        for line in self.lines.values():
            yield from line
        yield from self._pending.positions()
