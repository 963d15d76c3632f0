"""Acknowledgements of transactions are recorded: held first, then put, then promised.

All calls of one transaction go through one line: those that wait are recorded together. A put that fails gives back
what it held. Of one whose answer was lost nobody knows what became of it: its messages stay held until the transaction
has ended, and its caller is told to acknowledge the same again, which does no harm.

What was put is promised only if the segment is still owned then: an owner that comes later has begun later, and finds
the record. Otherwise it is in doubt like a lost answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from metastore.coordination import Deposed, Grant, Pace
from metastore.faults import Faults
from metastore.interface import OutcomeUnknown, StoreError
from txn.model.errors import SegmentUnavailable, TxnError
from txn.model.operation import Operation, OperationKind
from txn.segment.cursor import Ack
from txn.segment.operations import OPERATIONS_AT_ONCE_MAX, OperationRecords
from txn.segment.subscription.acking import AckCall, Acking, unrecorded
from txn.segment.subscription.claims import Claims
from txn.segment.subscription.keeper import CursorKeeper
from txn.segment.subscription.pending import PendingAcks


class AckRecorder:
    """Records for all transactions of one subscription."""

    def __init__(
        self,
        subscription: str,
        operations: OperationRecords,
        grant: Grant,
        pending: PendingAcks,
        keeper: CursorKeeper,
        pace: Pace,
        faults: Faults,
    ) -> None:
        self.recorded: Callable[[Sequence[Ack]], None] = lambda acks: None
        """Told of acknowledgements that are durable now."""
        self.freed: Callable[[Claims, bool], None] = lambda claims, was_aborted: None
        """Told of messages that are free again: because a transaction was aborted, or for another reason."""
        self._subscription = subscription
        self._operations = operations
        self._grant = grant
        self._pending = pending
        self._keeper = keeper
        self._pace = pace
        self._faults = faults

    def hold(self, acking: Acking, call: AckCall) -> None:
        """Takes hold of what a call is about. TxnConflict and others if it cannot: then nothing was changed."""
        new = self._pending.judge(acking.txn_id, call.acks, self._keeper.state, self._keeper.weight, call.era)
        call.check(new)
        self._pending.hold(acking.txn_id, new, acking.recorded)

    async def record(self, acking: Acking, version_id: int) -> None:
        """Records what waits, until nothing does."""
        while acking.calls:
            calls = self._still_held(acking, acking.take_calls(OPERATIONS_AT_ONCE_MAX))
            acks = unrecorded(acking, calls)
            try:
                if acks:
                    await self._put(acking, version_id, acks)
            except (OutcomeUnknown, Deposed) as error:
                acking.doubtful += acks
                self._fail(acking, calls, _in_doubt(acking, error))
            except (TxnError, StoreError) as error:
                self._fail(acking, calls, error)
            except BaseException:
                for call in calls:
                    call.fail(SegmentUnavailable(f"acknowledging in {acking.txn_id} was cut off: look up the owner"))
                raise
            else:
                self.recorded(acks)
                for call in calls:
                    call.succeed()

    def _still_held(self, acking: Acking, calls: Sequence[AckCall]) -> list[AckCall]:
        """The calls that still hold what they are about: an earlier one may have given it back for both."""
        found = []
        for call in calls:
            try:
                self.hold(acking, call)
            except TxnError as error:
                call.fail(error)
            else:
                found.append(call)
        return found

    async def _put(self, acking: Acking, version_id: int, acks: Sequence[Ack]) -> None:
        self._faults.reach("txn.ack.record.before")
        now_ms = self._pace.clock.wall_ms()
        keys = await self._operations.put(acking.txn_id, version_id, [self._operation(ack) for ack in acks])
        self._faults.reach("txn.ack.record.after")
        for key in keys:
            acking.note_record(key, now_ms)
        self._grant.check()
        for ack in acks:
            acking.recorded.add(ack)

    def _operation(self, ack: Ack) -> Operation:
        return Operation(
            OperationKind.ACK,
            self._operations.segment,
            ack.position,
            subscription=self._subscription,
            is_cumulative=ack.is_cumulative,
            batch=ack.batch,
            batch_size=ack.batch_size,
        )

    def _fail(self, acking: Acking, calls: Sequence[AckCall], error: TxnError | StoreError) -> None:
        """What these calls hold, and nothing else does, is given back; their callers are told."""
        if isinstance(error, StoreError):
            told = SegmentUnavailable(f"acknowledgements of {acking.txn_id} were not recorded: {error}. Try again")
            told.__cause__ = error
            error = told
        before = self._pending.let_go(acking.txn_id)
        self._pending.hold(acking.txn_id, acking.held(), acking.recorded)
        self.freed(before, False)
        for call in calls:
            call.fail(error)


def _in_doubt(acking: Acking, error: StoreError) -> SegmentUnavailable:
    told = SegmentUnavailable(
        f"whether these acknowledgements of {acking.txn_id} are recorded is not known: {error}. Acknowledge the same "
        "again, at the segment's owner"
    )
    told.__cause__ = error
    return told
