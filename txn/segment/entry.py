"""An entry of a segment's log: the envelope around what a producer sent.

    data = format (1 byte), CRC-32 of the rest (4 bytes, big-endian), a message of `proto/txn/pb/entry.proto`

The checksum is the entry's own, not the log's: it goes where the entry goes, so whoever opens the envelope, after
whatever way it took, knows that it is as it was sealed.

Beside the payload stands what a broker has to know to share an entry among consumers, message by message, without
looking into it: how many there are, and the hash of each one's key. What is not said takes no place: an entry of a
version that knew less is one that does not say it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

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
UNCOMPRESSED_BYTES_MAX = 64 << 20
"""Of a payload before it was compressed: what whoever takes it out must have room for."""
COMPRESSION_MAX = 255
TIME_MS_MAX = (1 << 63) - 1
HASH_BYTES = 4
TXN_IDS_REMEMBERED_MAX = 1_024
"""Texts of transaction ids that need not be read again: the next entry is mostly of the same one."""

_HEAD = struct.Struct(">BI")
_txn_id_of = lru_cache(TXN_IDS_REMEMBERED_MAX)(TxnId.parse)


def pack_hashes(hashes: Sequence[int]) -> bytes:
    """Hashes of keys as entries have them."""
    return struct.pack(f"<{len(hashes)}I", *hashes)


def unpack_hashes(packed: bytes) -> tuple[int, ...]:
    """The hashes of an entry."""
    return struct.unpack(f"<{len(packed) // HASH_BYTES}I", packed)


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
    key_hashes: bytes = b""
    """The hash of each message's key, packed (`pack_hashes`); empty: nobody shares the entry, it goes by hash 0."""
    compression: int = 0
    """How the payload is compressed, by the producer's number for it; 0: not at all."""
    uncompressed_bytes: int = 0
    """Of the payload before it was compressed; 0 if it is not."""
    deliver_at_ms: int = 0
    """Not to be delivered before, where no order is kept; 0: at once."""
    is_batch: bool = False
    """Whether the payload is a batch, of one message or several; how it looks clients know."""
    skipped: int = 0
    """Numbers between the first message's and the last one's that are no message's here; they are taken with it."""

    def __post_init__(self) -> None:
        if self.message_count > MESSAGES_MAX or len(self.properties) > PROPERTIES_MAX:
            raise GroupTooLarge(
                f"an entry of {self.message_count} messages with {len(self.properties)} properties: at most "
                f"{MESSAGES_MAX} (MESSAGES_MAX) and {PROPERTIES_MAX} (PROPERTIES_MAX)"
            )
        if not 0 <= self.sequence_id <= SEQUENCE_ID_MAX or self.skipped < 0:
            raise ValueError(f"sequence id {self.sequence_id}, {self.skipped} skipped: 0 to {SEQUENCE_ID_MAX}")
        if self.is_void != (self.message_count == 0) or self.message_count < 0:
            raise ValueError(f"{self.message_count} messages: void has none, and everything else has some")
        if self.is_void and (self.payload or self.txn_id is not None):
            raise ValueError("void with something in it")
        if self.key_hashes and len(self.key_hashes) != HASH_BYTES * self.message_count:
            raise ValueError(f"{len(self.key_hashes) / HASH_BYTES:g} key hashes of {self.message_count} messages")
        if self.compression or self.uncompressed_bytes or self.deliver_at_ms:
            self._check_rarer()

    def _check_rarer(self) -> None:
        """What most entries have nothing of."""
        if self.uncompressed_bytes > UNCOMPRESSED_BYTES_MAX:
            raise GroupTooLarge(
                f"a payload of {self.uncompressed_bytes} bytes before it was compressed: at most "
                f"{UNCOMPRESSED_BYTES_MAX} (UNCOMPRESSED_BYTES_MAX)"
            )
        if not 0 <= self.compression <= COMPRESSION_MAX:
            raise ValueError(f"compression {self.compression}: 0 to {COMPRESSION_MAX}")
        if (self.compression == 0) != (self.uncompressed_bytes == 0) or self.uncompressed_bytes < 0:
            raise ValueError(
                f"compression {self.compression} of {self.uncompressed_bytes} bytes: what is compressed had some, "
                "and of what is not that is not said"
            )
        if not 0 <= self.deliver_at_ms <= TIME_MS_MAX:
            raise ValueError(f"to be delivered at {self.deliver_at_ms}: 0 to {TIME_MS_MAX}")

    @property
    def sequence_id_last(self) -> int:
        """The producer's own number of the last message."""
        return self.sequence_id + max(0, self.message_count - 1) + self.skipped

    def encode(self) -> bytes:
        """As it stands in the log. The same entry gives the same bytes."""
        message = EntryMessage(
            payload=self.payload,
            producer=self.producer,
            sequence_id=self.sequence_id,
            txn_id="" if self.txn_id is None else str(self.txn_id),
            published_ms=self.published_ms,
            properties=_properties(self.properties) if self.properties else None,
            message_count=self.message_count,
            is_void=self.is_void,
            key_hashes=self.key_hashes,
            is_batch=self.is_batch,
        )
        if self.compression:
            message.compression, message.uncompressed_bytes = self.compression, self.uncompressed_bytes
        if self.deliver_at_ms:
            message.deliver_at_ms = self.deliver_at_ms
        if self.skipped:
            message.skipped = self.skipped
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
            properties = message.properties
            return cls(
                message.payload,
                message.producer,
                message.sequence_id,
                _txn_id_of(message.txn_id) if message.txn_id else None,
                message.published_ms,
                {each.name: each.value for each in properties} if properties else {},
                message.message_count,
                message.is_void,
                message.key_hashes,
                message.compression,
                message.uncompressed_bytes,
                message.deliver_at_ms,
                message.is_batch,
                message.skipped,
            )
        except (DecodeError, InvalidTxnId, ValueError) as error:
            raise RecordDamaged(f"an entry whose envelope cannot be read: {error}") from error


def _properties(properties: Mapping[str, str]) -> list[Property]:
    return [Property(name=name, value=value) for name, value in properties.items()]


VOID = Entry(b"", message_count=0, is_void=True)
"""Fills a position that was taken and never used."""
