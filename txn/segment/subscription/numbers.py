"""A subscription in numbers, for operators; and how much of a segment a cursor has not acknowledged. Pure."""

from __future__ import annotations

from typing import NamedTuple

from txn.model.ids import TxnId
from txn.model.position import Position
from txn.segment.cursor import CursorState
from txn.segment.log import LedgerLengths


class SubscriptionStats(NamedTuple):
    """What an operator wants to know."""

    mark: Position
    """The first entry that is not acknowledged."""
    backlog: int
    """Entries that are not acknowledged, as a whole; void ones and those of aborted transactions are among them."""
    unacked: int
    """Messages that consumers have and have not acknowledged."""
    to_redeliver: int
    consumers: tuple[str, ...]
    pending: dict[TxnId, int]
    """How many acknowledgements open transactions hold."""


def unacknowledged(state: CursorState, lengths: LedgerLengths) -> int:
    """Entries at or behind the mark that are in no range."""
    bounds = [state.mark, *(bound for each in state.ranges for bound in each), lengths.end]
    return sum(_between(bounds[at], bounds[at + 1], lengths) for at in range(0, len(bounds), 2))


def _between(start: Position, end: Position, lengths: LedgerLengths) -> int:
    """How many entries lie from one bound to another."""
    count = 0
    for ledger, length in lengths.ledgers:
        first = start.entry if ledger == start.ledger else 0 if ledger > start.ledger else length
        last = end.entry if ledger == end.ledger else length if ledger < end.ledger else 0
        count += max(0, min(last, length) - first)
    return count
