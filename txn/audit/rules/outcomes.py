"""Rules about outcomes: carried out by all, after the decision, and as it was decided."""

from __future__ import annotations

from pyspark.sql import Column

from txn.audit.rules.model import (
    OURS,
    Context,
    OnRows,
    Rule,
    Severity,
    col,
    is_final,
    is_known,
    is_open,
)

APPLIED = ("state", "finalized", "applied")
ABORTED = ("state", "finalized", "aborted", "aborted_ledger", "aborted_entry")


def _is_half_applied(context: Context) -> Column:
    is_half = (col("unapplied_participants") > 0) & (col("applied_participants") > 0)
    return is_half & is_final() & context.settled("finalized")


def _is_applied_while_open(_: Context) -> Column:
    return is_known("applied") & is_open()


def _is_applied_too_early(context: Context) -> Column:
    return is_known("applied") & context.before("applied", "finalized")


def _is_applied_of_nothing(context: Context) -> Column:
    return is_known("applied") & col("state").isNull() & context.settled("applied")


def _is_aborted_and_committed(_: Context) -> Column:
    return is_known("aborted") & (col("state") == "COMMITTED")


def _is_aborted_while_open(context: Context) -> Column:
    return is_known("aborted") & is_open() & context.settled("aborted")


def _is_trimmed(context: Context) -> Column:
    ledger, entry = col("aborted_ledger"), col("aborted_entry")
    is_behind = (ledger < col("trimmed_ledger")) | ((ledger == col("trimmed_ledger")) & (entry < col("trimmed_entry")))
    return is_known("aborted") & is_behind & context.settled("log_changed")


OUTCOME_RULES = (
    Rule(
        "half-applied",
        "Some participants have carried an outcome out, others have not, for longer than that takes",
        "Readers of one segment see the transaction, readers of another do not. It is whole again as soon as the "
        "others have caught up.",
        "See which participants are late (`tidemark txn show ID`), and that brokers own their segments.",
        Severity.ERROR,
        [
            OnRows(
                "transactions",
                _is_half_applied,
                ("state", "finalized", "participants", "unapplied_participants", "applied_participants"),
            )
        ],
        OURS,
    ),
    Rule(
        "applied-while-open",
        "A participant has carried out an outcome that was never decided",
        "The transaction is open. If it is decided the other way, this participant is wrong for good.",
        "Report it with its evidence. End the transaction as the participant has done, if that can be told.",
        Severity.CRITICAL,
        [OnRows("participants", _is_applied_while_open, APPLIED)],
        OURS,
    ),
    Rule(
        "applied-before-decision",
        "A participant has carried out an outcome before it was decided",
        "Clocks differ by more than they may, so that ages and deadlines mislead; or it did not wait for the decision.",
        "Compare the clocks of the brokers.",
        Severity.WARNING,
        [OnRows("participants", _is_applied_too_early, APPLIED)],
        OURS,
    ),
    Rule(
        "applied-without-header",
        "What a participant has said about a transaction is there although the header is gone",
        "It is left behind for ever: it is found by the header. It does no harm but to take space.",
        "It may be deleted. Stores without all-or-nothing writes leave one now and then, when an answer is lost.",
        Severity.WARNING,
        [OnRows("participants", _is_applied_of_nothing, ("applied",))],
        OURS,
    ),
    Rule(
        "committed-but-skipped",
        "A segment skips the entries of a transaction that is committed",
        "What was committed there is never delivered: it is lost to every reader.",
        "Report it with its evidence. Removing the record of the aborted transaction lets readers see the entries.",
        Severity.CRITICAL,
        [OnRows("participants", _is_aborted_and_committed, ABORTED)],
    ),
    Rule(
        "skipped-while-open",
        "A segment skips the entries of a transaction that is open",
        "If it is committed, what it has written there is never delivered.",
        "Abort it, since readers have skipped its entries already. Report it.",
        Severity.CRITICAL,
        [OnRows("participants", _is_aborted_while_open, ABORTED)],
    ),
    Rule(
        "aborted-not-pruned",
        "A segment remembers an aborted transaction whose entries are trimmed away",
        "Nothing is wrong to readers; the records pile up.",
        "It goes with the next trimming of the segment. If it does not, see what its owner says in its log.",
        Severity.WARNING,
        [OnRows("participants", _is_trimmed, (*ABORTED, "trimmed_ledger", "trimmed_entry", "log_changed"))],
        OURS,
    ),
)
