"""Positions as offsets of one log that holds all ledgers, one behind the other, and back."""

from __future__ import annotations

from txn.model.position import Position
from txn.segment.log.ledgers import START
from txn.segment.log.state import LogState


def offset_of(state: LogState, position: Position) -> int:
    """Where an entry is that the state's ledgers have."""
    origin = state.origin
    if position.ledger == state.term:
        return origin + position.entry
    for ledger, length in reversed(state.closed):
        origin -= length
        if ledger == position.ledger:
            return origin + position.entry
    raise AssertionError(f"no ledger {position.ledger} in {state}")


def position_of(state: LogState, offset: int) -> Position:
    """The bound before the entry with that offset. Offset 0 is `START`: nothing comes before it."""
    ledger, origin = state.term, state.origin
    for older, length in reversed(state.closed):
        if offset >= origin:
            break
        ledger, origin = older, origin - length
    return Position(ledger, offset - origin) if offset else START
