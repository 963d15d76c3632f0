"""The cursor of a subscription, kept durable: changes that wait are written together, one write after another.

What is asked for is judged and counted at once, in the order of the calls: `state` always has it. It is durable when
the future says so. Changes are folded into the state together, when somebody looks at it or the next write begins, for
what a change costs grows with the holes in the cursor, not with the change.

A write that fails is repeated until it succeeds or the owner is deposed: an acknowledgement that was accepted is never
dropped, and a decided transaction waits for nobody's permission.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from metastore.coordination import Backoff, Deposed, GuardedRecord, Pace
from metastore.faults import Faults
from metastore.interface import OutcomeUnknown, Retriable, UnexpectedVersion
from txn.model.errors import TxnError
from txn.segment.cursor import CURSOR_BYTES_MAX, Ack, CursorState
from txn.segment.errors import CursorTooLarge, SegmentBusy
from txn.segment.log import LedgerLengths
from txn.segment.subscription.cursor_record import DELETING
from txn.segment.subscription.errors import SubscriptionClosed

WAITING_CHANGES_MAX = 10_000
"""Calls that wait for the cursor to be written."""


class _Change(NamedTuple):
    """Something that is to become durable."""

    done: asyncio.Future[None]
    acks: Sequence[Ack] = ()
    replacement: CursorState | None = None
    """In whose place everything before is forgotten."""
    needs_room: bool = True
    """Whether it must leave room for what transactions hold; what they commit has had that room."""
    begins_era: bool = False


class CursorKeeper:
    """The state of one cursor, and the record that says the same a moment later."""

    def __init__(
        self,
        record: GuardedRecord,
        state: CursorState,
        lengths: Callable[[], LedgerLengths],
        pending_weight: Callable[[], int],
        term: int,
        pace: Pace,
        faults: Faults,
    ) -> None:
        self.durable = state
        """What the record says."""
        self.passed: Callable[[CursorState], CursorState] = lambda state: state
        """Acknowledges what is behind the dispatcher and is nobody's: void entries, those of aborted transactions."""
        self._state = state
        self._record = record
        self.lengths = lengths
        self._pending_weight = pending_weight
        self._term = term
        self._pace = pace
        self._faults = faults
        self._new: list[_Change] = []
        """Not yet part of the state."""
        self._folded: list[_Change] = []
        """Part of the state, and not of the record."""
        self._is_deleting = False
        self._wake = asyncio.Event()
        self._failure: TxnError | None = None

    @property
    def state(self) -> CursorState:
        """What is acknowledged, durably or soon."""
        if self._new:
            self._fold()
        return self._state

    @property
    def era(self) -> int:
        """That of `state`, which need not be looked at for it."""
        return self._state.era

    @property
    def weight(self) -> int:
        """What the cursor takes: as it is, or as the record says it, whichever is more."""
        return max(self.state.weight, self.durable.weight)

    # -- asking

    def acknowledge(self, acks: Sequence[Ack]) -> asyncio.Future[None]:
        """Acknowledges. CursorTooLarge by the future if there is no room, and then nothing was changed."""
        if len(self._new) + len(self._folded) >= WAITING_CHANGES_MAX:
            raise SegmentBusy(
                f"{WAITING_CHANGES_MAX} acknowledgements wait for {self._record.key!r} to be written "
                "(WAITING_CHANGES_MAX): acknowledge slower, or more at once"
            )
        return self._ask(_Change(self._future(), acks))

    def commit(self, acks: Sequence[Ack]) -> asyncio.Future[None]:
        """Acknowledges what a committed transaction has held until now."""
        return self._ask(_Change(self._future(), acks, needs_room=False))

    def replace(self, state: CursorState) -> asyncio.Future[None]:
        """Forgets what was acknowledged before, and begins from a state, and another era."""
        return self._at_once(_Change(self._future(), replacement=state, begins_era=True))

    def begin_era(self) -> asyncio.Future[None]:
        """Begins another era: in `state` when this returns."""
        return self._at_once(_Change(self._future(), begins_era=True))

    def flush(self) -> asyncio.Future[None]:
        """Makes durable what is known, though nobody has asked for it."""
        return self._ask(_Change(self._future()))

    def _future(self) -> asyncio.Future[None]:
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        return asyncio.get_running_loop().create_future()

    def _at_once(self, change: _Change) -> asyncio.Future[None]:
        done = self._ask(change)
        self._fold()
        return done

    def _ask(self, change: _Change) -> asyncio.Future[None]:
        self._new.append(change)
        self._wake.set()
        return change.done

    # -- folding

    def _fold(self) -> None:
        new, self._new = self._new, []
        lengths = self.lengths()
        if not any(change.begins_era for change in new):
            everything = [ack for change in new for ack in change.acks]
            try:
                state = self._state.acknowledge(everything, lengths)
                self._check_room(state, any(change.needs_room and change.acks for change in new))
            except TxnError:
                pass  # one by one, then it shows which of them cannot be
            else:
                self._state = state
                self._folded += new
                return
        for change in new:
            self._fold_one(change, lengths)

    def _fold_one(self, change: _Change, lengths: LedgerLengths) -> None:
        try:
            state = change.replacement or self._state
            if change.begins_era:
                state = replace(state, era=self._state.next_era(self._term))
            state = state.acknowledge(change.acks, lengths)
            self._check_room(state, change.needs_room and bool(change.acks))
        except TxnError as error:
            _fail(change, error)
        else:
            self._state = state
            self._folded.append(change)

    def _check_room(self, state: CursorState, is_needed: bool) -> None:
        total = state.weight + self._pending_weight()
        if is_needed and total > CURSOR_BYTES_MAX:
            raise CursorTooLarge(
                f"a cursor of {total} bytes, with what transactions hold: at most {CURSOR_BYTES_MAX} "
                f"(CURSOR_BYTES_MAX). Acknowledge older entries first, the one at {state.mark} above all"
            )

    # -- writing

    async def run(self) -> None:
        """Writes until the record is gone, or the owner; then raises why."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            state = self._state = self.passed(self.state)
            written, self._folded = self._folded, []
            try:
                if self._is_deleting:
                    await self._write(DELETING)
                elif state != self.durable:
                    await self._write(state.encode())
            except BaseException:
                self._folded = written + self._folded  # whoever ends the keeper tells them
                if self._failure is not None:
                    self.end(self._failure)  # it has ended already, while they were being written
                raise
            self.durable = state
            for change in written:
                if not change.done.done():
                    change.done.set_result(None)

    async def _write(self, value: bytes) -> None:
        backoff = Backoff(self._pace)
        while True:
            self._faults.reach("txn.cursor.write.before")
            try:
                await self._record.write(value)
            except (Retriable, UnexpectedVersion, OutcomeUnknown):
                await backoff.pause()
            else:
                self._faults.reach("txn.cursor.write.after")
                return

    # -- the end

    async def mark_deleting(self) -> None:
        """Makes the record say that the subscription is on its way out."""
        self._is_deleting = True
        await self.flush()

    def end(self, error: BaseException) -> None:
        """From now on nothing is accepted, and who waits is told why; the first reason stays."""
        if self._failure is None:
            self._failure = told(self._record.key, error)
        changes, self._new, self._folded = [*self._new, *self._folded], [], []
        for change in changes:
            _fail(change, self._failure)


def told(key: str, error: BaseException) -> TxnError:
    """What the callers of a subscription are told of what has ended it."""
    if isinstance(error, TxnError):
        return error
    what = "the segment has another owner" if isinstance(error, Deposed) else f"it stopped: {error!r}"
    closed = SubscriptionClosed(f"{key}: {what}. Look up the owner, and subscribe again")
    closed.__cause__ = error
    return closed


def _fail(change: _Change, error: TxnError) -> None:
    if not change.done.done():
        change.done.set_exception(error)
        change.done.exception()  # it is no mistake if nobody waits
