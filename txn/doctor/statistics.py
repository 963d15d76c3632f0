"""How all transactions of a store are: counted in one pass over headers, operations and aborted records."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from txn.decoding.rows import TransactionRow
from txn.doctor.arguments import STUCK_AFTER_MS
from txn.doctor.listing import DECIDED
from txn.doctor.participation import Participant
from txn.doctor.reading import Records
from txn.model.header import TxnState


@dataclass(slots=True)
class Statistics:
    """The figures."""

    now_ms: int
    stuck_after_ms: int = STUCK_AFTER_MS
    states: Counter[TxnState] = field(default_factory=Counter)
    owners: Counter[str | None] = field(default_factory=Counter)
    """Open transactions by owner."""
    oldest_open: TransactionRow | None = None
    expired: int = 0
    """Open, and past the deadline."""
    operations: int = 0
    unapplied: int = 0
    """Decided transactions that have operation records yet."""
    orphans: int = 0
    """Operation records whose transaction has no header."""
    aborted: Counter[str] = field(default_factory=Counter)
    """Aborted records by segment."""
    stuck: dict[Participant, int] = field(default_factory=dict)
    """Participants that have not carried outcomes out, and since when the oldest of these is decided."""
    stuck_operations: Counter[Participant] = field(default_factory=Counter)

    def take_header(self, row: TransactionRow, operations: Counter[Participant]) -> None:
        """Counts a transaction with the operation records it has."""
        self.states[row.state] += 1
        if row.is_open:
            self.owners[row.owner] += 1
            self.expired += row.deadline_ms <= self.now_ms
            if self.oldest_open is None or row.created_ms < self.oldest_open.created_ms:
                self.oldest_open = row
        elif operations:
            self.unapplied += 1
            self._take_decided(row, operations)

    def _take_decided(self, row: TransactionRow, operations: Counter[Participant]) -> None:
        assert row.finalized_ms is not None, "what is decided was decided at some time"
        if self.now_ms - row.finalized_ms < self.stuck_after_ms:
            return
        for participant, count in operations.items():
            self.stuck[participant] = min(self.stuck.get(participant, row.finalized_ms), row.finalized_ms)
            self.stuck_operations[participant] += count


async def gather(records: Records, now_ms: int, stuck_after_ms: int = STUCK_AFTER_MS) -> Statistics:
    """Counts. What it holds grows with the operation records there are, and not with the transactions that are done."""
    figures = Statistics(now_ms, stuck_after_ms)
    by_transaction: dict[str, Counter[Participant]] = defaultdict(Counter)
    async for operation in records.operations():
        figures.operations += 1
        by_transaction[operation.txn_id][Participant(operation.segment, operation.subscription)] += 1
    without_header = set(by_transaction)
    nothing: Counter[Participant] = Counter()
    async for row in records.open_headers():
        without_header.discard(row.txn_id)
        figures.take_header(row, by_transaction.get(row.txn_id, nothing))
    async for row in records.decided_headers(*DECIDED):
        without_header.discard(row.txn_id)
        figures.take_header(row, by_transaction.get(row.txn_id, nothing))
    for txn_id in sorted(without_header):
        looked_up = await records.header(txn_id)  # it may have come since, or have changed between two scans
        if looked_up is None:
            figures.orphans += by_transaction[txn_id].total()
        else:
            figures.take_header(looked_up, by_transaction[txn_id])
    async for aborted in records.aborted():
        figures.aborted[aborted.segment] += 1
    return figures
