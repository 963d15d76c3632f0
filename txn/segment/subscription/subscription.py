"""A subscription of a segment that this process owns: the parts put together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from metastore.coordination import Backoff, Grant, GuardedRecord, Pace
from metastore.faults import NO_FAULTS, Faults
from metastore.interface import OutcomeUnknown, Retriable, StoreError, UnexpectedVersion
from txn.model import paths
from txn.model.errors import SegmentUnavailable, TxnError
from txn.model.ids import TxnId
from txn.model.position import Position
from txn.outcomes import Outcomes
from txn.segment.cursor import Ack, CursorState
from txn.segment.errors import InvalidAck
from txn.segment.log import START, SegmentLog
from txn.segment.operations import OPERATIONS_AT_ONCE_MAX, OperationRecords
from txn.segment.subscription.backlog import Backlog
from txn.segment.subscription.claims import Claims
from txn.segment.subscription.consumer import Consumer
from txn.segment.subscription.cursor_record import DELETING, is_deleting
from txn.segment.subscription.dispatcher import Dispatcher
from txn.segment.subscription.errors import SubscriptionClosed, SubscriptionDeleted
from txn.segment.subscription.hands import too_late
from txn.segment.subscription.keeper import CursorKeeper, told
from txn.segment.subscription.numbers import SubscriptionStats, unacknowledged
from txn.segment.subscription.pending import PendingAcks, check_fits
from txn.segment.subscription.settling import AckingTransactions
from txn.segment.subscription.values import (
    READ_BYTES_MAX,
    Asking,
    Assigned,
    InitialPosition,
    Readable,
    SubscriptionKind,
)

ACKS_AT_ONCE_MAX = OPERATIONS_AT_ONCE_MAX
"""Acknowledgements of one call."""
CREATE_ATTEMPTS_MAX = 8
"""How often the record of a new subscription is put anew because the answer was lost, or the store was away."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the subscriptions of one owned segment share."""

    log: SegmentLog
    readable: Readable
    """What may be read: the visibility of the transaction buffer."""
    grant: Grant
    outcomes: Outcomes
    operations: OperationRecords
    pace: Pace
    faults: Faults = NO_FAULTS
    ends_changed: Callable[[str], None] = lambda subscription: None
    """Told when it may be another answer whether a subscription has read the segment to its end."""


