"""A reader: takes what may be read from somewhere on, without leaving a trace."""

from __future__ import annotations

from collections.abc import Sequence

from txn.model.position import Position
from txn.segment.errors import EntriesTrimmed
from txn.segment.log import SegmentLog
from txn.segment.subscription.errors import EndOfSegment
from txn.segment.subscription.values import READ_BYTES_MAX, READ_ENTRIES_MAX, Readable, VisibleEntry


class Reader:
    """Reads a segment from a bound on; sees what every subscription sees. Used by one task at a time.

    What was trimmed away before it came there is passed over.
    """

    def __init__(self, log: SegmentLog, readable: Readable, start: Position, *, is_following: bool = True) -> None:
        self.at = start
        """Where it goes on."""
        self._is_following = is_following
        self._log = log
        self._readable = readable

    async def read(
        self, entries_max: int = READ_ENTRIES_MAX, bytes_max: int = READ_BYTES_MAX
    ) -> Sequence[VisibleEntry]:
        """The next entries, at least one, waited for. EndOfSegment when none will ever come: it is sealed.

        One that is not following waits for nothing: it gives none where there are none that may be read.
        """
        while True:
            self.at = self._log.lengths.ceiling(self.at)
            bound = self._readable.bound
            if self.at >= bound:
                if not self._is_following:
                    return ()
                if not await self._readable.wait_moved(self.at):
                    raise EndOfSegment(f"the segment {self._log.segment!r} is sealed, and everything in it was read")
            elif visible := await self._read_before(bound, min(entries_max, READ_ENTRIES_MAX), bytes_max):
                return visible

    async def _read_before(self, bound: Position, entries_max: int, bytes_max: int) -> Sequence[VisibleEntry]:
        try:
            found = await self._log.read(self.at, entries_max, bytes_max)
        except EntriesTrimmed as error:
            self.at = error.oldest
            return ()
        entries = [each for each in found if each.position < bound]
        visible = await self._readable.filter(entries)
        last = entries[-1].position if entries else None
        self.at = bound if last is None else Position(last.ledger, last.entry + 1)
        return visible
