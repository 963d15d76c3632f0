"""What tests of the contract share: keys of their own, and a reader of a watch that checks what it is told."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from metastore.interface import (
    BatchKind,
    Change,
    ChangeKind,
    MetadataStore,
    Range,
    Record,
    Watch,
    WatchBatch,
)

LAST_CHARACTER = "\U0010ffff"
OpenStore = Callable[[], Coroutine[Any, Any, MetadataStore]]
State = dict[str, Record]
T = TypeVar("T")

IN_RANGE_BEFORE = {ChangeKind.MODIFIED, ChangeKind.DELETED, ChangeKind.LEFT}
IN_RANGE_AFTER = {ChangeKind.CREATED, ChangeKind.MODIFIED, ChangeKind.ENTERED}


@dataclass(frozen=True)
class Place:
    """Keys and indexes of one test."""

    name: str

    def key(self, name: str) -> str:
        return f"{self.name}.{name}"

    @property
    def range(self) -> Range:
        """The keys of this place that have no slash, in either order."""
        return Range(f"{self.name}.", f"{self.name}.{LAST_CHARACTER}")

    @property
    def path(self) -> str:
        """For keys that have slashes."""
        return f"/{self.name}"

    def index(self, name: str = "index") -> str:
        return f"{name}-of-{self.name}"


async def collect(items: AsyncIterable[T]) -> list[T]:
    return [item async for item in items]


async def values_of(records: AsyncIterable[Record]) -> dict[str, bytes | None]:
    return {record.key: record.value async for record in records}


async def close(watch: object) -> None:
    """Ends a watch of a sequence: an iterator that need not be a generator."""
    aclose = getattr(watch, "aclose", None)
    if aclose is not None:
        await aclose()


def by_shard(changes: Iterable[Change]) -> dict[int, list[Change]]:
    """Changes as they are comparable: those of a shard have an order, those of several have none."""
    found: dict[int, list[Change]] = {}
    for change in changes:
        found.setdefault(change.shard, []).append(change)
    return found


class Follower:
    """Reads a watch, and checks that every batch fits what was told before."""

    def __init__(self, watch: Watch, state: State | None = None, *, only: str = "") -> None:
        self.watch = watch
        self._only = only  # the beginning of the keys that it looks at: others may be there in several partitions
        self.state: State = dict(state or {})
        """The range, as told so far."""
        self.changes: list[Change] = []
        self.token: str | None = None
        self.progress_marks = 0
        self._is_in_snapshot = False
        self._offsets: dict[int, int] = {}

    async def begin(self) -> State:
        """Reads the snapshot."""
        while self.token is None:
            await self.step()
        return self.state

    async def until(self, is_true: Callable[[State], bool]) -> State:
        """Reads on until the range is like this."""
        while self.token is None or not is_true(self.state):
            await self.step()
        return self.state

    async def until_values(self, expected: dict[str, bytes]) -> None:
        """Reads on until the range has these values and no others."""
        await self.until(lambda state: {key: record.value for key, record in state.items()} == expected)

    async def next_changes(self, count: int) -> list[Change]:
        """The next changes, which must be exactly so many."""
        wanted = len(self.changes) + count
        while len(self.changes) < wanted:
            await self.step()
        assert len(self.changes) == wanted
        return self.changes[wanted - count :]

    async def step(self) -> WatchBatch:
        batch = await anext(self.watch)
        if batch.kind in (BatchKind.SNAPSHOT_BEGIN, BatchKind.SNAPSHOT, BatchKind.SNAPSHOT_END):
            self._take_snapshot(batch)
        else:
            assert not self._is_in_snapshot
            assert bool(batch.changes) == (batch.kind is BatchKind.CHANGES)
            self.progress_marks += batch.kind is BatchKind.PROGRESS
            self._take_changes(batch.changes)
        is_in_snapshot = batch.kind in (BatchKind.SNAPSHOT_BEGIN, BatchKind.SNAPSHOT)
        assert (batch.token is None) == is_in_snapshot
        assert not batch.records or batch.kind is BatchKind.SNAPSHOT
        self.token = batch.token
        return batch

    def _take_snapshot(self, batch: WatchBatch) -> None:
        assert self.token is None, "a snapshot comes at the beginning only"
        if batch.kind is BatchKind.SNAPSHOT_BEGIN:
            self.state.clear()
            self._is_in_snapshot = True
        assert self._is_in_snapshot
        for record in batch.records:
            if not record.key.startswith(self._only):
                continue
            assert record.key not in self.state, "a record comes once"
            self.state[record.key] = record
        self._is_in_snapshot = batch.kind is not BatchKind.SNAPSHOT_END

    def _take_changes(self, changes: tuple[Change, ...]) -> None:
        for change in changes:
            told = self._offsets.get(change.shard, -1)
            is_same_write = any(each.offset == told and each.shard == change.shard for each in changes)
            assert change.offset > told or (change.offset == told and is_same_write)
            self._offsets[change.shard] = change.offset
            if change.key.startswith(self._only):
                self._take_change(change)
        self.changes += changes

    def _take_change(self, change: Change) -> None:
        assert (change.key in self.state) == (change.kind in IN_RANGE_BEFORE), change
        before = self.state.pop(change.key, None)
        assert (change.record is None) == (change.kind is ChangeKind.DELETED)
        if change.record is not None:
            assert change.record.key == change.key
            assert before is None or change.record.version.version_id > before.version.version_id
            if change.kind in IN_RANGE_AFTER:
                self.state[change.key] = change.record
