"""The ledgers of a log and how long they are: what makes one position the neighbour of another."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from txn.model.position import Position

START = Position(0, 0)
"""Before or at every entry of every log."""


class LedgerLength(NamedTuple):
    """A ledger, and how many entries were appended to it; trimmed ones count as well."""

    ledger: int
    length: int


@dataclass(frozen=True, slots=True)
class LedgerLengths:
    """All ledgers that have entries, oldest first; behind them the one that is being written, which may have none.

    Between ledgers nothing is missing: behind the last entry of one comes the first entry of the next. Positions are
    also used as bounds: `ceiling` gives all bounds with the same entries before them the same form.
    """

    ledgers: tuple[LedgerLength, ...]
    oldest: Position = START
    """Entries before it are trimmed away. `START` if nothing ever was."""

    def __post_init__(self) -> None:
        assert self.ledgers, "a log that is open has a ledger that is being written"
        numbers = [each.ledger for each in self.ledgers]
        assert numbers == sorted(set(numbers)), f"ledgers only grow: {numbers}"

    @property
    def end(self) -> Position:
        """The bound behind all entries: where the next one will be."""
        return Position(*self.ledgers[-1])

    @property
    def first(self) -> Position | None:
        """The oldest entry that is kept."""
        first = self.ceiling(START)
        return first if first < self.end else None

    @property
    def last(self) -> Position | None:
        """The newest entry ever appended, kept or not; None if there never was one."""
        for ledger, length in reversed(self.ledgers):
            if length:
                return Position(ledger, length - 1)
        return None

    def ceiling(self, bound: Position) -> Position:
        """The first entry at or behind a bound; the bound itself if it lies at or behind the end of all entries."""
        bound = max(bound, self.oldest)
        if bound.ledger == self.ledgers[-1].ledger:
            return bound  # nearly every one
        place = bisect_left(self.ledgers, bound.ledger, key=_ledger)
        for ledger, length in self.ledgers[place:]:
            entry = bound.entry if ledger == bound.ledger else 0
            if entry < length or ledger == self.end.ledger:
                return Position(ledger, entry)
        return bound

    def holds(self, position: Position) -> bool:
        """Whether an entry with this position is kept."""
        return self.ceiling(position) == position < self.end

    def whole_before(self, bound: Position) -> tuple[LedgerLength, ...]:
        """The ledgers all of whose entries lie before a bound, and are followed by other ledgers."""
        return tuple(each for each in self.ledgers[:-1] if (each.ledger, each.length) <= (bound.ledger, bound.entry))


_ledger = attrgetter("ledger")
