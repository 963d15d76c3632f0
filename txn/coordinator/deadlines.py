"""Aborts what has run out of time: at the deadline itself, because it knows them all and sleeps until the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from metastore.coordination import Pace
from metastore.interface import StoreError
from txn.coordinator.coordinator import Coordinator
from txn.coordinator.registry import OpenTransactions
from txn.coordinator.waiting import first_of
from txn.model.errors import TxnError, TxnRetriable
from txn.model.ids import TxnId

ABORTS_AT_ONCE_MAX = 64
"""Transactions that are aborted at the same time when many run out together."""
NAP_S_MAX = 10.0
"""The longest sleep: the wall clock, by which deadlines are kept, may be set forward meanwhile."""
RETRY_S = 1.0
"""How long the store is left alone after it could not take an abort."""


class DeadlineSweep:
    """Keeps deadlines for all coordinators. Several may run at once: they only lose races against each other."""

    def __init__(self, coordinator: Coordinator, open_transactions: OpenTransactions, pace: Pace) -> None:
        self._coordinator = coordinator
        self._open = open_transactions
        self._pace = pace
        self.expired = 0
        """Transactions that this sweep has aborted."""

    async def run(self) -> None:
        """Works until cancelled."""
        await self._open.ready()
        while True:
            due = self._open.due(self._pace.clock.wall_ms())
            try:
                await self._expire_all(due)
            except asyncio.CancelledError:
                for txn_id in due:
                    self._open.retry(txn_id)  # for the next sweep over these transactions, which names each only once
                raise
            await self._wait()

    async def _expire_all(self, due: Sequence[TxnId]) -> None:
        for start in range(0, len(due), ABORTS_AT_ONCE_MAX):
            outcomes = await asyncio.gather(*map(self._expire, due[start : start + ABORTS_AT_ONCE_MAX]))
            if not all(outcomes):
                await self._pace.sleep(RETRY_S)

    async def _expire(self, txn_id: TxnId) -> bool:
        """Whether that is settled; otherwise the transaction stays due."""
        try:
            if await self._coordinator.expire(txn_id) is not None:
                self.expired += 1
        except (StoreError, TxnRetriable):
            self._open.retry(txn_id)
            return False
        except TxnError:
            return True  # it is gone: nothing is left to abort
        return True

    async def _wait(self) -> None:
        next_ms = self._open.next_deadline_ms()
        left_s = NAP_S_MAX if next_ms is None else (next_ms - self._pace.clock.wall_ms()) / 1000
        if left_s > 0:
            await first_of(self._open.wait_earlier(), self._pace.sleep(min(left_s, NAP_S_MAX)))
