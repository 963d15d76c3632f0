"""The newest confirmed entries, kept in memory: those who read at the end of a log need not ask what holds it."""

from __future__ import annotations

from collections.abc import Sequence

from txn.segment.log.waiting import weight

RECENT_BYTES_MAX = 4 << 20
"""What they may have together."""
_DROPPED_MIN = 256
"""The list is copied when at least so many of its entries, and half of it, have been dropped."""


class RecentEntries:
    """Entries of one ledger without a gap, up to the newest that was confirmed."""

    def __init__(self, bytes_max: int = RECENT_BYTES_MAX) -> None:
        self._entries: list[bytes] = []
        self._first = 0
        """The number of the entry that is first in the list."""
        self._dropped = 0
        self._weight = 0
        self._bytes_max = bytes_max

    def add(self, entries: Sequence[bytes]) -> None:
        """The next entries that were confirmed."""
        self._entries.extend(entries)
        self._weight += weight(entries)
        while self._weight > self._bytes_max:
            self._weight -= weight(self._entries[self._dropped : self._dropped + 1])
            self._entries[self._dropped] = b""
            self._dropped += 1
        if self._dropped >= _DROPPED_MIN and 2 * self._dropped >= len(self._entries):
            del self._entries[: self._dropped]
            self._first += self._dropped
            self._dropped = 0

    def read(self, entry: int, entries_max: int) -> list[bytes]:
        """From that entry on; nothing if it is not kept here."""
        if entry < self._first + self._dropped:
            return []
        start = entry - self._first
        return self._entries[start : start + entries_max]
