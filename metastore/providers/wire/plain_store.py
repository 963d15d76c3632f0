"""The store over a plain Oxia: what it has less than our service, and what its servers do wrong, is known here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace

import grpc.aio
from google.protobuf.message import DecodeError

from metastore.interface import checks
from metastore.interface.errors import LimitExceeded, Unsupported
from metastore.interface.store import Session, Watch
from metastore.interface.values import Capabilities, Comparison, Condition, Index, Operation, PutResult, Range, Record
from metastore.pb import oxia_pb2 as pb
from metastore.providers.tokens import TokenForm
from metastore.providers.wire import protocol
from metastore.providers.wire.backlog import Kind
from metastore.providers.wire.backlog import Operation as Sending
from metastore.providers.wire.caller import CONNECT_ATTEMPT_S, Caller
from metastore.providers.wire.channels import ended_by_close
from metastore.providers.wire.failures import broken_protocol, connection_ended, failure_of
from metastore.providers.wire.plain import (
    MakeWatch,
    NotificationBatch,
    PlainShards,
    WatchRequest,
    decode_notifications,
)
from metastore.providers.wire.plain_entries import stored_index_name
from metastore.providers.wire.plain_index import PlainIndexes
from metastore.providers.wire.protocol import from_wire
from metastore.providers.wire.scans import IndexedKey, Pulled, Source, alone, decode_raw_keys, items, merged
from metastore.providers.wire.settings import Settings
from metastore.providers.wire.store import WatchMaker, WireStore

OPERATION_BYTES_MAX = 63 << 20
"""A write request of 64 MiB, which is a segment of its log, puts a shard of an Oxia server out of action."""


class PlainStore(WireStore, PlainShards):
    """A namespace of a plain Oxia."""

    capabilities = Capabilities(
        transact=False, watches_every_change=False, orders_index_scans=True, survives_restart=True
    )

    def __init__(self, caller: Caller, settings: Settings, make_watch: MakeWatch) -> None:
        watches = PlainWatches(self, settings.namespace, make_watch)
        super().__init__(caller, settings, settings.key_sorting, watches, together_max=0)
        self._indexes = PlainIndexes(
            self.order,
            self.key_sorting == "hierarchical",
            self._list_internal,
            self.get_many,
            self._get_lower,
        )
        self._are_indexes_checked = False

    # -- records

    def sending(self, kind: Kind, key: str, entry: bytes, is_sequence: bool = False) -> Sending:
        if len(entry) > OPERATION_BYTES_MAX:
            raise LimitExceeded(
                f"{kind.value} of {len(entry)} bytes: an Oxia server takes at most {OPERATION_BYTES_MAX} "
                "(OPERATION_BYTES_MAX)"
            )
        sending = super().sending(kind, key, entry)
        # The server alone knows whether a sequence put fits its sequence, and leaves open what becomes of the requests
        # behind one that it refuses.
        sending.is_exclusive = is_sequence
        return sending

    def stored(self, indexes: Sequence[Index]) -> Sequence[Index]:
        return [(from_wire(stored_index_name(name)), secondary_key) for name, secondary_key in indexes]

    async def find_on(
        self, shard_id: int, key: str, comparison: Comparison, index: str | None, include_value: bool
    ) -> Record | None:
        if index is not None:
            await self._check_indexes()
            found = await self._indexes.nearest(shard_id, index, key, comparison)
            return found if found is None or include_value else replace(found, value=None)
        if not key and comparison in (Comparison.LOWER, Comparison.FLOOR):
            # Nothing precedes the empty key; servers that sort naturally answer with their last one.
            is_floor = comparison is Comparison.FLOOR
            return await self.get_on(shard_id, key, Comparison.EQUAL, None, include_value) if is_floor else None
        return await self.get_on(shard_id, key, comparison, None, include_value)

    async def _list_index(self, shard_ids: Sequence[int], range: Range, index: str) -> AsyncGenerator[str, None]:
        await self._check_indexes()
        shards = [Pulled(self._indexes.records(shard_id, range, index, False)) for shard_id in shard_ids]
        async with aclosing(items(merged(shards, self.order.place_of_record))) as records:
            async for record in records:
                yield record.key

    async def _scan_index(self, shard_ids: Sequence[int], range: Range, index: str) -> AsyncGenerator[Record, None]:
        await self._check_indexes()
        shards = [Pulled(self._indexes.records(shard_id, range, index, True)) for shard_id in shard_ids]
        async with aclosing(items(merged(shards, self.order.place_of_record))) as records:
            async for record in records:
                yield record

    async def _check_indexes(self) -> None:
        if not self._are_indexes_checked:
            await self._indexes.check(self.shards.over(None)[0])
            self._are_indexes_checked = True

    def _list_internal(self, shard_id: int, start: bytes, end: bytes) -> AsyncGenerator[bytes, None]:
        request = pb.ListRequest(
            shard=shard_id, start_inclusive=start, end_exclusive=end, include_internal_keys=True
        ).SerializeToString()
        source = Source(self.caller, shard_id, protocol.LIST, request, decode_raw_keys, "list of index entries")
        return items(alone(source))

    async def _get_lower(self, shard_id: int, index: str, key: str) -> str | None:
        stored_name = from_wire(stored_index_name(index))
        found = await self.get_on(shard_id, key, Comparison.LOWER, stored_name, False)
        return None if found is None else found.secondary_key

    async def transact(
        self,
        partition_key: str,
        operations: Sequence[Operation],
        *,
        conditions: Sequence[Condition] = (),
        session: Session | None = None,
    ) -> tuple[PutResult | None, ...]:
        checks.check_transaction(partition_key, operations, conditions, session is not None)
        raise Unsupported("transact: the server is a plain Oxia, which has no transactions: `capabilities` says so")

    def watch_sequence(self, prefix: str, *, partition_key: str) -> AsyncIterator[str]:
        keys = super().watch_sequence(prefix, partition_key=partition_key)
        return self._stored(keys, self.shards.owner("", partition_key))

    async def _stored(self, keys: AsyncIterator[str], shard_id: int) -> AsyncGenerator[str, None]:
        """Only keys that there are: servers also tell of sequence puts that failed."""
        async for key in keys:
            if await self.get_on(shard_id, key, Comparison.EQUAL, None, False) is not None:
                yield key

    # -- for an emulated watch

    async def notifications(self, shard: int, after_offset: int | None) -> AsyncGenerator[NotificationBatch, None]:
        leader = await self.caller.reach(shard, CONNECT_ATTEMPT_S)
        request = pb.NotificationsRequest(shard=shard, start_offset_exclusive=after_offset).SerializeToString()
        call = self.caller.channels.answers(leader, protocol.NOTIFICATIONS, request, None)
        failure = connection_ended(leader)
        try:
            while True:
                with ended_by_close():
                    message = await call.read()
                if message is grpc.aio.EOF:
                    break
                assert isinstance(message, bytes)
                yield decode_notifications(message)
        except grpc.aio.AioRpcError as failed:
            failure = failure_of(failed)
        except DecodeError:
            failure = broken_protocol(leader, "sent a notification that cannot be read")
        finally:
            call.cancel()
        self.caller.topology.correct(shard, failure)
        raise failure.refusal(f"notifications of shard {shard} at {leader}")

    def scan_shard(self, shard: int, range: Range, index: str | None) -> AsyncGenerator[Record, None]:
        return self.scan_shards([shard], range, index)

    async def index_entries(self, shard: int, range: Range, index: str) -> AsyncGenerator[IndexedKey, None]:
        await self._check_indexes()
        async with aclosing(self._indexes.entries(shard, range, index)) as entries:
            async for entry in entries:
                yield entry

    async def get_many(self, shard: int, keys: Sequence[str], include_value: bool = True) -> list[Record | None]:
        gets = [self.get_on(shard, key, Comparison.EQUAL, None, include_value) for key in keys]
        return [*await asyncio.gather(*gets)]


class PlainWatches(WatchMaker):
    """Makes watches by the emulation."""

    def __init__(self, shards: PlainShards, namespace: str, make_watch: MakeWatch) -> None:
        self._shards = shards
        self._namespace = namespace
        self._make_watch = make_watch

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
        # A plain Oxia has no name for its data: that of the namespace must do.
        tokens = TokenForm(f"oxia/{self._namespace}", range, index, partition_key, len(shard_ids))
        offsets = None if resume is None else tuple(tokens.read(resume))
        request = WatchRequest(range, index, tokens, tuple(shard_ids), offsets, has_snapshot, has_previous_values)
        return self._make_watch(self._shards, request)

    async def close(self) -> None:
        """The watches end with the calls that they make."""
