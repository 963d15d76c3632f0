"""A watch: it reads the log of each shard from where it has got to, so it queues nothing and misses nothing."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from metastore.interface import (
    BatchKind,
    Change,
    ChangeKind,
    Range,
    Record,
    TokenExpired,
    Watch,
    WatchBatch,
)
from metastore.providers.memory.bells import wait_until
from metastore.providers.memory.connection import Connection
from metastore.providers.memory.line import Part
from metastore.providers.memory.shard import Effect, LogEntry, Shard, Stored
from metastore.providers.tokens import TokenForm

SNAPSHOT_RECORDS_MAX = 256
"""Of one batch."""
BATCH_WRITES_MAX = 256
"""Of one shard in one batch."""
PROGRESS_WRITES = 64
"""After so many writes that are not of its range a watch tells its progress."""


@dataclass(frozen=True, slots=True)
class Lens:
    """How a watch sees a shard: what of a record is in its range, and what a write is to it. Pure."""

    range: Range
    index: str | None
    has_previous: bool

    def snapshot(self, shard: Shard) -> Iterator[Record]:
        """The records in the range, each once."""
        if self.index is None:
            yield from (stored.as_record() for stored in shard.within(self.range))
            return
        seen = set()
        for record in shard.entries_within(self.index, self.range):
            if record.key not in seen:
                seen.add(record.key)
                yield record

    def see(self, shard: Shard, stored: Stored | None) -> Record | None:
        """The record, if it is in the range."""
        if stored is None:
            return None
        if self.index is None:
            return stored.as_record() if self._holds(shard, stored.key) else None
        secondary = [key for name, key in stored.indexes if name == self.index and self._holds(shard, key)]
        return stored.as_record(min(secondary, key=shard.place)) if secondary else None

    def _holds(self, shard: Shard, key: str) -> bool:
        place, end = shard.place(key), self.range.end
        return shard.place(self.range.start) <= place and (not end or place < shard.place(end))

    def changes(self, shard: Shard, entries: Iterable[LogEntry]) -> Iterator[Change]:
        """What these writes were to the range."""
        for entry in entries:
            for effect in entry.effects:
                if shard.order.is_internal(effect.key.encode()):
                    continue
                before, after = self.see(shard, effect.before), self.see(shard, effect.after)
                kind = self._judge(before is not None, after is not None, effect.before, effect.after)
                if kind is not None:
                    record = after or (None if effect.after is None else effect.after.as_record())
                    previous = before or (None if effect.before is None else effect.before.as_record())
                    shown = previous if self.has_previous else None
                    yield Change(kind, effect.key, record, shown, shard.number, entry.offset, entry.time_ms)

    @staticmethod
    def _judge(was_in: bool, is_in: bool, before: Stored | None, after: Stored | None) -> ChangeKind | None:
        if was_in and is_in:
            return ChangeKind.MODIFIED
        if is_in:
            return ChangeKind.CREATED if before is None else ChangeKind.ENTERED
        if was_in:
            return ChangeKind.DELETED if after is None else ChangeKind.LEFT
        return None


def latest_only(entries: Sequence[LogEntry]) -> Iterator[LogEntry]:
    """The same writes with all changes of a record as one, in the place of its last; for stores that tell no more."""
    before: dict[str, Stored | None] = {}
    last_offset: dict[str, int] = {}
    for entry in entries:
        for effect in entry.effects:
            before.setdefault(effect.key, effect.before)
            last_offset[effect.key] = entry.offset
    for entry in entries:
        effects = (
            Effect(effect.key, before[effect.key], effect.after)
            for effect in entry.effects
            if last_offset[effect.key] == entry.offset
        )
        yield LogEntry(entry.offset, entry.time_ms, tuple(effects))


class MemoryWatch(Watch):
    """Where it has got to are the offsets of the next write of each of its shards; None until it has begun."""

    def __init__(
        self,
        connection: Connection,
        lens: Lens,
        shards: Sequence[Shard],
        token_form: TokenForm,
        resume: str | None,
        has_snapshot: bool,
    ) -> None:
        self._connection = connection
        self._lens = lens
        self._shards = shards
        self._token_form = token_form
        self._offsets = None if resume is None else token_form.read(resume)
        self._has_snapshot = has_snapshot
        self._snapshot: deque[WatchBatch] = deque()
        self._untold_writes = 0
        self._breaks = 0
        self._is_closed = False

    async def __anext__(self) -> WatchBatch:
        connection = self._connection
        while not self._is_closed:
            arrival = await connection.approach("watch", (self._lens.range.start, self._lens.range.end))
            if connection.line.carries(Part.WATCHES) and not self._is_closed:
                connection.script.strike(arrival)
                batch = connection.data.locked(self._take)
                if batch is not None:
                    return batch
            await wait_until(self._has_news, connection.data.news, connection.line.news)
        raise StopAsyncIteration

    async def close(self) -> None:
        self._is_closed = True
        self._connection.line.news.ring()

    def _has_news(self) -> bool:
        line = self._connection.line
        if self._is_closed or line.is_closed:
            return True
        return line.carries(Part.WATCHES) and (self._offsets is None or self._is_behind(self._offsets))

    def _is_behind(self, offsets: list[int]) -> bool:
        return any(shard.next_offset > offset for shard, offset in zip(self._shards, offsets, strict=True))

    def _take(self) -> WatchBatch | None:
        """The next batch, if there is one by now."""
        if self._snapshot and self._breaks != self._connection.line.breaks:
            self._snapshot.clear()
            self._offsets = None
        if self._offsets is None:
            self._begin()
        if self._snapshot:
            return self._snapshot.popleft()
        assert self._offsets is not None
        while self._is_behind(self._offsets):
            told = [self._advance(place, self._offsets) for place in range(len(self._shards))]
            if any(told):
                return self._told(BatchKind.CHANGES, tuple(chain(*told)))
            if self._untold_writes >= PROGRESS_WRITES:
                return self._told(BatchKind.PROGRESS)
        return None

    def _begin(self) -> None:
        """Takes all shards as they are now."""
        self._offsets = [shard.next_offset for shard in self._shards]
        self._breaks = self._connection.line.breaks
        token = self._token_form.make(self._offsets)
        if not self._has_snapshot:
            self._snapshot.append(WatchBatch(BatchKind.PROGRESS, token=token))
            return
        records = [record for shard in self._shards for record in self._lens.snapshot(shard)]
        self._snapshot.append(WatchBatch(BatchKind.SNAPSHOT_BEGIN))
        for first in range(0, len(records), SNAPSHOT_RECORDS_MAX):
            portion = tuple(records[first : first + SNAPSHOT_RECORDS_MAX])
            self._snapshot.append(WatchBatch(BatchKind.SNAPSHOT, records=portion))
        self._snapshot.append(WatchBatch(BatchKind.SNAPSHOT_END, token=token))

    def _advance(self, place: int, offsets: list[int]) -> list[Change]:
        shard = self._shards[place]
        if offsets[place] < shard.oldest_offset:
            raise TokenExpired(
                f"the watch of {self._lens.range} would go on at offset {offsets[place]} of shard {shard.number}, "
                f"and what is kept begins at {shard.oldest_offset}: begin with a snapshot",
                shard.oldest_offset,
            )
        entries = shard.entries_from(offsets[place], BATCH_WRITES_MAX)
        offsets[place] += len(entries)
        self._untold_writes += len(entries)
        if self._connection.capabilities.watches_every_change:
            return list(self._lens.changes(shard, entries))
        return list(self._lens.changes(shard, latest_only(entries)))

    def _told(self, kind: BatchKind, changes: tuple[Change, ...] = ()) -> WatchBatch:
        assert self._offsets is not None
        self._untold_writes = 0
        return WatchBatch(kind, changes=changes, token=self._token_form.make(self._offsets))
