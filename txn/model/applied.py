"""What a participant leaves when it has carried a transaction's outcome out: for whoever asks later what happened."""

from __future__ import annotations

from dataclasses import dataclass

from txn.model.fields import decoded_fields, encoded_fields

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Applied:
    """Written together with the removal of the participant's operation records; it goes with the header."""

    applied_ms: int
    broker: str
    term: int
    """The term of the segment's owner who did it."""
    operations: int
    """How many operation records there were."""
    first_ms: int
    """When the first of them was written."""
    last_ms: int

    def encode(self) -> bytes:
        """The record's value."""
        fields = {
            "format": FORMAT,
            "applied_ms": self.applied_ms,
            "broker": self.broker,
            "term": self.term,
            "operations": self.operations,
            "first_ms": self.first_ms,
            "last_ms": self.last_ms,
        }
        return encoded_fields(fields)

    @classmethod
    def decode(cls, value: bytes) -> Applied:
        """Reads a record's value."""
        fields = decoded_fields("record of an applied transaction", value, FORMAT)
        return cls(
            fields.number("applied_ms"),
            fields.text("broker"),
            fields.number("term"),
            fields.number("operations"),
            fields.number("first_ms"),
            fields.number("last_ms"),
        )
