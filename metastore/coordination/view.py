"""The records of a range as they are now, kept so by a watch: what all waiting in coordination stands on."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from metastore.coordination.pace import Backoff, Pace
from metastore.interface import (
    BatchKind,
    ChangeKind,
    MetadataStore,
    Range,
    Record,
    Retriable,
    TokenExpired,
    Watch,
    WatchBatch,
    exactly,
)


class View:
    """`await view.news()` returns when something may have changed; `view.records` is the state then.

    The first news is the state at the start. A watch that cannot go on is opened again: its snapshot then shows what
    has changed meanwhile, for the states between are of no interest here. To be used in `async with`, by one task at a
    time.
    """

    def __init__(
        self,
        store: MetadataStore,
        range: Range,
        *,
        index: str | None = None,
        partition_key: str | None = None,
        pace: Pace,
    ) -> None:
        self.records: Mapping[str, Record] = {}
        self.departed: Mapping[str, Record] = {}
        """Records that the last news took out of the range of an index, as they are from then on, where that was told.
        What is in neither was deleted, or went while nobody watched."""
        self.snapshots = 0
        """How often all was told anew: what had gone before that, and never was in `records`, is in no news."""
        self._records: dict[str, Record] = {}
        self._snapshot: dict[str, Record] | None = None
        """What has come of a snapshot that is not complete."""
        self._store = store
        self._range = range
        self._index = index
        self._partition_key = partition_key
        self._watch: Watch | None = None
        self._backoff = Backoff(pace)

    async def news(self) -> frozenset[str]:
        """Waits for the next state; the keys that are not as they were. Cancelling the wait loses nothing."""
        while True:
            try:
                if self._watch is None:
                    self._snapshot = None
                    self._watch = self._store.watch(self._range, index=self._index, partition_key=self._partition_key)
                batch = await anext(self._watch)
            except TokenExpired:
                await self.close()
            except Retriable:
                await self.close()
                await self._backoff.pause()
            else:
                changed = self._take(batch)
                if changed is not None:
                    return changed

    def _take(self, batch: WatchBatch) -> frozenset[str] | None:
        """The keys that a batch changes; None if it makes no state whole."""
        departed: dict[str, Record] = {}
        self.departed = departed
        match batch.kind:
            case BatchKind.SNAPSHOT_BEGIN:
                self._snapshot = {}
            case BatchKind.SNAPSHOT:
                assert self._snapshot is not None, "the records of a snapshot come behind its beginning"
                self._snapshot.update((record.key, record) for record in batch.records)
            case BatchKind.SNAPSHOT_END:
                assert self._snapshot is not None, "a snapshot ends that has begun"
                before, after = self._records, self._snapshot
                self._replace(after)
                return frozenset(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
            case BatchKind.CHANGES:
                for change in batch.changes:
                    departed.pop(change.key, None)
                    if change.record is not None and change.kind is not ChangeKind.LEFT:
                        self._records[change.key] = change.record
                        continue
                    self._records.pop(change.key, None)
                    if change.record is not None:
                        departed[change.key] = change.record
                return frozenset(change.key for change in batch.changes)
            case BatchKind.PROGRESS:
                pass
        return None

    def _replace(self, records: dict[str, Record]) -> None:
        self.records = self._records = records
        self._snapshot = None
        self.snapshots += 1

    async def close(self) -> None:
        """Ends the watch."""
        watch, self._watch = self._watch, None
        if watch is not None:
            await watch.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def wait_gone(store: MetadataStore, key: str, *, partition_key: str, pace: Pace) -> None:
    """Returns when there is no record with this key."""
    async with View(store, exactly(key), partition_key=partition_key, pace=pace) as view:
        await view.news()
        while key in view.records:
            await view.news()
