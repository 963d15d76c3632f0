"""Which messages somebody has acknowledged in a transaction: a set of messages that is said in few words.

An acknowledgement is about a whole entry, about some messages of it (a *part*), or about everything up to somewhere. So
is a set of them; what of an entry belongs to it is its *share* of the entry.
"""

from __future__ import annotations

from collections.abc import Iterator

from txn.model.position import Position
from txn.segment.cursor import PART_WEIGHT, RANGE_WEIGHT, Ack, BatchBits
from txn.segment.errors import InvalidAck

WHOLE = BatchBits(0, -1)
"""The share that is all of an entry, however many messages that has."""
NOTHING = BatchBits(0, 0)


def share_of(ack: Ack) -> BatchBits:
    """What an acknowledgement is about, of the entry that it names."""
    bits = ack.bits
    return WHOLE if bits is None or bits.is_whole else bits


def joined(position: Position, one: BatchBits, other: BatchBits) -> BatchBits:
    """Two shares of the same entry together."""
    if WHOLE in (one, other):
        return WHOLE
    if not one.bits or not other.bits:
        return one if one.bits else other
    check_sizes(position, one, other)
    both = BatchBits(one.size, one.bits | other.bits)
    return WHOLE if both.is_whole else both


def overlap(position: Position, one: BatchBits, other: BatchBits) -> bool:
    """Whether two shares of the same entry have a message in common."""
    if one.bits and other.bits and WHOLE not in (one, other):
        check_sizes(position, one, other)
    return one.bits & other.bits != 0


def check_sizes(position: Position, one: BatchBits, other: BatchBits) -> None:
    """InvalidAck if two shares of the same entry do not agree about how many messages that has."""
    if one.size != other.size:
        raise InvalidAck(f"the batch at {position} has {other.size} messages, not {one.size}")


class Claims:
    """The messages that one transaction has acknowledged."""

    def __init__(self) -> None:
        self.shares: dict[Position, BatchBits] = {}
        """Of the entries that are acknowledged one by one."""
        self.reach: Ack | None = None
        """The cumulative acknowledgement that reaches farthest."""
        self.weight = 0
        """What a cursor needs for them at most, in bytes."""

    def __bool__(self) -> bool:
        return bool(self.shares) or self.reach is not None

    def __len__(self) -> int:
        return len(self.shares) + (self.reach is not None)

    def share(self, position: Position) -> BatchBits:
        """What of an entry belongs to the set."""
        return joined(position, self.shares.get(position, NOTHING), reached(self.reach, position))

    def covers(self, ack: Ack) -> bool:
        """Whether the set has all that the acknowledgement is about."""
        if ack.is_cumulative:
            return self.reach is not None and is_within(ack, self.reach)
        wanted = share_of(ack)
        return joined(ack.position, self.share(ack.position), wanted) == self.share(ack.position)

    def add(self, ack: Ack) -> None:
        """Adds what an acknowledgement is about."""
        if ack.is_cumulative:
            if self.reach is None:
                self.weight += RANGE_WEIGHT + part_weight(ack.batch_size)
            elif not is_within(self.reach, ack):
                return
            else:
                self.weight += part_weight(ack.batch_size) - part_weight(self.reach.batch_size)
            self.reach = ack
            return
        known = self.shares.get(ack.position, NOTHING)
        share = self.shares[ack.position] = joined(ack.position, known, share_of(ack))
        self.weight += self._weight(ack.position, share) - self._weight(ack.position, known)

    def acks(self) -> Iterator[Ack]:
        """Acknowledgements that are about just these messages."""
        if self.reach is not None:
            yield self.reach
        for position, (size, bits) in self.shares.items():
            batch = () if size == 0 else tuple(index for index in range(size) if bits >> index & 1)
            yield Ack(position, batch=batch, batch_size=size)

    def _weight(self, position: Position, share: BatchBits) -> int:
        """What a share adds beside its neighbours: entries in a row are one range, and joining two saves one."""
        if not share.bits:
            return 0
        if share != WHOLE:
            return part_weight(share.size) + RANGE_WEIGHT
        before, behind = Position(position.ledger, position.entry - 1), Position(position.ledger, position.entry + 1)
        rows = (self.shares.get(before) == WHOLE) + (self.shares.get(behind) == WHOLE)
        return RANGE_WEIGHT * (1 - rows)


def part_weight(size: int) -> int:
    """What an entry takes of which only some messages are acknowledged."""
    return PART_WEIGHT + size // 4 if size else 0


def reached(reach: Ack | None, position: Position) -> BatchBits:
    """The share of an entry that belongs to a cumulative acknowledgement."""
    if reach is None or position > reach.position:
        return NOTHING
    return WHOLE if position < reach.position else share_of(reach)


def is_within(one: Ack, other: Ack) -> bool:
    """Whether a cumulative acknowledgement reaches no farther than another."""
    if one.position != other.position:
        return one.position < other.position
    first, second = share_of(one), share_of(other)
    return joined(one.position, first, second) == second
