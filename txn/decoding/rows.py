"""What records say of transactions, whoever wrote them: one typed row for each record."""

from __future__ import annotations

from dataclasses import dataclass

from txn.model.header import Cause, TxnState
from txn.model.operation import OperationKind
from txn.model.position import Position


@dataclass(frozen=True, slots=True)
class TransactionRow:
    """A header."""

    key: str
    txn_id: str
    state: TxnState
    created_ms: int
    deadline_ms: int
    finalized_ms: int | None
    owner: str | None
    cause: Cause | None
    """Who decided; None also where the record does not say."""

    @property
    def is_open(self) -> bool:
        return self.state is TxnState.OPEN


@dataclass(frozen=True, slots=True)
class OperationRow:
    """A write to a segment, or an acknowledgement, whose outcome its participant has not carried out yet."""

    key: str
    txn_id: str
    sequence: int
    """Its number among the operations of the transaction."""
    kind: OperationKind
    segment: str
    subscription: str | None
    first: Position | None
    """None where the record does not say."""
    last: Position | None
    is_cumulative: bool
    batch: tuple[int, ...]
    """Which messages of a batch are acknowledged; empty: the whole entry."""
    written_ms: int
    broker: str
    term: int

    @property
    def entries(self) -> int:
        """How many entries it is about; of a cumulative acknowledgement only the last one is known."""
        if self.first is None or self.last is None:
            return 1
        return self.last.entry - self.first.entry + 1


@dataclass(frozen=True, slots=True)
class AppliedRow:
    """A participant has carried the outcome out, and its operation records are gone or going."""

    key: str
    txn_id: str
    segment: str
    subscription: str | None
    applied_ms: int
    broker: str
    term: int
    operations: int
    first_ms: int
    """When the first of them was written."""
    last_ms: int


@dataclass(frozen=True, slots=True)
class AbortedRow:
    """Entries of an aborted transaction, which readers of the segment skip."""

    key: str
    txn_id: str
    segment: str
    first: Position | None
    """None where the record does not say."""
    last: Position
    written_ms: int


@dataclass(frozen=True, slots=True)
class EventRow:
    """A decision that a coordinator has announced to a participant; it stays for ever."""

    key: str
    txn_id: str
    segment: str
    subscription: str | None
    sequence: int
    decision: TxnState
    written_ms: int


@dataclass(frozen=True, slots=True)
class WatermarkRow:
    """How far a segment may be read at least, as its owner has noted."""

    key: str
    segment: str
    position: Position
    """Its entry is -1 where the first entry may not be read."""
    written_ms: int


@dataclass(frozen=True, slots=True)
class SilentRow:
    """A record that belongs to transactions or segments, and says nothing about any one transaction."""

    key: str
    what: str


@dataclass(frozen=True, slots=True)
class OddRow:
    """A record that stands where transactions have theirs, and says something that nobody should have written."""

    key: str
    reason: str


Row = TransactionRow | OperationRow | AppliedRow | AbortedRow | EventRow | WatermarkRow | SilentRow | OddRow
