"""Where frames begin in a segment: sparse, in memory, and complete as far as anybody has walked."""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_right

INDEX_STEP_BYTES = 64 * 1024


class OffsetIndex:
    """Remembers a frame's place every INDEX_STEP_BYTES, so that a search walks at most that far.

    For the segment that is being written the appender teaches it. For older ones nobody reads a whole file
    in advance: readers teach it, as they walk over what they look for. A walk starts at a known place and
    goes on frame by frame, so no gap can arise, and whoever comes second teaches nothing new.
    """

    def __init__(self, first_offset: int, first_position: int) -> None:
        self._offsets = array("Q", [first_offset])
        self._positions = array("Q", [first_position])
        self._next_position = first_position + INDEX_STEP_BYTES
        self._lock = threading.Lock()

    def learn(self, offset: int, position: int) -> None:
        """The frame that holds `offset` as its first entry begins, or will begin, at `position`."""
        if position < self._next_position:
            return
        with self._lock:
            if position < self._next_position:
                return
            # The position first: a search that sees the offset must find its position.
            self._positions.append(position)
            self._offsets.append(offset)
            self._next_position = position + INDEX_STEP_BYTES

    def floor(self, offset: int) -> tuple[int, int]:
        """The nearest known frame that begins at or before `offset`: its first offset and position."""
        at = bisect_right(self._offsets, offset) - 1
        assert at >= 0, f"offset {offset} is before the segment's first, {self._offsets[0]}"
        return self._offsets[at], self._positions[at]
