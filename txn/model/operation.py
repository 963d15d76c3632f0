"""The operations of a transaction: one record for each group of writes to a segment, and for each acknowledgement.

The record of a write is durable before its entries are in the log: it says which positions they will take. So whoever
recovers a segment finds in the index every entry that a transaction may have there, without reading the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from metastore.interface import Index
from txn.model import paths
from txn.model.errors import RecordDamaged
from txn.model.fields import decoded_fields, encoded_fields
from txn.model.position import Position

FORMAT = 1


class OperationKind(Enum):
    """What a transaction can do."""

    WRITE = "write"
    ACK = "ack"


@dataclass(frozen=True, slots=True)
class Operation:
    """What an operation record says."""

    kind: OperationKind
    segment: str
    position: Position
    """Of a write the first entry; of an acknowledgement the entry, or the last one if it is cumulative."""
    last: Position | None = None
    """Of a write of several entries: the last one."""
    subscription: str | None = None
    is_cumulative: bool = False
    batch: tuple[int, ...] = ()
    """Which messages of a batch entry are acknowledged; empty: the whole entry."""
    batch_size: int = 0
    broker: str = ""
    """Who wrote the record: for the auditor."""
    term: int = 0
    """The term of the segment's owner who wrote it."""
    written_ms: int = 0

    def __post_init__(self) -> None:
        is_ack = self.kind is OperationKind.ACK
        if is_ack != (self.subscription is not None):
            raise RecordDamaged(f"an operation of kind {self.kind.value} with subscription {self.subscription!r}")
        if not is_ack and (self.is_cumulative or self.batch or self.batch_size):
            raise RecordDamaged("a write that acknowledges")
        if is_ack and self.last is not None:
            raise RecordDamaged("an acknowledgement with a last entry")
        if self.last is not None and (self.last.ledger != self.position.ledger or self.last < self.position):
            raise RecordDamaged(f"a write from {self.position} to {self.last}")
        if self.batch and not all(0 <= index < self.batch_size for index in self.batch):
            raise RecordDamaged(f"messages {self.batch} of a batch of {self.batch_size}")

    def indexes(self) -> tuple[Index, ...]:
        """The index entries of the record."""
        if self.subscription is None:
            return ((paths.WRITES_BY_SEGMENT, paths.escaped(self.segment)),)
        return ((paths.ACKS_BY_SUBSCRIPTION, paths.subscription_key(self.segment, self.subscription)),)

    def encode(self) -> bytes:
        """The record's value."""
        fields: dict[str, Any] = {
            "format": FORMAT,
            "kind": self.kind.value,
            "segment": self.segment,
            "position": str(self.position),
            "broker": self.broker,
            "term": self.term,
            "written_ms": self.written_ms,
        }
        if self.last is not None:
            fields["last"] = str(self.last)
        if self.subscription is not None:
            fields["subscription"] = self.subscription
        if self.is_cumulative:
            fields["cumulative"] = True
        if self.batch:
            fields["batch"] = list(self.batch)
        if self.batch_size:
            fields["batch_size"] = self.batch_size
        return encoded_fields(fields)

    @classmethod
    def decode(cls, value: bytes) -> Operation:
        """Reads a record's value."""
        fields = decoded_fields("transaction operation", value, FORMAT)
        try:
            last = fields.maybe_text("last")
            return cls(
                OperationKind(fields.text("kind")),
                fields.text("segment"),
                Position.parse(fields.text("position")),
                None if last is None else Position.parse(last),
                fields.maybe_text("subscription"),
                fields.flag("cumulative"),
                fields.numbers("batch"),
                fields.maybe_number("batch_size") or 0,
                fields.text("broker"),
                fields.number("term"),
                fields.number("written_ms"),
            )
        except ValueError as error:
            raise RecordDamaged(f"a transaction operation says {value[:200]!r}: {error!r}") from error
