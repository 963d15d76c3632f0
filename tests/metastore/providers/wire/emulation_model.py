"""A plain Oxia as an emulated watch sees it, with its whole history, its bad manners, and everything that can happen.

Reads and streams take turns of the event loop at random, so that writes come in between; a cut breaks off all that are
under way. Notifications are kept as a real server keeps them: one for each key of a request, the last, where a range
that is deleted counts as its first key; without a batch for requests that failed as a whole; the old ones skipped in
silence.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass, field

from metastore.interface import Index, Range, Record, StoreError, Unavailable, Version
from metastore.providers.merging import StoreOrder
from metastore.providers.wire.plain import Notification, NotificationBatch, NotificationKind, PlainShards
from metastore.providers.wire.scans import IndexedKey

LONGEST_PAUSE_TURNS = 3
SESSION_ID = 7
FIRST_MS, WRITE_MS = 1_000, 10
"""When the first write is made, and how long after it the next."""


@dataclass(frozen=True)
class Put:
    key: str
    indexes: tuple[Index, ...] = ()
    is_ephemeral: bool = False


@dataclass(frozen=True)
class Delete:
    key: str


@dataclass(frozen=True)
class DeleteRange:
    start: str
    end: str


Write = Put | Delete | DeleteRange


@dataclass(frozen=True)
class Stored:
    record: Record
    indexes: tuple[Index, ...]


State = dict[str, Stored]


@dataclass
class ModelShard:
    """One shard: what it was behind each write."""

    order: StoreOrder
    states: dict[int, State] = field(default_factory=lambda: {-1: {}})
    batches: dict[int, NotificationBatch] = field(default_factory=dict)
    committed: int = -1
    """The last write that has a number."""
    applied: int = -1
    """The last write that can be read."""
    oldest: int = 0
    """Older batches are trimmed."""
    understated: int | None = None
    """What it says of its last write when it was killed, until the next one."""
    was_killed: bool = False
    versions: int = 0
    news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def state(self) -> State:
        """What is read."""
        return self.states[self.applied]

    def write(self, writes: Iterable[Write], is_applied: bool = True) -> int:
        """One request."""
        state = dict(self.states[self.committed])
        self.committed += 1
        self.understated = None
        notified: dict[str, Notification] = {}
        in_order = sorted(writes, key=lambda each: (Put, Delete, DeleteRange).index(type(each)))
        for each in in_order:
            for notification in self._perform(state, each):
                notified[notification.key] = notification
        offset, time_ms = self.committed, self._time_ms(self.committed)
        in_byte_order = tuple(notified[key] for key in sorted(notified, key=str.encode))
        self.batches[offset] = NotificationBatch(0, offset, time_ms, in_byte_order)
        self.states[offset] = state
        if is_applied:
            self.apply()
        return offset

    def fail(self) -> None:
        """A request that fails as a whole: its number is spent, and nothing tells of it."""
        self.apply()
        self.committed += 1
        self.states[self.committed] = self.states[self.committed - 1]
        self.apply()

    def apply(self) -> None:
        """What was committed is read, and told, from now on."""
        self.applied = self.committed
        self.ring()

    def ring(self) -> None:
        self.news.set()
        self.news = asyncio.Event()

    def end_session(self) -> None:
        """All ephemeral records go in one write."""
        state = self.states[self.committed]
        self.write([Delete(key) for key, stored in state.items() if stored.record.version.is_ephemeral])

    def kept_from(self, offset: int) -> NotificationBatch | None:
        """The first batch from an offset on that is kept and can be read."""
        for number in range(max(offset, self.oldest), self.applied + 1):
            if number in self.batches:
                return self.batches[number]
        return None

    def known_place(self, offset: int) -> int:
        """Where it may be, if nothing tells that it is beyond an offset: before the next batch that is kept."""
        while offset < self.applied and (offset + 1 < self.oldest or offset + 1 not in self.batches):
            offset += 1
        return offset

    def _perform(self, state: State, write: Write) -> list[Notification]:
        if isinstance(write, Put):
            return [self._put(state, write)]
        if isinstance(write, Delete):
            return [Notification(NotificationKind.DELETED, write.key)] if state.pop(write.key, None) else []
        deleted = Range(write.start, write.end)
        for key in [key for key in state if write.end and self.is_within(key, deleted)]:
            del state[key]  # without an end it deletes nothing, and is told
        return [Notification(NotificationKind.RANGE_DELETED, write.start, range_end=write.end)]

    def _put(self, state: State, put: Put) -> Notification:
        before, time_ms = state.get(put.key), self._time_ms(self.committed)
        version = Version(
            self.versions,
            0 if before is None else before.record.version.modifications + 1,
            time_ms if before is None else before.record.version.created_ms,
            time_ms,
            SESSION_ID if put.is_ephemeral else None,
        )
        self.versions += 1
        state[put.key] = Stored(Record(put.key, b"%d" % version.version_id, version), put.indexes)
        kind = NotificationKind.MODIFIED if version.modifications else NotificationKind.CREATED
        return Notification(kind, put.key, version.version_id)

    @staticmethod
    def _time_ms(offset: int) -> int:
        return FIRST_MS + offset * WRITE_MS

    @staticmethod
    def offset_at(time_ms: int) -> int:
        """The write that was made at a time."""
        return (time_ms - FIRST_MS) // WRITE_MS

    def is_within(self, key: str, range: Range) -> bool:
        position, end = self.order.position(key), range.end
        return self.order.position(range.start) <= position and (not end or position < self.order.position(end))

    def entries(self, state: State, range: Range, index: str) -> list[IndexedKey]:
        found = {
            (secondary, key)
            for key, stored in state.items()
            for name, secondary in stored.indexes
            if name == index and self.is_within(secondary, range)
        }
        return sorted(found, key=lambda entry: self.order.place_in_index(*entry))

    def within(self, state: State, range: Range, index: str | None) -> dict[str, Record]:
        """The truth about a range."""
        if index is not None:
            return {key: state[key].record for _, key in self.entries(state, range, index)}
        return {key: stored.record for key, stored in state.items() if self.is_within(key, range)}

    def versions_within(self, offset: int, range: Range, index: str | None) -> dict[str, Version]:
        """The truth about the versions behind a write."""
        return {key: record.version for key, record in self.within(self.states[offset], range, index).items()}


class ModelShards(PlainShards):
    """The seam to the shards. `choice` decides who waits how long."""

    def __init__(self, choice: random.Random, shards: int = 1, key_sorting: str = "hierarchical") -> None:
        self.order = StoreOrder(key_sorting)
        self.shards = [ModelShard(self.order) for _ in range(shards)]
        self.refusal: StoreError | None = None
        """Why no call is answered."""
        self.calls = 0
        self._choice = choice
        self._cuts = 0

    def owner(self, key: str) -> ModelShard:
        """The shard of a key: its last character says which."""
        return self.shards[int(key[-1]) if len(self.shards) > 1 else 0]

    def cut(self) -> None:
        """Breaks off everything that is under way."""
        self._cuts += 1
        for shard in self.shards:
            shard.ring()

    def kill(self, shard: int, offset: int) -> None:
        """The server begins anew, and believes that it has been written up to this offset only."""
        model = self.shards[shard]
        model.apply()
        model.was_killed = True
        model.understated = max(-1, min(offset, model.committed))
        self.cut()

    async def notifications(self, shard: int, after_offset: int | None) -> AsyncGenerator[NotificationBatch, None]:
        cuts, model = await self._connect(), self.shards[shard]
        if after_offset is None:
            after_offset = model.committed if model.understated is None else model.understated
            yield NotificationBatch(shard, after_offset, 0, ())
        while True:
            await self._pause(cuts)
            batch = model.kept_from(after_offset + 1)
            if batch is None:
                await model.news.wait()
            else:
                after_offset = batch.offset
                yield batch

    async def scan_shard(self, shard: int, range: Range, index: str | None) -> AsyncGenerator[Record, None]:
        assert index is None
        cuts, model = await self._connect(), self.shards[shard]
        found = model.within(model.state, range, None)
        for key in sorted(found, key=self.order.position):
            await self._pause(cuts)
            yield found[key]

    async def index_entries(self, shard: int, range: Range, index: str) -> AsyncGenerator[IndexedKey, None]:
        cuts, model = await self._connect(), self.shards[shard]
        told: IndexedKey | None = None
        while True:
            await self._pause(cuts)
            place = None if told is None else self.order.place_in_index(*told)
            rest = [
                entry
                for entry in model.entries(model.state, range, index)
                if place is None or self.order.place_in_index(*entry) > place
            ]
            if not rest:
                return
            told = rest[0]
            yield told

    async def get_many(self, shard: int, keys: Sequence[str], include_value: bool = True) -> list[Record | None]:
        cuts, model = await self._connect(), self.shards[shard]
        found: list[Record | None] = []
        for key in keys:
            await self._pause(cuts)
            stored = model.state.get(key)
            found.append(None if stored is None else stored.record)
        await self._pause(cuts)
        return found

    async def _connect(self) -> int:
        self.calls += 1
        cuts = self._cuts
        await self._pause(cuts)
        return cuts

    async def _pause(self, cuts: int) -> None:
        for _ in range(self._choice.randint(0, LONGEST_PAUSE_TURNS)):
            await asyncio.sleep(0)
        if self.refusal is not None:
            raise self.refusal
        if cuts != self._cuts:
            raise Unavailable("the connection broke")
