"""What a subscription has acknowledged of a segment: an immutable value, always in one normal form.

Everything before the *mark* is acknowledged. Behind it there may be ranges of acknowledged entries, and entries of
which single messages are. Bounds are positions as `LedgerLengths.ceiling` gives them, so a range that ends with a
ledger and one that begins with the next are one range, and what is trimmed away counts as acknowledged.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from operator import attrgetter
from typing import Any, NamedTuple

from txn.model.errors import RecordDamaged
from txn.model.fields import decoded_fields
from txn.model.position import Position
from txn.segment.errors import CursorTooLarge, InvalidAck
from txn.segment.log.ledgers import START, LedgerLengths

FORMAT = 1
CURSOR_BYTES_MAX = 512 << 10
"""What an encoded cursor may take, estimated from above; every store takes records of that size."""
BATCH_SIZE_MAX = 100_000
"""Messages of one entry."""
ERA_MAX = (1 << 63) - 1
ERAS_OF_TERM_BITS = 32
"""An owner of the segment numbers the eras that it begins from its term on, shifted by so many bits: so no era that one
began, and could not write down, is taken for another's."""

_CURSOR_BYTES = 200
_POSITION_BYTES = 42
"""Two numbers of 19 digits, and what stands between and around them."""
RANGE_WEIGHT = 2 * _POSITION_BYTES + 4
"""What a range takes."""
PART_WEIGHT = _POSITION_BYTES + 16
"""What an entry takes that is acknowledged in part, besides its bits."""
_HEX_BITS = 4


class AckedRange(NamedTuple):
    """Acknowledged entries from `start` to before `end`."""

    start: Position
    end: Position


class BatchBits(NamedTuple):
    """Which messages of an entry are acknowledged: bit 0 is the first. Never all of them, and never none."""

    size: int
    bits: int

    @property
    def is_whole(self) -> bool:
        return self.bits == (1 << self.size) - 1


@dataclass(frozen=True, slots=True)
class Ack:
    """An acknowledgement: of an entry, of some messages of it, or of everything up to that."""

    position: Position
    is_cumulative: bool = False
    batch: tuple[int, ...] = ()
    """Which messages of a batch entry; empty: all. If cumulative, the last of them and all before it."""
    batch_size: int = 0

    def __post_init__(self) -> None:
        if self.batch_size > BATCH_SIZE_MAX:
            raise InvalidAck(
                f"an acknowledgement in a batch of {self.batch_size} messages: at most {BATCH_SIZE_MAX} "
                "(BATCH_SIZE_MAX)"
            )
        if self.batch and not all(0 <= index < self.batch_size for index in self.batch):
            raise InvalidAck(f"messages {self.batch[:10]} of the batch of {self.batch_size} at {self.position}")

    @property
    def bits(self) -> BatchBits | None:
        """The messages it is about; None if it is about the whole entry."""
        if not self.batch:
            return None
        if self.is_cumulative:
            return BatchBits(self.batch_size, (1 << max(self.batch) + 1) - 1)
        return BatchBits(self.batch_size, sum(1 << index for index in set(self.batch)))


