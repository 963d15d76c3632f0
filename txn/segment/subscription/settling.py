"""Transactions that acknowledge in one subscription: begun, settled when they are decided, taken over after a restart.

The order at the end: no call is under way any more; of a commit the cursor is durable with all its acknowledgements, of
an abort the messages are free again; then the operation records are deleted; then the transaction is forgotten. Each
step is repeated until it succeeds, or the owner is deposed: the next one finds the records, and does the same. What was
in doubt until then is decided by the records that there are.

Records that this owner did not put since it began come from earlier owners. All that are there at the beginning are
taken over before anything is dispatched or accepted: what an earlier owner has promised is among them, for it promised
only what was put while the segment was its own. A late one, of whomever, was promised to nobody. It was judged by what
an earlier owner knew, and meanwhile others may have got what it is about: so it counts for nothing. Its caller was told
to acknowledge the same again, and that is judged anew. One of an earlier owner is removed at once, lest the next owner
take it for a promise; one of this owner itself when its transaction has ended. Those of later owners are left alone. If
that next owner comes sooner, it can tell by what was accepted behind the late one: see `lateness`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from metastore.coordination import Backoff, Grant, Pace, View
from metastore.faults import Faults
from metastore.interface import ABSENT, Record, StoreError
from txn.model import paths
from txn.model.applied import Applied
from txn.model.errors import SegmentUnavailable, TxnConflict
from txn.model.header import TxnState
from txn.model.ids import TxnId
from txn.model.operation import Operation
from txn.outcomes import Outcomes, looked
from txn.segment.bell import Bell
from txn.segment.cursor import Ack
from txn.segment.errors import CursorTooLarge
from txn.segment.operations import OperationRecords
from txn.segment.subscription.acking import AckCall, Acking, ack_of, unrecorded
from txn.segment.subscription.keeper import CursorKeeper
from txn.segment.subscription.lateness import Lateness, RecordedAck, late_among
from txn.segment.subscription.pending import PendingAcks, covers_all
from txn.segment.subscription.recording import AckRecorder

logger = logging.getLogger("tidemark.txn.subscription")

T = TypeVar("T")

SETTLED_REMEMBERED_MAX = 10_000
"""Transactions of which late news by the watch is known to be old."""


class AckingTransactions:
    """All transactions that have acknowledged something in one subscription, and are not settled yet."""

    def __init__(
        self,
        subscription: str,
        operations: OperationRecords,
        outcomes: Outcomes,
        grant: Grant,
        pending: PendingAcks,
        keeper: CursorKeeper,
        pace: Pace,
        faults: Faults,
    ) -> None:
        self.recorder = AckRecorder(subscription, operations, grant, pending, keeper, pace, faults)
        self._subscription = subscription
        self._operations = operations
        self._outcomes = outcomes
        self._pending = pending
        self._keeper = keeper
        self._pace = pace
        self._faults = faults
        self._ackings: dict[TxnId, Acking] = {}
        self._settled: OrderedDict[TxnId, None] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closing = False
        self._bell = Bell()
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Never done unless one of the tasks fails."""

    # -- acknowledging

    async def acknowledge(
        self,
        txn_id: TxnId,
        acks: Sequence[Ack],
        era: int | None = None,
        check: Callable[[Sequence[Ack]], None] = lambda acks: None,
    ) -> None:
        """Acknowledges in a transaction; it is recorded when this returns. `check` judges what is new to it."""
        self._check_running()
        acking = self._acking(txn_id)
        acking.visitors += 1
        try:
            await looked(acking.followed)
            call = AckCall(acks, era, check)
            version_id = await self.undisputed(lambda: self._hold(acking, call))
            if not unrecorded(acking, [call]):
                return
            acking.calls.append(call)
            self._see_to(acking, version_id)
            await call.done
        finally:
            acking.visitors -= 1
            self._forget_if_idle(acking)

    def _acking(self, txn_id: TxnId) -> Acking:
        acking = self._ackings.get(txn_id)
        if acking is None:
            acking = self._ackings[txn_id] = Acking(self._outcomes.follow(txn_id))
        return acking

    def _hold(self, acking: Acking, call: AckCall) -> int:
        """Takes hold of what a call is about; the version of the open header. TxnConflict if it is not open."""
        self._check_running()
        known = acking.followed.now
        assert known is not None
        if acking.is_ended or not known.is_open:
            what = "is not there" if known.header is None else f"was decided: {known.state.value}"
            raise TxnConflict(f"{acking.txn_id} {what}. It acknowledges nothing any more: begin another one")
        self.recorder.hold(acking, call)
        return known.version_id

    async def undisputed(self, judge: Callable[[], T]) -> T:
        """What a judgement comes to when all that is decided counts, though nobody may have told it here yet.

        TxnConflict if a transaction is in its way that is open.
        """
        seen = {""}
        while True:
            try:
                return judge()
            except TxnConflict as error:
                holder = error.holder
                if holder in seen or not await self._is_over(TxnId.parse(holder)):
                    raise
            seen.add(holder)
            self._check_running()

    async def _is_over(self, txn_id: TxnId) -> bool:
        """Whether a transaction holds nothing any more; waits for that if it is decided."""
        acking = self._ackings.get(txn_id)
        if acking is None:
            return True
        known = await looked(acking.followed, self._outcomes)
        if known.is_open:
            return False
        while not acking.took_effect.is_set() and not self._is_closing:
            await self._bell.wait()
        return True

    def _see_to(self, acking: Acking, version_id: int) -> None:
        """That the calls are recorded, and the outcome is awaited."""
        if acking.writer is None:
            acking.writer = self._spawn(self._record(acking, version_id))
        if acking.ender is None:
            acking.ender = self._spawn(self._end(acking))

    def _forget_if_idle(self, acking: Acking) -> None:
        if not acking.visitors and acking.ender is None and self._ackings.get(acking.txn_id) is acking:
            del self._ackings[acking.txn_id]
            acking.followed.release()

    async def _record(self, acking: Acking, version_id: int) -> None:
        await self.recorder.record(acking, version_id)
        acking.writer = None
        self._bell.ring()

    # -- the end

    async def _end(self, acking: Acking) -> None:
        """Waits for the outcome, and carries it out."""
        state = await self._decided(acking)
        acking.is_ended = True
        while acking.writer is not None:
            await self._bell.wait()
        await self._repeat(lambda: self._resolve_doubt(acking))
        if state is TxnState.COMMITTED:
            await self._commit(acking)
        else:
            await self._abort(acking)
        self._faults.reach("txn.settle.operations.before")
        deleted: set[str] = set()
        while not acking.keys <= deleted:
            deleted |= acking.keys  # more of them may come meanwhile
            await self._repeat(lambda: self._delete_records(acking))
        self._faults.reach("txn.settle.operations.after")
        self._forget_settled(acking)

    async def _decided(self, acking: Acking) -> TxnState:
        backoff = Backoff(self._pace)
        while True:
            try:
                return await acking.followed.decided()
            except StoreError:
                # Its watch has ended for good: another one is begun.
                await backoff.pause()
                acking.followed.release()
                acking.followed = self._outcomes.follow(acking.txn_id)

    async def _resolve_doubt(self, acking: Acking) -> None:
        """Now that nothing more is put, the records say what the transaction has acknowledged."""
        if not acking.doubtful:
            return
        stored = await self._operations.of_transaction(acking.txn_id, self._subscription)
        for key, operation in stored:
            if operation.term == self._operations.term:
                acking.note_record(key, operation.written_ms)
                acking.recorded.add(ack_of(operation))
        acking.doubtful, acking.had_doubt = [], True

    async def _abort(self, acking: Acking) -> None:
        """The messages are free; that they were not is in nobody's acknowledgement any more, durably."""
        claims = self._pending.let_go(acking.txn_id)
        is_missing = not covers_all(self._keeper.state, claims)
        durable = self._keeper.begin_era() if is_missing else None
        self.recorder.freed(claims, True)
        self._take_effect(acking)
        if durable is not None:
            await durable
            self._faults.reach("txn.settle.era.after")

    async def _commit(self, acking: Acking) -> None:
        """The cursor has what the transaction has acknowledged, durably; what was never recorded is free."""
        self._faults.reach("txn.settle.cursor.before")
        acks = list(acking.recorded.acks())
        durable = await self._accepted(acks)
        self.recorder.recorded(acks)
        self.recorder.freed(self._pending.let_go(acking.txn_id), False)
        self._take_effect(acking)
        await durable
        self.recorder.recorded(())
        self._faults.reach("txn.settle.cursor.after")

    def _take_effect(self, acking: Acking) -> None:
        acking.took_effect.set()
        self._bell.ring()

    async def _accepted(self, acks: Sequence[Ack]) -> asyncio.Future[None]:
        """Gives the cursor what a transaction has held; the future tells when it is durable."""
        backoff = Backoff(self._pace)
        while True:
            durable = self._keeper.commit(acks)
            _ = self._keeper.state  # has them from here on, unless there was no room
            if not durable.done():
                return durable
            if not isinstance(durable.exception(), CursorTooLarge):
                return durable
            await backoff.pause()

    async def _delete_records(self, acking: Acking) -> None:
        if not acking.keys:
            return
        known = acking.followed.now
        assert known is not None
        now_ms = self._pace.clock.wall_ms()
        applied = Applied(
            now_ms,
            self._operations.broker,
            self._operations.term,
            len(acking.keys),
            now_ms if acking.first_ms is None else acking.first_ms,
            acking.last_ms,
        )
        version_id = ABSENT if known.header is None else known.version_id
        await self._operations.delete_acks(
            acking.txn_id, self._subscription, acking.keys, applied, header_version=version_id
        )

    def _forget_settled(self, acking: Acking) -> None:
        del self._ackings[acking.txn_id]
        acking.followed.release()
        if not acking.had_doubt:
            self._settled[acking.txn_id] = None
        if len(self._settled) > SETTLED_REMEMBERED_MAX:
            self._settled.popitem(last=False)
        self._bell.ring()

    async def _repeat(self, step: Callable[[], Awaitable[None]]) -> None:
        """Does something until the store has done it."""
        backoff = Backoff(self._pace)
        while True:
            try:
                await step()
            except StoreError:
                await backoff.pause()
            else:
                return

    # -- what the records say

    async def take_over(self, view: View) -> None:
        """Takes over what is recorded. When this returns all that is held, or was decided meanwhile, is known."""
        found = {key: view.records[key] for key in await view.news()}
        late = [each for each in late_among(map(_recorded, found.items())) if await self._is_late(*each)]
        if late:
            # For all that is known the transaction was aborted by an owner that could not write that down any more.
            await self._keeper.begin_era()
        for each, _ in late:
            logger.warning("%s was put too late by the owner of term %d: it is removed", each.key, each.term)
            await self._take_back(each.txn_id, each.key, found.pop(each.key))
        for key, record in found.items():
            self._take(key, record, is_new=False)
        await asyncio.gather(*(self._learn(acking) for acking in list(self._ackings.values())))

    async def _is_late(self, recorded: RecordedAck, lateness: Lateness) -> bool:
        if lateness is Lateness.CERTAIN:
            return True
        followed = self._outcomes.follow(recorded.txn_id)
        try:
            return (await looked(followed, self._outcomes)).is_open
        finally:
            followed.release()

    async def _take_back(self, txn_id: TxnId, key: str, record: Record) -> None:
        version_id = record.version.version_id
        await self._repeat(lambda: self._operations.take_back(txn_id, key, version_id))

    async def _learn(self, acking: Acking) -> None:
        """What is decided already counts at once; the rest of the settlement goes on beside."""
        known = await looked(acking.followed)
        acking.ender = self._spawn(self._end(acking))
        if not known.is_open:
            await acking.took_effect.wait()

    async def follow(self, view: View) -> None:
        """Sees to what comes later, for as long as it runs."""
        while True:
            for key in await view.news():
                record = view.records.get(key)
                if record is not None:
                    self._take(key, record, is_new=True)
                elif (acking := self._ackings.get(paths.txn_id_of_key(key))) is not None and not acking.is_ended:
                    acking.keys.discard(key)  # who has put it has taken it back

    def _take(self, key: str, record: Record, *, is_new: bool) -> None:
        txn_id = paths.txn_id_of_key(key)
        operation = Operation.decode(record.value or b"")
        term = self._operations.term
        if operation.term > term:
            return  # it is the business of an owner that has come meanwhile
        is_own = is_new and operation.term == term
        known = self._ackings.get(txn_id)
        if is_own and known is None and txn_id in self._settled:
            return  # the echo of a put that was answered
        acking = known or self._acking(txn_id)
        if is_new and (known is None or not is_own):
            acking.had_doubt = True  # a put whose answer was lost comes when all is settled, maybe not as the last one
        if key in acking.keys:
            return
        acking.note_record(key, operation.written_ms)
        ack = ack_of(operation)
        if not is_new and self._is_entry(key, ack):
            acking.recorded.add(ack)
            self._pending.hold(txn_id, [ack], acking.recorded)
        if is_new and not is_own:
            self._spawn(self._take_back(txn_id, key, record))
        if is_new and acking.ender is None:
            acking.ender = self._spawn(self._end(acking))

    def _is_entry(self, key: str, ack: Ack) -> bool:
        """Whether a record is about something that is there, or was. One that is not counts for nothing."""
        lengths = self._keeper.lengths()
        if ack.position < lengths.oldest or lengths.holds(ack.position):
            return True
        logger.error("%s acknowledges %s, where no entry is: it is deleted with the rest", key, ack.position)
        return False

    # -- the ways out

    async def settled(self) -> None:
        """Returns when no transaction is left whose outcome is known and not carried out."""
        while any(_is_settling(acking) for acking in self._ackings.values()):
            await self._bell.wait()

    async def drop_records(self, view: View) -> None:
        """Deletes all that is recorded, whatever becomes of the transactions: the subscription is being deleted."""
        await self.close()
        keys = {key: paths.txn_id_of_key(key) for key in view.records}
        for acking in self._ackings.values():
            await self._resolve_doubt(acking)
            keys.update(dict.fromkeys(acking.keys, acking.txn_id))
        for txn_id in set(keys.values()):
            own = [key for key in keys if keys[key] == txn_id]
            nothing = Applied(0, "", 0, 0, 0, 0)
            await self._operations.delete_acks(txn_id, self._subscription, own, nothing)

    async def close(self) -> None:
        """Stops. What is under way is finished by whoever takes over."""
        self._is_closing = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for acking in self._ackings.values():
            for call in acking.calls:
                call.fail(SegmentUnavailable(f"{self._subscription!r} was closed before {acking.txn_id} was recorded"))
            acking.followed.release()
        self._bell.ring()

    def _check_running(self) -> None:
        if self._is_closing:
            raise SegmentUnavailable(f"the subscription {self._subscription!r} was closed: look up its owner")

    def _spawn(self, work: Awaitable[None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not self.failed.done():
            self.failed.set_exception(error)
            self.failed.exception()


def _recorded(found: tuple[str, Record]) -> RecordedAck:
    key, record = found
    operation = Operation.decode(record.value or b"")
    return RecordedAck(key, paths.txn_id_of_key(key), operation.term, ack_of(operation))


def _is_settling(acking: Acking) -> bool:
    known = acking.followed.now
    return acking.ender is not None and known is not None and not known.is_open
