"""Which transactions there are: chosen by state, owner, segment and age, oldest first, as many as asked for."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator
from dataclasses import dataclass

from txn.decoding.rows import TransactionRow
from txn.doctor.arguments import LIMIT
from txn.doctor.participation import Tally
from txn.doctor.reading import Records
from txn.doctor.texts import Duration, Moment
from txn.model.header import TxnState

LOOKUPS_AT_ONCE_MAX = 16
DECIDED = (TxnState.COMMITTED, TxnState.ABORTED)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for."""

    states: tuple[TxnState, ...] = (TxnState.OPEN,)
    owner: str | None = None
    segment: str | None = None
    older_than_ms: int = 0
    limit: int = LIMIT

    def has(self, row: TransactionRow, now_ms: int) -> bool:
        """Whether a transaction is among those; the segment is judged elsewhere."""
        return (
            row.state in self.states
            and (self.owner is None or row.owner == self.owner)
            and now_ms - row.created_ms >= self.older_than_ms
        )


@dataclass(frozen=True, slots=True)
class Found:
    """A transaction with what it has done."""

    row: TransactionRow
    tally: Tally

    def cells(self, now_ms: int) -> dict[str, object]:
        row = self.row
        return {
            "transaction": row.txn_id,
            "state": row.state.value,
            "age_ms": Duration(now_ms - row.created_ms),
            "left_ms": Duration(row.deadline_ms - now_ms) if row.is_open else None,
            "owner": row.owner,
            "operations": self.tally.operations,
            "segments": self.tally.segments,
            "subscriptions": self.tally.subscriptions,
            "created_ms": Moment(row.created_ms),
            "deadline_ms": Moment(row.deadline_ms),
            "finalized_ms": None if row.finalized_ms is None else Moment(row.finalized_ms),
        }


@dataclass(frozen=True, slots=True)
class Listing:
    """The oldest of the transactions that were asked for, and how many more there are."""

    found: tuple[Found, ...]
    left_out: int


async def list_transactions(records: Records, wanted: Wanted, now_ms: int) -> Listing:
    """What there is of what is wanted. Only as many headers as are shown are ever held."""
    oldest: list[tuple[int, str, TransactionRow]] = []
    """A heap whose first item is the youngest that is kept."""
    matching = 0
    seen: set[str] = set()
    async for row in _candidates(records, wanted):
        # Decided between two scans, it comes twice; only one that is kept can do harm by that.
        if not wanted.has(row, now_ms) or row.txn_id in seen:
            continue
        matching += 1
        item = (-row.created_ms, row.txn_id, row)
        gone = heapq.heappushpop(oldest, item) if len(oldest) == wanted.limit else None
        if gone is None:
            heapq.heappush(oldest, item)
        if gone is not item:
            seen.add(row.txn_id)
        if gone is not None:
            seen.discard(gone[1])
    kept = [row for _, _, row in sorted(oldest, key=lambda item: (-item[0], item[1]))]
    gate = asyncio.Semaphore(LOOKUPS_AT_ONCE_MAX)
    found = await asyncio.gather(*(_looked_up(records, row, gate) for row in kept))
    return Listing(tuple(found), matching - len(kept))


async def _candidates(records: Records, wanted: Wanted) -> AsyncIterator[TransactionRow]:
    if wanted.segment is not None:
        for txn_id in await transactions_in(records, wanted.segment):
            row = await records.header(txn_id)
            if row is not None:
                yield row
        return
    if TxnState.OPEN in wanted.states:
        async for row in records.open_headers():
            yield row
    async for row in records.decided_headers(*(state for state in DECIDED if state in wanted.states)):
        yield row


async def transactions_in(records: Records, segment: str) -> list[str]:
    """The transactions that have operation records of a segment: writes, or acknowledgements of any subscription."""
    found: dict[str, None] = {}
    async for row in records.writes_to(segment):
        found[row.txn_id] = None
    async for row in records.acknowledgements_of(segment):
        found[row.txn_id] = None
    return list(found)


async def _looked_up(records: Records, row: TransactionRow, gate: asyncio.Semaphore) -> Found:
    tally = Tally()
    async with gate:
        async for operation in records.operations_of(row.txn_id):
            tally.add(operation)
    return Found(row, tally)
