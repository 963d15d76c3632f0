"""Segment logs kept in the metadata store: any broker can take a segment over, whatever became of its owner.

Groups that wait are put together as one record, a *chunk*, and a few chunks are under way at a time. They are confirmed
in their order. What is trimmed goes chunk by chunk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from metastore.coordination import Backoff, Pace
from metastore.faults import NO_FAULTS, Faults
from metastore.interface import MetadataStore, OutcomeUnknown, UnexpectedVersion
from txn.model.errors import RecordDamaged, SegmentUnavailable
from txn.model.position import Position
from txn.segment.errors import Fenced
from txn.segment.log.ahead import AHEAD_BYTES_MAX, ReadAhead
from txn.segment.log.chunk import Chunk, ChunkKind
from txn.segment.log.fences import Fence, fence_of
from txn.segment.log.interface import SegmentLogs, Synced, unmeasured
from txn.segment.log.ledgers import START
from txn.segment.log.owned import OwnedLog
from txn.segment.log.pipeline import Pipeline, Verdicts
from txn.segment.log.recent import RECENT_BYTES_MAX, RecentEntries
from txn.segment.log.records import LogRecords, StoredState, told
from txn.segment.log.state import LogState
from txn.segment.log.takeover import take_over
from txn.segment.log.waiting import Group

CHUNK_BYTES_MAX = 512 << 10
"""Groups are put together up to so many bytes. One group is never divided."""
GROUP_BYTES_MAX = 4 << 20
"""The store may take less: it then refuses a group before anything is written."""
CHANGE_ATTEMPTS_MAX = 8
"""How often a change of the state is put anew because its answer was lost."""


@dataclass(frozen=True, slots=True)
class StoredLogOptions:
    """Sizes."""

    group_bytes_max: int = GROUP_BYTES_MAX
    chunk_bytes_max: int = CHUNK_BYTES_MAX
    recent_bytes_max: int = RECENT_BYTES_MAX
    ahead_bytes_max: int = AHEAD_BYTES_MAX
    """Of all logs together."""


class StoredSegmentLog(OwnedLog):
    """A segment's log as records."""

    def __init__(
        self,
        records: LogRecords,
        fence: Fence,
        stored: StoredState,
        pace: Pace,
        options: StoredLogOptions,
        faults: Faults,
        ahead: ReadAhead,
        synced: Synced,
    ) -> None:
        super().__init__(stored.state, RecentEntries(options.recent_bytes_max), ahead)
        self.group_bytes_max = options.group_bytes_max
        self._chunk_bytes_max = options.chunk_bytes_max
        self._records = records
        self._version_id = stored.version_id
        self._pace = pace
        self._faults = faults
        verdicts = Verdicts(synced, self._confirm_and_go_on, self._take_back, self._end)
        self._pipeline = Pipeline(records, fence, pace, faults, verdicts)
        self._will_send = False
        self._changing = asyncio.Lock()
        self._removed_to = stored.state.trimmed
        """Nothing is left of what lies before it."""

    # -- appending

    def _start_writing(self) -> None:
        # At the end of the loop's turn: what is appended in one turn goes into one chunk.
        if not self._will_send:
            self._will_send = True
            asyncio.get_running_loop().call_soon(self._send_waiting)

    def _send_waiting(self) -> None:
        self._will_send = False
        while self._waiting and self._pipeline.has_room:
            groups = self._waiting.take(self._chunk_bytes_max)
            entries = [entry for group in groups for entry in group.entries]
            chunk = Chunk(ChunkKind.ENTRIES, groups[0].first, self._state.mark, self._length, entries)
            self._pipeline.send(chunk, groups)

    def _confirm_and_go_on(self, groups: Sequence[Group]) -> None:
        self._confirm(groups)
        self._start_writing()

    # -- reading

    async def _read_stored(self, at: Position, entries_max: int, bytes_max: int) -> Sequence[bytes]:
        length = next(length for ledger, length in self.lengths.ledgers if ledger == at.ledger)
        with told(self.segment, "reading"):
            first = await self._records.chunk_holding(at.ledger, at.entry)
            if first is None or first.end <= at.entry:
                raise await self._missing(at)
            found = list(first.entries[at.entry - first.first.entry :])
            end = first.end
            if end == length or len(found) >= entries_max or sum(map(len, found)) >= bytes_max:
                return found
            size = sum(map(len, found))
            async with aclosing(self._records.chunks(at.ledger, end, length)) as chunks:
                async for chunk in chunks:
                    if chunk.first.entry != end:
                        break
                    found += chunk.entries
                    end, size = chunk.end, size + sum(map(len, chunk.entries))
                    if end == length or len(found) >= entries_max or size >= bytes_max:
                        return found
        raise await self._missing(Position(at.ledger, end))

    async def _missing(self, position: Position) -> Exception:
        """Why a confirmed entry is not there."""
        self._require_running()
        self._check_kept(position)
        stored = await self._records.state()
        if stored is None or stored.state.mark != self._state.mark:
            self._end(self._fenced())
            return self._fenced()
        return RecordDamaged(f"entry {position} of {self.segment!r} was confirmed, and its record is not there")

    # -- what else is durable

    async def _store_seal(self) -> None:
        with told(self.segment, "sealing"):
            await self._change(lambda state: replace(state, is_sealed=True))

    async def trim(self, before: Position) -> None:
        self._require_running()
        with told(self.segment, "trimming"):
            bound = await self._chunk_bound(before)
            if bound > self.lengths.ceiling(START):  # otherwise nothing lies before it
                await self._change(
                    lambda state: replace(state.without_removed(self._removed_to), trimmed=max(bound, state.trimmed))
                )
            self._faults.reach("segment.trim.before")
            if self._removed_to < self._state.trimmed:
                removed_to = self._state.trimmed
                await self._records.remove_before(self._state, removed_to)
                self._removed_to = max(self._removed_to, removed_to)
            self._faults.reach("segment.trim.after")

    async def _chunk_bound(self, before: Position) -> Position:
        """The last bound between two chunks that is not behind that position."""
        lengths = self.lengths
        ledger, entry = (bound := min(lengths.ceiling(before), lengths.end)).ledger, bound.entry
        chunk = await self._records.chunk_holding(ledger, entry) if entry else None
        if chunk is None:
            return bound
        return bound if chunk.end <= entry else chunk.first

    async def _change(self, changed: Callable[[LogState], LogState]) -> None:
        """Changes the state, durably; Fenced if there is a later owner."""
        backoff = Backoff(self._pace)
        async with self._changing:
            for _ in range(CHANGE_ATTEMPTS_MAX):
                after = changed(self._state)
                try:
                    stored = await self._records.store_state(after, self._version_id)
                except (UnexpectedVersion, OutcomeUnknown):
                    known = await self._records.state()
                    if known is None or known.state.mark != self._state.mark:
                        self._end(self._fenced())
                        raise self._fenced() from None
                    stored = known
                self._state, self._version_id = stored
                if self._state == after:
                    return
                await backoff.pause()
        raise SegmentUnavailable(
            f"the state of the log of {self.segment!r} was not changed in {CHANGE_ATTEMPTS_MAX} attempts "
            "(CHANGE_ATTEMPTS_MAX): try again"
        )

    def _fenced(self) -> Fenced:
        return Fenced(f"the log of {self.segment!r} has a later owner than term {self.term}: stop, and campaign again")

    async def close(self) -> None:
        self._end(self._closed())
        self._end(self._closed(), await self._pipeline.close())


class StoredLogs(SegmentLogs):
    """Segment logs in a store."""

    def __init__(
        self,
        store: MetadataStore,
        *,
        pace: Pace | None = None,
        options: StoredLogOptions | None = None,
        faults: Faults = NO_FAULTS,
        synced: Synced = unmeasured,
    ) -> None:
        self._store = store
        self._pace = pace or Pace()
        self._options = options or StoredLogOptions()
        self._ahead = ReadAhead(self._options.ahead_bytes_max)
        self._synced = synced
        self._faults = faults

    async def open(self, segment: str, term: int) -> StoredSegmentLog:
        records = LogRecords(self._store, segment, self._faults)
        fence = fence_of(records)
        with told(segment, "opening"):
            stored = await take_over(records, fence, term, self._pace)
        return StoredSegmentLog(
            records, fence, stored, self._pace, self._options, self._faults, self._ahead, self._synced
        )

    async def delete(self, segment: str, term: int) -> None:
        async with await self.open(segment, term):
            with told(segment, "removing"):
                await LogRecords(self._store, segment, self._faults).remove_all()

    async def close(self) -> None:
        """Nothing is shared but the store, which its own owner closes."""
