"""What may become of a transaction: pure decisions over its header."""

from __future__ import annotations

from txn.model.errors import NotTheOwner, TxnAlreadyAborted, TxnAlreadyCommitted, TxnTimedOut
from txn.model.header import Cause, Header, TxnState
from txn.model.ids import TxnId


def check_owner(txn_id: TxnId, header: Header, principal: str | None) -> None:
    """Lets in the principal that began the transaction, and everybody where there are no principals."""
    if header.owner is not None and header.owner != principal:
        raise NotTheOwner(f"transaction {txn_id} belongs to another principal: only that one may end it or use it")


def successor(txn_id: TxnId, header: Header, wanted: TxnState, cause: Cause, now_ms: int) -> Header | None:
    """The header to write so that the transaction ends as wanted, or None if it has ended so already.

    A commit that comes at or after the deadline makes it an abort: the caller gets its error from `check_outcome`.
    """
    if not header.is_open:
        return None
    if wanted is TxnState.COMMITTED and header.is_past_deadline(now_ms):
        return header.decided(TxnState.ABORTED, Cause.DEADLINE, now_ms)
    return header.decided(wanted, cause, now_ms)


def check_outcome(txn_id: TxnId, header: Header, wanted: TxnState) -> None:
    """Raises where a decided transaction did not end as wanted; the error is the true outcome."""
    assert not header.is_open, "only a decision is an outcome"
    if header.state is wanted:
        return
    if header.state is TxnState.COMMITTED:
        raise TxnAlreadyCommitted(f"transaction {txn_id} was committed at {header.finalized_ms}: it cannot be aborted")
    if header.cause is Cause.DEADLINE:
        raise TxnTimedOut(
            f"transaction {txn_id} was aborted at {header.finalized_ms}, because its time ran out at "
            f"{header.timeout_ms}: begin another one"
        )
    who = "an operator" if header.cause is Cause.OPERATOR else "its client"
    raise TxnAlreadyAborted(f"transaction {txn_id} was aborted by {who} at {header.finalized_ms}: begin another one")


def check_usable(txn_id: TxnId, header: Header, now_ms: int) -> None:
    """Raises where a transaction can do nothing more: it is decided, or its time is over."""
    if header.is_open and header.is_past_deadline(now_ms):
        raise TxnTimedOut(f"the time of transaction {txn_id} ran out at {header.timeout_ms}: begin another one")
    if not header.is_open:
        check_outcome(txn_id, header, TxnState.OPEN)
