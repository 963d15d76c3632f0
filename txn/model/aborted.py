"""What a segment remembers of an aborted transaction for as long as any of its entries is kept."""

from __future__ import annotations

from dataclasses import dataclass

from metastore.interface import Index
from txn.model import paths
from txn.model.errors import RecordDamaged
from txn.model.fields import decoded_fields, encoded_fields
from txn.model.position import Position

FORMAT = 1


@dataclass(frozen=True, slots=True)
class AbortedRange:
    """All entries that the transaction has in the segment are between these two; entries of others may be as well."""

    first: Position
    last: Position

    def __post_init__(self) -> None:
        if self.last < self.first:
            raise RecordDamaged(f"an aborted transaction from {self.first} to {self.last}")

    def joined(self, other: AbortedRange) -> AbortedRange:
        """What covers both."""
        return AbortedRange(min(self.first, other.first), max(self.last, other.last))

    def indexes(self, segment: str) -> tuple[Index, ...]:
        """The index entries of the record."""
        return ((paths.ABORTED_BY_POSITION, paths.aborted_position_key(segment, self.last)),)

    def encode(self) -> bytes:
        """The record's value."""
        fields = {"format": FORMAT, "first": str(self.first), "last": str(self.last)}
        return encoded_fields(fields)

    @classmethod
    def decode(cls, value: bytes) -> AbortedRange:
        """Reads a record's value."""
        fields = decoded_fields("record of an aborted transaction", value, FORMAT)
        return cls(Position.parse(fields.text("first")), Position.parse(fields.text("last")))
