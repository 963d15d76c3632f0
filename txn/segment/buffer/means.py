"""What a buffer works with, and how it says how it is doing."""

from __future__ import annotations

from dataclasses import dataclass

from metastore.coordination import Grant, Pace
from metastore.faults import Faults
from txn.model.ids import TxnId
from txn.model.position import Position
from txn.outcomes import Outcomes
from txn.segment.buffer.options import BufferOptions, Measures
from txn.segment.log import SegmentLog
from txn.segment.operations import OperationRecords


@dataclass(frozen=True, slots=True)
class Means:
    """What a buffer works with."""

    log: SegmentLog
    """Opened under the grant's term. Whoever opened it closes it, after the buffer."""
    grant: Grant
    """The ownership of the segment, in the segment's partition."""
    outcomes: Outcomes
    operations: OperationRecords
    pace: Pace
    options: BufferOptions
    measures: Measures
    faults: Faults


@dataclass(frozen=True, slots=True)
class BufferStats:
    """How a buffer is doing."""

    bound: Position
    """How far may be read."""
    end: Position
    """Behind all that is confirmed."""
    open: int
    """Transactions with entries here that are not decided."""
    oldest_open: TxnId | None
    """The one that holds the bound, if any."""
    in_hand: int
    """Transactions that take part here, those being settled included."""
    waiting: int
    """Messages that stand in line."""
    waiting_bytes: int
    producers: int
    """Producers whose messages are told from new ones."""
