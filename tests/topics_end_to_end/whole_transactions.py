"""Transactions of applications: begun and ended whatever happens to whoever decides them, and noted."""

from __future__ import annotations

from controller.client import Client, Transaction, TransactionState
from topics_end_to_end.whole_notebook import Notebook
from txn.model.errors import TxnError
from txn.model.header import TxnState

TIMEOUT_MS = 6_000


class Transactions:
    """Of one application."""

    def __init__(self, book: Notebook, client: Client) -> None:
        self._book = book
        self._client = client

    def failed(self, error: TxnError) -> None:
        """Something was answered with an error; it is counted."""
        self._book.counts[f"transactions: {type(error).__name__}"] += 1

    async def begin(self) -> Transaction:
        """Insists."""
        while True:
            try:
                txn = await self._client.begin(TIMEOUT_MS)
            except TxnError as error:
                self.failed(error)
            else:
                self._book.began(str(txn.id))
                return txn

    async def end(self, txn: Transaction, wanted: TxnState) -> None:
        """Returns when the outcome is known."""
        invoked, outcome = self._book.tick(), None
        try:
            await (txn.commit() if wanted is TxnState.COMMITTED else txn.abort())
            outcome = wanted
        except TxnError as error:
            self.failed(error)
        finally:
            self._book.ended(str(txn.id), wanted, invoked, outcome)
        if outcome is None:
            await self._find_out(txn)

    async def _find_out(self, txn: Transaction) -> None:
        """Asks until it is decided; it ends by its time, if by nothing else."""
        while True:
            invoked = self._book.tick()
            try:
                state = await self._client.outcome(txn.id)
            except TxnError as error:
                self.failed(error)
                continue
            if state is not TxnState.OPEN:
                self._book.looked(str(txn.id), state, invoked)
                if txn.state is TransactionState.COMMITTING and state is TxnState.COMMITTED:
                    await txn.commit()
                return
            if txn.state in (TransactionState.COMMITTING, TransactionState.ABORTING):
                try:
                    await (txn.commit() if txn.state is TransactionState.COMMITTING else txn.abort())
                except TxnError as error:
                    self.failed(error)
