"""The store: each method of the contract, on the shard that the key lives on, or on all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Protocol, TypeVar

from metastore.interface import checks
from metastore.interface.errors import InvalidRequest, SessionLost
from metastore.interface.store import DEFAULT_SESSION_TIMEOUT_MS, MetadataStore, Session, Watch
from metastore.interface.values import (
    ALL,
    Capabilities,
    Comparison,
    Condition,
    Index,
    Operation,
    PutResult,
    Range,
    Record,
)
from metastore.providers.merging import StoreOrder
from metastore.providers.wire import answers, protocol, requests
from metastore.providers.wire.backlog import Kind
from metastore.providers.wire.backlog import Operation as Sending
from metastore.providers.wire.caller import Caller
from metastore.providers.wire.scans import (
    Source,
    decode_indexed_keys,
    decode_indexed_records,
    decode_keys,
    decode_records,
    items,
    merged,
)
from metastore.providers.wire.sequences import follow_sequence
from metastore.providers.wire.session import WireSession
from metastore.providers.wire.settings import Settings
from metastore.providers.wire.shards import Shards
from metastore.providers.wire.transactions import transact_request, transact_result


class WatchMaker(Protocol):
    """What watches are made by: the service's own, or what stands in for it."""

    def watch(
        self,
        shard_ids: Sequence[int],
        range: Range,
        index: str | None,
        partition_key: str | None,
        resume: str | None,
        has_snapshot: bool,
        has_previous_values: bool,
    ) -> Watch:
        """A watch of a range that was checked."""

    async def close(self) -> None:
        """Ends all watches."""


T = TypeVar("T")
SessionOnShard = tuple[int, str] | None
"""A session's id on a shard, and its identity."""


