"""Transactions as brokers leave them in a store: written by the real coordinator and the real records."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from metastore.coordination import Election, Pace
from metastore.interface import ABSENT, MetadataStore
from txn.coordinator.coordinator import Coordinator
from txn.coordinator.registry import OpenTransactions
from txn.hosting.descriptor import Descriptor, SegmentState
from txn.model import paths
from txn.model.aborted import AbortedRange
from txn.model.applied import Applied
from txn.model.ids import TxnId
from txn.model.operation import Operation, OperationKind
from txn.model.position import Position
from txn.posts import Owner

ORDERS = "segment://public/default/orders/0000-7fff-0"
BILLS = "segment://public/default/bills/0000-ffff-0"
BROKER = "broker-1"
TIMEOUT_MS = 60_000


class Stage:
    """A store in which transactions are made."""

    def __init__(self, store: MetadataStore, pace: Pace) -> None:
        self.store = store
        self.pace = pace
        self.coordinator = Coordinator(store, 0, OpenTransactions(store, pace), pace=pace)
        self._entries: dict[str, int] = {}

    async def begin(self, owner: str | None = "ann", timeout_ms: int = TIMEOUT_MS) -> TxnId:
        return await self.coordinator.begin(timeout_ms, owner=owner)

    async def write(self, txn_id: TxnId, segment: str = ORDERS, entries: int = 1) -> Operation:
        """The record of a write of so many entries, behind all earlier ones."""
        first = self._entries.get(segment, 0)
        self._entries[segment] = first + entries
        last = None if entries == 1 else Position(3, first + entries - 1)
        operation = Operation(
            OperationKind.WRITE, segment, Position(3, first), last, broker=BROKER, term=3, written_ms=self._now()
        )
        await self._put(txn_id, operation)
        return operation

    async def acknowledge(
        self, txn_id: TxnId, segment: str = ORDERS, subscription: str = "billing", entry: int = 0
    ) -> Operation:
        operation = Operation(
            OperationKind.ACK,
            segment,
            Position(3, entry),
            subscription=subscription,
            broker=BROKER,
            term=3,
            written_ms=self._now(),
        )
        await self._put(txn_id, operation)
        return operation

    async def apply(self, txn_id: TxnId, segment: str = ORDERS, subscription: str | None = None) -> None:
        """What a participant does when it has learned of the outcome."""
        partition = paths.partition(txn_id)
        mine = []
        operations = paths.below(paths.operations_path(txn_id), self.store.key_sorting)
        async for record in self.store.scan(operations, partition_key=partition):
            operation = Operation.decode(record.value or b"")
            if (operation.segment, operation.subscription) == (segment, subscription):
                mine.append((record.key, operation.written_ms))
        times = [written_ms for _, written_ms in mine]
        applied = Applied(self._now(), BROKER, 3, len(mine), min(times), max(times))
        await self.store.put(
            paths.applied_key(txn_id, segment, subscription), applied.encode(), partition_key=partition
        )
        for key, _ in mine:
            await self.store.delete(key, partition_key=partition)

    async def note_aborted(self, txn_id: TxnId, first: int, last: int, segment: str = ORDERS) -> None:
        aborted = AbortedRange(Position(3, first), Position(3, last))
        await self.store.put(
            paths.aborted_key(segment, txn_id),
            aborted.encode(),
            partition_key=segment,
            indexes=aborted.indexes(segment),
        )

    async def create(self, segment: str = ORDERS) -> None:
        descriptor = Descriptor(segment, SegmentState.OPEN, "stored", "mark", self._now())
        await self.store.put(
            paths.descriptor_key(segment),
            descriptor.encode(),
            expected=ABSENT,
            partition_key=segment,
            indexes=descriptor.indexes(),
        )

    async def collect(self, txn_id: TxnId) -> None:
        """What the collector does at the end."""
        partition = paths.partition(txn_id)
        applied = paths.below(paths.applied_path(txn_id), self.store.key_sorting)
        await self.store.delete_range(applied, partition_key=partition)
        await self.store.delete(paths.header_key(txn_id), partition_key=partition)

    @asynccontextmanager
    async def owned(self, segment: str = ORDERS) -> AsyncIterator[int]:
        """A broker owns the segment meanwhile; the term."""
        value = Owner.value(BROKER, "127.0.0.1:6650")
        election = Election(self.store, paths.owner_key(segment), value, partition_key=segment, pace=self.pace)
        grant = await election.campaign()
        try:
            yield grant.term
        finally:
            await grant.release()

    async def _put(self, txn_id: TxnId, operation: Operation) -> None:
        await self.store.put(
            paths.operation_sequence(txn_id),
            operation.encode(),
            partition_key=paths.partition(txn_id),
            sequence_deltas=(1,),
            indexes=operation.indexes(),
        )

    def _now(self) -> int:
        return self.pace.clock.wall_ms()
