"""One watch: first its snapshot, then the log up to the present, then live; and back to the log when it is slow."""

from __future__ import annotations

import threading
from collections.abc import Callable

from metastore.engine.shard import Shard
from metastore.log import LogTrimmed
from metastore.watch import limits
from metastore.watch.effects import effects_of
from metastore.watch.errors import OffsetTrimmed, PreviousValuesMissing
from metastore.watch.live import Live, LiveQueue
from metastore.watch.matching import change_of, matches_of
from metastore.watch.news import Change, FeedBatch, FeedBatchKind
from metastore.watch.snapshot import SnapshotReader


class Feed:
    """The news of one range. Made by `WatchHub.open`; any thread may use it."""

    def __init__(
        self,
        shard: Shard,
        live: Live,
        queue: LiveQueue,
        snapshot: SnapshotReader | None,
        wake_line: Callable[[], None],
        on_close: Callable[[Feed], None],
    ) -> None:
        self._shard = shard
        self._live = live
        self._queue = queue
        self._snapshot = snapshot
        self._wake_line = wake_line
        """Others may wait for their turn to read a snapshot."""
        self._on_close = on_close
        self._taking = threading.Lock()
        self._is_closed = False
        if snapshot is None:
            live.join(queue)

    def take(self, events_max: int) -> list[FeedBatch]:
        """The next news, at once; none if there are none now: then `wake` is called when there are.

        Up to `events_max` changes, and the rest of the write request that the last of them belongs to; or a chunk of
        the snapshot. Raises OffsetTrimmed if the log does not have what comes next, ShardStopped if nothing comes any
        more. A closed feed has no news.
        """
        assert events_max >= 1, "nothing can be taken so"
        with self._taking:
            if self._is_closed:
                return []
            self._shard.check_open()
            snapshot = self._snapshot
            batches = self._take_changes(events_max) if snapshot is None else self._take_snapshot(snapshot)
        if snapshot is not self._snapshot:
            self._wake_line()
        return batches

    def _take_snapshot(self, snapshot: SnapshotReader) -> list[FeedBatch]:
        batches = snapshot.take()
        if snapshot.next_offset is not None:
            self._queue.next_offset = snapshot.next_offset
            self._snapshot = None
            self._live.join(self._queue)
        return batches

    def _take_changes(self, events_max: int) -> list[FeedBatch]:
        live, queue = self._live, self._queue
        while (changes := live.take(queue, events_max)) is None:
            if not live.join(queue):
                changes = self._read_log(events_max)
                if changes:
                    break
                if not live.join(queue):
                    return [FeedBatch(FeedBatchKind.PROGRESS, queue.next_offset)]
        if not changes:
            return []
        next_offset = live.next_offset(queue, len(changes))
        return [FeedBatch(FeedBatchKind.CHANGES, next_offset, changes=tuple(changes))]

    def _read_log(self, events_max: int) -> list[Change]:
        """The changes that a bounded piece of the log tells, up to what readers can see."""
        queue = self._queue
        published = self._shard.next_offset
        try:
            frames = self._shard.read_log(queue.next_offset, limits.LOG_READ_BYTES)
        except LogTrimmed as error:
            raise OffsetTrimmed(error.offset, error.oldest) from error
        changes: list[Change] = []
        for frame in frames:
            for offset, payload in enumerate(frame.entries, frame.first_offset):
                if offset >= published or len(changes) >= events_max:
                    break
                try:
                    changes += self._changes_of(offset, payload)
                except PreviousValuesMissing:
                    if not changes:
                        raise
                    return changes
                queue.next_offset = offset + 1
        return changes

    def _changes_of(self, offset: int, payload: bytes) -> list[Change]:
        selector, order = self._queue.selector, self._shard.order
        effects = effects_of(offset, payload, order.user_end)
        return [
            change_of(kind, effect, effects, selector, order) for kind, effect in matches_of(selector, effects, order)
        ]

    @property
    def is_live(self) -> bool:
        """Whether it is told by the rounds, and not from a snapshot or the log."""
        return self._queue.is_live

    @property
    def next_offset(self) -> int | None:
        """Everything below was taken or does not concern the range; None before the snapshot is complete.

        It goes on by itself while nothing happens to the range: this is the progress of a watch without news.
        """
        return None if self._snapshot is not None else self._live.next_offset(self._queue)

    @property
    def lag(self) -> int:
        """How many write requests were not looked at yet; a snapshot counts from its beginning."""
        reached = self.next_offset
        return 0 if reached is None else max(0, self._shard.next_offset - reached)

    def close(self) -> None:
        """Ends the watch. Twice is as good as once."""
        with self._taking:
            if self._is_closed:
                return
            self._is_closed = True
            self._live.leave(self._queue)
            if self._snapshot is not None:
                self._snapshot.close()
        self._wake_line()
        self._on_close(self)
