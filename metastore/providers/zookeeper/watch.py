"""A watch: it reads the change log from where it has got to, so it queues nothing and misses nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

from metastore.interface import BatchKind, Range, TokenExpired, Unavailable, Watch, WatchBatch
from metastore.providers.tokens import TokenForm
from metastore.providers.zookeeper.changelog import changes_of
from metastore.providers.zookeeper.limits import (
    PROGRESS_WRITES,
    SCAN_ATTEMPTS_MAX,
    SCAN_PORTION_RECORDS,
    WATCH_WRITES_MAX,
)
from metastore.providers.zookeeper.reader import Reader, Snapshot
from metastore.providers.zookeeper.selection import Row, Selection, select
from metastore.providers.zookeeper.sequences import greatest_of


@dataclass(frozen=True, slots=True)
class _Telling:
    """A snapshot that is being told."""

    snapshot: Snapshot
    rows: Sequence[Row]
    told: int
    """How many of the rows."""
    attempt: int


@dataclass(frozen=True, slots=True)
class _Place:
    """How far a watch has got."""

    position: int | None = None
    """The next write to look at; None until there is a snapshot or a beginning."""
    telling: _Telling | None = None


class ZookeeperWatch(Watch):
    """Its place changes only when a batch is handed over: a wait that is cancelled has taken nothing."""

    def __init__(
        self,
        reader: Reader,
        selection: Selection,
        form: TokenForm,
        position: int | None,
        has_snapshot: bool,
        has_previous: bool,
    ) -> None:
        self._reader = reader
        self._selection = selection
        self._form = form
        self._place = _Place(position)
        self._has_snapshot = has_snapshot
        self._has_previous = has_previous
        self._is_closed = False
        self._under_way: asyncio.Task[tuple[WatchBatch, _Place]] | None = None

    async def __anext__(self) -> WatchBatch:
        if self._is_closed:
            raise StopAsyncIteration
        self._under_way = asyncio.create_task(self._next())
        try:
            batch, self._place = await self._under_way
        except asyncio.CancelledError:
            if self._was_cut_short():
                raise StopAsyncIteration from None
            raise
        finally:
            self._under_way = None
        return batch

    def _was_cut_short(self) -> bool:
        """Whether it was the watch that was cancelled, by its end, and not the task that waits for it."""
        task = asyncio.current_task()
        assert task is not None
        return self._is_closed and not task.cancelling()

    async def close(self) -> None:
        self._is_closed = True
        if self._under_way is not None:
            self._under_way.cancel()

    async def _next(self) -> tuple[WatchBatch, _Place]:
        """The next batch, and where the watch is behind it."""
        place = self._place
        if place.telling is not None:
            return await self._tell(place.telling)
        if place.position is None:
            return await self._begin(1)
        return await self._follow(place.position)

    async def _begin(self, attempt: int) -> tuple[WatchBatch, _Place]:
        snapshot = await self._reader.snapshot(self._selection)
        if not self._has_snapshot:
            token = self._form.make([snapshot.position])
            return WatchBatch(BatchKind.PROGRESS, token=token), _Place(snapshot.position)
        try:
            rows = await snapshot.rows()
        except Unavailable:
            return await self._begin_anew(attempt)
        # By an index a record may have several rows: the first stands for it.
        firsts = {row.identity: row for row in reversed(rows)}
        return WatchBatch(BatchKind.SNAPSHOT_BEGIN), _Place(
            telling=_Telling(snapshot, list(firsts.values()), 0, attempt)
        )

    async def _begin_anew(self, attempt: int) -> tuple[WatchBatch, _Place]:
        """The log no longer reaches back to where the snapshot began."""
        if attempt >= SCAN_ATTEMPTS_MAX:
            raise Unavailable(
                f"{attempt} snapshots (SCAN_ATTEMPTS_MAX) took longer than the change log keeps writes: "
                "watch a smaller range, or read faster"
            )
        return await self._begin(attempt + 1)

    async def _tell(self, telling: _Telling) -> tuple[WatchBatch, _Place]:
        """The next portion of the snapshot."""
        snapshot = telling.snapshot
        end = telling.told + SCAN_PORTION_RECORDS
        portion = telling.rows[telling.told : end]
        if not portion:
            token = self._form.make([snapshot.position])
            return WatchBatch(BatchKind.SNAPSHOT_END, token=token), _Place(snapshot.position)
        try:
            found = await snapshot.records(portion)
        except Unavailable:
            return await self._begin_anew(telling.attempt)
        records = tuple([stored.as_record(row.secondary_key) for row, stored in zip(portion, found, strict=True)])
        return WatchBatch(BatchKind.SNAPSHOT, records=records), _Place(telling=replace(telling, told=end))

    async def _follow(self, position: int) -> tuple[WatchBatch, _Place]:
        """The next changes."""
        tail = self._reader.tail
        begun = position
        while True:
            await tail.wait_beyond(position)
            entries = await tail.entries(position, min(tail.known_next, position + WATCH_WRITES_MAX))
            changes = await changes_of(self._reader, self._selection, entries, self._has_previous)
            position += len(entries)
            token = self._form.make([position])
            if changes:
                return WatchBatch(BatchKind.CHANGES, changes=changes, token=token), _Place(position)
            if position - begun >= PROGRESS_WRITES:
                return WatchBatch(BatchKind.PROGRESS, token=token), _Place(position)


async def sequence_keys(reader: Reader, prefix: str, partition_key: str) -> AsyncIterator[str]:
    """The greatest key of a sequence, then each that is generated."""
    selection = select(reader.order, Range(f"{prefix}-", f"{prefix}-:"), None, partition_key)  # `:` follows the 9
    told: str | None = None
    while True:
        snapshot = await reader.snapshot(selection)
        greatest = greatest_of(prefix, [row.identity.key for row in await snapshot.rows()])
        if greatest is not None and greatest != told:
            yield greatest
            told = greatest
        try:
            async for key in _generated(reader, prefix, partition_key, snapshot.position):
                yield key
                told = key
        except TokenExpired:
            # The reader was slow, and what it missed is gone from the log: the greatest key is not.
            continue


async def _generated(reader: Reader, prefix: str, partition_key: str, position: int) -> AsyncIterator[str]:
    tail = reader.tail
    while True:
        await tail.wait_beyond(position)
        entries = await tail.entries(position, min(tail.known_next, position + WATCH_WRITES_MAX))
        for effect in (effect for entry in entries for effect in entry.effects):
            if effect.sequence == prefix and effect.identity.home == partition_key:
                yield effect.identity.key
        position += len(entries)
