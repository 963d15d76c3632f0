"""The bytes of a record that holds entries: some groups that were written together, or the end of a ledger.

    value = magic and format (4 bytes), kind (1), writer's mark (16), ledger (8), first entry (8), confirmed end (8),
            number of entries (4), the length of each (4), the entries, CRC-32 of all this (4); big-endian

A chunk says up to which entry its ledger was confirmed when it was sent. So whoever finds the newest chunk of a ledger
knows that nothing is missing before that entry, and has to look at few records only.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate, pairwise

from txn.model.errors import RecordDamaged
from txn.model.position import Position

_MAGIC = b"TSC\x01"
_HEAD = struct.Struct(">4sB16sQQQI")
_CHECKSUM = struct.Struct(">I")


class ChunkKind(Enum):
    """What a record in a ledger's place is."""

    ENTRIES = 1
    CLOSING = 2
    """A later owner has closed the ledger here: nothing follows."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A record in a ledger."""

    kind: ChunkKind
    first: Position
    mark: str
    """Of the owner who wrote it, 32 hexadecimal digits."""
    confirmed_end: int = 0
    """All entries of the ledger before this one were confirmed."""
    entries: Sequence[bytes] = ()

    @property
    def end(self) -> int:
        """The number of the entry behind it."""
        return self.first.entry + len(self.entries)

    def encode(self) -> bytes:
        """The record's value."""
        count = len(self.entries)
        head = _HEAD.pack(
            _MAGIC,
            self.kind.value,
            bytes.fromhex(self.mark),
            self.first.ledger,
            self.first.entry,
            self.confirmed_end,
            count,
        )
        body = b"".join((head, struct.pack(f">{count}I", *map(len, self.entries)), *self.entries))
        return body + _CHECKSUM.pack(zlib.crc32(body))

    @classmethod
    def decode(cls, position: Position, value: bytes) -> Chunk:
        """Reads the record that is stored at a position."""
        if value[:4] != _MAGIC or len(value) < _HEAD.size + _CHECKSUM.size:
            raise RecordDamaged(f"the record at {position} holds no entries that this version reads: {value[:40]!r}")
        if _CHECKSUM.unpack_from(value, len(value) - _CHECKSUM.size)[0] != zlib.crc32(value[: -_CHECKSUM.size]):
            raise RecordDamaged(f"the record at {position} fails its checksum")
        _, kind, mark, ledger, entry, confirmed_end, count = _HEAD.unpack_from(value)
        if Position(ledger, entry) != position:
            raise RecordDamaged(f"the record at {position} was written for {ledger}:{entry}")
        lengths = struct.unpack_from(f">{count}I", value, _HEAD.size)
        bounds = accumulate(lengths, initial=_HEAD.size + 4 * count)
        entries = tuple(value[start:end] for start, end in pairwise(bounds))
        return cls(ChunkKind(kind), position, mark.hex(), confirmed_end, entries)
