"""Which transaction holds the read horizon of a segment, and what would free it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum

from metastore.tables import moment_text
from txn.decoding.rows import TransactionRow
from txn.doctor.listing import LOOKUPS_AT_ONCE_MAX
from txn.doctor.participation import Involvement
from txn.doctor.reading import Records, SegmentFacts, has_any
from txn.doctor.texts import duration_text
from txn.model.header import TxnState
from txn.model.position import Position

UNCOUNTED = (
    "Entries without a transaction wait as well, and have no records that would tell of them. All that wait are",
    "counted by the broker that owns the segment: tidemark_segment_horizon_lag_entries of its metrics.",
)
"""What the answer cannot say of a horizon that is held."""


class Verdict(Enum):
    """How a segment's read horizon is."""

    FREE = "free"
    """No transaction has anything in the segment that is not carried out."""
    HELD = "held"
    """An open transaction holds it."""
    UNAPPLIED = "unapplied"
    """All transactions are decided, and one of them is yet to be carried out. To an owner that lives this is no delay;
    without an owner nobody reads the segment until somebody takes it over."""


@dataclass(frozen=True, slots=True)
class Writer:
    """A transaction that has written to the segment."""

    txn_id: str
    header: TransactionRow | None
    """None where it is gone: that counts as aborted, because headers go after all operations."""
    writes: Involvement

    @property
    def is_open(self) -> bool:
        return self.header is not None and self.header.is_open

    @property
    def outcome(self) -> TxnState:
        return TxnState.ABORTED if self.header is None else self.header.state

    @property
    def place(self) -> tuple[int, Position, int, str]:
        """Oldest in the segment first: by position, and where that is unknown by time."""
        first, since_ms = self.writes.first, self.writes.first_ms
        return (1 if first is None else 0, first or Position(0, 0), since_ms, self.txn_id)


@dataclass(frozen=True, slots=True)
class Horizon:
    """The answer."""

    segment: SegmentFacts
    verdict: Verdict
    holder: Writer | None
    """Of a held horizon the oldest open transaction, else the oldest that is to be carried out."""
    behind: tuple[Writer, ...]
    """The other transactions with writes in the segment that are not carried out, in their order."""
    readable: Position | None
    """What its owner has noted as readable, where owners note that."""

    @property
    def entries_behind(self) -> int:
        """Entries of other transactions behind the holder's first. Plain ones have no records: they are not counted."""
        return sum(writer.writes.entries for writer in self.behind if self._is_behind(writer))

    @property
    def transactions_behind(self) -> int:
        return sum(map(self._is_behind, self.behind))

    def _is_behind(self, writer: Writer) -> bool:
        if self.holder is None:
            return False
        first, last = self.holder.writes.first, writer.writes.last
        return first is None or last is None or last > first


def judge(segment: SegmentFacts, writers: list[Writer], readable: Position | None) -> Horizon:
    """The horizon that these writers make."""
    ordered = sorted(writers, key=lambda writer: writer.place)
    is_held = any(writer.is_open for writer in ordered)
    holder = next((writer for writer in ordered if writer.is_open or not is_held), None)
    verdict = Verdict.FREE if holder is None else Verdict.HELD if is_held else Verdict.UNAPPLIED
    return Horizon(segment, verdict, holder, tuple(each for each in ordered if each is not holder), readable)


def explanation(horizon: Horizon, now_ms: int, *, knows_owners: bool) -> str:
    """What would free the segment, in a sentence."""
    holder, facts = horizon.holder, horizon.segment
    if holder is None:
        return "nothing: no transaction holds it, so all that is confirmed may be read"
    if horizon.verdict is Verdict.UNAPPLIED:
        decided = f"{holder.txn_id} is {holder.outcome.value}" + ("" if holder.header else " (its header is gone)")
        if facts.owner is not None:
            return f"{decided}; {facts.owner}, who owns the segment under term {facts.term}, is about to apply that"
        if knows_owners:
            return f"{decided}; nobody owns the segment: whoever takes it over applies that first"
        return f"{decided}; the segment's owner, whom these records do not tell, has yet to apply that"
    header = holder.header
    assert header is not None, "an open transaction has a header"
    whose = "its client" if header.owner is None else f"its owner {header.owner}"
    left_ms = header.deadline_ms - now_ms
    if left_ms > 0:
        at = f"{moment_text(header.deadline_ms)}, in {duration_text(left_ms)}"
        return f"a commit or an abort by {whose}; else its deadline at {at}; or an operator: abort {holder.txn_id}"
    return (
        f"its deadline passed {duration_text(-left_ms)} ago, and no sweep has aborted it: see that one runs; "
        f"or an operator: abort {holder.txn_id}"
    )


async def look(records: Records, segment: str) -> Horizon:
    """Reads what there is about a segment, and judges."""
    writes: dict[str, Involvement] = {}
    async for row in records.writes_to(segment):
        if row.txn_id in writes:
            writes[row.txn_id].add(row)
        else:
            writes[row.txn_id] = Involvement.of(row)
    gate = asyncio.Semaphore(LOOKUPS_AT_ONCE_MAX)

    async def writer(txn_id: str, involvement: Involvement) -> Writer:
        async with gate:
            return Writer(txn_id, await records.header(txn_id), involvement)

    writers = await asyncio.gather(*(writer(txn_id, each) for txn_id, each in writes.items()))
    facts = await records.segment(segment)
    if not facts.is_known and await has_any(records.acknowledgements_of(segment)):
        facts = facts._replace(is_known=True)
    mark = await records.watermark(segment)
    return judge(facts, writers, None if mark is None else mark.position)
