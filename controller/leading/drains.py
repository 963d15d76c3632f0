"""What this broker writes down of the segments that it owns: who has read which of them to its end.

A record for each sealed segment and each subscription that has acknowledged all of it, beside the topic: its leader
follows these records, so nobody asks again and again. Where a cursor is set back the record goes.
"""

from __future__ import annotations

import asyncio
import logging

from controller.leading.reporting import put_report, reported
from controller.leading.requests import DRAINED_VALUE
from controller.together import together
from controller.topics import paths
from metastore.coordination import Backoff, Pace
from metastore.interface import ABSENT, MetadataStore, StoreError
from txn.hosting import Host
from txn.segment.bell import Bell

logger = logging.getLogger("tidemark.leading")


class Drains:
    """One for each broker. `run` works until cancelled."""

    def __init__(self, host: Host, store: MetadataStore, pace: Pace) -> None:
        self._host = host
        self._store = store
        self._pace = pace
        self._changed: set[tuple[str, str]] = set()
        self._failed: set[tuple[str, str]] = set()
        """What is to be tried again."""
        self._bell = Bell()
        self._writing = asyncio.Lock()
        """Held by a look and the write that follows: so the last write follows the last look."""
        host.listen_to_ends(self._note)

    def _note(self, segment: str, subscription: str) -> None:
        self._changed.add((segment, subscription))
        self._bell.ring()

    async def run(self) -> None:
        """Writes down what has changed, at once. What fails is tried again, after a pause that only that waits for."""
        await together(self._settle_changed(), self._settle_failed())

    async def _settle_changed(self) -> None:
        while True:
            await self._bell.until(lambda: bool(self._changed))
            changed, self._changed = self._changed, set()
            await self._try(changed)

    async def _settle_failed(self) -> None:
        """Pauses grow while something fails, and begin anew when all is written.

        One failure says nothing of the next: while a topic is changed, a report of it is refused.
        """
        backoff = Backoff(self._pace)
        while True:
            await self._bell.until(lambda: bool(self._failed))
            await backoff.pause()
            failed, self._failed = self._failed, set()
            await self._try(failed)
            if not self._failed:
                backoff = Backoff(self._pace)

    async def _try(self, ends: set[tuple[str, str]]) -> None:
        for segment, subscription in sorted(ends):
            try:
                if segment in self._host.owned and self._host.owned[segment].is_sealed:
                    await self.settle(segment, subscription)
            except StoreError as error:
                logger.info("%s of %s is reported later: %s", subscription, segment, error)
                self._failed.add((segment, subscription))
                self._bell.ring()

    async def settle(self, segment: str, subscription: str) -> None:
        """What is written down is so when this returns."""
        name = reported(segment)
        if name is None:
            return
        key = paths.drained_key(name.topic, name.segment_id, subscription)
        partition = paths.partition(name.topic)
        async with self._writing:
            owned = self._host.owned.get(segment)
            if owned is None:
                return  # whoever owns it next looks for himself
            is_written = await self._store.get(key, partition_key=partition, include_value=False) is not None
            found = owned.subscriptions.get(subscription)
            if (found is not None and found.is_drained) == is_written:
                return
            if is_written:
                await self._store.delete(key, partition_key=partition)
            else:
                await put_report(self._store, name, key, DRAINED_VALUE, ABSENT)
