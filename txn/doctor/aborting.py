"""Abort by an operator: what it would do, then one compare-and-set."""

from __future__ import annotations

from metastore.coordination import Pace
from metastore.interface import MetadataStore
from metastore.tables import moment_text
from txn.coordinator.coordinator import Coordinator
from txn.coordinator.registry import OpenTransactions
from txn.decoding.rows import TransactionRow
from txn.doctor.participation import Tally
from txn.doctor.portrait import DECIDED_BY, Portrait
from txn.model.errors import TxnAlreadyAborted, TxnAlreadyCommitted, TxnFatal
from txn.model.header import Cause, TxnState
from txn.model.ids import TxnId

NO_ID_SPACE = 0
"""The number of a coordinator that begins nothing."""


def check_open(row: TransactionRow) -> None:
    """Refuses a decided transaction, by its outcome."""
    if row.is_open:
        return
    at = "" if row.finalized_ms is None else f" at {moment_text(row.finalized_ms)}"
    by = "" if row.cause is None else f" {DECIDED_BY[row.cause]}"
    if row.state is TxnState.COMMITTED:
        raise TxnAlreadyCommitted(f"transaction {row.txn_id} was committed{by}{at}: there is no way back")
    raise TxnAlreadyAborted(f"transaction {row.txn_id} was aborted{by}{at}: there is nothing left to abort")


def effects(portrait: Portrait) -> list[dict[str, object]]:
    """What an abort does, by participant."""
    rows: list[dict[str, object]] = []
    for part in portrait.unapplied:
        assert part.pending is not None, "what is not applied has operation records"
        is_write = part.participant.subscription is None
        rows.append(
            {
                "segment": part.participant.segment,
                "subscription": part.participant.subscription,
                "operations": part.pending.operations,
                "entries_never_seen": part.pending.entries if is_write else 0,
                "acknowledgements_undone": 0 if is_write else part.pending.operations,
                "from": None if part.pending.first is None else str(part.pending.first),
                "to": None if part.pending.last is None else str(part.pending.last),
            }
        )
    return rows


def summary(portrait: Portrait) -> str:
    """What an abort does, in a sentence."""
    tally = Tally()
    tally.by_participant = {part.participant: part.pending for part in portrait.unapplied if part.pending is not None}
    return (
        f"an abort of {portrait.header.txn_id} undoes {tally.operations} operations; participants that carry it out: "
        f"{len(tally.by_participant)}, entries that will never be seen: {tally.entries}, acknowledgements whose "
        f"messages are delivered again: {tally.acknowledgements}"
    )


async def abort(store: MetadataStore, txn_id: str, pace: Pace) -> None:
    """Aborts an open transaction, whosever it is. The error is the true outcome if it was decided meanwhile."""
    coordinator = Coordinator(store, NO_ID_SPACE, OpenTransactions(store, pace), pace=pace)
    header = await coordinator.abort(TxnId.parse(txn_id), cause=Cause.OPERATOR)
    if header.cause is not Cause.OPERATOR:
        assert header.cause is not None, "a decided header says by whom"
        raise TxnAlreadyAborted(f"transaction {txn_id} was aborted meanwhile {DECIDED_BY[header.cause]}")


def check_kind(is_ours: bool) -> None:
    """Refuses to write where the records are not ours."""
    if not is_ours:
        raise TxnFatal("abort: these are Pulsar's records, which are only read here: abort it through Pulsar itself")