class Subscription:
    """What of a segment was taken, is being taken, and is still to be taken. Made by `create` and `recover`."""

    def __init__(self, name: str, around: Surroundings, record: GuardedRecord, state: CursorState) -> None:
        self.name = name
        self._around = around
        self._log = around.log
        self._pending = PendingAcks()
        self._record = record
        self._keeper = CursorKeeper(
            record,
            state.normalise(around.log.lengths),
            lambda: around.log.lengths,
            lambda: self._pending.weight,
            around.grant.term,
            around.pace,
            around.faults,
        )
        self._transactions = AckingTransactions(
            name,
            around.operations,
            around.outcomes,
            around.grant,
            self._pending,
            self._keeper,
            around.pace,
            around.faults,
        )
        self._dispatcher = Dispatcher(name, around.log, around.readable, self._keeper, self._pending, around.pace)
        self._dispatcher.ends_changed = lambda: around.ends_changed(name)
        self._keeper.passed = lambda state: self._backlog.passed(state)
        self._transactions.recorder.recorded = self._acknowledged
        self._transactions.recorder.freed = self._freed
        self._view = around.operations.watch_acks(name)
        self._tasks: list[asyncio.Future[None]] = []
        self._failure: TxnError | None = None
        self._has_failed = asyncio.Event()

    @property
    def _backlog(self) -> Backlog:
        return self._dispatcher.backlog

    # -- beginning

    @classmethod
    async def create(cls, name: str, start: InitialPosition | Position, around: Surroundings) -> Subscription:
        """A new subscription, durable when this returns; one that is there already stays as it is."""
        state = CursorState(_bound(start, around.log)).normalise(around.log.lengths)
        backoff = Backoff(around.pace)
        for _ in range(CREATE_ATTEMPTS_MAX):
            try:
                found = await cls.recover(name, around)
                if found is not None:
                    return found
                record = around.grant.guard(paths.cursor_key(around.log.segment, name))
                if await record.read() is None:
                    around.faults.reach("txn.cursor.create.before")
                    await record.write(state.encode())
                    around.faults.reach("txn.cursor.create.after")
            except (Retriable, UnexpectedVersion, OutcomeUnknown):
                await backoff.pause()
            except StoreError as error:
                raise told(name, error) from error
        raise SegmentUnavailable(
            f"the subscription {name!r} of {around.log.segment!r} was not created in {CREATE_ATTEMPTS_MAX} attempts "
            "(CREATE_ATTEMPTS_MAX): try again"
        )

    @classmethod
    async def recover(cls, name: str, around: Surroundings) -> Subscription | None:
        """The subscription as its last owner left it. None if there is none, or one whose deletion is finished now.

        When this returns, all that open transactions hold is held, and what was decided meanwhile counts.
        """
        around.faults.reach("txn.recover.cursor.before")
        record = around.grant.guard(paths.cursor_key(around.log.segment, name))
        value = await record.read()
        if value is None:
            return None
        if is_deleting(value):
            await cls(name, around, record, CursorState())._finish_deleting()
            return None
        subscription = cls(name, around, record, CursorState.decode(value))
        try:
            await subscription._begin()
        except BaseException:
            await subscription._stop()
            raise
        around.faults.reach("txn.recover.cursor.after")
        return subscription

    async def _begin(self) -> None:
        self._start(self._keeper.run())
        await self._transactions.take_over(self._view)
        for work in (self._transactions.follow(self._view), self._dispatcher.run(), self._dispatcher.follow_bound()):
            self._start(work)
        self._transactions.failed.add_done_callback(self._done)

    def _start(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        task.add_done_callback(self._done)
        self._tasks.append(task)

    def _done(self, task: asyncio.Future[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._end(error)

    def _end(self, error: BaseException) -> None:
        """From now on everything raises; the first reason stays."""
        if self._failure is None:
            self._failure = told(self.name, error)
        self._keeper.end(self._failure)
        self._dispatcher.end(self._failure)
        self._has_failed.set()

    async def wait_failed(self) -> TxnError:
        """Returns when the subscription has ended, with the reason: then it is to be closed, and recovered if owned."""
        await self._has_failed.wait()
        assert self._failure is not None
        return self._failure

    def _check_running(self) -> None:
        if self._failure is not None:
            raise self._failure.with_traceback(None)

    # -- taking and acknowledging

    def attach(
        self,
        consumer: str,
        kind: SubscriptionKind,
        *,
        starts: Sequence[int] = (0,),
        assigned: Assigned | None = None,
        replaces: bool = False,
        instance: int = 0,
    ) -> Consumer:
        """Another consumer. ConsumerBusy if those that are there do not allow it; ConsumerReplaced if it comes by an
        older division of the topic than is known. In a key-shared subscription buckets begin at `starts`. By its
        `instance` a consumer is the same on another stream.
        """
        self._check_running()
        return self._dispatcher.attach(Asking(consumer, kind, tuple(starts), assigned, replaces, instance))

    async def acknowledge(
        self,
        acks: Sequence[Ack],
        txn_id: TxnId | None = None,
        consumer: Consumer | None = None,
        era: int | None = None,
    ) -> None:
        """Acknowledges: all of it, durably, when this returns; or nothing. In a transaction it counts at the commit.

        In a key-shared subscription a consumer who acknowledges a whole entry means what he has of it now; who means
        what he has had names the messages, for it may have come to others meanwhile. A cumulative
        acknowledgement says in which `era` what it names was given: AckTooLate if that is over, see `pending`.

        What another consumer of a key-shared subscription has, or had last, is left out: AckTooLate when all else is
        acknowledged. In a transaction nothing is acknowledged then. `consumer` is None where nobody received anything.

        TxnConflict if somebody else holds one of the messages, or has acknowledged it in the case of a transaction; see
        `pending`. InvalidAck for what is no entry, is not readable yet, or for messages that a batch does not have. In
        a shared subscription nothing is acknowledged cumulatively, for that would take from others what they have.
        What failed with a retriable error may be repeated as it was.
        """
        self._check_running()
        if not 1 <= len(acks) <= ACKS_AT_ONCE_MAX:
            raise InvalidAck(f"{len(acks)} acknowledgements at once: 1 to {ACKS_AT_ONCE_MAX} (ACKS_AT_ONCE_MAX)")
        check_fits(acks, self._log.lengths, self._around.readable.bound)
        if self._dispatcher.shares_entries:
            acks = [await self._own_part(consumer, ack) for ack in acks]
        await self._check_forms(acks)
        self._check_running()
        if txn_id is not None:
            in_short = tuple(_in_short(ack) for ack in acks)
            await self._transactions.acknowledge(txn_id, in_short, era, lambda new: self._check_hands(new, consumer))
            return
        free, late = await self._transactions.undisputed(lambda: self._judged(acks, consumer, era))
        if free:
            await self._keeper.acknowledge(tuple(free))
            self._acknowledged(free)
        if late:
            raise too_late(self.name, late)

    def _judged(self, acks: Sequence[Ack], consumer: Consumer | None, era: int | None) -> tuple[list[Ack], list[Ack]]:
        """Of acknowledgements outside of transactions what may be carried out now, and what comes too late."""
        free, late = self._dispatcher.parted(acks, consumer)
        free = [_in_short(ack) for ack in free]
        if self._pending or era not in (None, self._keeper.era):
            self._pending.judge_plain(free, self._keeper.state, era)
        return free, late

    def _check_hands(self, acks: Sequence[Ack], consumer: Consumer | None) -> None:
        _, late = self._dispatcher.parted(acks, consumer)
        if late:
            raise too_late(self.name, late)

    async def _check_forms(self, acks: Sequence[Ack]) -> None:
        """That nothing is cumulative in a shared subscription, and that batches are as large as they are said to be."""
        is_shared = any(not each.kind.is_ordered for each in self._dispatcher.consumers)
        for ack in acks:
            if ack.is_cumulative and is_shared:
                raise InvalidAck(f"everything up to {ack.position}, in the shared subscription {self.name!r}")
            if not ack.batch:
                continue
            messages = await self._messages_of(ack.position)
            if messages not in (None, ack.batch_size):
                raise InvalidAck(f"the batch at {ack.position} has {messages} messages, not {ack.batch_size}")

    async def _own_part(self, consumer: Consumer | None, ack: Ack) -> Ack:
        if ack.batch or ack.is_cumulative:
            return ack
        return self._dispatcher.own_part(consumer, ack, await self._messages_of(ack.position))

    async def _messages_of(self, position: Position) -> int | None:
        """How many messages an entry has; None if it is trimmed away."""
        messages = self._backlog.messages_of(position)
        if messages is not None:
            return messages
        if position < self._log.lengths.oldest:
            return None
        found = await self._log.read(position, 1, READ_BYTES_MAX)
        visible = await self._around.readable.filter(found)
        return visible[0].entry.message_count if visible else None

    def _acknowledged(self, acks: Sequence[Ack]) -> None:
        for ack in acks:
            if ack.is_cumulative:
                self._backlog.acknowledged_up_to(ack.position)
            else:
                self._backlog.acknowledged(ack.position)
        self._dispatcher.acknowledged()

    def _freed(self, claims: Claims, was_aborted: bool) -> None:
        self._backlog.give_back(claims, was_aborted=was_aborted)
        self._dispatcher.wake()

    # -- managing

    async def seek(self, bound: Position | InitialPosition) -> None:
        """Delivers everything from a bound on, and nothing before it; durable when this returns.

        What open transactions hold they keep: it is not delivered while they are open, if they commit it stays
        acknowledged, if they abort it comes again where it lies behind the bound. Outcomes that are known already are
        carried out before.
        """
        self._check_running()
        await self._transactions.settled()
        self._check_running()
        state = CursorState(_bound(bound, self._log)).normalise(self._log.lengths)
        durable = self._keeper.replace(state)
        self._backlog.restart(state.mark)
        self._dispatcher.wake()
        await durable
        self._dispatcher.ends_changed()

    def notice_trimmed(self) -> None:
        """Entries were trimmed away: they count as acknowledged."""
        self._dispatcher.wake()

    @property
    def is_drained(self) -> bool:
        """Whether the segment is sealed, and everything in it is acknowledged, durably."""
        return self._dispatcher.is_drained

    @property
    def mark(self) -> Position:
        """The first entry that is not acknowledged; nothing before it is needed here any more."""
        return self._keeper.durable.mark

    @property
    def stats(self) -> SubscriptionStats:
        """As it is now."""
        state = self._keeper.state.normalise(self._log.lengths)
        return SubscriptionStats(
            state.mark,
            unacknowledged(state, self._log.lengths),
            self._backlog.unacked,
            self._backlog.to_redeliver,
            tuple(each.name for each in self._dispatcher.consumers),
            self._pending.counts(),
        )

    async def delete(self) -> None:
        """Removes the subscription for good, and what open transactions have recorded in it. It may be repeated."""
        if isinstance(self._failure, SubscriptionClosed):
            raise self._failure.with_traceback(None)
        if self._failure is None:
            await self._keeper.mark_deleting()
            self._around.faults.reach("txn.cursor.deleting.after")
            self._end(SubscriptionDeleted(f"the subscription {self.name!r} of {self._log.segment!r} was deleted"))
        await self._stop_tasks()
        await self._finish_deleting()

    async def _finish_deleting(self) -> None:
        """The second half: the record says that it is to be done."""
        async with self._around.operations.watch_acks(self.name) as view:
            await view.news()
            await self._transactions.drop_records(view)
        self._around.faults.reach("txn.cursor.delete.before")
        if await self._record.read() == DELETING:
            await self._record.delete()
        self._around.faults.reach("txn.cursor.delete.after")
        await self._view.close()

    async def close(self) -> None:
        """Stops. What was acknowledged is durable; what is under way is finished by whoever recovers it."""
        self._end(SubscriptionClosed(f"the subscription {self.name!r} of {self._log.segment!r} was closed"))
        await self._stop()

    async def _stop(self) -> None:
        await self._stop_tasks()
        await self._transactions.close()
        await self._view.close()

    async def _stop_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _in_short(ack: Ack) -> Ack:
    """All messages of an entry are the entry: that is said in few words, however many they are."""
    bits = ack.bits
    return ack if bits is None or not bits.is_whole else Ack(ack.position, ack.is_cumulative)


def _bound(start: InitialPosition | Position, log: SegmentLog) -> Position:
    """A bound within what there is."""
    if start is InitialPosition.EARLIEST:
        return START
    if start is InitialPosition.LATEST:
        return log.lengths.end
    assert isinstance(start, Position)
    return min(start, log.lengths.end)
