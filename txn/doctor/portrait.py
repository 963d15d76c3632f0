"""One transaction, whole: its header, its participants, and what has happened to it when. Pure, but for `read`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from txn.decoding.rows import AppliedRow, TransactionRow
from txn.doctor.participation import Involvement, Participant, Tally
from txn.doctor.reading import Records, SegmentFacts
from txn.doctor.texts import duration_text
from txn.model.header import Cause

SEGMENTS_LOOKED_UP_MAX = 200
"""Segments of one transaction whose owners are looked up, all at once."""

DECIDED_BY = {Cause.CLIENT: "by its client", Cause.DEADLINE: "by its deadline", Cause.OPERATOR: "by an operator"}


def decided_text(header: TransactionRow) -> str:
    """The state, and whose decision it was."""
    return header.state.value + ("" if header.cause is None else f" {DECIDED_BY[header.cause]}")


class EventKind(Enum):
    """What happens to a transaction, in this order."""

    BEGUN = "begun"
    FIRST_OPERATION = "first operation"
    LAST_OPERATION = "last operation"
    DECIDED = "decided"
    APPLIED = "applied"
    COLLECTED = "collected"


class Event(NamedTuple):
    """Something that has happened."""

    at_ms: int
    kind: EventKind
    participant: Participant | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """One participant: what its operation records say while they are there, and what it has left behind."""

    participant: Participant
    pending: Involvement | None
    applied: AppliedRow | None

    @property
    def operations(self) -> int:
        """How many there were. Where a participant is about to apply them both tell of the same ones."""
        left = 0 if self.pending is None else self.pending.operations
        return max(left, 0 if self.applied is None else self.applied.operations)

    @property
    def first_ms(self) -> int | None:
        """When the first of them was written."""
        known = [] if self.applied is None else [self.applied.first_ms]
        if self.pending is not None:
            known.append(self.pending.first_ms)
        return min(known, default=None)

    @property
    def last_ms(self) -> int | None:
        known = [] if self.applied is None else [self.applied.last_ms]
        if self.pending is not None:
            known.append(self.pending.last_ms)
        return max(known, default=None)


@dataclass(frozen=True, slots=True)
class Portrait:
    """A transaction."""

    header: TransactionRow
    parts: tuple[Part, ...]
    segments: Mapping[str, SegmentFacts]
    """Of the participants, as far as they were looked up."""
    retention_ms: int | None
    """How long the header stays, where that is known."""

    @property
    def unapplied(self) -> list[Part]:
        """The participants that have operation records yet."""
        return [part for part in self.parts if part.pending is not None]

    @property
    def collectable_ms(self) -> int | None:
        """When the header may go, if all participants are done; None while that is not known."""
        if self.header.finalized_ms is None or self.retention_ms is None or self.unapplied:
            return None
        return self.header.finalized_ms + self.retention_ms

    def collection_text(self, now_ms: int) -> str:
        """When the records of the transaction go, in words."""
        if self.header.is_open:
            return "after the decision"
        if self.unapplied:
            return f"when the participants that are left ({len(self.unapplied)}) have carried the outcome out"
        if self.collectable_ms is None:
            return "at the coordinator's next collection after its retention"
        left_ms = self.collectable_ms - now_ms
        return f"in {duration_text(left_ms)}" if left_ms > 0 else "now: by the next collector that looks"

    def events(self) -> list[Event]:
        """What has happened so far, in its order."""
        header = self.header
        limit = duration_text(header.deadline_ms - header.created_ms)
        events = [Event(header.created_ms, EventKind.BEGUN, None, f"to be committed within {limit}")]
        for part in self.parts:
            if part.first_ms is not None:
                events.append(Event(part.first_ms, EventKind.FIRST_OPERATION, part.participant))
            if part.last_ms is not None and part.last_ms != part.first_ms:
                many = f"{part.operations} operations"
                events.append(Event(part.last_ms, EventKind.LAST_OPERATION, part.participant, many))
            if part.applied is not None:
                by = f"by {part.applied.broker}, term {part.applied.term}"
                events.append(Event(part.applied.applied_ms, EventKind.APPLIED, part.participant, by))
        if header.finalized_ms is not None:
            events.append(Event(header.finalized_ms, EventKind.DECIDED, None, decided_text(header)))
        order = {kind: number for number, kind in enumerate(EventKind)}
        return sorted(events, key=lambda event: (event.at_ms, order[event.kind], str(event.participant)))


def composed(
    header: TransactionRow,
    tally: Tally,
    applied: Mapping[Participant, AppliedRow],
    segments: Mapping[str, SegmentFacts],
    retention_ms: int | None,
) -> Portrait:
    """The portrait that these records make."""
    participants = sorted(tally.by_participant.keys() | applied.keys(), key=lambda each: each.order)
    parts = tuple(Part(each, tally.by_participant.get(each), applied.get(each)) for each in participants)
    return Portrait(header, parts, segments, retention_ms)


async def read(records: Records, txn_id: str) -> Portrait | None:
    """A transaction as it is now; None if there is no header of it."""
    header = await records.header(txn_id)
    if header is None:
        return None
    tally = Tally()
    async for operation in records.operations_of(txn_id):
        tally.add(operation)
    applied = {Participant(row.segment, row.subscription): row async for row in records.applied_by(txn_id)}
    names = sorted({each.segment for each in tally.by_participant.keys() | applied.keys()})
    segments = await asyncio.gather(*map(records.segment, names[:SEGMENTS_LOOKED_UP_MAX]))
    return composed(header, tally, applied, {facts.name: facts for facts in segments}, records.layout.retention_ms)
