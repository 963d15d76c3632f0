"""What a log says of itself beside its entries: who owns it, how long its older ledgers are, whether it is sealed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from txn.model.errors import RecordDamaged
from txn.model.fields import decoded_fields
from txn.model.position import Position
from txn.segment.errors import Fenced
from txn.segment.log.ledgers import START, LedgerLength, LedgerLengths

FORMAT = 1


@dataclass(frozen=True, slots=True)
class LogState:
    """Changed by whoever owns the log, and by whoever takes it over; each change as a whole or not at all."""

    segment: str
    term: int
    """Of the newest owner; also the number of its ledger."""
    mark: str
    """By which an owner knows its own state again. A term opens a log once."""
    closed: tuple[LedgerLength, ...] = ()
    """The ledgers of earlier owners, but those that are empty or trimmed away; the newest one always stays."""
    is_sealed: bool = False
    trimmed: Position = START
    """Entries before it may be gone."""
    origin: int = 0
    """How many entries there were in all older ledgers together, trimmed ones included, where that is needed."""

    def lengths(self, length: int) -> LedgerLengths:
        """All ledgers, of which the newest has that many entries."""
        return LedgerLengths((*self.closed, LedgerLength(self.term, length)), self.trimmed)

    def check_older_than(self, term: int) -> None:
        """Fenced unless an owner of that term may take the log over."""
        if self.term >= term:
            raise Fenced(
                f"the log of {self.segment!r} was opened under term {self.term}: term {term} comes too late, or has "
                "opened it already. Campaign for the segment again"
            )

    def successor(self, term: int, mark: str, length: int, origin: int = 0) -> LogState:
        """The state once a new owner has taken over; the ledger of the one before has that many entries."""
        self.check_older_than(term)
        closed = self.closed if length == 0 else (*self.closed, LedgerLength(self.term, length))
        after = replace(self, term=term, mark=mark, closed=closed, origin=origin)
        return after.without_removed(self.trimmed)

    def without_removed(self, removed_to: Position) -> LogState:
        """Forgets ledgers of which no record is left, but not the newest: it knows what the last entry was."""
        removed = self.lengths(0).whole_before(removed_to)
        kept = tuple(each for each in self.closed if each not in removed)
        return replace(self, closed=kept or self.closed[-1:])

    def encode(self) -> bytes:
        """As it is stored."""
        fields: dict[str, Any] = {
            "format": FORMAT,
            "segment": self.segment,
            "term": self.term,
            "mark": self.mark,
            "closed": [list(each) for each in self.closed],
            "sealed": self.is_sealed,
            "trimmed": str(self.trimmed),
            "origin": self.origin,
        }
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes) -> LogState:
        """Reads what `encode` wrote."""
        fields = decoded_fields("segment log's state", value, FORMAT)
        try:
            return cls(
                str(fields["segment"]),
                int(fields["term"]),
                str(fields["mark"]),
                _checked(LedgerLength(int(ledger), int(length)) for ledger, length in fields["closed"]),
                bool(fields["sealed"]),
                Position.parse(fields["trimmed"]),
                int(fields["origin"]),
            )
        except (KeyError, ValueError, TypeError) as error:
            raise RecordDamaged(f"the state of a segment's log says {value[:200]!r}: {error!r}") from error


def _checked(ledgers: Iterable[LedgerLength]) -> tuple[LedgerLength, ...]:
    found = tuple(ledgers)
    if any(length <= 0 for _, length in found) or list(found) != sorted({each.ledger: each for each in found}.values()):
        raise ValueError(f"ledgers {found}")
    return found
