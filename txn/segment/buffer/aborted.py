"""The aborted transactions that a segment still has entries of: records, of which a bounded number is in memory.

A record is put when the outcome is carried out, and removed when its last entry is trimmed away. Where the store has
`transact` both are on the condition that the owner still is one. Elsewhere a deposed owner's write may come late. It
does no harm: what it says stays true for ever, and is removed by the next trimming.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Sequence

from metastore.coordination import Grant
from metastore.interface import Delete, Range
from txn.model import paths
from txn.model.aborted import AbortedRange
from txn.model.ids import TxnId
from txn.model.position import Position
from txn.segment.log import START
from txn.segment.log.records import told

REMEMBERED_MAX = 10_000
"""Outcomes that are kept in memory, of those that were asked for or carried out last."""
CALLS_AT_ONCE_MAX = 64
"""Records that are read or removed at the same time."""


class AbortedRecords:
    """The aborted transactions of one segment, for its owner."""

    def __init__(self, grant: Grant, segment: str, remembered_max: int = REMEMBERED_MAX) -> None:
        self._grant = grant
        self._store = grant.store
        self._segment = segment
        self._remembered_max = remembered_max
        self._remembered: OrderedDict[TxnId, bool] = OrderedDict()

    def remember(self, txn_id: TxnId, is_aborted: bool) -> None:
        """Keeps an outcome in memory that the records say, or will never say anything else than."""
        self._remembered[txn_id] = is_aborted
        self._remembered.move_to_end(txn_id)
        if len(self._remembered) > self._remembered_max:
            self._remembered.popitem(last=False)

    async def look_up(self, txn_ids: Iterable[TxnId]) -> dict[TxnId, bool]:
        """Whether transactions were aborted whose outcome was carried out."""
        found: dict[TxnId, bool] = {}
        missing: list[TxnId] = []
        for txn_id in txn_ids:
            known = self._remembered.get(txn_id)
            if known is None:
                missing.append(txn_id)
            else:
                self.remember(txn_id, known)
                found[txn_id] = known
        for start in range(0, len(missing), CALLS_AT_ONCE_MAX):
            portion = missing[start : start + CALLS_AT_ONCE_MAX]
            for txn_id, is_aborted in zip(portion, await asyncio.gather(*map(self._has, portion)), strict=True):
                self.remember(txn_id, is_aborted)
                found[txn_id] = is_aborted
        return found

    async def _has(self, txn_id: TxnId) -> bool:
        key = paths.aborted_key(self._segment, txn_id)
        with told(self._segment, "reading what was aborted in"):
            return await self._store.get(key, partition_key=self._segment, include_value=False) is not None

    async def put(self, txn_id: TxnId, aborted: AbortedRange, *, may_exist: bool) -> None:
        """Makes it durable that a transaction's entries are skipped. Deposed if this owner no longer is one.

        What an earlier owner has put may cover more, since it has removed operation records on the strength of it.
        """
        key = paths.aborted_key(self._segment, txn_id)
        if may_exist:
            record = await self._store.get(key, partition_key=self._segment)
            if record is not None:
                aborted = aborted.joined(AbortedRange.decode(record.value or b""))
        value, indexes = aborted.encode(), aborted.indexes(self._segment)
        if self._store.capabilities.transact:
            await self._grant.put(key, value, indexes=indexes)
        else:
            self._grant.check()
            await self._store.put(key, value, partition_key=self._segment, indexes=indexes)

    async def prune(self, oldest: Position) -> int:
        """Forgets the transactions all of whose entries lie before what is kept; how many they were."""
        bound = paths.aborted_position_key(self._segment, oldest)
        all_before = Range(paths.aborted_position_key(self._segment, START), bound)
        with told(self._segment, "trimming"):
            listing = self._store.list(all_before, index=paths.ABORTED_BY_POSITION, partition_key=self._segment)
            keys = [key async for key in listing]
            for start in range(0, len(keys), CALLS_AT_ONCE_MAX):
                await self._remove(keys[start : start + CALLS_AT_ONCE_MAX])
        return len(keys)

    async def _remove(self, keys: Sequence[str]) -> None:
        if self._store.capabilities.transact:
            await self._grant.transact([Delete(key) for key in keys])
            return
        self._grant.check()
        for key in keys:
            await self._store.delete(key, partition_key=self._segment)
