"""The beginning of a watch: the records of its range, of one state, at the pace of its reader.

A range that is longer than one chunk holds a snapshot of the store open, which keeps LMDB from reusing pages. So only
some may be under way at a time, the others stand in a line, and one from which nothing is taken for long is let go:
it begins anew when its reader comes back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from metastore.engine.errors import Overloaded
from metastore.engine.index_keys import entry_key
from metastore.engine.record import extras_of, key_of, unpack_indexes
from metastore.engine.scan import EntryScan
from metastore.engine.shard import Shard
from metastore.watch import limits
from metastore.watch.news import FeedBatch, FeedBatchKind
from metastore.watch.spec import Selector, WatchSpec


class SnapshotLine:
    """Who may have a long snapshot, and who waits for that."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders: set[SnapshotReader] = set()
        self._waiting: dict[SnapshotReader, None] = {}

    def try_enter(self, reader: SnapshotReader) -> bool:
        """Whether a reader may go on; if not it waits."""
        with self._lock:
            may_go_on = reader in self._holders or len(self._holders) < limits.LONG_SNAPSHOTS_MAX
            if may_go_on:
                self._holders.add(reader)
            else:
                self._waiting[reader] = None
            return may_go_on

    def wait(self, reader: SnapshotReader) -> None:
        """A reader may not go on for want of something else."""
        with self._lock:
            self._holders.discard(reader)
            self._waiting[reader] = None

    def leave(self, reader: SnapshotReader) -> None:
        """A reader has finished, or its watch has ended. Whoever waits is yet to be woken."""
        with self._lock:
            self._holders.discard(reader)
            self._waiting.pop(reader, None)

    def wake_waiting(self) -> None:
        """Wakes those for whom there is room, the first ones first."""
        with self._lock:
            room = limits.LONG_SNAPSHOTS_MAX - len(self._holders)
            woken = list(self._waiting)[:room]
            for reader in woken:
                del self._waiting[reader]
        for reader in woken:
            reader.wake()

    def holders(self) -> list[SnapshotReader]:
        """Those whose snapshots are under way."""
        with self._lock:
            return list(self._holders)


class SnapshotReader:
    """The snapshot of one watch."""

    def __init__(
        self, shard: Shard, spec: WatchSpec, selector: Selector, line: SnapshotLine, wake: Callable[[], None]
    ) -> None:
        self._shard = shard
        self._spec = spec
        self._selector = selector
        self._line = line
        self._lock = threading.Lock()
        self._scan: EntryScan | None = None
        self.wake = wake
        self.chunks_taken = 0
        self.next_offset: int | None = None
        """The first offset behind the snapshot, when it is complete."""

    def take(self) -> list[FeedBatch]:
        """The next chunk; nothing if the snapshot has to wait for its turn: its reader is woken then."""
        with self._lock:
            return self._take()

    def _take(self) -> list[FeedBatch]:
        assert self.next_offset is None, "the snapshot is complete"
        batches: list[FeedBatch] = []
        if self._scan is None:
            self._scan = self._shard.scan_entries(self._spec.range, admit=lambda: self._line.try_enter(self))
            batches.append(FeedBatch(FeedBatchKind.SNAPSHOT_BEGIN))
        scan = self._scan
        try:
            chunk = scan.next_chunk()
        except Overloaded:
            self._scan = None
            self._line.wait(self)
            return []
        self.chunks_taken += 1
        if chunk:
            told = (record for encoded, record in chunk if record is not None and self._is_told(encoded, record))
            records = tuple(told)
            batches.append(FeedBatch(FeedBatchKind.SNAPSHOT, records=records))
        if scan.is_finished:
            self.next_offset = scan.next_offset
            batches.append(FeedBatch(FeedBatchKind.SNAPSHOT_END, self.next_offset))
            self._release()
        return batches

    def _is_told(self, encoded: bytes, record: bytes) -> bool:
        """A record with several index entries in the range is told at the first of them; an internal one never."""
        if not self._selector.by_index:
            return True
        order, key = self._shard.order, key_of(record)
        if order.is_internal(key):
            return False
        pairs = unpack_indexes(extras_of(record).indexes)
        if len(pairs) == 1:
            return True
        entries = (entry_key(order, name, secondary, key) for name, secondary in pairs)
        return encoded == min(entry for entry in entries if entry >= self._selector.low)

    def let_go(self) -> None:
        """Its reader stands still: lets the state go, unless it is just moving. The next `take` begins anew."""
        if self._lock.acquire(blocking=False):
            try:
                self._release()
            finally:
                self._lock.release()

    def close(self) -> None:
        """The watch ends."""
        with self._lock:
            self._release()

    def _release(self) -> None:
        if self._scan is not None:
            self._scan.close()
            self._scan = None
        self._line.leave(self)
