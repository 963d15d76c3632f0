"""A transaction as its application holds it: what it did, and what became of it.

OPEN ── commit ──> COMMITTING ──> COMMITTED
  │                    └────────> ABORTED, TIMED_OUT, ERROR   (the broker knows better)
  ├──── abort ───> ABORTING ────> ABORTED
  └── its time ──> TIMED_OUT
"""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import Any

from controller.client.caller import Caller
from controller.client.errors import InvalidRequest
from controller.client.protocol import END
from controller.pb import broker_pb2 as pb
from txn.model.errors import (
    TxnAlreadyAborted,
    TxnAlreadyCommitted,
    TxnError,
    TxnHasFailedOperations,
    TxnRetriable,
    TxnTimedOut,
)
from txn.model.ids import TxnId


class TransactionState(Enum):
    """What is known of a transaction here."""

    OPEN = "OPEN"
    COMMITTING = "COMMITTING"
    ABORTING = "ABORTING"
    COMMITTED = "COMMITTED"
    ABORTED = "ABORTED"
    ERROR = "ERROR"
    TIMED_OUT = "TIMED_OUT"


_State = TransactionState


class Transaction:
    """Begun by `Client.transaction` or `Client.begin`, of which the first also ends it."""

    def __init__(self, caller: Caller, txn_id: TxnId, deadline_ms: int, remaining_s: float) -> None:
        self.id = txn_id
        self.deadline_ms = deadline_ms
        """When its time is over, by the clock of the broker."""
        self._caller = caller
        self._state = TransactionState.OPEN
        self._failure: BaseException | None = None
        """Of the first operation that failed; or what has led to ERROR."""
        self._under_way = 0
        self._none_under_way = asyncio.Event()
        self._none_under_way.set()
        loop = asyncio.get_running_loop()
        self._ends_s = loop.time() + remaining_s
        self._timer = loop.call_at(self._ends_s, self._time_out)

    def __repr__(self) -> str:
        return f"<Transaction {self.id} {self._state.value}>"

    @property
    def state(self) -> TransactionState:
        return self._state

    # -- operations

    def check_usable(self, doing: str) -> None:
        """Raises what stands against doing something in this transaction."""
        if self._state is not _State.OPEN:
            raise self._refusal(f"cannot {doing} in transaction {self.id}")

    def register(self, outcome: asyncio.Future[Any]) -> None:
        """Something was begun in this transaction: it cannot commit before that has succeeded."""
        self._under_way += 1
        self._none_under_way.clear()
        outcome.add_done_callback(self._note)

    def _note(self, outcome: asyncio.Future[Any]) -> None:
        self._under_way -= 1
        if not self._under_way:
            self._none_under_way.set()
        error = asyncio.CancelledError() if outcome.cancelled() else outcome.exception()
        if error is not None and self._failure is None:
            self._failure = error

    # -- ends

    async def commit(self) -> None:
        """Commits, once everything that was done in the transaction has succeeded; returns when that is decided.

        TxnHasFailedOperations if something has failed, and then it is aborted. If nobody answers in time the outcome is
        not known: CoordinatorUnavailable or BrokersUnavailable, and committing again tells it.
        """
        if self._state is _State.COMMITTED:
            return
        if self._state not in (_State.OPEN, _State.COMMITTING):
            raise self._refusal(f"cannot commit transaction {self.id}")
        self._move(_State.COMMITTING)
        try:
            async with asyncio.timeout_at(self._ends_s):
                await self._none_under_way.wait()
        except TimeoutError:
            self._move(_State.TIMED_OUT)
            raise self._refusal(f"cannot commit transaction {self.id}, part of which is under way still") from None
        if self._failure is not None:
            raise await self._abort_for(self._failure)
        await self._end(_State.COMMITTED, None)

    async def abort(self, timeout_s: float | None = None) -> None:
        """Aborts; returns when that is decided, also if it was before. TxnAlreadyCommitted if it is too late.

        A transaction whose time is over needs no abort.
        """
        if self._state in (_State.ABORTED, _State.TIMED_OUT):
            return
        if self._state in (_State.COMMITTED, _State.ERROR):
            raise self._refusal(f"cannot abort transaction {self.id}")
        self._move(_State.ABORTING)
        await self._end(_State.ABORTED, timeout_s)

    async def _abort_for(self, failure: BaseException) -> TxnHasFailedOperations:
        """Aborts because something has failed; returns the error that says so."""
        text = f"transaction {self.id} cannot commit, because something in it has failed: {failure!r}"
        error = TxnHasFailedOperations(text)
        error.__cause__ = failure
        try:
            await self.abort()
        except TxnRetriable as trouble:
            error.add_note(f"Nor could it be aborted: {trouble}. It ends at its deadline.")
        return error

    async def _end(self, wanted: TransactionState, timeout_s: float | None) -> None:
        outcome = pb.COMMIT if wanted is _State.COMMITTED else pb.ABORT
        request = pb.EndTransactionRequest(txn_id=str(self.id), outcome=outcome)
        what = f"{pb.Outcome.Name(outcome)} transaction {self.id}"
        try:
            await self._caller.call(END, request, what, timeout_s=timeout_s)
        except TxnRetriable:
            raise  # the outcome is not known: asking again tells it
        except TxnError as error:
            self._learn(error)
            if wanted is _State.COMMITTED or self._state not in (_State.ABORTED, _State.TIMED_OUT):
                raise
        else:
            self._move(wanted)

    def _learn(self, error: TxnError) -> None:
        """The broker says that it has ended otherwise."""
        if isinstance(error, TxnTimedOut):
            self._move(_State.TIMED_OUT)
        elif isinstance(error, TxnAlreadyAborted):
            self._move(_State.ABORTED)
        elif isinstance(error, TxnAlreadyCommitted):
            self._move(_State.COMMITTED)
        else:
            self._failure = error
            self._move(_State.ERROR)

    def _time_out(self) -> None:
        if self._state is _State.OPEN:
            self._move(_State.TIMED_OUT)

    def _move(self, state: TransactionState) -> None:
        self._state = state
        if state is not _State.OPEN:
            self._timer.cancel()

    def _refusal(self, what: str) -> BaseException:
        if self._state is _State.TIMED_OUT:
            return TxnTimedOut(f"{what}: its time is over, and it is aborted; begin another")
        if self._state is _State.ABORTED:
            return TxnAlreadyAborted(f"{what}: it is aborted")
        if self._state is _State.COMMITTED:
            return TxnAlreadyCommitted(f"{what}: it is committed")
        if self._state is _State.ERROR:
            assert self._failure is not None, "an error is what leads to ERROR"
            return self._failure
        return InvalidRequest(f"{what}: it is being ended ({self._state.value})")
