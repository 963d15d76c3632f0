"""What is open in a store and lasts: sessions, watches, sequences that are followed, scans under way."""

from __future__ import annotations

from typing import Any

from metastore.interface import StoreError
from metastore.providers.local.reading import Reader
from metastore.providers.local.sequences import SequenceWatch
from metastore.providers.local.sessions import LocalSession
from metastore.providers.local.threads import LoopInbox
from metastore.providers.local.watching import LocalWatch


class Lasting:
    """All of it. Changed on the loop; the housekeeping looks after it from its own thread."""

    def __init__(self, inbox: LoopInbox) -> None:
        self._inbox = inbox
        self.sessions: set[LocalSession] = set()
        self.watches: set[LocalWatch] = set()
        self.sequences: set[SequenceWatch] = set()
        self.readers: set[Reader[Any]] = set()

    def beat(self) -> None:
        """The heartbeats that are due. On the thread of the housekeeping."""
        for session in tuple(self.sessions):
            session.beat()

    def tend(self, now_s: float) -> None:
        """Ends readers that stand still, and has watches tell their progress. On the thread of the housekeeping."""
        for reader in tuple(self.readers):
            reader.end_if_stalled(now_s)
        self._inbox.post(self._tell_progress)

    def _tell_progress(self) -> None:
        for watch in self.watches:
            watch.note_progress()

    def fail(self, error: StoreError) -> None:
        """Whoever waits for news is told that none come any more. On the loop."""
        for watch in self.watches:
            watch.fail(error)
        for sequence in self.sequences:
            sequence.fail(error)

    def fail_soon(self, error: StoreError) -> None:
        """The same from any thread."""
        self._inbox.post(self.fail, error)

    def give_up(self) -> None:
        """No session gets another heartbeat. On the loop."""
        for session in tuple(self.sessions):
            session.give_up()

    def close_readers(self) -> None:
        """Releases what scans hold. On a thread, when nobody reads any more."""
        for reader in tuple(self.readers):
            reader.close()
