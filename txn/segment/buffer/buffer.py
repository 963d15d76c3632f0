"""The transaction buffer of an owned segment: what the parts of this package are together."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from types import TracebackType
from typing import Any, Self

from metastore.coordination import Deposed, Grant, GuardedRecord, Pace, View
from metastore.faults import NO_FAULTS, Faults
from metastore.interface import StoreError
from txn.model import paths
from txn.model.errors import SegmentUnavailable, TooManyOperations, TxnError
from txn.model.header import TxnState
from txn.model.ids import TxnId
from txn.model.position import Position
from txn.outcomes import Outcomes, looked
from txn.segment.buffer.aborted import AbortedRecords
from txn.segment.buffer.horizon import Horizon
from txn.segment.buffer.line import Line, Sending, UnderWay, refusal
from txn.segment.buffer.means import BufferStats, Means
from txn.segment.buffer.options import NO_MEASURES, BufferOptions, Measures
from txn.segment.buffer.participation import Participation, Participations
from txn.segment.buffer.producers import Taken, Verdict
from txn.segment.buffer.published import Published
from txn.segment.buffer.publisher import Publisher, Surroundings
from txn.segment.buffer.recovery import FoundProducers, FoundTransaction, find_producers, find_transactions
from txn.segment.buffer.settlement import Settlement
from txn.segment.buffer.snapshots import Snapshots
from txn.segment.buffer.visibility import Visibility
from txn.segment.entry import Entry
from txn.segment.errors import GroupTooLarge, LogStopped, SegmentSealed
from txn.segment.log import SegmentLog
from txn.segment.operations import OperationRecords


class TransactionBuffer:
    """The write side of a segment, for its owner; in `async with`. `recover` opens it.

    When it has ended, because it was closed, or its owner was deposed, or the log has stopped, everything raises
    SegmentUnavailable or a kind of it.
    """

    def __init__(
        self, means: Means, view: View, aborted: AbortedRecords, snapshot: GuardedRecord, found: FoundProducers
    ) -> None:
        self._means = means
        self._log = log = means.log
        self._view = view
        self._aborted = aborted
        self._producers = found.states
        self._failure: Exception | None = None
        self._is_sealing = log.is_sealed
        self._has_ended = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._horizon = Horizon()
        self._under_way = UnderWay(found.states)
        self._line = Line(self._under_way, means.options)
        self._participations = Participations(means.outcomes, means.options.open_max, self._take_up)
        self.visibility = Visibility(log, self._horizon, aborted, self._participations.is_aborted)
        self._snapshots = Snapshots(
            snapshot,
            found.states,
            self._under_way,
            means.pace,
            means.options,
            log.next_position,
            found.tail_entries,
            lambda: self._publisher.wake(),
        )
        surroundings = Surroundings(lambda: self._snapshots.is_close, self._note_confirmed, self._end)
        self._publisher = Publisher(
            log,
            self._line,
            self._under_way,
            self._horizon,
            means.operations,
            surroundings,
            means.options,
            means.faults,
        )
        self._settlement = Settlement(
            log, aborted, means.operations, means.pace, means.options, means.measures, means.faults
        )

    # -- the beginning

    @classmethod
    async def recover(
        cls,
        log: SegmentLog,
        grant: Grant,
        outcomes: Outcomes,
        operations: OperationRecords,
        *,
        pace: Pace,
        options: BufferOptions | None = None,
        measures: Measures = NO_MEASURES,
        faults: Faults = NO_FAULTS,
    ) -> TransactionBuffer:
        """The buffer of a segment whose log was just opened; when this returns everything is known, exactly.

        What is decided and not settled yet is being settled from then on, and counts as decided at once. The log is
        not closed by it. Retriable errors are left to whoever takes segments over.
        """
        assert log.term == grant.term == operations.term, "an owner has one term"
        means = Means(log, grant, outcomes, operations, pace, options or BufferOptions(), measures, faults)
        faults.reach("txn.recovery.begin")
        view = operations.watch_writes()
        transactions: list[FoundTransaction] = []
        try:
            await view.news()
            faults.reach("txn.recovery.records")
            transactions = await find_transactions(view.records, log, outcomes)
            faults.reach("txn.recovery.headers")
            aborted = AbortedRecords(grant, log.segment)
            snapshot = grant.guard(paths.producers_key(log.segment))
            found = await find_producers(snapshot, log, aborted, transactions)
            faults.reach("txn.recovery.producers")
        except BaseException as error:
            for each in transactions:
                each.followed.release()
            await view.close()
            if isinstance(error, Deposed):
                raise SegmentUnavailable(f"{log.segment!r} has another owner: {error}") from error
            raise
        buffer = cls(means, view, aborted, snapshot, found)
        buffer._begin(transactions)
        return buffer

    def _begin(self, transactions: Sequence[FoundTransaction]) -> None:
        pinned = {each.followed.txn_id: each.span.first for each in transactions if each.span and each.known.is_open}
        self._horizon.restore(pinned)
        for each in transactions:
            participation = self._participations.adopt(each.followed, is_recovered=True)
            participation.span = each.span
            participation.bears_witness = each.bears_witness
            for record in each.records:
                participation.note_found(record)
            if not each.known.is_open:
                self._conclude(participation, each.known.state)
        self._start(self._publisher.run())
        self._start(self._snapshots.run())
        self._start(self._settlement.watch_stragglers(self._view, self._participations))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs something at the side. If it fails the buffer has ended."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._note_done)

    def _note_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._end(error)

    # -- publishing

    def publish(self, entry: Entry) -> asyncio.Future[Published]:
        """Appends a message. It takes its place in the call: the order of the calls is the order in the log, but that
        one whose transaction is seen for the first time waits aside for a look at the header, with all behind it of the
        same producer; messages without a producer's name count as those of one. What is awaited is the confirmation.
        Who stops waiting takes nothing back.

        A message whose producer has sent its number before is not appended again, and answered when the first is; its
        number is free again if the first was not written, or its transaction aborted.

        TxnConflict: its transaction is decided, or there is none. TooManyOperations, TooManyOpenTransactions,
        SegmentBusy, GroupTooLarge: a named limit. SegmentSealed: the segment takes no more. SegmentFull,
        SegmentUnavailable: it was not written, or it is not known whether it was; send it again. They are raised by the
        call, and nothing was changed; or told to who waits, and then later messages of the same producer that are
        waiting are refused with it if it may be sent again, so that they keep their order.
        """
        self._require_running()
        if entry.is_void:
            raise ValueError("void is published by nobody")
        message: Taken | None = None
        if entry.producer:
            message = Taken(entry.producer, entry.sequence_id, entry.sequence_id_last, entry.txn_id)
            verdict = self._producers.judge(message)
            if verdict is Verdict.DUPLICATE:
                return self._under_way.repeat(message)
            if verdict is not Verdict.NEW:
                raise refusal(message, verdict)
        if self._is_sealing:
            raise self._sealed()
        data = entry.encode()
        if len(data) > self._log.group_bytes_max:
            raise GroupTooLarge(
                f"a message of {len(data)} bytes for {self._log.segment!r}: at most {self._log.group_bytes_max} "
                "(group_bytes_max)"
            )
        self._line.check_room(len(data))
        participation = None if entry.txn_id is None else self._joined(entry.txn_id)
        sending = Sending(data, entry.producer, message, participation)
        self._line.add(sending)
        self._publisher.wake()
        return sending.confirmation

    def last_sequence_id(self, producer: str) -> int | None:
        """The greatest number of a producer that is stored, as far as producers are remembered."""
        return self._producers.last_stored(producer, self._under_way.taken_of(producer))

    def is_undecided(self, producer: str) -> bool:
        """Whether that changes by itself, when what is on its way, or in open transactions, is decided."""
        return self._producers.is_undecided(producer) or bool(self._under_way.taken_of(producer))

    def _joined(self, txn_id: TxnId) -> Participation:
        """The transaction, which can take another message as far as is known."""
        participation = self._participations.join(txn_id)
        if participation.is_known and not participation.is_open:
            raise participation.conflict()
        if participation.entries >= self._means.options.operations_max:
            raise TooManyOperations(
                f"transaction {txn_id} has {participation.entries} messages in {self._log.segment!r}: at most "
                f"{self._means.options.operations_max} (operations_max); use several transactions"
            )
        participation.entries += 1
        return participation

    def _note_confirmed(self, bound: Position) -> None:
        self._snapshots.note_confirmed(bound)
        self.visibility.ring()

    async def catch_up(self) -> None:
        """Returns when whatever was committed by now may be read, but for what lies behind an open transaction.

        Whoever was told of a commit may come before the watch has told the owner. So the headers of those that hold
        the horizon are looked at, the oldest first, up to the first that is open.
        """
        end = self._log.lengths.end
        while (first := self._horizon.first) is not None and first < end:
            oldest = self._horizon.oldest
            assert oldest is not None
            participation = self._participations.get(oldest)
            assert participation is not None, f"{oldest} holds the horizon and takes no part"
            known = await looked(participation.followed, self._means.outcomes)
            self._require_running()
            if known.is_open:
                return
            await self.visibility.wait_let_go(oldest)

    # -- transactions

    def _take_up(self, participation: Participation) -> None:
        self._start(self._see_through(participation))

    async def _see_through(self, participation: Participation) -> None:
        """From the first look at the header until nothing is left to be done."""
        try:
            await participation.followed.known()
        except (StoreError, TxnError) as error:
            if participation.is_recovered:
                raise
            # Nothing was written in it, and nothing can be.
            self._line.fail_waiting(participation, error)
            self._participations.let_go(participation)
            return
        self._line.look_again(participation)
        self._publisher.wake()
        state = await participation.followed.decided()
        if participation.outcome is None:
            self._conclude(participation, state)
        await self._settlement.carry_out(participation)
        self._participations.let_go(participation)

    def _conclude(self, participation: Participation, state: TxnState) -> None:
        """What a decision changes in memory, at once: from now on its entries are seen, or skipped."""
        now = participation.followed.now
        header = now.header if now is not None else None
        participation.outcome = state
        if header is None and participation.is_straggler:
            participation.bears_witness = False
        if participation.bears_witness:
            self._producers.conclude(participation.txn_id, is_aborted=state is TxnState.ABORTED)
        if header is not None and header.finalized_ms is not None and state is TxnState.COMMITTED:
            self._means.measures.became_visible(max(0, self._means.pace.clock.wall_ms() - header.finalized_ms))
        self._horizon.release(participation.txn_id)
        self.visibility.ring()

    # -- sealing, trimming, the end

    async def seal(self) -> None:
        """No message will follow those whose publishing was called before, but those that wait aside are refused.

        Publishing is refused from the call on, also if it fails or is cancelled; then it can be called again.
        Transactions that are open go on to their end.
        """
        self._require_running()
        self._is_sealing = True
        self._line.fail_aside(self._sealed())
        await self._publisher.drained(lambda: self._failure is not None)
        self._require_running()
        await self._log.seal()
        self.visibility.ring()

    def _sealed(self) -> SegmentSealed:
        return SegmentSealed(f"the segment {self._log.segment!r} is sealed: publish to one of its successors")

    async def trim(self, before: Position) -> None:
        """Gives up entries before a position, open transaction or not, and forgets what was aborted among them."""
        self._require_running()
        await self._log.trim(before)
        try:
            await self._aborted.prune(self._log.lengths.oldest)
        except Deposed as error:
            self._end(error)
            self._require_running()
        self.visibility.ring()

    @property
    def stats(self) -> BufferStats:
        """How it is doing."""
        return BufferStats(
            self.visibility.bound,
            self._log.lengths.end,
            len(self._horizon),
            self._horizon.oldest,
            len(self._participations),
            self._line.entries,
            self._line.bytes,
            len(self._producers),
        )

    def _require_running(self) -> None:
        if self._failure is not None:
            raise self._failure.with_traceback(None)

    def _end(self, error: BaseException) -> None:
        """Ends the buffer; the first reason stays. Whoever waits in line is refused."""
        if self._failure is not None:
            return
        failure: Exception
        if isinstance(error, SegmentUnavailable):
            failure = error
        else:
            failure = SegmentUnavailable(f"{self._log.segment!r} is not served here any more: {error!r}")
            failure.__cause__ = error
        self._failure = failure
        self._has_ended.set()
        self._line.fail_all(failure)
        self.visibility.end(failure)
        self._publisher.end()
        for task in self._tasks:
            task.cancel()

    async def wait_ended(self) -> None:
        """Returns when the buffer has ended; then everything says why."""
        await self._has_ended.wait()

    async def close(self) -> None:
        """Ends the buffer. What stands in line is refused; what was appended is answered as long as the log goes on.

        What is not settled is left to the next owner.
        """
        is_orderly = self._failure is None
        self._end(LogStopped(f"the buffer of {self._log.segment!r} was closed by its owner"))
        tasks = list(self._tasks)
        await asyncio.gather(*tasks, return_exceptions=True)
        if is_orderly:
            await self._snapshots.write_last()
        self._participations.let_all_go()
        await self._view.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
