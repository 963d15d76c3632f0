"""Marks of progress: how far the watches of a shard have come on a stream, told for all of them at once.

Without them a watch to whose range nothing happens could be resumed only from where something last did, and that may be
trimmed from the log.
"""

from __future__ import annotations

from collections import Counter

from metastore.pb import tidemark_pb2
from metastore.server.host import ShardHost
from metastore.server.tidemark.watches import Line

PROGRESS_INTERVAL_S = 1.0
"""How often a stream tells how far the watches of a shard have come, if they have come on."""

_Mark = tuple[int, tuple[int, ...]]
"""The offset, and the watches that are behind it."""


class ProgressMarks:
    """What a stream tells of its progress, and when."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._is_due = False
        self._next_s = 0.0
        self._followed: Counter[ShardHost] = Counter()
        self._told: dict[ShardHost, _Mark] = {}

    def tick(self, now_s: float) -> bool:
        """Whether it is time to tell; called by one thread."""
        if now_s < self._next_s:
            return False
        self._next_s = now_s + PROGRESS_INTERVAL_S
        self._is_due = True
        return True

    def follow(self, host: ShardHost) -> None:
        """A watch of the shard begins: what was told to the others was not told to it."""
        self._followed[host] += 1
        self._told.pop(host, None)

    def unfollow(self, host: ShardHost) -> None:
        """A watch of the shard is over."""
        self._followed[host] -= 1
        if not self._followed[host]:
            del self._followed[host]
            self._told.pop(host, None)

    def due(self) -> list[tidemark_pb2.WatchProgress]:
        """The marks to tell now, behind all that was taken before."""
        if not self._is_due:
            return []
        self._is_due = False
        marks = []
        for host in self._followed:
            # First the offset: whoever has news from before it is in the line by now.
            offset = host.told_offset
            mark = offset, self._line.behind(host)
            if self._told.get(host) != mark:
                self._told[host] = mark
                marks.append(tidemark_pb2.WatchProgress(shard=host.shard_id, resume_offset=offset, behind=mark[1]))
        return marks
