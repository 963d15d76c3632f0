"""The one broker at a time that keeps deadlines and collects records, for all transactions of all coordinators.

Safety does not hang on there being one: whatever a sweep does is a compare-and-set, a conditional delete, or may be
done twice. The election only keeps the brokers from all doing the same work.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from metastore.coordination import Backoff, Deposed, Election, Pace, SessionKeeper
from metastore.faults import NO_FAULTS, Faults
from metastore.interface import MetadataStore, StoreError
from txn.coordinator.collector import RETENTION_MS, Collector
from txn.coordinator.coordinator import Coordinator
from txn.coordinator.deadlines import DeadlineSweep
from txn.coordinator.registry import OpenTransactions
from txn.coordinator.waiting import first_of
from txn.hosting.participants import StoredParticipants
from txn.model.errors import TxnError

logger = logging.getLogger("tidemark.hosting")

ROLE = "/txn-sweeper"


class Swept(NamedTuple):
    """What a sweeper has done so far."""

    expired: int = 0
    """Transactions aborted at their deadlines."""
    collected: int = 0
    """Headers removed."""


class Sweeper:
    """A candidate for the sweeps, and while it is elected, the sweeps."""

    def __init__(
        self,
        store: MetadataStore,
        coordinator: Coordinator,
        open_transactions: OpenTransactions,
        keeper: SessionKeeper,
        broker: str,
        pace: Pace,
        *,
        retention_ms: int = RETENTION_MS,
        faults: Faults = NO_FAULTS,
    ) -> None:
        self._store = store
        self._coordinator = coordinator
        self._open = open_transactions
        self._election = Election(store, ROLE, broker.encode(), keeper=keeper)
        self._pace = pace
        self._retention_ms = retention_ms
        self._faults = faults
        self._before = Swept()
        """In earlier terms."""
        self._now: Callable[[], Swept] = Swept
        self.is_elected = False

    @property
    def swept(self) -> Swept:
        """What was done by this one, in all its terms."""
        now = self._now()
        return Swept(self._before.expired + now.expired, self._before.collected + now.collected)

    async def run(self) -> None:
        """Stands for election, sweeps while elected, and again, until cancelled. No error ends that for good."""
        backoff = Backoff(self._pace)
        while True:
            try:
                async with self._election.lead():
                    self.is_elected = True
                    await self._sweep()
            except Deposed as error:
                logger.info("the sweeps are no longer done here: %s", error)
            except (StoreError, TxnError):
                logger.exception("the sweeps have stopped, and are begun again")
            finally:
                self.is_elected = False
            await backoff.pause()

    async def _sweep(self) -> None:
        deadlines = DeadlineSweep(self._coordinator, self._open, self._pace)
        participants = StoredParticipants(self._store)
        collector = Collector(
            self._store, participants, self._pace, retention_ms=self._retention_ms, faults=self._faults
        )
        self._now = lambda: Swept(deadlines.expired, collector.collected)
        try:
            await first_of(deadlines.run(), collector.run())
        finally:
            self._before, self._now = self.swept, Swept
