"""Carries an operation out, step by step, until it is over or the leader is deposed.

What fails and may be tried again is tried again. What cannot be done is undone as long as that is possible; once it is
not, it is tried for as long as somebody leads, for there is no way but forward.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from controller.layout import TopicRecord
from controller.operations import steps as plan
from controller.operations.errors import OperationFailed
from controller.operations.operation import Kind, Operation, Phase
from controller.operations.records import LeaderRecords, StoredOperation
from controller.operations.work import SegmentWork, each_of, has_cursors
from metastore.coordination import Backoff, Deposed, Pace
from metastore.faults import NO_FAULTS, Faults
from metastore.interface import OutcomeUnknown, Retriable, UnexpectedVersion
from txn.model.errors import TxnRetriable

logger = logging.getLogger("tidemark.operations")

ATTEMPTS_MAX = 60
"""How often a step is tried before the operation is given up, where that is possible: with the pauses minutes."""
UNDOABLE = (Kind.CREATE, Kind.SPLIT, Kind.MERGE, Kind.SUBSCRIBE)
"""What has a way back while it is being prepared."""


class SubscriptionRecords(Protocol):
    """The records of a topic's subscriptions."""

    async def names(self) -> Collection[str]:
        """All that are recorded."""

    async def with_cursors(self) -> Collection[str]:
        """Those of them that have a cursor in every segment."""

    async def create(self, name: str, kind: str) -> None:
        """Such a subscription is recorded afterwards."""

    async def delete(self, name: str) -> None:
        """None of that name is, nor any of its consumers."""


@dataclass(slots=True)
class OperationCounts:
    """What a broker counts over all topics that it leads or has led."""

    done: Counter[Kind] = field(default_factory=Counter)
    """Operations that were brought to their end."""
    sealed: int = 0
    """Segments that were sealed by them."""

    def count(self, operation: Operation) -> None:
        """Counts one that is done."""
        self.done[operation.kind] += 1
        self.sealed += len(operation.segments) if operation.kind in (Kind.SPLIT, Kind.MERGE) else 0


