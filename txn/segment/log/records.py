"""A segment's log as records of a store: which keys they have, and how they are read and written.

    /segments/SEGMENT/log                   the `LogState`
    /segments/SEGMENT/log/fence             where the store has `transact`: the newest owner's term
    /segments/SEGMENT/log/LEDGER/ENTRY      a chunk of entries, named after its first one, or the end of a ledger

All are in the partition of the segment's name. Numbers have 20 digits, so entries come in the order of their positions,
in both orders that a store's keys may have.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from metastore.faults import Faults
from metastore.interface import (
    Comparison,
    LimitExceeded,
    MetadataStore,
    OutcomeUnknown,
    Range,
    Retriable,
    StoreFull,
)
from txn.model import paths
from txn.model.errors import SegmentUnavailable
from txn.model.position import Position
from txn.segment.errors import GroupTooLarge, SegmentFull
from txn.segment.log.chunk import Chunk
from txn.segment.log.state import LogState

ENTRY_LAST = 10**20 - 1
"""Behind the entries of every ledger."""


class StoredState(NamedTuple):
    """The state, and the version to change it upon."""

    state: LogState
    version_id: int


class LogRecords:
    """The records of one segment's log."""

    def __init__(self, store: MetadataStore, segment: str, faults: Faults) -> None:
        self.store = store
        self._faults = faults
        self.partition_key = segment
        self.segment = segment
        self.state_key = f"/segments/{paths.escaped(segment)}/log"
        self.fence_key = f"{self.state_key}/fence"

    def key(self, ledger: int, entry: int) -> str:
        """The key of the chunk whose first entry that is."""
        return f"{self.state_key}/{paths.padded(ledger)}/{paths.padded(entry)}"

    def _position(self, key: str) -> Position | None:
        """The position of a chunk; None of a record that is none."""
        prefix, _, rest = key.rpartition(f"{self.state_key}/")
        ledger, _, entry = rest.partition("/")
        return None if prefix or not (ledger.isdigit() and entry.isdigit()) else Position(int(ledger), int(entry))

    # -- the state

    async def state(self) -> StoredState | None:
        """As it is now."""
        record = await self.store.get(self.state_key, partition_key=self.partition_key)
        if record is None:
            return None
        return StoredState(LogState.decode(record.value or b""), record.version.version_id)

    async def store_state(self, state: LogState, expected: int) -> StoredState:
        """Changes it, if it is at that version."""
        self._faults.reach("segment.state.before")
        result = await self.store.put(
            self.state_key, state.encode(), expected=expected, partition_key=self.partition_key
        )
        self._faults.reach("segment.state.after")
        return StoredState(state, result.version.version_id)

    # -- chunks

    async def value_at(self, position: Position) -> bytes | None:
        """The record in that very place."""
        record = await self.store.get(self.key(*_pair(position)), partition_key=self.partition_key)
        return None if record is None else record.value or b""

    async def chunk_holding(self, ledger: int, entry: int) -> Chunk | None:
        """The last record of a ledger whose first entry is not behind that one."""
        record = await self.store.get(
            self.key(ledger, entry), comparison=Comparison.FLOOR, partition_key=self.partition_key
        )
        position = None if record is None else self._position(record.key)
        if record is None or position is None or position.ledger != ledger:
            return None
        return Chunk.decode(position, record.value or b"")

    async def chunks(self, ledger: int, start: int, end: int = ENTRY_LAST) -> AsyncGenerator[Chunk, None]:
        """The records of a ledger between two bounds, in their order. To be used in `aclosing`."""
        range = Range(self.key(ledger, start), self.key(ledger, end))
        records = self.store.scan(range, partition_key=self.partition_key)
        try:
            async for record in records:
                position = self._position(record.key)
                assert position is not None, "nothing else lies between two chunks"
                yield Chunk.decode(position, record.value or b"")
        finally:
            if hasattr(records, "aclose"):
                await records.aclose()

    async def remove(self, ledger: int, start: int, end: int = ENTRY_LAST) -> None:
        """Removes the records of a ledger between two bounds."""
        await self.store.delete_range(
            Range(self.key(ledger, start), self.key(ledger, end)), partition_key=self.partition_key
        )

    async def remove_before(self, state: LogState, bound: Position) -> None:
        """Removes what is trimmed. The record that closes a ledger stays: it keeps late writes out, see `fences`."""
        for ledger, length in state.lengths(0).whole_before(bound):
            await self.remove(ledger, 0, length)
            await self.remove(ledger, length + 1)
        if bound.entry:
            await self.remove(bound.ledger, 0, bound.entry)

    async def remove_all(self) -> None:
        """Removes the log, the state last: until then it can be removed again."""
        everything = Range(self.key(0, 0), self.key(ENTRY_LAST, ENTRY_LAST))
        await self.store.delete_range(everything, partition_key=self.partition_key)
        for key in (self.fence_key, self.state_key):
            await self.store.delete(key, partition_key=self.partition_key)


@contextmanager
def told(segment: str, doing: str) -> Iterator[None]:
    """Tells in the words of segments what may be tried again; what is fatal to the store's user stays as it is.

    Whatever is done to a log may be repeated, so an outcome that is not known is no more than that.
    """
    try:
        yield
    except StoreFull as error:
        raise SegmentFull(f"no space while {doing} the log of {segment!r}: {error}") from error
    except (Retriable, OutcomeUnknown) as error:
        raise SegmentUnavailable(f"while {doing} the log of {segment!r}: {error}") from error
    except LimitExceeded as error:
        raise GroupTooLarge(f"while {doing} the log of {segment!r}: {error}") from error


def _pair(position: Position) -> tuple[int, int]:
    return position.ledger, position.entry
