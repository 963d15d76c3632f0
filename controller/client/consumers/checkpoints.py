"""Checkpoints: where a reader is in every segment of a topic, as a value that an application may keep. Pure.

    one byte     0: positions follow; 1: EARLIEST; 2: LATEST (either of these is that byte alone)
    count        32 bits; then for each segment
    segment      64 bits, its id
    length       32 bits; so many bytes of text follow: LEDGER:ENTRY, or LEDGER:ENTRY/INDEX of a message in a batch

All numbers are big-endian, as Pulsar writes its checkpoints; what it says of a position is its own.

A position is that of the last message which was received: reading goes on behind it. Behind the last message of an
entry the index is INDEX_LAST. A segment that is not in a checkpoint began later: it is read from its beginning (H17).
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from controller.client.errors import InvalidRequest
from controller.client.values import EARLIEST, LATEST, Edge, Message, MessageId, Received

SEGMENTS_MAX = 100_000
"""Of one checkpoint."""
POSITION_BYTES_MAX = 64
INDEX_LAST = 999_999
"""Behind every message of an entry."""

_POSITIONS = 0
_EDGES = {1: EARLIEST, 2: LATEST}
_COUNT = struct.Struct(">i")
_SEGMENT = struct.Struct(">qi")


@dataclass(frozen=True)
class Checkpoint:
    """Where to go on. Begin with `Checkpoint.at(EARLIEST)`, or where a consumer says that it is."""

    positions: Mapping[int, MessageId | None] = field(default_factory=dict)
    """By segment: the last message that was received; None if none was, and the segment is to be read wholly."""
    edge: Edge | None = None
    """Or an end of every segment."""

    def __post_init__(self) -> None:
        if self.edge is not None and self.positions:
            raise InvalidRequest("a checkpoint is an end of the topic, or positions, not both")
        if len(self.positions) > SEGMENTS_MAX:
            raise InvalidRequest(f"a checkpoint of {len(self.positions)} segments: at most {SEGMENTS_MAX}")
        object.__setattr__(self, "positions", MappingProxyType(dict(self.positions)))

    def joined(self, *others: Checkpoint) -> Checkpoint:
        """Of several parts of one group: each segment where it was read farthest."""
        positions = dict(self.positions)
        for segment_id, position in (pair for other in others for pair in other.positions.items()):
            known = positions.get(segment_id)
            if known is None or (position is not None and position > known):
                positions[segment_id] = position
        return Checkpoint(positions)

    @classmethod
    def at(cls, edge: Edge) -> Checkpoint:
        """Before everything, or behind everything that there is."""
        return cls(edge=edge)

    def __hash__(self) -> int:
        return hash((self.edge, frozenset(self.positions.items())))

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(self.encode()).decode()

    @classmethod
    def parse(cls, text: str) -> Checkpoint:
        """Reads the form that `str` writes."""
        try:
            return cls.decode(base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True))
        except (binascii.Error, UnicodeEncodeError) as error:
            raise InvalidRequest(f"{text[:80]!r} is no checkpoint: {error}") from None

    def encode(self) -> bytes:
        """The checkpoint as bytes."""
        if self.edge is not None:
            return bytes([next(number for number, edge in _EDGES.items() if edge is self.edge)])
        parts = [bytes([_POSITIONS]), _COUNT.pack(len(self.positions))]
        for segment_id, position in sorted(self.positions.items()):
            text = b"" if position is None else str(position).encode()
            parts += [_SEGMENT.pack(segment_id, len(text)), text]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes) -> Checkpoint:
        """Reads the form that `encode` writes; InvalidRequest for anything else."""
        kind = data[0] if data else -1
        if kind in _EDGES and len(data) == 1:
            return cls(edge=_EDGES[kind])
        if kind != _POSITIONS:
            raise InvalidRequest(f"{len(data)} bytes that begin with {data[:1].hex() or 'nothing'} are no checkpoint")
        try:
            (count,) = _COUNT.unpack_from(data, 1)
            positions, at = _read(data, 1 + _COUNT.size, count)
        except (struct.error, UnicodeDecodeError) as error:
            raise InvalidRequest(f"a checkpoint of {len(data)} bytes is damaged: {error}") from None
        if at != len(data) or len(positions) != count:
            raise InvalidRequest(f"a checkpoint of {count} segments ends at byte {at} of {len(data)}")
        return cls(positions)


def behind(message: Message | Received) -> MessageId:
    """The position of a message that was received."""
    is_last = message.id.batch_index == message.batch_size - 1
    return MessageId(message.id.position, INDEX_LAST) if is_last else message.id


def _read(data: bytes, at: int, count: int) -> tuple[dict[int, MessageId | None], int]:
    """So many positions, and where they end."""
    if not 0 <= count <= SEGMENTS_MAX:
        raise InvalidRequest(f"a checkpoint of {count} segments: 0 to {SEGMENTS_MAX} are expected")
    positions: dict[int, MessageId | None] = {}
    for _ in range(count):
        segment_id, length = _SEGMENT.unpack_from(data, at)
        at += _SEGMENT.size
        if not 0 <= length <= POSITION_BYTES_MAX or segment_id < 0:
            raise InvalidRequest(f"a checkpoint has a position of {length} bytes for segment {segment_id}")
        text = data[at : at + length].decode("ascii")
        positions[segment_id] = MessageId.parse(text) if text else None
        at += length
    return positions, at