@dataclass(frozen=True, slots=True)
class CursorState:
    """A subscription's cursor. Two that acknowledge the same are equal, if the same was known of the ledgers."""

    mark: Position = START
    """The first entry that is not wholly acknowledged, or the bound behind all: where redelivery begins."""
    ranges: tuple[AckedRange, ...] = ()
    """Behind the mark, in order, with something between them."""
    batches: Mapping[Position, BatchBits] = field(default_factory=dict)
    """Entries that are acknowledged in part, neither before the mark nor in a range."""
    era: int = 0
    """Grows whenever messages come that were withheld, or were acknowledged: an abort, a seek. See `pending`."""

    def acknowledge(self, acks: Iterable[Ack], lengths: LedgerLengths) -> CursorState:
        """The cursor once all of these are acknowledged as well. CursorTooLarge if it would not fit into a record.

        InvalidAck for what is no entry; entries that are trimmed away have been some.
        """
        mark, ranges, batches = self.mark, list(self.ranges), dict(self.batches)
        for ack in acks:
            position, bits = ack.position, ack.bits
            if position >= lengths.oldest and not lengths.holds(position):
                raise InvalidAck(f"an acknowledgement of {position}, where no entry is")
            behind = Position(position.ledger, position.entry + 1)
            if bits is not None:
                bits = _joined(position, batches.get(position), bits)
                batches[position] = bits
            is_whole = bits is None or bits.is_whole
            if ack.is_cumulative:
                mark = max(mark, behind if is_whole else position)
            elif is_whole:
                ranges.append(AckedRange(position, behind))
        return _normalised(mark, ranges, batches, lengths, self.era)

    def merge(self, other: CursorState, lengths: LedgerLengths) -> CursorState:
        """What one of the two, or both together, acknowledge."""
        batches = dict(self.batches)
        for position, bits in other.batches.items():
            batches[position] = _joined(position, batches.get(position), bits)
        whole = [AckedRange(each, Position(each.ledger, each.entry + 1)) for each in batches if batches[each].is_whole]
        ranges = [*self.ranges, *other.ranges, *whole]
        return _normalised(max(self.mark, other.mark), ranges, batches, lengths, max(self.era, other.era))

    def normalise(self, lengths: LedgerLengths) -> CursorState:
        """The same, by what is known now: when a ledger is closed, or trimmed, neighbours are found."""
        return _normalised(self.mark, list(self.ranges), dict(self.batches), lengths, self.era)

    def next_era(self, term: int) -> int:
        """The era that an owner of this term begins next."""
        return max(self.era + 1, term << ERAS_OF_TERM_BITS)

    def is_acknowledged(self, position: Position, index: int | None = None) -> bool:
        """Whether an entry is, as a whole; or one message of it."""
        if position < self.mark:
            return True
        place = bisect_right(self.ranges, position, key=_start) - 1
        if place >= 0 and position < self.ranges[place].end:
            return True
        bits = self.batches.get(position)
        return index is not None and bits is not None and bits.bits >> index & 1 == 1

    @property
    def weight(self) -> int:
        """What it takes when it is encoded, estimated from above."""
        parts = sum(PART_WEIGHT + bits.size // _HEX_BITS for bits in self.batches.values())
        return _CURSOR_BYTES + RANGE_WEIGHT * len(self.ranges) + parts

    def encode(self) -> bytes:
        """The record's value."""
        fields: dict[str, Any] = {"format": FORMAT, "mark": str(self.mark)}
        if self.ranges:
            fields["ranges"] = [[str(start), str(end)] for start, end in self.ranges]
        if self.batches:
            fields["batches"] = [
                [str(position), size, f"{bits:x}"] for position, (size, bits) in sorted(self.batches.items())
            ]
        if self.era:
            fields["era"] = self.era
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes) -> CursorState:
        """Reads a record's value."""
        fields = decoded_fields("cursor", value, FORMAT)
        try:
            ranges = tuple(
                AckedRange(Position.parse(start), Position.parse(end)) for start, end in fields.get("ranges", ())
            )
            batches = {
                Position.parse(position): BatchBits(int(size), int(bits, 16))
                for position, size, bits in fields.get("batches", ())
            }
            state = cls(Position.parse(fields["mark"]), ranges, batches, int(fields.get("era", 0)))
        except (KeyError, ValueError, TypeError) as error:
            raise RecordDamaged(f"a cursor says {value[:200]!r}: {error!r}") from error
        state._check()
        return state

    def _check(self) -> None:
        """RecordDamaged unless it is something that `_normalised` could have made."""
        if not 0 <= self.era <= ERA_MAX:
            raise RecordDamaged(f"a cursor's era: {self.era}")
        bounds = [self.mark, *(bound for each in self.ranges for bound in each)]
        if any(left >= right for left, right in pairwise(bounds)):
            raise RecordDamaged(f"a cursor's ranges are not in order: {bounds[:10]}")
        for position, (size, bits) in self.batches.items():
            if not 0 < bits < (1 << size) - 1 or size > BATCH_SIZE_MAX or self.is_acknowledged(position):
                raise RecordDamaged(f"a cursor's messages of {position}: {bits:x} of {size}")


_start = attrgetter("start")


def _joined(position: Position, known: BatchBits | None, more: BatchBits) -> BatchBits:
    """Messages of the same entry together."""
    if known is None:
        return more
    if known.size != more.size:
        raise InvalidAck(f"the batch at {position} has {known.size} messages, not {more.size}")
    return BatchBits(more.size, known.bits | more.bits)


def _normalised(
    mark: Position,
    ranges: list[AckedRange],
    batches: dict[Position, BatchBits],
    lengths: LedgerLengths,
    era: int,
) -> CursorState:
    """The one form in which the same is always said."""
    mark = lengths.ceiling(mark)
    joined: list[AckedRange] = []
    for start, end in sorted(AckedRange(lengths.ceiling(start), lengths.ceiling(end)) for start, end in ranges):
        if start <= mark:
            mark = max(mark, end)
        elif joined and start <= joined[-1].end:
            joined[-1] = AckedRange(joined[-1].start, max(joined[-1].end, end))
        elif start < end:
            joined.append(AckedRange(start, end))
    whole = CursorState(mark, tuple(joined), era=era)
    state = replace(whole, batches={each: batches[each] for each in batches if not whole.is_acknowledged(each)})
    _check_size(state)
    return state


def _check_size(state: CursorState) -> None:
    if state.weight > CURSOR_BYTES_MAX:
        raise CursorTooLarge(
            f"a cursor with {len(state.ranges)} ranges and {len(state.batches)} entries in part, about "
            f"{state.weight} bytes: "
            f"at most {CURSOR_BYTES_MAX} (CURSOR_BYTES_MAX). Acknowledge older entries first, the one at {state.mark} "
            "above all"
        )
