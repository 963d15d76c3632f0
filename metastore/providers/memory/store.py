"""The contract over data in this process."""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TypeVar

from metastore.interface import (
    ALL,
    DEFAULT_SESSION_TIMEOUT_MS,
    Capabilities,
    Comparison,
    Condition,
    Environment,
    Index,
    InvalidRequest,
    MetadataStore,
    Operation,
    PutResult,
    Range,
    Record,
    Session,
    SessionLost,
    Unsupported,
    Watch,
)
from metastore.interface.checks import (
    check_delete_range,
    check_expected,
    check_index,
    check_key,
    check_put,
    check_range,
    check_session,
    check_text,
    check_transaction,
)
from metastore.providers.memory.bells import wait_until
from metastore.providers.memory.connection import Connection
from metastore.providers.memory.data import MemoryData
from metastore.providers.memory.line import Lease, Part, session_lost
from metastore.providers.memory.script import Script
from metastore.providers.memory.session import MemorySession
from metastore.providers.memory.shard import GeneratedKey, Shard
from metastore.providers.memory.watch import Lens, MemoryWatch
from metastore.providers.merging import StoreOrder
from metastore.providers.tokens import TokenForm

LACKS = ("transact", "every_change", "index_order")
"""What a memory store can be told not to be able to, as other stores are not."""

T = TypeVar("T")


