"""The door: the watches of one shard.

hub = WatchHub(shard)
feed = hub.open(WatchSpec(b"/a/", b"/a//"), wake)
for batch in feed.take(events_max=1000): ...
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple

from metastore.engine.errors import InvalidRequest
from metastore.engine.shard import Shard
from metastore.watch import limits
from metastore.watch.errors import OffsetTrimmed, PreviousValuesMissing, TooManyWatches
from metastore.watch.feed import Feed
from metastore.watch.live import Live, LiveQueue
from metastore.watch.snapshot import SnapshotLine, SnapshotReader
from metastore.watch.spec import NOW, Selector, WatchSpec, selector_of


class WatchStatistics(NamedTuple):
    """For the metrics."""

    watches: int
    lagging: int
    """Those that are not live: in their snapshot, or reading from the log."""
    greatest_lag: int
    """Write requests."""
    events: int
    """Changes told since the hub was made."""


class WatchHub:
    """All watches of a shard."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._lock = threading.Lock()
        self._feeds: dict[Feed, Selector] = {}
        self._previous_wanted = 0
        """Open watches that ask for previous values; it grows only between rounds, where it is judged, too."""
        self._line = SnapshotLine()
        self._standing: dict[SnapshotReader, tuple[int, float]] = {}
        self._live = shard.rounds.between_rounds(self._attach)

    def _attach(self) -> Live:
        live = Live(self._shard.order, self._shard.next_offset)
        self._shard.rounds.on_round.append(live.on_round)
        return live

    @property
    def next_offset(self) -> int:
        """The offset that the next write request gets. To watch from now on say NOW, which cannot be overtaken."""
        return self._shard.next_offset

    def open(self, spec: WatchSpec, wake: Callable[[], None]) -> Feed:
        """Begins a watch. Its first news are asked for with `take`; `wake` is called after an empty one.

        `wake` may come from any thread, even before that `take` has returned. It must be quick: a round of writes
        waits for it. Raises OffsetTrimmed, PreviousValuesMissing, InvalidRequest or TooManyWatches.
        """
        shard = self._shard
        shard.check_open()
        selector = selector_of(spec, shard.order)
        with ExitStack() as undo:
            if spec.previous_values:
                shard.rounds.between_rounds(self._want_previous)
                undo.callback(self._forget_previous)
            first = self._first_offset(spec)
            queue = LiveQueue(selector, first or 0, wake)
            reader = None if first is not None else SnapshotReader(shard, spec, selector, self._line, wake)
            feed = Feed(shard, self._live, queue, reader, self._line.wake_waiting, self._forget)
            undo.callback(self._live.leave, queue)
            with self._lock:
                if len(self._feeds) >= limits.WATCHES_MAX:
                    raise TooManyWatches(
                        f"the shard has {limits.WATCHES_MAX} watches (WATCHES_MAX): no more are opened"
                    )
                self._feeds[feed] = selector
            undo.pop_all()
        return feed

    def _first_offset(self, spec: WatchSpec) -> int | None:
        """Where the changes of a watch begin; None: behind its snapshot."""
        wanted, next_offset = spec.from_offset, self._shard.next_offset
        if wanted is None or wanted == NOW:
            return None if wanted is None else next_offset
        if wanted > next_offset:
            raise InvalidRequest(f"offset {wanted} has not been reached: the next write gets {next_offset}")
        oldest = self._shard.first_offset
        if wanted < oldest:
            raise OffsetTrimmed(wanted, oldest)
        since = self._shard.previous_since
        if spec.previous_values and since is not None and wanted < since:
            raise PreviousValuesMissing(wanted, since)
        return wanted

    def _want_previous(self) -> None:
        self._shard.keep_previous()
        with self._lock:
            self._previous_wanted += 1

    def _forget_previous(self) -> None:
        with self._lock:
            self._previous_wanted -= 1

    def _forget(self, feed: Feed) -> None:
        with self._lock:
            selector = self._feeds.pop(feed)
        if selector.previous_values:
            self._forget_previous()

    def tend(self, now_s: float) -> None:
        """Housekeeping, every few seconds, by a monotonic clock: lets go what nobody needs any more."""
        if self._shard.previous_since is not None:
            self._shard.rounds.between_rounds(lambda: self._shard.tend_previous(self._previous_wanted > 0))
        self._let_standing_snapshots_go(now_s)
        self._line.wake_waiting()

    def _let_standing_snapshots_go(self, now_s: float) -> None:
        standing: dict[SnapshotReader, tuple[int, float]] = {}
        for reader in self._line.holders():
            chunks, since_s = self._standing.get(reader, (-1, now_s))
            if chunks != reader.chunks_taken:
                standing[reader] = (reader.chunks_taken, now_s)
            elif now_s - since_s < limits.SNAPSHOT_STANDS_S:
                standing[reader] = (chunks, since_s)
            else:
                reader.let_go()
        self._standing = standing

    def statistics(self) -> WatchStatistics:
        """What there is to measure."""
        with self._lock:
            feeds = list(self._feeds)
        lagging = sum(not feed.is_live for feed in feeds)
        greatest = max((feed.lag for feed in feeds), default=0)
        return WatchStatistics(len(feeds), lagging, greatest, self._live.events_told)

    def close(self) -> None:
        """Ends all watches; the shard goes on."""
        self._shard.rounds.between_rounds(lambda: self._shard.rounds.on_round.remove(self._live.on_round))
        with self._lock:
            feeds = list(self._feeds)
        for feed in feeds:
            feed.close()
