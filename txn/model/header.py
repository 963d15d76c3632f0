"""The header of a transaction: the one record whose change is the decision."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from metastore.interface import Index
from txn.model import paths
from txn.model.errors import RecordDamaged
from txn.model.fields import decoded_fields, encoded_fields

FORMAT = 1


class TxnState(Enum):
    """OPEN becomes one of the others, once."""

    OPEN = "OPEN"
    COMMITTED = "COMMITTED"
    ABORTED = "ABORTED"


class Cause(Enum):
    """Who decided."""

    CLIENT = "client"
    DEADLINE = "deadline"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Header:
    """What a header record says."""

    state: TxnState
    created_ms: int
    timeout_ms: int
    """The deadline, in milliseconds since the epoch: at this time the transaction can no longer commit."""
    owner: str | None = None
    """The principal that began it, where there is authentication."""
    finalized_ms: int | None = None
    cause: Cause | None = None

    def __post_init__(self) -> None:
        is_final = self.state is not TxnState.OPEN
        if is_final != (self.finalized_ms is not None) or is_final != (self.cause is not None):
            raise RecordDamaged(f"a header in state {self.state.value} with finalized_ms={self.finalized_ms}")

    @property
    def is_open(self) -> bool:
        """Whether nothing is decided yet."""
        return self.state is TxnState.OPEN

    def is_past_deadline(self, now_ms: int) -> bool:
        """Whether it can no longer commit."""
        return now_ms >= self.timeout_ms

    def decided(self, state: TxnState, cause: Cause, now_ms: int) -> Header:
        """The header after the decision. A clock that went back does not make the end precede the beginning."""
        assert self.is_open, "a decision is taken once"
        assert state is not TxnState.OPEN, "a decision decides"
        return replace(self, state=state, cause=cause, finalized_ms=max(now_ms, self.created_ms))

    def indexes(self) -> tuple[Index, ...]:
        """The index entries of the record."""
        if self.finalized_ms is None:
            return ((paths.BY_DEADLINE, paths.deadline_key(self.timeout_ms)),)
        return ((paths.BY_FINAL_STATE, paths.final_state_key(self.state.value, self.finalized_ms)),)

    def encode(self) -> bytes:
        """The record's value."""
        fields: dict[str, Any] = {
            "format": FORMAT,
            "state": self.state.value,
            "created_ms": self.created_ms,
            "timeout_ms": self.timeout_ms,
        }
        if self.owner is not None:
            fields["owner"] = self.owner
        if self.finalized_ms is not None and self.cause is not None:
            fields["finalized_ms"] = self.finalized_ms
            fields["cause"] = self.cause.value
        return encoded_fields(fields)

    @classmethod
    def decode(cls, value: bytes) -> Header:
        """Reads a record's value."""
        fields = decoded_fields("transaction header", value, FORMAT)
        try:
            cause = fields.maybe_text("cause")
            return cls(
                TxnState(fields.text("state")),
                fields.number("created_ms"),
                fields.number("timeout_ms"),
                fields.maybe_text("owner"),
                fields.maybe_number("finalized_ms"),
                None if cause is None else Cause(cause),
            )
        except ValueError as error:
            raise RecordDamaged(f"a transaction header says {value[:200]!r}: {error!r}") from error
