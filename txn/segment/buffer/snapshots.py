"""Writes down now and then which messages of which producers the segment has, so that nobody reads it all again.

An owner that takes over reads the snapshot and the entries behind it. So that these are never many, publishing waits
when a snapshot could not be written for too long. The record is guarded: a deposed owner cannot put an older one back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from metastore.coordination import Backoff, GuardedRecord, Pace
from metastore.interface import OutcomeUnknown, Retriable, StoreError, UnexpectedVersion
from txn.model.position import Position
from txn.segment.buffer.line import UnderWay
from txn.segment.buffer.options import BufferOptions
from txn.segment.buffer.producers import ProducerStates

logger = logging.getLogger("tidemark.segment")


class Snapshots:
    """Keeps the snapshot close behind the end of the log."""

    def __init__(
        self,
        record: GuardedRecord,
        producers: ProducerStates,
        under_way: UnderWay,
        pace: Pace,
        options: BufferOptions,
        confirmed: Position,
        tail_entries: int,
        written: Callable[[], None],
    ) -> None:
        self._record = record
        self._producers = producers
        self._under_way = under_way
        self._pace = pace
        self._options = options
        self._confirmed = confirmed
        self._tail_entries = tail_entries
        """Confirmed entries behind the snapshot that is stored."""
        self._written = written
        """Told when another snapshot is there."""
        self._is_due = asyncio.Event()
        self._look()

    @property
    def is_close(self) -> bool:
        """Whether the log may grow."""
        return self._tail_entries < self._options.tail_entries_max

    def note_confirmed(self, bound: Position) -> None:
        """All before that bound is confirmed, and answered."""
        self._tail_entries += bound.entry - self._confirmed.entry
        self._confirmed = bound
        self._look()

    def _look(self) -> None:
        if self._tail_entries >= self._options.snapshot_every_entries:
            self._is_due.set()

    async def run(self) -> None:
        """Works until cancelled; Deposed when this owner no longer is one."""
        backoff = Backoff(self._pace)
        while True:
            await self._is_due.wait()
            try:
                await self._write()
            except (Retriable, OutcomeUnknown, UnexpectedVersion):
                await backoff.pause()

    async def write_last(self) -> None:
        """Writes what can be written before the owner lets go. Without it the next one reads some entries more."""
        if self._tail_entries:
            try:
                await self._write()
            except StoreError as error:
                logger.info("no last snapshot of producers at %s: %s", self._record.key, error)

    async def _write(self) -> None:
        entries, value = self._tail_entries, self._producers.encode(self._confirmed, self._under_way.taken)
        await self._record.write(value)
        self._tail_entries -= entries
        self._is_due.clear()
        self._look()
        self._written()
