"""Transactions without `await`."""

from __future__ import annotations

from types import TracebackType

from controller.client.blocking.loop import Loop
from controller.client.scope import TransactionScope
from controller.client.transaction import Transaction, TransactionState
from txn.model.ids import TxnId


class BlockingTransaction:
    """A transaction; to be used in `with`, or ended by hand."""

    def __init__(self, txn: Transaction, loop: Loop) -> None:
        self.txn = txn
        self._loop = loop

    @property
    def id(self) -> TxnId:
        return self.txn.id

    @property
    def deadline_ms(self) -> int:
        return self.txn.deadline_ms

    @property
    def state(self) -> TransactionState:
        return self.txn.state

    def commit(self) -> None:
        self._loop.call(self.txn.commit)

    def abort(self) -> None:
        self._loop.call(self.txn.abort)


class BlockingScope:
    """`with client.transaction() as txn`."""

    def __init__(self, scope: TransactionScope, loop: Loop) -> None:
        self._scope = scope
        self._loop = loop

    def __enter__(self) -> BlockingTransaction:
        return BlockingTransaction(self._loop.call(self._scope.__aenter__), self._loop)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call(lambda: self._scope.__aexit__(kind, error, trace))


def inner(txn: BlockingTransaction | None) -> Transaction | None:
    """The transaction itself, if there is one."""
    return None if txn is None else txn.txn
