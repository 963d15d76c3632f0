"""One watch of a stream, and the line in which watches with news wait for their turn."""

from __future__ import annotations

import threading
from collections import deque

from metastore.server.host import ShardHost
from metastore.watch.feed import Feed
from metastore.watch.news import FeedBatch

EVENTS_PER_TAKE_MAX = 512
"""Events that a watch tells before the next one may; but a write is told whole."""


class StreamWatch:
    """One watch: its feed, and how much it may still tell."""

    __slots__ = ("credit", "feed", "host", "is_in_line", "watch_id")

    def __init__(self, watch_id: int, host: ShardHost, credit: int) -> None:
        self.watch_id = watch_id
        self.host = host
        self.credit = credit
        self.feed: Feed | None = None
        """None before it is opened and when it is over."""
        self.is_in_line = False
        """The line's own note."""

    def take(self) -> list[FeedBatch]:
        """The next news, as far as the credit reaches; the last write, or chunk of a snapshot, may overdraw it."""
        assert self.feed is not None, "a watch that is over has no news"
        assert self.credit > 0, "a watch without credit tells nothing"
        batches = self.feed.take(min(self.credit, EVENTS_PER_TAKE_MAX))
        self.credit -= sum(len(batch.records) + len(batch.changes) for batch in batches)
        return batches

    def close(self) -> None:
        """Ends it."""
        if self.feed is not None:
            self.feed.close()
            self.feed = None


class Line:
    """The watches of a stream that have, or may have, something to tell, in the order of their turns.

    From when it joins until it was found to have nothing more to tell, a watch is *behind*: also when it has left the
    line because it has no credit.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[StreamWatch] = deque()
        self._behind: dict[ShardHost, set[StreamWatch]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def join(self, watch: StreamWatch) -> None:
        """Puts a watch at the end, unless it waits already. Any thread."""
        with self._lock:
            if not watch.is_in_line:
                watch.is_in_line = True
                self._waiting.append(watch)
                self._behind.setdefault(watch.host, set()).add(watch)

    def next(self) -> StreamWatch | None:
        """Takes out the watch that has waited longest."""
        with self._lock:
            if not self._waiting:
                return None
            watch = self._waiting.popleft()
            watch.is_in_line = False
            return watch

    def note_caught_up(self, watch: StreamWatch) -> None:
        """A watch had nothing to tell after it left the line; if it has joined again meanwhile, it may have."""
        with self._lock:
            if not watch.is_in_line:
                self._behind[watch.host].discard(watch)

    def forget(self, watch: StreamWatch) -> None:
        """A watch is over; it may still stand in the line."""
        with self._lock:
            self._behind.get(watch.host, set()).discard(watch)

    def behind(self, host: ShardHost) -> tuple[int, ...]:
        """The ids of the watches of a shard that are behind."""
        with self._lock:
            return tuple(sorted(watch.watch_id for watch in self._behind.get(host, ())))
