"""An entry of a segment's log: the envelope around what a producer sent.

    data = format (1 byte), CRC-32 of the rest (4 bytes, big-endian), a message of `proto/txn/pb/entry.proto`

The checksum is the entry's own, not the log's: it goes where the entry goes, so whoever opens the envelope, after
whatever way it took, knows that it is as it was sealed.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from google.protobuf.message import DecodeError

from txn.model.errors import InvalidTxnId, RecordDamaged
from txn.model.ids import TxnId
from txn.pb.entry_pb2 import Entry as EntryMessage
from txn.pb.entry_pb2 import Property
from txn.segment.errors import GroupTooLarge

FORMAT = 1
MESSAGES_MAX = 100_000
"""Of one batch."""
PROPERTIES_MAX = 1_000
SEQUENCE_ID_MAX = (1 << 63) - 1

_HEAD = struct.Struct(">BI")


@dataclass(frozen=True, slots=True)
class Entry:
    """What was appended."""

    payload: bytes
    """The producer's bytes, one message or a batch; nobody here looks into them."""
    producer: str = ""
    """Whose resends are told from new messages; empty: nobody's."""
    sequence_id: int = 0
    """The producer's own number of the first message."""
    txn_id: TxnId | None = None
    published_ms: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    message_count: int = 1
    is_void: bool = False
    """A position that was taken and never used, so that all behind it keep theirs: readers skip it."""

    def __post_init__(self) -> None:
        if self.message_count > MESSAGES_MAX or len(self.properties) > PROPERTIES_MAX:
            raise GroupTooLarge(
                f"an entry of {self.message_count} messages with {len(self.properties)} properties: at most "
                f"{MESSAGES_MAX} (MESSAGES_MAX) and {PROPERTIES_MAX} (PROPERTIES_MAX)"
            )
        if not 0 <= self.sequence_id <= SEQUENCE_ID_MAX:
            raise ValueError(f"sequence id {self.sequence_id}: 0 to {SEQUENCE_ID_MAX}")
        if self.is_void != (self.message_count == 0) or self.message_count < 0:
            raise ValueError(f"{self.message_count} messages: void has none, and everything else has some")
        if self.is_void and (self.payload or self.txn_id is not None):
            raise ValueError("void with something in it")

    @property
    def sequence_id_last(self) -> int:
        """The producer's own number of the last message."""
        return self.sequence_id + max(0, self.message_count - 1)

    def encode(self) -> bytes:
        """As it stands in the log. The same entry gives the same bytes."""
        message = EntryMessage(
            payload=self.payload,
            producer=self.producer,
            sequence_id=self.sequence_id,
            txn_id="" if self.txn_id is None else str(self.txn_id),
            published_ms=self.published_ms,
            properties=[Property(name=name, value=value) for name, value in self.properties.items()],
            message_count=self.message_count,
            is_void=self.is_void,
        )
        body = message.SerializeToString(deterministic=True)
        return _HEAD.pack(FORMAT, zlib.crc32(body)) + body

    @classmethod
    def decode(cls, data: bytes) -> Entry:
        """Reads what `encode` wrote."""
        if len(data) < _HEAD.size or data[0] > FORMAT or not data[0]:
            raise RecordDamaged(f"an entry that this version cannot read, up to format {FORMAT}: {data[:40]!r}")
        body = data[_HEAD.size :]
        if _HEAD.unpack_from(data)[1] != zlib.crc32(body):
            raise RecordDamaged(f"an entry of {len(data)} bytes fails its checksum")
        try:
            message = EntryMessage.FromString(body)
            return cls(
                message.payload,
                message.producer,
                message.sequence_id,
                TxnId.parse(message.txn_id) if message.txn_id else None,
                message.published_ms,
                {each.name: each.value for each in message.properties},
                message.message_count,
                message.is_void,
            )
        except (DecodeError, InvalidTxnId, ValueError) as error:
            raise RecordDamaged(f"an entry whose envelope cannot be read: {error}") from error


VOID = Entry(b"", message_count=0, is_void=True)
"""Fills a position that was taken and never used."""
