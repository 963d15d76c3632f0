"""What may be read of a segment: how far, and which entries. Every reader goes through here, old or new.

How far says the horizon. Which of the entries before it says what became of their transactions: those that this owner
has in its hands, or remembers, it knows; of any other the segment's own record of aborted transactions tells, in which
what is not there was committed. That holds because the record is durable before the transaction is out of the owner's
hands, and stays as long as any of its entries does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from txn.model.ids import TxnId
from txn.model.position import Position
from txn.segment.bell import Bell
from txn.segment.buffer.aborted import AbortedRecords
from txn.segment.buffer.horizon import Horizon
from txn.segment.entry import Entry
from txn.segment.log import LogEntry, SegmentLog


class Visible(NamedTuple):
    """An entry that readers are to see."""

    position: Position
    entry: Entry


class Visibility:
    """The reading side of a transaction buffer. It may be used as soon as there is one: then all is known."""

    def __init__(
        self,
        log: SegmentLog,
        horizon: Horizon,
        aborted: AbortedRecords,
        fate_of: Callable[[TxnId], bool | None],
    ) -> None:
        self._log = log
        self._horizon = horizon
        self._aborted = aborted
        self._fate_of = fate_of
        """Whether a transaction in the owner's hands was aborted; None if it is not in the owner's hands."""
        self._moved = Bell()
        self._failure: Exception | None = None

    @property
    def bound(self) -> Position:
        """Nothing at or behind it may be read. It never goes back.

        It is the first entry of the oldest transaction that is open in this segment, or the end of what is confirmed.
        """
        end, first = self._log.lengths.end, self._horizon.first
        return end if first is None else min(first, end)

    async def wait_moved(self, beyond: Position) -> bool:
        """Returns when the bound lies behind that position.

        False when it never will: the segment is sealed, nothing in it is undecided, and the bound is where it stays.
        SegmentUnavailable, and its kinds, when this owner has ended.
        """
        while True:
            if self._failure is not None:
                raise self._failure.with_traceback(None)
            if self.bound > beyond:
                return True
            if self._log.is_sealed and self.bound == self._log.lengths.end:
                return False
            await self._moved.wait()

    async def wait_let_go(self, txn_id: TxnId) -> None:
        """Returns when that transaction, which is decided, does not hold the bound. Raises as `wait_moved` does."""
        while self._horizon.oldest == txn_id:
            if self._failure is not None:
                raise self._failure.with_traceback(None)
            await self._moved.wait()

    async def filter(self, entries: Sequence[LogEntry]) -> list[Visible]:
        """Opens entries that lie before the bound, and leaves out the void ones and those of aborted transactions."""
        bound = self.bound
        assert not entries or entries[-1].position < bound, f"{entries[-1].position} lies behind the bound {bound}"
        decoded = [Visible(position, Entry.decode(data)) for position, data in entries]
        fates: dict[TxnId, bool] = {}
        unknown: list[TxnId] = []
        for txn_id in {each.entry.txn_id for each in decoded}:
            if txn_id is not None:
                fate = self._fate_of(txn_id)
                if fate is None:
                    unknown.append(txn_id)
                else:
                    fates[txn_id] = fate
        if unknown:
            fates |= await self._aborted.look_up(unknown)
        return [
            each
            for each in decoded
            if not each.entry.is_void and (each.entry.txn_id is None or not fates[each.entry.txn_id])
        ]

    def ring(self) -> None:
        """Something has changed that `wait_moved` may be waiting for."""
        self._moved.ring()

    def end(self, failure: Exception) -> None:
        """The owner has ended; the first reason stays."""
        self._failure = self._failure or failure
        self.ring()
