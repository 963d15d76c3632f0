"""`async with client.transaction() as txn`: commits on success, aborts on error, and leaves nobody waiting."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from types import TracebackType

from controller.client.transaction import Transaction, TransactionState
from txn.model.errors import TxnError

ABORT_TIMEOUT_S = 5.0
"""How long an abort is tried that nobody waits for, or that an error waits for. Then the deadline does it."""
ABORTS_MAX = 1_000
"""That are under way in the background; others are left to their deadlines."""

_UNDECIDED = (TransactionState.OPEN, TransactionState.COMMITTING)

logger = logging.getLogger("tidemark.client")


class Background:
    """Aborts that nobody waits for."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def abort(self, txn: Transaction) -> None:
        """Aborts at the side."""
        if len(self._tasks) < ABORTS_MAX:
            task = asyncio.create_task(_abort(txn), name=f"abort {txn.id}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Returns when all of them have ended."""
        if self._tasks:
            await asyncio.wait(self._tasks)


async def _abort(txn: Transaction) -> None:
    try:
        await txn.abort(ABORT_TIMEOUT_S)
    except TxnError as error:
        logger.warning("transaction %s was not aborted, and ends by itself: %s", txn.id, error)


class TransactionScope:
    """A transaction that begins and ends with a block."""

    def __init__(self, begin: Callable[[], Awaitable[Transaction]], background: Background) -> None:
        self._begin = begin
        self._background = background
        self._txn: Transaction | None = None

    async def __aenter__(self) -> Transaction:
        self._txn = await self._begin()
        return self._txn

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        txn = self._txn
        assert txn is not None, "a block that ends has begun"
        if error is None:
            await self._commit(txn)
        elif txn.state in _UNDECIDED:
            await self._abort(txn, error)

    async def _commit(self, txn: Transaction) -> None:
        if txn.state in (TransactionState.ABORTING, TransactionState.ABORTED):
            return  # that was wanted
        try:
            await txn.commit()
        except asyncio.CancelledError:
            if txn.state in _UNDECIDED:
                self._background.abort(txn)
            raise

    async def _abort(self, txn: Transaction, error: BaseException) -> None:
        """Aborts because of an error, which goes on whatever becomes of that."""
        if not isinstance(error, Exception):
            self._background.abort(txn)  # whoever is cancelled is in a hurry
            return
        try:
            await txn.abort(ABORT_TIMEOUT_S)
        except TxnError as trouble:
            error.add_note(f"Transaction {txn.id} was not aborted: {trouble}")
