"""The log of a segment, as its owner sees it; and the places where such logs are kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import NamedTuple, Self

from txn.model.position import Position
from txn.segment.log.ledgers import LedgerLengths

Synced = Callable[[float], None]
"""Told for how many seconds entries that were written together were on their way until they were durable."""


def unmeasured(_seconds: float) -> None:
    """Nobody wants to know."""


class LogEntry(NamedTuple):
    """An entry as it is read."""

    position: Position
    data: bytes


class SegmentLog(ABC):
    """A segment's entries in their order, while one owner has them open.

    Each owner writes a ledger of its own, whose number is the owner's term; so positions only grow, and no position
    is ever given to two entries that both could be read. An entry is *confirmed* when it is durable and all before it
    are: it then stays, for every later owner too. Only confirmed entries are read.

    An object serves any number of tasks of one event loop. When it has ended, because it was closed, because a later
    owner has taken over (Fenced), or because it is in doubt what is durable (LogStopped), every method raises so, but
    `close` and the properties, which stay as they were.
    """

    segment: str
    term: int
    group_bytes_max: int
    """What a group of entries may have together."""
    group_entries_max: int

    @property
    @abstractmethod
    def next_position(self) -> Position:
        """Where the first entry of the next append will be. An append takes its positions when it is called."""

    @property
    @abstractmethod
    def lengths(self) -> LedgerLengths:
        """The ledgers and their confirmed entries."""

    @property
    def first(self) -> Position | None:
        """The oldest entry that is kept; None if there is none."""
        return self.lengths.first

    @property
    def last_confirmed(self) -> Position | None:
        """The newest confirmed entry, though it may be trimmed away by now; None if there never was one."""
        return self.lengths.last

    @property
    @abstractmethod
    def is_sealed(self) -> bool:
        """Whether the log is known to be sealed, durably."""

    @abstractmethod
    def append(self, entries: Sequence[bytes]) -> Awaitable[Position]:
        """Appends a group, at positions one behind the other in this owner's ledger; gives the first of them.

        The positions are taken in the call itself, before anything is awaited; what is awaited is the confirmation.
        A group is there as a whole or not at all, whatever is cut off. Groups that wait are written together. They are
        confirmed in their order, and who stops waiting takes nothing back.

        SegmentSealed, GroupTooLarge, SegmentBusy, raised by the call: nothing was changed. SegmentFull, or any other
        SegmentUnavailable than the following: nothing was changed either, and neither by the groups that waited behind
        this one, which fail alike; `next_position` is back at the first of them. After Fenced and LogStopped the log
        has ended. What was not confirmed then is either kept as a whole or cut off as a whole by the next owner, and
        cut off if something before it is.
        """

    @abstractmethod
    async def read(self, start: Position, entries_max: int, bytes_max: int) -> list[LogEntry]:
        """Confirmed entries from the first at or behind `start` on, one behind the other.

        At least one if there is any, and no more than `entries_max`, nor than `bytes_max` but for the first; it may be
        fewer, also where more follow. EntriesTrimmed if entries from `start` on were trimmed away. Where one ledger
        ends the next begins. An entry that is missing within a ledger, or not as it was written, is RecordDamaged.
        """

    @abstractmethod
    async def wait_appended(self, after: Position | None) -> bool:
        """Returns when an entry behind `after` (None: any) is confirmed; False when none will come: it is sealed."""

    @abstractmethod
    async def seal(self) -> None:
        """No entry will follow those whose append was called before. It is durable, for later owners too.

        Appends are refused from the call on, also if it fails or is cancelled; then it can be called again.
        """

    @abstractmethod
    async def trim(self, before: Position) -> None:
        """Gives up entries before a position, in pieces as they are stored: `first` tells what is left.

        What shares a piece with an entry that stays is left as well.
        """

    @abstractmethod
    async def close(self) -> None:
        """Ends the object and frees the log for another owner. Appends that are not confirmed yet stay undecided."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class SegmentLogs(ABC):
    """A place where the logs of segments are kept."""

    @abstractmethod
    async def open(self, segment: str, term: int) -> SegmentLog:
        """Opens a segment's log, or begins it, for an owner with this term.

        From now on no owner with a smaller term appends anything to it. What an earlier owner was told to be confirmed
        is there; what it had under way is decided now. The time that takes does not grow with what the log holds.

        A term opens a log once: Fenced if it or a greater one has done so. LogInUse where another process holds the log
        and cannot be deprived of it. SegmentUnavailable and SegmentFull: try again, with a new term.
        """

    @abstractmethod
    async def delete(self, segment: str, term: int) -> None:
        """Removes a log with all that belongs to it, for an owner with this term. A segment is deleted for good."""

    @abstractmethod
    async def close(self) -> None:
        """Frees what all logs share; the logs themselves are closed before."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
