"""A segment's way out, step by step, once its descriptor says so: its log, its records, its share of transactions.

Each step may be done again, so whoever owns the segment next goes through all of them from the beginning, and comes to
the same end. The descriptor goes last: until then everybody knows that there is something left to do.

Operations of transactions that are still open go as well. Nobody will ever carry them out; the transactions are decided
without them, and their headers are collected like any others. Only an operation whose put was not answered may still
come when all this is over: the collector removes it, because its segment is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from metastore.coordination import Grant
from metastore.faults import Faults
from metastore.interface import MetadataStore, Range, Record, UnexpectedVersion, exactly
from txn.hosting.descriptor import Descriptor
from txn.hosting.descriptors import Descriptors
from txn.hosting.errors import told
from txn.model import paths
from txn.segment.log import SegmentLogs

DELETES_AT_ONCE_MAX = 64


class Deletion:
    """The removal of one segment, by its owner."""

    def __init__(
        self, store: MetadataStore, descriptors: Descriptors, logs: SegmentLogs, descriptor: Descriptor, faults: Faults
    ) -> None:
        self._store = store
        self._descriptors = descriptors
        self._logs = logs
        self._descriptor = descriptor
        self._segment = descriptor.segment
        self._faults = faults

    async def run(self, grant: Grant) -> None:
        """Removes all there is. A term removes a log once: what fails is tried again under another."""
        self._faults.reach("txn.delete.log.before")
        await self._logs.delete(self._segment, grant.term)
        self._faults.reach("txn.delete.log.after")
        grant.check()
        with told(self._segment, "deleting the records of"):
            await self._delete_own_records()
            self._faults.reach("txn.delete.records.after")
            await self._delete_operations(exactly(paths.escaped(self._segment)), paths.WRITES_BY_SEGMENT)
            await self._delete_operations(paths.subscriptions_of(self._segment), paths.ACKS_BY_SUBSCRIPTION)
        self._faults.reach("txn.delete.operations.after")
        grant.check()
        await self._descriptors.remove(self._descriptor)
        self._faults.reach("txn.delete.descriptor.after")

    async def _delete_own_records(self) -> None:
        for path in (paths.cursors_path(self._segment), paths.aborted_path(self._segment)):
            await self._store.delete_range(paths.below(path, self._store.key_sorting), partition_key=self._segment)
        for key in (paths.producers_key(self._segment), paths.claim_key(self._segment)):
            await self._store.delete(key, partition_key=self._segment)

    async def _delete_operations(self, range: Range, index: str) -> None:
        records = self._store.scan(range, index=index)
        while batch := await _take(records, DELETES_AT_ONCE_MAX):
            await asyncio.gather(*map(self._delete_operation, batch))

    async def _delete_operation(self, record: Record) -> None:
        partition = paths.partition(paths.txn_id_of_key(record.key))
        try:
            # At that version only: the greatest number of a sequence may be given again once it is free.
            await self._store.delete(record.key, expected=record.version.version_id, partition_key=partition)
        except UnexpectedVersion:
            return  # it is gone, and what is there now is another one's


async def _take(records: AsyncIterator[Record], count_max: int) -> list[Record]:
    """The next records, no more than so many; none at the end."""
    batch: list[Record] = []
    async for record in records:
        batch.append(record)
        if len(batch) == count_max:
            break
    return batch
