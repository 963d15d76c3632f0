"""Carries the outcomes of transactions out, each as soon as it is learned, and until it is done.

A decision has two effects. In memory it works at once: the horizon moves, and if it was an abort the entries are
skipped from the same moment on. What is durable follows: when nothing of the transaction is on its way into the log any
more, it is written down that it was aborted, if it was and has entries; only then its operation records are removed;
and only then the owner lets go of it. Each step may be repeated, and is, with pauses in between, until it is done or
there is another owner, who begins at the first step that he finds undone.

Records that turn up when their transaction was let go of are those of puts that were never answered. No entry belongs
to them. They are removed in the same way.
"""

from __future__ import annotations

import asyncio

from metastore.coordination import Backoff, Deposed, Pace, View
from metastore.faults import Faults
from metastore.interface import ABSENT, OutcomeUnknown, Retriable, UnexpectedVersion
from txn.model import paths
from txn.model.applied import Applied
from txn.model.errors import TxnRetriable
from txn.model.operation import Operation
from txn.segment.buffer.aborted import AbortedRecords
from txn.segment.buffer.options import BufferOptions, Measures
from txn.segment.buffer.participation import Participation, Participations
from txn.segment.log import SegmentLog
from txn.segment.operations import OperationRecords, StoredOperation

_PASSING = (Retriable, OutcomeUnknown, UnexpectedVersion, TxnRetriable)


class Settlement:
    """Sees the transactions of a segment through to their end."""

    def __init__(
        self,
        log: SegmentLog,
        aborted: AbortedRecords,
        operations: OperationRecords,
        pace: Pace,
        options: BufferOptions,
        measures: Measures,
        faults: Faults,
    ) -> None:
        self._log = log
        self._aborted = aborted
        self._operations = operations
        self._pace = pace
        self._measures = measures
        self._faults = faults
        self._places = asyncio.Semaphore(options.settlements_at_once_max)

    async def carry_out(self, participation: Participation) -> None:
        """Does what is to be done for a decided transaction. Returns when all is durable and its records are gone."""
        assert participation.outcome is not None, "only a decision is carried out"
        await participation.quiet()
        backoff = Backoff(self._pace)
        while True:
            try:
                async with self._places:
                    await self._try_to_carry_out(participation)
            except Deposed:
                raise
            except _PASSING:
                # A record that was there may be gone by now, and the header with it; what is left is looked up.
                participation.is_in_doubt = True
                await backoff.pause()
            else:
                break
        is_aborted = participation.is_aborted
        if is_aborted is not None:
            self._aborted.remember(participation.txn_id, is_aborted)
            self._measures.settled(is_aborted)

    async def _try_to_carry_out(self, participation: Participation) -> None:
        span = participation.span
        if participation.is_aborted and span is not None and span.last >= self._log.lengths.oldest:
            self._faults.reach("txn.settle.aborted.before")
            await self._aborted.put(participation.txn_id, span, may_exist=participation.is_recovered)
            self._faults.reach("txn.settle.aborted.after")
        while participation.keys or participation.is_in_doubt:
            if participation.is_in_doubt:
                await self._look_up_records(participation)
            if participation.keys:
                self._faults.reach("txn.settle.operations.before")
                await self._remove_records(participation)
                self._faults.reach("txn.settle.operations.after")

    async def _look_up_records(self, participation: Participation) -> None:
        """Finds all records there are; those that are known and gone are forgotten."""
        participation.is_in_doubt = False  # news that come meanwhile are news
        found = await self._operations.of_transaction(participation.txn_id)
        participation.keys.intersection_update(each.key for each in found)
        for each in found:
            participation.note_found(each)

    async def _remove_records(self, participation: Participation) -> None:
        keys = list(participation.keys)
        applied = Applied(
            self._operations.now_ms(),
            self._operations.broker,
            self._operations.term,
            participation.operations,
            participation.first_ms,
            participation.last_ms,
        )
        # What stragglers leave behind is no news of the outcome.
        version = ABSENT if participation.is_straggler else participation.header_version
        await self._operations.delete(participation.txn_id, keys, applied, header_version=version)
        participation.keys.difference_update(keys)

    async def watch_stragglers(self, view: View, participations: Participations) -> None:
        """Takes records into the owner's hands that nobody knows of, for as long as it runs."""
        while True:
            self.look_for_stragglers(await view.news(), view, participations)

    def look_for_stragglers(self, keys: frozenset[str], view: View, participations: Participations) -> None:
        """Looks at records that may be new."""
        for key in keys:
            record = view.records.get(key)
            if record is None:
                continue
            txn_id = paths.txn_id_of_key(key)
            participation = participations.get(txn_id)
            if participation is None:
                participations.adopt_straggler(txn_id)
            elif participation.outcome is not None:
                # Its records may be gone by now, and a late put then gets the key that one of them had.
                participation.is_in_doubt = True
            elif key not in participation.keys:
                participation.note_found(StoredOperation(key, Operation.decode(record.value or b"")))
