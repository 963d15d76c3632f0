"""What a shard tells of its past: the log as its change log, from which news, watches and previous values are read.

Nothing here asks whether the shard is open; its door does.
"""

from __future__ import annotations

from metastore.clock import Clock
from metastore.engine.keys import KeyOrder
from metastore.engine.notifications import NotificationBatch, notifications_of
from metastore.engine.previous import PreviousRecords
from metastore.engine.store import Store
from metastore.log import Frame, Log, LogTrimmed


class ChangeLog:
    """Of one shard."""

    def __init__(
        self, log: Log, store: Store, previous: PreviousRecords, order: KeyOrder, clock: Clock, retention_ms: int
    ) -> None:
        self._log = log
        self._store = store
        self._previous = previous
        self._order = order
        self._clock = clock
        self._retention_ms = retention_ms
        self._show_previous()

    def _show_previous(self) -> None:
        self._store.keeps_previous = self._previous.since_offset is not None

    def notifications(self, offset: int, bytes_max: int) -> list[NotificationBatch]:
        """The news from an offset on (or from the oldest retained one), about so many bytes of log."""
        return [
            notifications_of(frame.first_offset + index, payload, self._order)
            for frame in self._retained_frames(offset, bytes_max)
            for index, payload in enumerate(frame.entries)
        ]

    def _retained_frames(self, offset: int, bytes_max: int) -> list[Frame]:
        """The log from an offset on, or from where trimming has left it; trimming may go on meanwhile."""
        offset = max(offset, self._log.first_offset)
        while offset < self._store.durable.next_offset:
            try:
                return self._log.read(offset, bytes_max)
            except LogTrimmed as error:
                offset = error.oldest
        return []

    def keep_previous(self) -> int:
        """From the offset on that this returns, the log tells what records were before; durably so."""
        try:
            return self._previous.begin(self._store.durable.next_offset, self._clock.wall_ms())
        finally:
            self._show_previous()

    def tend_previous(self, is_wanted: bool) -> None:
        """Ends `keep_previous` when nobody has wanted it for a retention time."""
        if self._store.keeps_previous and self._previous.tend(is_wanted, self._clock.wall_ms(), self._retention_ms):
            self._previous.end()
            self._store.keeps_previous = False

    def trim(self) -> int:
        """Drops entries that are older than the retention and in LMDB; returns the oldest offset left."""
        return self._log.trim(self._store.applied.next_offset, self._clock.wall_ms() - self._retention_ms)
