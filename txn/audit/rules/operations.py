"""Rules about operations: each belongs to a transaction, and goes when its outcome was carried out."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from metastore.spark.schemas import AS_OF
from txn.audit.dialect import DialectName
from txn.audit.participants import is_acknowledged
from txn.audit.rules.model import (
    OURS,
    Context,
    OnRows,
    OnTables,
    Rule,
    Severity,
    col,
    has_operations,
    is_final,
    is_known,
    is_open,
)
from txn.audit.tables import Tables

SHOWN = ("state", "finalized", "operations", "first_sequence", "last_sequence", "first_written", "last_written")


def _is_odd(_: Context) -> Column:
    return is_known("odd_key")


def _is_orphan(context: Context) -> Column:
    return has_operations() & col("state").isNull() & context.settled("last_written")


def _is_late(context: Context) -> Column:
    return has_operations() & is_final() & context.settled("finalized")


def _is_outside_its_life(context: Context) -> Column:
    before = context.before("first_written", "begun")
    return has_operations() & (before | context.before("finalized", "last_written"))


def _has_a_gap(context: Context) -> Column:
    count = col("last_sequence") - col("first_sequence") + 1
    is_incomplete = (col("first_sequence") != 1) | (count != col("operations"))
    return is_open() & has_operations() & is_incomplete & context.settled("last_written")


def _is_behind_the_log(context: Context) -> Column:
    is_of_unknown_owner = (col("last_ledger") > col("term")) | (col("last_term") > col("term"))
    return has_operations() & context.settled("last_written") & (is_of_unknown_owner | col("beyond_log"))


def _has_no_segment(context: Context) -> Column:
    last = F.coalesce(F.greatest("last_written", "aborted"), col("last_written"), col("aborted"))
    is_there = has_operations() | is_known("aborted")
    return is_known("segment") & is_there & col("has_segment").isNull() & context.settled(last)


def _has_no_subscription(context: Context) -> Column:
    is_lost = is_known("subscription") & col("has_subscription").isNull() & is_known("has_segment")
    return has_operations() & is_lost & context.settled("last_written")


def _holds_the_horizon(context: Context) -> Column:
    is_write = has_operations() & col("subscription").isNull()
    return is_write & is_open() & context.older("first_written", context.limits.hold_ms)


def _find_twice_acknowledged(tables: Tables, context: Context) -> DataFrame:
    """Two transactions of which neither was aborted, by what they acknowledge: hashes first, names where they meet."""
    where = ("segment", "subscription", "ledger", "last_entry")
    who = ["txn_id", "segment", "subscription"]
    assert tables.places is not None, "it is known of our records"
    places, met = tables.places, _met_places(tables, context)
    states = tables.acknowledgers.where(is_open() | (col("state") == "COMMITTED")).select("txn_id", "state").distinct()
    involved = places.join(F.broadcast(met), "place", "left_semi").select(*who).distinct()
    suspects = _single_acks(tables).join(F.broadcast(involved), who, "left_semi")
    suspects = suspects.where(context.settled("written")).join(states, "txn_id")
    found = suspects.groupBy(*where).agg(
        F.min("txn_id").alias("txn_id"),
        F.sort_array(F.collect_set("txn_id")).alias("transactions"),
        F.max("written").alias("last_written"),
    )
    return found.where(F.size("transactions") > 1)


def _met_places(tables: Tables, _: Context) -> DataFrame:
    """What two transactions acknowledge, by hashes."""
    assert tables.places is not None, "it is known of our records"
    txn = F.xxhash64("txn_id")
    ends = F.min(txn).alias("one"), F.max(txn).alias("other")
    return tables.places.groupBy("place").agg(*ends).where("one != other")


def _single_acks(tables: Tables) -> DataFrame:
    """Acknowledgements of whole entries."""
    columns = ("txn_id", "segment", "subscription", "ledger", "last_entry", "cumulative", "batch", "written")
    acks = tables.view("ops", *columns).where("subscription IS NOT NULL AND NOT cumulative AND batch IS NULL")
    return acks.drop("cumulative", "batch")


def _find_two_cumulative(tables: Tables, context: Context) -> DataFrame:
    is_one = has_operations() & is_open() & (col("cumulative") > 0) & context.settled("last_written")
    grouped = (
        tables.acknowledgers.where(is_one)
        .groupBy("segment", "subscription")
        .agg(F.min("txn_id").alias("txn_id"), F.sort_array(F.collect_set("txn_id")).alias("transactions"))
    )
    return grouped.where(F.size("transactions") > 1)


def _early_acks(tables: Tables, context: Context) -> DataFrame:
    """Where an open transaction may acknowledge what the cursor has acknowledged for a while."""
    suspects = tables.early_at(tables.acknowledgers.where(is_open())).where(context.settled("early_at"))
    return suspects.select("txn_id", "segment", "subscription", "early_at")


def _find_already_acknowledged(tables: Tables, context: Context) -> DataFrame:
    """Of an open transaction, where the cursor has said for a while that the entry is acknowledged."""
    acks = _single_acks(tables).join(F.broadcast(_early_acks(tables, context)), ["txn_id", "segment", "subscription"])
    cursors = tables.cursor_records.where("odd_key IS NULL AND NOT deleting").drop(AS_OF, "odd_key", "odd")
    place = F.struct(col("ledger"), col("last_entry"))
    found = acks.join(F.broadcast(cursors), ["segment", "subscription"]).where(is_acknowledged(place, place))
    columns = ("txn_id", "segment", "subscription", "ledger", "last_entry", "mark_ledger", "mark_entry", "changed")
    return found.where(col("written") <= col("changed")).select(*columns)


OPERATION_RULES = (
    Rule(
        "unreadable-record",
        "A record stands where transactions have theirs, and cannot be understood",
        "Whoever should act on it cannot: an operation that is not understood is not carried out, a header that is not "
        "understood is never collected.",
        "Look at it (`tidemark get KEY`); find who wrote it. A record of a newer version is read by that version.",
        Severity.ERROR,
        [
            OnRows("participants", _is_odd, ("odd",)),
            OnRows("segments", _is_odd, ("odd",)),
            OnRows("cursors", _is_odd, ("odd",)),
        ],
        OURS,
    ),
    Rule(
        "unreadable-pulsar-record",
        "A record stands where Pulsar has its transactions, and cannot be understood",
        "A broker that cannot read a header or an operation neither carries it out nor removes it.",
        "Look at it (`tidemark get KEY`); see which version of Pulsar wrote it.",
        Severity.ERROR,
        [OnRows("participants", _is_odd, ("odd",))],
        frozenset({DialectName.PULSAR}),
    ),
    Rule(
        "operations-without-header",
        "Operations of a transaction are there whose header is gone",
        "The outcome went with the header. If it was a commit, what it wrote or acknowledged in this place is lost: an "
        "operation without a header counts as aborted. If it was an abort, nobody removes them.",
        "Find the outcome: the ledger of earlier audits has it, or the log of the client. Then see what collected the "
        "header too early.",
        Severity.CRITICAL,
        [OnRows("participants", _is_orphan, SHOWN)],
    ),
    Rule(
        "outcome-not-applied",
        "A transaction is decided, and a participant has not carried that out",
        "What was committed is not seen yet, or what was aborted still holds the segment up. It is late, not lost: the "
        "header stays until the participant comes back.",
        "See that a broker owns the segment (`tidemark txn why SEGMENT`); whoever takes it over carries it out first. "
        "A segment that nobody loads stays late.",
        Severity.WARNING,
        [OnRows("participants", _is_late, SHOWN)],
    ),
    Rule(
        "operation-outside-lifetime",
        "An operation was written before its transaction was begun, or after it was decided",
        "A write that comes after the decision belongs to nobody: the participant may have finished already.",
        "Compare the clocks of the brokers; if they agree, a fence has not held: report it.",
        Severity.ERROR,
        [OnRows("participants", _is_outside_its_life, (*SHOWN, "begun"))],
    ),
    Rule(
        "operations-missing",
        "The operations of an open transaction are not numbered from 1 without a gap",
        "One of them was removed although nothing is decided. If it is committed, that one is not carried out.",
        "See whether a segment or a subscription of it was deleted meanwhile: that is the one good reason.",
        Severity.WARNING,
        [OnRows("transactions", _has_a_gap, ("operations", "first_sequence", "last_sequence", "last_written"))],
    ),
    Rule(
        "position-beyond-log",
        "An operation names a place that the segment's log cannot have",
        "The segment's log has lost entries, or the operation was written by an owner whom the log does not know. "
        "What it acknowledges or has written is not there.",
        "See whether the segment's records were restored from an older copy, or two stores were mixed.",
        Severity.CRITICAL,
        [OnRows("participants", _is_behind_the_log, (*SHOWN, "last_ledger", "last_term", "term", "beyond_log"))],
        OURS,
    ),
    Rule(
        "participant-without-segment",
        "Records of a transaction name a segment that does not exist",
        "Nobody will ever carry them out or remove them: the segment was deleted, and left them behind.",
        "If the segment was deleted on purpose, the transaction's records may be removed with it.",
        Severity.ERROR,
        [OnRows("participants", _has_no_segment, (*SHOWN, "aborted"))],
    ),
    Rule(
        "acknowledgement-without-subscription",
        "Acknowledgements of a transaction name a subscription that does not exist",
        "Nobody will carry them out: the subscription was deleted, or its cursor is lost.",
        "If it was deleted on purpose, they go once the transaction is decided. If not, its cursor is lost: "
        "restore it.",
        Severity.ERROR,
        [OnRows("participants", _has_no_subscription, SHOWN)],
    ),
    Rule(
        "horizon-held",
        "An open transaction has held a segment up for long",
        "Nothing behind its first entry is delivered to anybody, whether it is in a transaction or not.",
        "`tidemark txn why SEGMENT` says whose it is; `tidemark txn abort ID` frees the segment.",
        Severity.WARNING,
        [OnRows("participants", _holds_the_horizon, SHOWN)],
    ),
    Rule(
        "acknowledged-by-two",
        "Two transactions, neither of them aborted, acknowledge one message",
        "The message was processed twice, and both results count: exactly-once is broken for it.",
        "Find the two in the evidence; undo one result by hand. Report it: a conflict was not noticed.",
        Severity.CRITICAL,
        [OnTables(_find_twice_acknowledged, _met_places, is_of_acknowledgements=True)],
        OURS,
    ),
    Rule(
        "two-cumulative-acknowledgements",
        "Two open transactions hold a cumulative acknowledgement of one subscription",
        "Whichever commits first acknowledges what the other one has processed as well.",
        "Abort one of them, and report it: a conflict was not noticed.",
        Severity.ERROR,
        [OnTables(_find_two_cumulative, is_of_acknowledgements=True)],
    ),
    Rule(
        "acknowledged-before-commit",
        "An open transaction acknowledges a message that the subscription's cursor has acknowledged before",
        "If it is aborted the message is not delivered again: an acknowledgement was carried out before its commit, or "
        "a conflict was not noticed.",
        "Do not abort it before its messages were looked at. Report it.",
        Severity.ERROR,
        [OnTables(_find_already_acknowledged, _early_acks, is_of_acknowledgements=True)],
        OURS,
    ),
)
