"""Where a message is in a topic: in which segment, in which entry, and its place there. Pure.

text     SEGMENT@LEDGER:ENTRY, or SEGMENT@LEDGER:ENTRY/INDEX of a message in a batch
bytes    three numbers of 64 bits and one of 32, big-endian: their order is that of the ids
"""

from __future__ import annotations

import re
import struct
from typing import NamedTuple

from controller.client.errors import InvalidRequest
from controller.client.values import MessageId
from controller.layout.names import SEGMENT_ID_MAX
from txn.model.position import Position

NUMBER_MAX = (1 << 63) - 1
INDEX_MAX = (1 << 32) - 1

_TEXT = re.compile(r"(0|[1-9][0-9]{0,18})@(.+)")
_BYTES = struct.Struct(">QQQI")


class TopicMessageId(NamedTuple):
    """Ordered as messages are within a segment; of segments, the one that came later is behind."""

    segment_id: int
    position: Position
    batch_index: int = 0

    @property
    def within(self) -> MessageId:
        """Where it is in its segment."""
        return MessageId(self.position, self.batch_index)

    def __str__(self) -> str:
        return f"{self.segment_id}@{self.within}"

    @classmethod
    def parse(cls, text: str) -> TopicMessageId:
        """Reads the form that `str` writes."""
        match = _TEXT.fullmatch(text)
        if match is None or int(match[1]) > SEGMENT_ID_MAX:
            raise InvalidRequest(f"{text[:80]!r} is no message id of a topic: SEGMENT@LEDGER:ENTRY/INDEX is expected")
        within = MessageId.parse(match[2])
        return cls(int(match[1]), within.position, within.batch_index)

    def __bytes__(self) -> bytes:
        return _BYTES.pack(self.segment_id, self.position.ledger, self.position.entry, self.batch_index)

    @classmethod
    def from_bytes(cls, data: bytes) -> TopicMessageId:
        """Reads the form that `bytes` writes."""
        if len(data) != _BYTES.size:
            raise InvalidRequest(f"{len(data)} bytes are no message id of a topic: {_BYTES.size} are expected")
        segment_id, ledger, entry, index = _BYTES.unpack(data)
        if max(segment_id, ledger, entry) > NUMBER_MAX:
            raise InvalidRequest(f"{data.hex()} is no message id of a topic: numbers up to {NUMBER_MAX} are expected")
        return cls(segment_id, Position(ledger, entry), index)


class TopicSent(NamedTuple):
    """What became of a message that was sent to a topic."""

    sequence_id: int
    id: TopicMessageId | None
    """Where it is, durably. None for a duplicate of one that was stored so long ago that nobody knows where."""
    is_duplicate: bool = False
    """It had been stored before."""