class MemoryStore(MetadataStore):
    """One client of a `MemoryData`: its own, unless it is given one that others use too."""

    def __init__(
        self,
        data: MemoryData | None = None,
        environment: Environment | None = None,
        *,
        lacks: Iterable[str] = (),
    ) -> None:
        environment = environment or Environment()
        lacks = frozenset(lacks)
        assert lacks <= set(LACKS), f"a store can lack {', '.join(LACKS)}"
        self.data = data or MemoryData(clock=environment.clock)
        """What this store shares with others: where time is told to pass, and the log to forget."""
        self.script = environment.faults if isinstance(environment.faults, Script) else Script(environment.faults)
        """What goes wrong."""
        self.capabilities = Capabilities(
            transact="transact" not in lacks,
            watches_every_change="every_change" not in lacks,
            orders_index_scans="index_order" not in lacks,
            survives_restart=False,
        )
        self.key_sorting = self.data.order.name
        self._order = StoreOrder(self.key_sorting)
        self._clock = environment.clock
        self._connection = Connection(self.data, self.script, self.capabilities)
        self.line = self._connection.line
        """The connection to the data, to be cut and mended."""

    # -- records

    async def put(
        self,
        key: str,
        value: bytes,
        *,
        expected: int | None = None,
        session: Session | None = None,
        partition_key: str | None = None,
        sequence_deltas: Sequence[int] = (),
        indexes: Sequence[Index] = (),
    ) -> PutResult:
        check_put(key, value, expected, partition_key, sequence_deltas, indexes)
        lease = self._lease(session)
        shard = self._shard(key, partition_key)

        def store() -> PutResult:
            if sequence_deltas:
                return self.data.put_next(shard, key, value, sequence_deltas, indexes, lease)
            return self.data.put(shard, key, value, expected, indexes, lease)

        return await self._write("put", (key,), store, lease)

    async def get(
        self,
        key: str,
        *,
        comparison: Comparison = Comparison.EQUAL,
        index: str | None = None,
        partition_key: str | None = None,
        include_value: bool = True,
    ) -> Record | None:
        check_key(key, partition_key)
        if index is not None:
            check_index(index)
        is_one_key = comparison is Comparison.EQUAL and index is None
        routing_key = key if is_one_key and partition_key is None else partition_key
        found = [
            await self._connection.call("get", (key,), partial(_look, shard, key, comparison, index))
            for shard in self._connection.shards_of(routing_key)
        ]
        best = self._order.nearest([record for record in found if record is not None], key, comparison)
        return best if best is None or include_value else replace(best, value=None)

    async def delete(self, key: str, *, expected: int | None = None, partition_key: str | None = None) -> bool:
        check_key(key, partition_key)
        check_expected(key, expected)
        shard = self._shard(key, partition_key)
        return await self._write("delete", (key,), lambda: self.data.delete(shard, key, expected))

    async def delete_range(self, range: Range, *, partition_key: str | None = None) -> None:
        self._check_range(range, None, partition_key)
        check_delete_range(range)
        bounds = (range.start, range.end)
        for shard in self._connection.shards_of(partition_key):
            await self._write("delete_range", bounds, partial(self.data.delete_range, shard, range))

    def list(
        self, range: Range = ALL, *, index: str | None = None, partition_key: str | None = None
    ) -> AsyncIterator[str]:
        return (record.key async for record in self._read("list", range, index, partition_key))

    def scan(
        self, range: Range = ALL, *, index: str | None = None, partition_key: str | None = None
    ) -> AsyncIterator[Record]:
        return self._read("scan", range, index, partition_key)

    def _read(self, method: str, range: Range, index: str | None, partition_key: str | None) -> AsyncIterator[Record]:
        """The records of all shards, put together; each shard at a time of its own, as with any store."""
        self._check_range(range, index, partition_key)

        async def read() -> AsyncIterator[Record]:
            bounds = (range.start, range.end)
            portions = [
                await self._connection.call(method, bounds, partial(_within, shard, range, index))
                for shard in self._connection.shards_of(partition_key)
            ]
            is_ordered = index is None or self.capabilities.orders_index_scans
            for record in heapq.merge(*portions, key=self._order.place_of_record) if is_ordered else chain(*portions):
                yield record

        return read()

    def _check_range(self, range: Range, index: str | None, partition_key: str | None) -> None:
        if index is not None:
            check_index(index)
        if partition_key is not None:
            check_text("partition key", partition_key)
        check_range(range, self._order.position)

    async def transact(
        self,
        partition_key: str,
        operations: Sequence[Operation],
        *,
        conditions: Sequence[Condition] = (),
        session: Session | None = None,
    ) -> tuple[PutResult | None, ...]:
        if not self.capabilities.transact:
            raise Unsupported("this memory store lacks transact: `capabilities` says so")
        check_transaction(partition_key, operations, conditions, session is not None)
        lease = self._lease(session)
        keys = (*(each.key for each in conditions), *(each.key for each in operations))
        apply = partial(self.data.transact, self.data.shard_of(partition_key), operations, conditions, lease)
        return await self._write("transact", keys, apply, lease)

    def _shard(self, key: str, partition_key: str | None) -> Shard:
        return self.data.shard_of(key if partition_key is None else partition_key)

    async def _write(self, method: str, keys: tuple[str, ...], apply: Callable[[], T], lease: Lease | None = None) -> T:
        try:
            return await self._connection.call(method, keys, apply)
        except SessionLost:
            if lease is not None:
                lease.is_given_up = True
            raise

    # -- what lasts

    async def open_session(self, timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS, *, identity: str = "") -> Session:
        check_session(timeout_ms, identity)
        begin = partial(self.data.open_session, self.line, self._clock, timeout_ms, identity)
        return MemorySession(await self._connection.call("open_session", (identity,), begin), self._connection)

    def _lease(self, session: Session | None) -> Lease | None:
        """What a session of this store stands for; SessionLost if its owner has to take it for ended."""
        if session is None:
            return None
        if not isinstance(session, MemorySession) or session.connection is not self._connection:
            raise InvalidRequest("the session is another store's: open one with this store")
        if session.is_lost:
            raise session_lost(session.lease)
        return session.lease

    def watch(
        self,
        range: Range = ALL,
        *,
        index: str | None = None,
        partition_key: str | None = None,
        resume: str | None = None,
        snapshot: bool = True,
        previous_values: bool = False,
    ) -> Watch:
        self._check_range(range, index, partition_key)
        shards = self._connection.shards_of(partition_key)
        token_form = TokenForm(self.data.identity, range, index, partition_key, len(shards))
        return MemoryWatch(self._connection, Lens(range, index, previous_values), shards, token_form, resume, snapshot)

    def watch_sequence(self, prefix: str, *, partition_key: str) -> AsyncIterator[str]:
        check_key(prefix, partition_key)
        shard = self.data.shard_of(partition_key)

        def look() -> tuple[str | None, GeneratedKey | None]:
            return shard.greatest_of_sequence(prefix), shard.generated.get(prefix)

        def has_news(seen: GeneratedKey | None, is_begun: bool) -> bool:
            if self.line.is_closed:
                return True
            return self.line.carries(Part.WATCHES) and (not is_begun or shard.generated.get(prefix) != seen)

        async def follow() -> AsyncIterator[str]:
            seen: GeneratedKey | None = None
            is_begun = False
            while True:
                await wait_until(partial(has_news, seen, is_begun), self.data.news, self.line.news)
                self.script.strike(await self._connection.approach("watch_sequence", (prefix,)))
                greatest, seen = self.data.locked(look)
                news = greatest if not is_begun or seen is None else seen.key
                is_begun = True
                if news is not None:
                    yield news

        return follow()

    # -- the end

    async def close(self) -> None:
        await self._connection.close()


def _look(shard: Shard, key: str, comparison: Comparison, index: str | None) -> Record | None:
    if index is not None:
        return shard.nearest_entry(index, key, comparison)
    stored = shard.nearest(key, comparison)
    return None if stored is None else stored.as_record()


def _within(shard: Shard, range: Range, index: str | None) -> Sequence[Record]:
    if index is not None:
        return tuple(shard.entries_within(index, range))
    return tuple(stored.as_record() for stored in shard.within(range))
