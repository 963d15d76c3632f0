"""What a transaction has done where: its operations, added up by participant. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from txn.decoding.rows import OperationRow
from txn.model.position import Position


class Participant(NamedTuple):
    """Who carries an outcome out: a segment's writes, or the acknowledgements of one subscription to it."""

    segment: str
    subscription: str | None = None

    def __str__(self) -> str:
        return self.segment if self.subscription is None else f"{self.segment} ({self.subscription})"

    @property
    def order(self) -> tuple[str, str]:
        """Writes first."""
        return self.segment, "" if self.subscription is None else f":{self.subscription}"


@dataclass(slots=True)
class Involvement:
    """The operations of one transaction with one participant, as far as their records are there: at least one."""

    participant: Participant
    operations: int
    entries: int
    first_ms: int
    last_ms: int
    first: Position | None
    last: Position | None

    @classmethod
    def of(cls, row: OperationRow) -> Involvement:
        """That of the first operation."""
        participant = Participant(row.segment, row.subscription)
        return cls(participant, 1, row.entries, row.written_ms, row.written_ms, row.first, row.last)

    def add(self, row: OperationRow) -> None:
        self.operations += 1
        self.entries += row.entries
        self.first_ms = min(self.first_ms, row.written_ms)
        self.last_ms = max(self.last_ms, row.written_ms)
        if row.first is not None and row.last is not None:
            self.first = row.first if self.first is None else min(self.first, row.first)
            self.last = row.last if self.last is None else max(self.last, row.last)


class Tally:
    """Adds operations up; it holds participants, not operations."""

    def __init__(self, rows: Iterable[OperationRow] = ()) -> None:
        self.by_participant: dict[Participant, Involvement] = {}
        for row in rows:
            self.add(row)

    def add(self, row: OperationRow) -> None:
        participant = Participant(row.segment, row.subscription)
        found = self.by_participant.get(participant)
        if found is None:
            self.by_participant[participant] = Involvement.of(row)
        else:
            found.add(row)

    def __iter__(self) -> Iterator[Involvement]:
        """By segment, writes before acknowledgements."""
        return iter(sorted(self.by_participant.values(), key=lambda each: each.participant.order))

    @property
    def operations(self) -> int:
        return sum(each.operations for each in self.by_participant.values())

    @property
    def entries(self) -> int:
        """Entries that were written."""
        return sum(each.entries for each in self if each.participant.subscription is None)

    @property
    def acknowledgements(self) -> int:
        return sum(each.operations for each in self if each.participant.subscription is not None)

    @property
    def segments(self) -> list[str]:
        """Those that were written to."""
        return [each.participant.segment for each in self if each.participant.subscription is None]

    @property
    def subscriptions(self) -> list[str]:
        """Those that acknowledged, as `SEGMENT (SUBSCRIPTION)`."""
        return [str(each.participant) for each in self if each.participant.subscription is not None]
