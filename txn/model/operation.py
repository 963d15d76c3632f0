"""The operations of a transaction: one record for each group of writes to a segment, and for each acknowledgement.

The record of a write is durable before its entries are in the log: it says which positions they will take. So whoever
recovers a segment finds in the index every entry that a transaction may have there, without reading the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from metastore.interface import Index
from txn.model import paths
from txn.model.errors import RecordDamaged
from txn.model.fields import decoded_fields
from txn.model.layout import ACK, CUMULATIVE, FORMAT, SEVERAL, Laid, laid_out, read_layout
from txn.model.position import Position

JSON_FORMAT = 1
"""That of those which are JSON. New ones are laid out."""


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
        is_ack, is_several = self.subscription is not None, self.last is not None
        flags = ACK * is_ack | CUMULATIVE * self.is_cumulative | SEVERAL * is_several
        return laid_out(
            Laid(
                flags,
                self.segment,
                self.subscription or "",
                self.broker,
                self.position.ledger,
                self.position.entry,
                (self.last or self.position).entry,
                self.term,
                self.written_ms,
                self.batch_size,
                self.batch,
            )
        )

    @classmethod
    def decode(cls, value: bytes) -> Operation:
        """Reads a record's value, also one of the first format."""
        return cls._of_layout(value) if value[:1] == bytes([FORMAT]) else cls._of_json(value)

    @classmethod
    def _of_layout(cls, value: bytes) -> Operation:
        said = read_layout(value)
        is_ack, has_last = bool(said.flags & ACK), bool(said.flags & SEVERAL)
        if (said.subscription and not is_ack) or (said.last_entry != said.first_entry and not has_last):
            raise RecordDamaged(f"a transaction operation contradicts itself: {value[:200]!r}")
        return cls(
            OperationKind.ACK if is_ack else OperationKind.WRITE,
            said.segment,
            Position(said.ledger, said.first_entry),
            Position(said.ledger, said.last_entry) if has_last else None,
            said.subscription if is_ack else None,
            bool(said.flags & CUMULATIVE),
            said.batch,
            said.batch_size,
            said.broker,
            said.term,
            said.written_ms,
        )

    @classmethod
    def _of_json(cls, value: bytes) -> Operation:
        fields = decoded_fields("transaction operation", value, JSON_FORMAT)
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
