"""What every log does in the same way: it gives positions, confirms in order, tells of news, and ends.

What is left to each kind of log is where entries go (`_start_writing`), where they come from (`_read_stored`), and what
else is durable: the seal, and what was trimmed.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Sequence

from txn.model.position import Position
from txn.segment.errors import EntriesTrimmed, GroupTooLarge, LogStopped, SegmentBusy, SegmentFull, SegmentSealed
from txn.segment.log.ahead import ReadAhead
from txn.segment.log.interface import LogEntry, SegmentLog
from txn.segment.log.ledgers import LedgerLengths
from txn.segment.log.recent import RecentEntries
from txn.segment.log.state import LogState
from txn.segment.log.waiting import WAITING_BYTES_MAX, Group, WaitingGroups, weight

LEDGERS_MAX = 10_000
"""Ledgers with entries of one log: so many takeovers without trimming. Then only reading and trimming go on."""
GROUP_ENTRIES_MAX = 10_000


class OwnedLog(SegmentLog):
    """A log while its owner has it open."""

    group_entries_max = GROUP_ENTRIES_MAX

    def __init__(self, state: LogState, recent: RecentEntries, ahead: ReadAhead) -> None:
        self.segment = state.segment
        self.term = state.term
        self._state = state
        self._known_lengths: tuple[LogState, int, LedgerLengths] | None = None
        self._waiting = WaitingGroups()
        self._unconfirmed_weight = 0
        self._length = 0
        """Confirmed entries of this ledger."""
        self._next_entry = 0
        self._recent = recent
        self._ahead = ahead
        self._is_sealing = state.is_sealed
        self._failure: Exception | None = None
        self._news = asyncio.Event()

    # -- what is known without asking

    @property
    def next_position(self) -> Position:
        return Position(self.term, self._next_entry)

    @property
    def lengths(self) -> LedgerLengths:
        known = self._known_lengths
        if known is None or known[0] is not self._state or known[1] != self._length:
            known = self._known_lengths = (self._state, self._length, self._state.lengths(self._length))
        return known[2]

    @property
    def is_sealed(self) -> bool:
        return self._state.is_sealed

    @property
    def _is_idle(self) -> bool:
        """Whether every append was answered."""
        return self._unconfirmed_weight == 0

    # -- appending

    def append(self, entries: Sequence[bytes]) -> asyncio.Future[Position]:
        self._require_running()
        if self._is_sealing:
            raise SegmentSealed(f"the segment {self.segment!r} is sealed: append to one of its successors")
        size = self._check_group(entries)
        if self._unconfirmed_weight + size > WAITING_BYTES_MAX and self._unconfirmed_weight:
            raise SegmentBusy(
                f"appends of {self._unconfirmed_weight} bytes wait for the log of {self.segment!r}: at most "
                f"{WAITING_BYTES_MAX} (WAITING_BYTES_MAX); append slower"
            )
        if self._next_entry == 0 and len(self._state.closed) >= LEDGERS_MAX:
            raise SegmentFull(
                f"the log of {self.segment!r} has {len(self._state.closed)} ledgers: at most {LEDGERS_MAX} "
                "(LEDGERS_MAX); trim it"
            )
        group = Group(self.next_position, tuple(entries))
        self._next_entry += len(group.entries)
        self._unconfirmed_weight += group.weight
        self._waiting.add(group)
        self._start_writing()
        return group.confirmation

    def _check_group(self, entries: Sequence[bytes]) -> int:
        """What a group counts for, if it may be appended at once."""
        count, size = len(entries), sum(map(len, entries))
        if not 1 <= count <= self.group_entries_max:
            raise GroupTooLarge(
                f"{count} entries at once for {self.segment!r}: 1 to {self.group_entries_max} (group_entries_max)"
            )
        if size > self.group_bytes_max:
            raise GroupTooLarge(
                f"{count} entries of {size} bytes at once for {self.segment!r}: at most {self.group_bytes_max} "
                "(group_bytes_max)"
            )
        return weight(entries)

    @abstractmethod
    def _start_writing(self) -> None:
        """There are groups that wait; sees to it that they are written if nothing is under way that does."""

    def _confirm(self, groups: Sequence[Group]) -> None:
        """These groups, the next ones in the order of positions, are durable."""
        for group in groups:
            assert group.first == Position(self.term, self._length), "groups are confirmed in their order"
            self._length += len(group.entries)
            self._unconfirmed_weight -= group.weight
            self._recent.add(group.entries)
        for group in groups:
            group.confirm()
        self._ring()

    def _take_back(self, groups: Sequence[Group], error: Exception) -> None:
        """Nothing was changed by these groups, the oldest that are not confirmed: they fail, and all that wait."""
        assert groups[0].first == Position(self.term, self._length), "nothing before them is under way"
        failed = [*groups, *self._waiting.take_all()]
        self._next_entry = groups[0].first.entry
        self._unconfirmed_weight = 0
        for group in failed:
            group.fail(error)
        self._ring()

    def _end(self, error: Exception, groups: Sequence[Group] = ()) -> None:
        """The log has ended; the first reason stays. These groups and all that wait fail."""
        failure = self._failure = self._failure or error
        self._ahead.forget(self)
        for group in [*groups, *self._waiting.take_all()]:
            group.fail(failure)
        self._ring()

    # -- reading

    async def read(self, start: Position, entries_max: int, bytes_max: int) -> list[LogEntry]:
        assert min(entries_max, bytes_max) > 0, "a read that wants nothing"
        self._require_running()
        lengths = self.lengths
        self._check_kept(start)
        at = lengths.ceiling(start)
        if at >= lengths.end:
            return []
        recent = self._recent.read(at.entry, entries_max) if at.ledger == self.term else []
        found = recent or self._ahead.read(self, at, entries_max) or await self._read_on(at, entries_max, bytes_max)
        return _numbered(at, found, bytes_max)

    async def _read_on(self, at: Position, entries_max: int, bytes_max: int) -> Sequence[bytes]:
        """Entries from where they are kept; what is more than was asked for is there for whoever reads on."""
        found = await self._read_stored(at, entries_max, bytes_max)
        assert found, "an entry that is confirmed and kept can be read"
        if len(found) > entries_max and self._failure is None:
            self._ahead.keep(self, at, found)
        return found[:entries_max]

    def _check_kept(self, start: Position) -> None:
        oldest = self.lengths.oldest
        if start < oldest:
            raise self._trimmed(start, oldest)

    def _trimmed(self, start: Position, oldest: Position) -> EntriesTrimmed:
        return EntriesTrimmed(
            f"entries of {self.segment!r} from {start} on are trimmed away: what is kept begins at {oldest}", oldest
        )

    @abstractmethod
    async def _read_stored(self, at: Position, entries_max: int, bytes_max: int) -> Sequence[bytes]:
        """Entries of one ledger from a confirmed one on, at least that one, none that is not confirmed."""

    async def wait_appended(self, after: Position | None) -> bool:
        while True:
            self._require_running()
            last = self.last_confirmed
            if last is not None and (after is None or last > after):
                return True
            if self.is_sealed:
                return False
            await self._news.wait()

    # -- the end

    async def seal(self) -> None:
        self._require_running()
        self._is_sealing = True
        while not self._is_idle:
            await self._news.wait()
            self._require_running()
        if not self.is_sealed:
            await self._store_seal()
            self._ring()

    @abstractmethod
    async def _store_seal(self) -> None:
        """Makes the seal durable, and known to the state."""

    def _require_running(self) -> None:
        if self._failure is not None:
            raise self._failure.with_traceback(None)

    def _closed(self) -> LogStopped:
        return LogStopped(f"the log of {self.segment!r} under term {self.term} was closed by its owner")

    def _ring(self) -> None:
        """Wakes everybody who waits for news."""
        news, self._news = self._news, asyncio.Event()
        news.set()


def _numbered(first: Position, entries: Sequence[bytes], bytes_max: int) -> list[LogEntry]:
    """Entries with their positions, as many as may be given at once."""
    found = [LogEntry(first, entries[0])]
    left = bytes_max - len(entries[0])
    for number, data in enumerate(entries[1:], first.entry + 1):
        left -= len(data)
        if left < 0:
            break
        found.append(LogEntry(Position(first.ledger, number), data))
    return found