class Runner:
    """Carries out the operations of one topic, for its leader."""

    def __init__(
        self,
        records: LeaderRecords,
        work: SegmentWork,
        pace: Pace,
        faults: Faults = NO_FAULTS,
        counts: OperationCounts | None = None,
    ) -> None:
        self._records = records
        self._topic = records.topic
        self._work = work
        self._pace = pace
        self._faults = faults
        self._counts = counts or OperationCounts()

    async def begin(self, operation: Operation) -> StoredOperation | None:
        """Writes an operation down; None if another one is under way."""
        self._reach(operation, "begin.before")
        stored = await self._records.begin(operation)
        self._reach(operation, "begin.after")
        return stored

    async def run(
        self,
        stored: StoredOperation,
        subscriptions: SubscriptionRecords,
        committed: Callable[[TopicRecord], None] = lambda _: None,
    ) -> TopicRecord | None:
        """Brings it to its end; the topic's record then, None if there is none. OperationFailed if it was undone.

        `committed` is told the topic's record as soon as that is another one, before anything goes that it had.
        """
        failure: Exception | None = None
        while True:
            before = await self._records.topic_record()
            record = None if before is None else before.record
            try:
                for step in plan.steps(self._topic, stored.operation, record):
                    stored, record = await self._insist(step, stored, record, subscriptions)
                    if isinstance(step, plan.Commit) and record is not None:
                        committed(record)
            except _CannotBeDone as error:
                failure = error.reason
                logger.error("%s of %s is undone: %r", stored.operation.kind.value, self._topic, failure)
                stored = await self._records.enter(stored, stored.operation.entered(Phase.GIVEN_UP))
                continue
            if stored.operation.phase is Phase.GIVEN_UP:
                raise OperationFailed(
                    f"the {stored.operation.kind.value} of {self._topic} could not be done, and was undone: {failure}"
                ) from failure
            self._counts.count(stored.operation)
            return record

    async def run_late(
        self,
        stored: StoredOperation,
        subscriptions: SubscriptionRecords,
        committed: Callable[[TopicRecord], None] = lambda _: None,
    ) -> TopicRecord | None:
        """The same of one that was found while somebody leads who found none when he began: see `late_steps`."""
        operation = stored.operation
        before = await self._records.topic_record()
        record = None if before is None else before.record
        left = plan.late_steps(self._topic, operation, record, await subscriptions.names())
        if left is None:
            return await self.run(stored, subscriptions, committed)
        logger.warning("%s of %s was written down too late: it comes to nothing", operation.kind.value, self._topic)
        given_up = replace(stored, operation=operation.entered(Phase.GIVEN_UP))
        for step in left:
            _, record = await self._insist(step, given_up, record, subscriptions)
        return record

    async def _insist(
        self,
        step: plan.Step,
        stored: StoredOperation,
        record: TopicRecord | None,
        subscriptions: SubscriptionRecords,
    ) -> tuple[StoredOperation, TopicRecord | None]:
        operation, name = stored.operation, type(step).__name__.lower()
        can_be_undone = operation.phase is Phase.PREPARING and operation.kind in UNDOABLE
        backoff, attempts = Backoff(self._pace), 0
        while True:
            self._records.grant.check()
            self._reach(operation, f"{name}.before")
            try:
                after = await self._take(step, stored, record, subscriptions)
            except (Deposed, OperationFailed):
                raise
            except Exception as error:
                attempts += 1
                is_passing = isinstance(error, Retriable | OutcomeUnknown | UnexpectedVersion | TxnRetriable)
                if can_be_undone and (not is_passing or attempts >= ATTEMPTS_MAX):
                    raise _CannotBeDone(error) from error
                level = logging.INFO if is_passing else logging.ERROR
                logger.log(level, "%s of %s, %s: once more, after %r", operation.kind.value, self._topic, name, error)
                await backoff.pause()
            else:
                self._reach(operation, f"{name}.after")
                return after

    async def _take(
        self,
        step: plan.Step,
        stored: StoredOperation,
        record: TopicRecord | None,
        subscriptions: SubscriptionRecords,
    ) -> tuple[StoredOperation, TopicRecord | None]:
        """One step; the operation and the topic's record after it."""
        records, work, operation = self._records, self._work, stored.operation
        match step:
            case plan.Children(names, wanted):
                cursors = await self._cursors(operation, wanted, subscriptions)
                await each_of(names, lambda name: work.create(name, cursors))
                claim = await records.claim()
                if claim is not None:
                    number, is_released = claim.number, claim.is_released
                    await each_of(names, lambda name: work.set_claim(name, number, is_released))
            case plan.Decide():
                return await records.enter(stored, operation.entered(Phase.DECIDED)), record
            case plan.Seal(names):
                await each_of(names, work.seal)
            case plan.Commit(is_end):
                after = await records.commit(operation, lambda found: _changed(operation, found), is_end=is_end)
                if is_end:
                    await records.finish(operation)
                return stored, after
            case plan.Unrecord():
                await records.unrecord(operation)
                return stored, None
            case plan.Data(names):
                await each_of(names, work.delete)
            case plan.Reports(segments):
                for segment in segments:
                    await records.delete_reports(segment)
            case plan.Record():
                for name, kind in operation.subscriptions.items():
                    await subscriptions.create(name, kind)
            case plan.Unsubscribe(names):
                for name in sorted(await subscriptions.names()) if names is None else names:
                    await subscriptions.delete(name)
            case plan.Cursors(names):
                if has_cursors(operation.subscriptions[operation.subscription]):
                    await each_of(names, lambda name: work.subscribe(name, operation.subscription, operation.start))
            case plan.Uncursor(names):
                await each_of(names, lambda name: work.unsubscribe(name, operation.subscription))
            case plan.Finish():
                await records.finish(operation)
        return stored, record

    async def _cursors(
        self, operation: Operation, wanted: Sequence[str] | None, subscriptions: SubscriptionRecords
    ) -> Collection[str]:
        if wanted is None:
            return await subscriptions.with_cursors()
        return [name for name in wanted if has_cursors(operation.subscriptions[name])]

    def _reach(self, operation: Operation, point: str) -> None:
        self._faults.reach(f"topic.{operation.kind.value}.{point}")


class _CannotBeDone(Exception):
    def __init__(self, reason: Exception) -> None:
        super().__init__(reason)
        self.reason = reason


def _changed(operation: Operation, found: TopicRecord | None) -> TopicRecord:
    """The topic's record as the operation makes it, whatever others have changed in it; itself if it is so already."""
    if operation.kind is Kind.CREATE:
        assert operation.record is not None, "a creation has the record of the topic"
        return operation.record if found is None else found
    if found is None:
        raise OperationFailed(f"the {operation.kind.value}: somebody has taken the topic's record away by force")
    if plan.is_done(operation, found.layout):
        return found
    return found.with_layout(operation.changed(found.layout))
