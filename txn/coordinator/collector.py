"""Removes the records of decided transactions: what their participants have left behind, then the header.

Participants delete their own operation records when they have carried the outcome out, and leave a record that says so.
A header whose operations are all gone has nothing more to tell, and goes, behind what the participants have said: by
the header it would be found again, should it be interrupted here. Operations that stay belong to a participant that is
away, which will need the header when it comes back, or to one that is gone for good: a segment or a subscription that
was deleted. Only those of the second kind are removed here.
"""

from __future__ import annotations

import asyncio
import heapq
from typing import NamedTuple, Protocol

from metastore.coordination import Pace, View
from metastore.faults import NO_FAULTS, Faults
from metastore.interface import ALL, MetadataStore, StoreError, UnexpectedVersion
from txn.coordinator.sightings import logger, sightings
from txn.coordinator.waiting import first_of
from txn.model import paths
from txn.model.errors import RecordDamaged
from txn.model.ids import TxnId
from txn.model.operation import Operation

RETENTION_MS = 60_000
"""How long a header stays after the decision: whoever asks late still hears the outcome."""
REVISIT_MS = 30_000
"""When a transaction whose participant is away is looked at again."""
COLLECTIONS_AT_ONCE_MAX = 32
NAP_S_MAX = 10.0
"""The longest sleep: the wall clock may be set forward meanwhile."""


class Participants(Protocol):
    """Who knows which segments and subscriptions there are."""

    async def is_gone(self, operation: Operation) -> bool:
        """Whether the segment or the subscription of an operation was deleted, never to come back."""


class Due(NamedTuple):
    """When a transaction is to be looked at."""

    at_ms: int
    txn_id: TxnId


class Collector:
    """Collects for all coordinators. Several may run at once: every removal is conditional or repeatable."""

    def __init__(
        self,
        store: MetadataStore,
        participants: Participants,
        pace: Pace,
        *,
        retention_ms: int = RETENTION_MS,
        faults: Faults = NO_FAULTS,
    ) -> None:
        self._store = store
        self._participants = participants
        self._pace = pace
        self._retention_ms = retention_ms
        self._faults = faults
        self._due: list[Due] = []
        self._versions: dict[TxnId, int] = {}
        """The versions of the headers that are to be collected."""
        self._is_earlier = asyncio.Event()
        self.collected = 0
        """Headers that this collector has removed."""

    async def run(self) -> None:
        """Works until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow())
            tasks.create_task(self._collect_for_ever())

    async def _follow(self) -> None:
        async with View(self._store, ALL, index=paths.BY_FINAL_STATE, pace=self._pace) as view:
            while True:
                for txn_id, header, version_id in sightings(await view.news(), view.records):
                    if header is None:
                        self._versions.pop(txn_id, None)
                    elif txn_id not in self._versions:
                        assert header.finalized_ms is not None, "what is in the index of decisions is decided"
                        self._versions[txn_id] = version_id
                        due = Due(header.finalized_ms + self._retention_ms, txn_id)
                        heapq.heappush(self._due, due)
                        if self._due[0] is due:
                            self._is_earlier.set()

    async def _collect_for_ever(self) -> None:
        while True:
            batch = self._take_due()
            await asyncio.gather(*map(self._visit, batch))
            if not batch:
                await self._wait()

    def _take_due(self) -> list[TxnId]:
        now_ms = self._pace.clock.wall_ms()
        batch: list[TxnId] = []
        while self._due and self._due[0].at_ms <= now_ms and len(batch) < COLLECTIONS_AT_ONCE_MAX:
            txn_id = heapq.heappop(self._due).txn_id
            if txn_id in self._versions:
                batch.append(txn_id)
        return batch

    async def _wait(self) -> None:
        left_s = NAP_S_MAX
        if self._due:
            left_s = min(left_s, (self._due[0].at_ms - self._pace.clock.wall_ms()) / 1000)
        if left_s > 0:
            self._is_earlier.clear()
            await first_of(self._is_earlier.wait(), self._pace.sleep(left_s))

    async def _visit(self, txn_id: TxnId) -> None:
        try:
            is_done = await self.collect(txn_id)
        except StoreError:
            is_done = False  # the store is away, or the outcome is not known: the next visit finds out
        except RecordDamaged as error:
            logger.error("%s is not collected: %s", txn_id, error)
            is_done = False
        if not is_done and txn_id in self._versions:
            heapq.heappush(self._due, Due(self._pace.clock.wall_ms() + REVISIT_MS, txn_id))

    async def collect(self, txn_id: TxnId) -> bool:
        """Removes what can be removed of a decided transaction; whether nothing is left."""
        partition = paths.partition(txn_id)
        gone: dict[tuple[str, str | None], bool] = {}
        operations = paths.below(paths.operations_path(txn_id), self._store.key_sorting)
        async for record in self._store.scan(operations, partition_key=partition):
            operation = Operation.decode(record.value or b"")
            participant = operation.segment, operation.subscription
            if participant not in gone:
                gone[participant] = await self._participants.is_gone(operation)
            if gone[participant]:
                await self._store.delete(record.key, partition_key=partition)
        if not all(gone.values()):
            return False
        self._faults.reach("txn.collect.applied.before")
        applied = paths.below(paths.applied_path(txn_id), self._store.key_sorting)
        await self._store.delete_range(applied, partition_key=partition)
        self._faults.reach("txn.collect.header.before")
        version_id = self._versions.get(txn_id)
        if version_id is not None:
            try:
                await self._store.delete(paths.header_key(txn_id), expected=version_id, partition_key=partition)
            except UnexpectedVersion:
                return True  # another collector was faster
            self.collected += 1
            self._faults.reach("txn.collect.header.after")
        return True