class WireStore(MetadataStore):
    """A namespace of our service. What a plain Oxia does otherwise is in `PlainStore`."""

    capabilities = Capabilities(
        transact=True, watches_every_change=True, orders_index_scans=True, survives_restart=True
    )

    def __init__(
        self, caller: Caller, settings: Settings, key_sorting: str, watches: WatchMaker, together_max: int
    ) -> None:
        self.key_sorting = key_sorting
        self.caller = caller
        self.order = StoreOrder(key_sorting)
        self.shards = Shards(caller, settings, together_max)
        self._watches = watches
        self._sessions: set[WireSession] = set()
        self._is_closed = False

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
        checks.check_put(key, value, expected, partition_key, sequence_deltas, indexes)
        shard_id = self.shards.owner(key, partition_key)
        owner = await self._on_shard(session, shard_id) if session is not None else None
        body = requests.put_body(key, value, expected, owner, partition_key, sequence_deltas, self.stored(indexes))
        sending = self.sending(Kind.PUT, key, requests.put_entry(body), bool(sequence_deltas))
        answer = await self.shards.writes(shard_id).perform(sending)
        try:
            return answers.put_result(answer, key, expected)
        except SessionLost as error:
            if isinstance(session, WireSession):
                session.lose(str(error))
            raise

    async def get(
        self,
        key: str,
        *,
        comparison: Comparison = Comparison.EQUAL,
        index: str | None = None,
        partition_key: str | None = None,
        include_value: bool = True,
    ) -> Record | None:
        checks.check_key(key, partition_key)
        if index is None and comparison is Comparison.EQUAL:
            shard_id = self.shards.owner(key, partition_key)
            return await self.get_on(shard_id, key, comparison, None, include_value)
        if index is not None:
            checks.check_index(index)
        found = await asyncio.gather(
            *[
                self.find_on(shard_id, key, comparison, index, include_value)
                for shard_id in self.shards.over(partition_key)
            ]
        )
        return self.order.nearest([record for record in found if record is not None], key, comparison)

    async def find_on(
        self, shard_id: int, key: str, comparison: Comparison, index: str | None, include_value: bool
    ) -> Record | None:
        """The nearest record of one shard."""
        return await self.get_on(shard_id, key, comparison, index, include_value)

    async def get_on(
        self, shard_id: int, key: str, comparison: Comparison, index: str | None, include_value: bool
    ) -> Record | None:
        """What one shard answers to a get."""
        entry = requests.get_entry(key, comparison, index, include_value)
        answer = await self.shards.reads(shard_id).perform(self.sending(Kind.GET, key, entry))
        return answers.got_record(answer, key, include_value)

    async def delete(self, key: str, *, expected: int | None = None, partition_key: str | None = None) -> bool:
        checks.check_key(key, partition_key)
        checks.check_expected(key, expected)
        shard_id = self.shards.owner(key, partition_key)
        entry = requests.delete_entry(requests.delete_body(key, expected, partition_key))
        answer = await self.shards.writes(shard_id).perform(self.sending(Kind.DELETE, key, entry))
        return answers.delete_result(answer, key, expected)

    async def delete_range(self, range: Range, *, partition_key: str | None = None) -> None:
        self._check_range(range, None, partition_key)
        checks.check_delete_range(range)
        entry = requests.delete_range_entry(range)
        for shard_id in self.shards.over(partition_key):
            sending = self.sending(Kind.DELETE_RANGE, range.start, entry)
            answers.check_delete_range(await self.shards.writes(shard_id).perform(sending), f"delete range {range}")

    def list(
        self, range: Range = ALL, *, index: str | None = None, partition_key: str | None = None
    ) -> AsyncIterator[str]:
        self._check_range(range, index, partition_key)
        return self.list_shards(self.shards.over(partition_key), range, index)

    def scan(
        self, range: Range = ALL, *, index: str | None = None, partition_key: str | None = None
    ) -> AsyncIterator[Record]:
        self._check_range(range, index, partition_key)
        return self.scan_shards(self.shards.over(partition_key), range, index)

    def list_shards(self, shard_ids: Sequence[int], range: Range, index: str | None) -> AsyncGenerator[str, None]:
        """`list`, over these shards."""
        if index is not None:
            return self._list_index(shard_ids, range, index)
        sources = [self._source(each, range, protocol.LIST, decode_keys, f"list {range}") for each in shard_ids]
        return items(merged(sources, self.order.place_of_key))

    async def _list_index(self, shard_ids: Sequence[int], range: Range, index: str) -> AsyncGenerator[str, None]:
        sources = [self._index_source(each, range, index, decode_indexed_keys, keys_only=True) for each in shard_ids]
        async with aclosing(items(merged(sources, lambda pair: self.order.place_in_index(*pair)))) as pairs:
            async for _, key in pairs:
                yield key

    def scan_shards(self, shard_ids: Sequence[int], range: Range, index: str | None) -> AsyncGenerator[Record, None]:
        """`scan`, over these shards."""
        if index is not None:
            return self._scan_index(shard_ids, range, index)
        path, what = protocol.RANGE_SCAN, f"scan {range}"
        sources = [self._source(each, range, path, decode_records, what) for each in shard_ids]
        return items(merged(sources, self.order.place_of_record))

    def _scan_index(self, shard_ids: Sequence[int], range: Range, index: str) -> AsyncGenerator[Record, None]:
        sources = [
            self._index_source(each, range, index, decode_indexed_records, keys_only=False) for each in shard_ids
        ]
        return items(merged(sources, self.order.place_of_record))

    def _source(
        self, shard_id: int, range: Range, path: str, decode: Callable[[bytes], Sequence[T]], what: str
    ) -> Source[T]:
        request = requests.list_request(shard_id, range)
        return Source(self.caller, shard_id, path, request, decode, what)

    def _index_source(
        self, shard_id: int, range: Range, index: str, decode: Callable[[bytes], Sequence[T]], keys_only: bool
    ) -> Source[T]:
        request = requests.index_scan_request(shard_id, range, index, keys_only)
        what = f"scan {range} of index {checks.shown(index)}"
        return Source(self.caller, shard_id, protocol.INDEX_SCAN, request, decode, what)

    async def transact(
        self,
        partition_key: str,
        operations: Sequence[Operation],
        *,
        conditions: Sequence[Condition] = (),
        session: Session | None = None,
    ) -> tuple[PutResult | None, ...]:
        checks.check_transaction(partition_key, operations, conditions, session is not None)
        shard_id = self.shards.owner("", partition_key)
        owner = await self._on_shard(session, shard_id) if session is not None else None
        request = transact_request(shard_id, partition_key, operations, conditions, owner)
        try:
            response = await self.shards.transacting(shard_id).ask(request)
        except SessionLost as error:
            if isinstance(session, WireSession):
                session.lose(str(error))
            raise
        return transact_result(response, operations)

    # -- what lasts

    async def open_session(self, timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS, *, identity: str = "") -> Session:
        checks.check_session(timeout_ms, identity)
        first_shard, *_ = self.shards.over(None)
        session = WireSession(self.caller, timeout_ms, identity)
        await session.id_on(first_shard)
        self._sessions = {each for each in self._sessions if not each.is_lost} | {session}
        return session

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
        shard_ids = self.shards.over(partition_key)
        return self._watches.watch(shard_ids, range, index, partition_key, resume, snapshot, previous_values)

    def watch_sequence(self, prefix: str, *, partition_key: str) -> AsyncIterator[str]:
        checks.check_key(prefix, partition_key)
        return follow_sequence(self.caller, self.shards.owner("", partition_key), prefix)

    # -- the end

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        for session in self._sessions:
            session.abandon()
        await self._watches.close()
        await self.shards.close()
        await self.caller.topology.close()
        await self.caller.channels.close()

    # -- what these have in common

    def sending(self, kind: Kind, key: str, entry: bytes, is_sequence: bool = False) -> Sending:
        """An operation for a lane."""
        return Sending(kind, key, entry, asyncio.get_running_loop().create_future())

    def stored(self, indexes: Sequence[Index]) -> Sequence[Index]:
        """Index entries as the server is to have them."""
        return indexes

    def _check_range(self, range: Range, index: str | None, partition_key: str | None) -> None:
        if index is not None:
            checks.check_index(index)
        if partition_key is not None:
            checks.check_text("partition key", partition_key)
        checks.check_range(range, self.order.position)

    async def _on_shard(self, session: Session, shard_id: int) -> SessionOnShard:
        if not isinstance(session, WireSession) or session.caller is not self.caller:
            raise InvalidRequest("the session is another store's: open one with this store")
        return await session.id_on(shard_id), session.identity
