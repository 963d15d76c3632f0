"""Rules about headers: one transaction, one life, one end."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from txn.audit.rules.model import (
    Context,
    OnRows,
    Rule,
    Severity,
    col,
    is_final,
    is_known,
    is_open,
)

TIMES = ("state", "begun", "deadline", "finalized", "owner")


def _is_past_deadline(context: Context) -> Column:
    return is_open() & context.older("deadline", context.limits.sweep_ms)


def _is_not_collected(context: Context) -> Column:
    return is_final() & (col("operations") == 0) & context.older("finalized", context.limits.collect_ms)


def _ends_before_it_begins(_: Context) -> Column:
    return is_known("state") & (col("finalized") < col("begun"))


def _has_a_wrong_deadline(context: Context) -> Column:
    given_ms = F.unix_millis("deadline") - F.unix_millis("begun")
    return is_known("state") & ((given_ms <= 0) | (given_ms > context.limits.timeout_max_ms))


def _was_changed_again(_: Context) -> Column:
    return (is_open() & (col("modifications") > 0)) | (is_final() & (col("modifications") > 1))


def _is_on_two_shards(_: Context) -> Column:
    shards = F.least("header_shard", "least_shard"), F.greatest("header_shard", "greatest_shard")
    return shards[0] != shards[1]


def _was_never_given(context: Context) -> Column:
    is_unknown = col("next").isNull() | (col("number") >= col("next"))
    return is_unknown & context.settled(F.coalesce("begun", "last_written", "last_applied"))


HEADER_RULES = (
    Rule(
        "open-past-deadline",
        "A transaction is open although its deadline has passed",
        "Nothing sweeps. It holds the read horizon of every segment that it has written to, and the messages that "
        "it has acknowledged, until somebody aborts it.",
        "See that a broker runs and reaches the store. `tidemark txn abort ID` ends this one.",
        Severity.ERROR,
        [OnRows("transactions", _is_past_deadline, TIMES)],
    ),
    Rule(
        "header-not-collected",
        "A transaction was decided long ago, has no operations left, and its header is still there",
        "Nothing is lost, but headers pile up: listings and takeovers become slower, and the store larger.",
        "See that a collector runs: it is part of every broker, and says in its log what it cannot collect.",
        Severity.WARNING,
        [OnRows("transactions", _is_not_collected, TIMES)],
    ),
    Rule(
        "decided-before-begun",
        "A transaction was decided before it was begun",
        "A clock went back further than coordinators allow for, or something else writes headers. Deadlines mean "
        "little then.",
        "Compare the clocks of the coordinators' machines; see who else writes to the store.",
        Severity.WARNING,
        [OnRows("transactions", _ends_before_it_begins, TIMES)],
    ),
    Rule(
        "deadline-out-of-bounds",
        "A transaction has a deadline before its beginning, or further away than is allowed",
        "A deadline is what ends a transaction whose client has died. One that is years away holds segments up for "
        "years.",
        "Find who began it (`owner`). `tidemark txn abort ID` ends it.",
        Severity.WARNING,
        [OnRows("transactions", _has_a_wrong_deadline, TIMES)],
    ),
    Rule(
        "header-changed-again",
        "A header was changed although it was decided, or changed and not decided",
        "A decision is one compare-and-set, and the only change that a header ever sees. After a second one some "
        "participants may have carried out the one outcome, and some the other.",
        "Find who writes headers beside the coordinators. `tidemark txn show ID` tells what was applied, and when.",
        Severity.CRITICAL,
        [OnRows("transactions", _was_changed_again, (*TIMES, "modifications"))],
    ),
    Rule(
        "transaction-on-two-shards",
        "Records of one transaction are on different shards",
        "Whoever lists a transaction's operations asks one shard, and does not see those on another: they are never "
        "carried out, and the header is removed while they are there.",
        "Find the client that puts records without the transaction's id as partition key.",
        Severity.CRITICAL,
        [OnRows("transactions", _is_on_two_shards, ("header_shard", "least_shard", "greatest_shard", "operations"))],
    ),
    Rule(
        "id-never-given",
        "A transaction has an id that no coordinator has given out",
        "Ids are given once. This one will be given again, to a transaction that then finds this one's records.",
        "See whether the numbers (`/txn-ids`; Pulsar's `/txn/tc-seq`) were restored from an older copy than the rest, "
        "or removed.",
        Severity.CRITICAL,
        [OnRows("transactions", _was_never_given, ("number", "next"))],
    ),
)
