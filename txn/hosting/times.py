"""From a time to a place in a log: the first entry that was published then or later."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from txn.model.position import Position
from txn.segment.entry import Entry
from txn.segment.log import SegmentLog

READ_BYTES_MAX = 8 << 20


async def position_of_time(log: SegmentLog, time_ms: int) -> Position:
    """A bound with the first entry of that time behind it: the end of the log if all are older.

    Times are those that producers say, and are taken to grow: where they do not, it is one of several answers.
    """
    ledgers = log.lengths.ledgers
    starts = [0, *accumulate(each.length for each in ledgers)]

    def position(number: int) -> Position:
        place = bisect_right(starts, number, hi=len(ledgers)) - 1
        return Position(ledgers[place].ledger, number - starts[place])

    first = log.lengths.first
    low, high = 0, starts[-1]
    if first is not None:
        place = next(number for number, each in enumerate(ledgers) if each.ledger == first.ledger)
        low = starts[place] + first.entry
    while low < high:
        middle = (low + high) // 2
        if await _published_ms(log, position(middle)) >= time_ms:
            high = middle
        else:
            low = middle + 1
    return position(low) if low < starts[-1] else log.lengths.end


async def _published_ms(log: SegmentLog, position: Position) -> int:
    """When an entry was published; of one that nobody will see, when the next one was that somebody might."""
    (found,) = await log.read(position, 1, READ_BYTES_MAX)
    return Entry.decode(found.data).published_ms
