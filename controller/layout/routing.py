"""Which active segment a message goes to."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter

from controller.layout.errors import LayoutError
from controller.layout.hashing import key_hash, legacy_partition, segment_hash
from controller.layout.segments import Segment

_range_start = attrgetter("range.start")


class Router:
    """Routes by the active segments of one layout, given in the order of their ranges.

    A key goes to the segment whose range has its hash; where all segments are partitions of a topic of the old kind, to
    the partition that the key always had. Messages without a key take turns.
    """

    def __init__(self, active: Sequence[Segment], turn: int = 0) -> None:
        if not active:
            raise LayoutError("nothing to route to: no active segment")
        self._active = sorted(active, key=_range_start)
        self._starts = [each.range.start for each in self._active]
        self._by_partition = {each.segment_id: each for each in active} if all(e.is_legacy for e in active) else None
        self.turn = turn
        """How many messages without a key were routed."""

    def route(self, key: str | bytes | None) -> Segment:
        """The segment of the next message with this key."""
        if key is None:
            self.turn += 1
            return self._active[(self.turn - 1) % len(self._active)]
        return self.by_hash(key_hash(key))

    def by_hash(self, hash: int) -> Segment:
        """The segment of messages whose keys have this hash."""
        if self._by_partition is not None:
            return self._partition(legacy_partition(hash, len(self._by_partition)))
        return self.find(segment_hash(hash))

    def _partition(self, number: int) -> Segment:
        assert self._by_partition is not None
        if number not in self._by_partition:
            raise LayoutError(f"No active segment is partition {number} of {len(self._by_partition)}")
        return self._by_partition[number]

    def find(self, hash: int) -> Segment:
        """The segment whose range has this hash."""
        place = bisect_right(self._starts, hash) - 1
        if place < 0 or hash not in self._active[place].range:
            raise LayoutError(f"No active segment covers hash: {hash}")
        return self._active[place]
