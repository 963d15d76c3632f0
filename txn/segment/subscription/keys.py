"""Messages for whoever has their key: key-shared subscriptions.

The lower half of a key's hash is in one of some *buckets*, which are divided among the consumers in the order of their
names. An entry may have messages for several consumers: each gets it, with a mask of what is not for him. Nothing in it
is looked into but the hashes that it bears; what bears none goes by the hash 0.

When consumers come and go, buckets move. What the one before has of a bucket and has not acknowledged holds it back
from the next one: so of each key the order is kept, as far as anybody works at what he was given. If it comes again
meanwhile it comes to him (`owed`). And what lies behind
something that an open transaction holds is given to nobody but who has acknowledged that: see `withheld`. An entry
whose time has not come is held back, and overtaken. But where the consumers come by a division of a topic they are
those of a stream, which keeps the order of keys whether they share the segment or one of them has it: no entry waits
for its time there.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from heapq import merge
from itertools import chain, takewhile

from txn.model.position import Position
from txn.segment.cursor import Ack, BatchBits
from txn.segment.entry import Entry
from txn.segment.errors import InvalidAck
from txn.segment.log import LedgerLengths
from txn.segment.subscription import values
from txn.segment.subscription.claims import WHOLE
from txn.segment.subscription.consumer import Consumer, given_bits, without
from txn.segment.subscription.shares import Shares
from txn.segment.subscription.values import (
    READ_ENTRIES_MAX,
    UNACKED_SUBSCRIPTION_MAX,
    Delivery,
    Nack,
    VisibleEntry,
)
from txn.segment.subscription.ways import Wanted, is_full, may_get, read_together


def spread(buckets: int, consumers: Sequence[tuple[str, int]]) -> list[int]:
    """Which consumer, of these names and numbers, has each of so many buckets: the place of it among them.

    Names are put in order as UTF-16, which is how other brokers of the same kind do it.
    """
    order = sorted(
        range(len(consumers)), key=lambda at: (consumers[at][0].encode("utf-16-be", "surrogatepass"), consumers[at][1])
    )
    owners: list[int] = []
    for number, place in enumerate(order, 1):
        owners += [place] * (number * buckets // len(order) - len(owners))
    return owners


def parts_of(entry: Entry, starts: Sequence[int]) -> dict[int, int]:
    """Which messages of an entry are of which bucket; bit 0 is the first."""
    messages = entry.message_count
    if not entry.key_hashes:
        return {0: (1 << messages) - 1}
    halves = struct.unpack(f"<{2 * messages}H", entry.key_hashes)[::2]
    if messages == 1:
        return {bisect_right(starts, halves[0]) - 1: 1}
    found: dict[int, bytearray] = {}
    for index, half in enumerate(halves):
        bucket = bisect_right(starts, half) - 1
        bits = found.get(bucket)
        if bits is None:
            bits = found[bucket] = bytearray((messages + 7) // 8)
        bits[index >> 3] |= 1 << (index & 7)
    return {bucket: int.from_bytes(bits, "little") for bucket, bits in found.items()}


class ByKey:
    """Gives messages to consumers."""

    def __init__(
        self,
        backlog: Shares,
        consumers: Sequence[Consumer],
        lengths: Callable[[], LedgerLengths],
        mark: Callable[[], Position],
    ) -> None:
        self.backlog = backlog
        self.is_held_up = False
        self._consumers = consumers
        self._lengths = lengths
        self._mark = mark
        self._starts: tuple[int, ...] = (0,)
        self._owners: list[Consumer] = []
        """By bucket."""
        self._holds_back = True
        """Whether entries wait for their time."""

    # -- who is there

    def attached(self, consumer: Consumer) -> None:
        consumer.is_active = True
        self._starts = consumer.asking.starts
        self._holds_back = consumer.asking.assigned is None  # all who are there have one, or none has
        self._divide()

    def detached(self, consumer: Consumer) -> None:
        if not self._consumers:
            self.backlog.withheld.clear()
            self.backlog.restart(self._mark())
            self.backlog.owed.forget(consumer)
            return
        self.backlog.take_all_back_from(consumer)
        self._divide()

    def _divide(self) -> None:
        places = spread(len(self._starts), [(each.name, each.number) for each in self._consumers])
        self._owners = [self._consumers[place] for place in places]

    def negative_acknowledge(self, consumer: Consumer, nacks: Iterable[Nack]) -> None:
        self.backlog.take_back_from(consumer, nacks)

    def current(self, consumer: Consumer, delivery: Delivery) -> Delivery | None:
        entry, wanted = delivery.entry, given_bits(delivery)
        got = self.backlog.take(delivery.position, consumer, wanted, lambda: parts_of(entry, self._starts))
        return delivery if got == wanted else without(delivery, wanted & ~got)

    def own_part(self, consumer: Consumer | None, ack: Ack, messages: int | None) -> Ack:
        """An acknowledgement of an entry as its consumer means it: of the messages that he has, on this stream and now.

        `messages` is how many the entry has, if that is known. InvalidAck if he has none, and there are several.
        """
        found = self.backlog.outstanding.get(ack.position)
        bits = 0 if found is None else found.bits_of(consumer)
        if messages is None or messages == 1:
            return ack
        claimed = self.backlog.claimed(ack.position, messages)
        if claimed == WHOLE or bits & ~claimed.bits == (1 << messages) - 1:
            return ack
        if not bits:
            raise InvalidAck(
                f"an acknowledgement of all {messages} messages at {ack.position}, of which this consumer has none, in "
                "a key-shared subscription: say which messages"
            )
        own = bits & ~claimed.bits or bits
        indexes = tuple(index for index in range(messages) if own >> index & 1)
        return Ack(ack.position, batch=indexes, batch_size=messages)

    def in_others_hands(self, position: Position, consumer: Consumer) -> int:
        return self.backlog.in_others_hands(position, consumer)

    # -- what to read

    def wanted(self) -> Wanted | None:
        backlog = self.backlog
        room = self._room()
        if room <= 0:
            return None
        again = self._next_waiting(room)
        if again:
            return Wanted.again(again, backlog.epoch)
        if backlog.waiting >= values.WAITING_MAX or backlog.delays.is_full:
            return None
        backlog.read_at = max(self._lengths().ceiling(backlog.read_at), self._mark())
        return Wanted(backlog.read_at, room, False, backlog.epoch)

    def _room(self) -> int:
        """How many entries somebody could get now, as far as permits tell."""
        backlog = self.backlog
        is_too_much = backlog.unacked >= UNACKED_SUBSCRIPTION_MAX
        holders = chain(backlog.holders.items(), backlog.owed.consumers.items())
        is_moving = any(self._owners[bucket] is not holder for bucket, holder in holders)
        self.is_held_up = is_too_much or is_moving or any(map(is_full, self._consumers))
        if is_too_much:
            return 0
        return min(READ_ENTRIES_MAX, sum(each.permits for each in self._consumers if may_get(each)))

    def _next_waiting(self, room: int) -> list[Position]:
        """The first of what waits and somebody may have, in order: so many at most, and near enough for one read."""
        backlog = self.backlog
        lines = (takewhile(partial(self._is_open, bucket), line) for bucket, line in backlog.lines.items())
        return read_together(merge(backlog.unknown, *lines), room)

    def _is_open(self, bucket: int, position: Position) -> bool:
        """Whether who is to have what is there of a bucket can be given it."""
        to = self._to(bucket, position)
        return to is not None and may_get(to) and not self.backlog.is_withheld(bucket, position, to)

    def _to(self, bucket: int, position: Position) -> Consumer | None:
        """Who is to have what is there of a bucket: its owner, when others are done with it; or who is owed it, and all
        before that. None: nobody yet."""
        owner, owed = self._owners[bucket], self.backlog.owed
        creditor = owed.consumers.get(bucket)
        if owed.reaches(bucket, position):
            return creditor
        holders = (self.backlog.holders.get(bucket), creditor)
        return owner if all(each is None or each is owner for each in holders) else None

    # -- giving

    def hand_out(
        self, wanted: Wanted, read: Sequence[Position], visible: Sequence[VisibleEntry], behind: Position
    ) -> None:
        backlog = self.backlog
        if wanted.epoch != backlog.epoch:
            return  # everything begins anew
        if wanted.is_again:
            assert read, "what waits is there"
            for each in visible:
                self._share_out(each.position, each.entry)
            for position in {*read}.difference(each.position for each in visible):
                backlog.forget(position)
            return
        delays = backlog.delays
        for position, entry in ((each.position, each.entry) for each in visible):
            is_early = self._holds_back and entry.deliver_at_ms > 0 and delays.is_early(entry)
            if backlog.waiting >= values.WAITING_MAX or (is_early and delays.is_full):
                backlog.read_to(position)
                return
            if not is_early:
                self._share_out(position, entry)
            elif position not in delays.positions:
                delays.hold(position, entry.deliver_at_ms)
        backlog.read_to(behind)

    def _share_out(self, position: Position, entry: Entry) -> None:
        """Gives what of an entry is left to whom it is for; what cannot be given waits."""
        backlog, messages = self.backlog, entry.message_count
        claimed = backlog.claimed(position, messages)
        parts = parts_of(entry, self._starts)
        backlog.note_held(position, parts)
        if claimed == WHOLE:
            backlog.forget(position)
            return
        parts = {bucket: bits & ~claimed.bits for bucket, bits in parts.items()}
        if position in backlog.unknown:
            backlog.unknown.remove(position)
            self._come_before_newer(position, parts)
        held = backlog.outstanding.get(position)
        given: dict[Consumer, int] = {}
        redeliveries = backlog.redeliveries(position)
        for bucket, bits in parts.items():
            left = bits if held is None or bucket not in held.shares else bits & ~held.shares[bucket].bits
            taker = self._taker(bucket, position, len(entry.payload)) if left else None
            if taker is not None:
                given[taker] = given.get(taker, 0) | left
                backlog.give(position, messages, bucket, taker, left)
            if left and taker is None:
                backlog.wait(bucket, position)
            else:
                backlog.stop_waiting(bucket, position)
        everything = (1 << messages) - 1
        for taker, bits in given.items():
            mask = None if bits == everything else BatchBits(messages, everything & ~bits)
            taker.give(Delivery(position, entry, redeliveries, mask, backlog.epoch, backlog.era))

    def _come_before_newer(self, position: Position, parts: dict[int, int]) -> None:
        """What comes again was given before: so what is newer of its buckets, and outstanding, comes behind it."""
        if self.backlog.redeliveries(position):
            held = self.backlog.outstanding.get(position)
            known = {} if held is None else held.shares
            again = [bucket for bucket, bits in parts.items() if bits & ~(known[bucket].bits if bucket in known else 0)]
            self.backlog.take_back(dict.fromkeys(again, position))

    def _taker(self, bucket: int, position: Position, size: int) -> Consumer | None:
        """Who can be given something of a bucket now; None if it has to wait."""
        backlog = self.backlog
        if backlog.unacked >= UNACKED_SUBSCRIPTION_MAX or not backlog.is_first(bucket, position):
            return None
        to = self._to(bucket, position)
        return to if to is not None and self._is_open(bucket, position) and to.fits(size) else None
