"""What this broker writes down of the segments that it owns: who has read which of them to its end.

A record for each sealed segment and each subscription that has acknowledged all of it, beside the topic: its leader
follows these records, so nobody asks again and again. Where a cursor is set back the record goes.
"""

from __future__ import annotations

import asyncio
import logging

from controller.layout import InvalidName, SegmentName
from controller.leading.reporting import put_report
from controller.leading.requests import DRAINED_VALUE
from controller.topics import paths
from metastore.coordination import Backoff, Pace
from metastore.interface import ABSENT, MetadataStore, StoreError
from txn.hosting import Host

logger = logging.getLogger("tidemark.leading")


class Drains:
    """One for each broker. `run` works until cancelled."""

    def __init__(self, host: Host, store: MetadataStore, pace: Pace) -> None:
        self._host = host
        self._store = store
        self._pace = pace
        self._changed: set[tuple[str, str]] = set()
        self._is_wanted = asyncio.Event()
        self._writing = asyncio.Lock()
        """Held by a look and the write that follows: so the last write follows the last look."""
        host.listen_to_ends(self._note)

    def _note(self, segment: str, subscription: str) -> None:
        self._changed.add((segment, subscription))
        self._is_wanted.set()

    async def run(self) -> None:
        """Writes down what has changed. What fails is tried again, after a pause."""
        backoff = Backoff(self._pace)
        while True:
            await self._is_wanted.wait()
            self._is_wanted.clear()
            changed, self._changed = self._changed, set()
            for segment, subscription in sorted(changed):
                try:
                    if segment in self._host.owned and self._host.owned[segment].is_sealed:
                        await self.settle(segment, subscription)
                except StoreError as error:
                    logger.info("%s of %s is reported later: %s", subscription, segment, error)
                    self._note(segment, subscription)
            if self._is_wanted.is_set():
                await backoff.pause()

    async def settle(self, segment: str, subscription: str) -> None:
        """What is written down is so when this returns."""
        try:
            name = SegmentName.parse(segment)
        except InvalidName:
            return  # not a scalable topic's
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
