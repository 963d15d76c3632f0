"""What is known of participants, and how parts of it are put together: of DataFrames, whichever store they are from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from metastore.spark.schemas import AS_OF

ODD = ["odd_key", "odd"]
WHO = ["txn_id", "segment", "subscription"]
HEADER = ["state", "begun", "deadline", "finalized", "owner", "modifications", "header_shard"]
SUMS: dict[str, Callable[[Column], Column]] = {
    "operations": F.sum,
    "cumulative": F.sum,
    "first_sequence": F.min,
    "last_sequence": F.max,
    "first_written": F.min,
    "last_written": F.max,
    "least_shard": F.min,
    "greatest_shard": F.max,
    "keys_hash": F.bit_xor,
    "last_ledger": F.max,
    "last_term": F.max,
    "spans": lambda spans: F.flatten(F.collect_list(spans)),
    "applied": F.max,
    "aborted": F.max,
    "aborted_ledger": F.max,
    "aborted_entry": F.max,
    "announcements": F.sum,
    "committed_announcements": F.sum,
    "aborted_announcements": F.sum,
    "last_announced": F.max,
    AS_OF: F.max,
}
"""What is known of a participant, and how two parts of it are put together."""
PARTS = (
    *(*WHO, *ODD, "operations", "cumulative", "first_sequence", "last_sequence", "first_written", "last_written"),
    *("last_ledger", "last_term", "applied", "spans"),
    *("state", "begun", "deadline", "finalized", "owner", "modifications"),
)
"""What of it is known where records are read together."""
KNOWN = frozenset({*PARTS, "least_shard", "greatest_shard", AS_OF})
PUT_TOGETHER = ("places", "is_loose", "is_astray", "whole", "expected", "shard")
"""And how they were."""
TOTALS = (
    *("operations", "first_sequence", "last_sequence", "last_written"),
    *("participants", "unapplied_participants", "applied_participants", "last_applied"),
)
"""What is said of a whole transaction where records are read together. Some names are those of a participant."""
_SPANS = "array<struct<ledger: bigint, first_entry: bigint, last_entry: bigint, first_written: timestamp>>"
_TYPES = {"beyond_log": "boolean", "spans": _SPANS} | dict.fromkeys(
    ("applied", "aborted", "last_announced"), "timestamp"
)
"""Those that are no numbers, where a dialect may lack them."""
IS_BEYOND = """
    exists(spans, span -> exists(closed, each -> each.ledger = span.ledger AND span.last_entry >= each.length))
"""
"""Whether an acknowledgement is of an entry that a closed ledger does not have. In SQL, since lambdas of Python are
numbered, and Java would compile each anew."""
EARLY_AT = """
    array_max(transform(filter(cursors, each -> exists(spans, span -> span.first_written <= each.changed AND (
        struct(span.ledger, span.first_entry) < struct(each.mark_ledger, each.mark_entry)
        OR exists(coalesce(each.ranges, array()), acknowledged ->
            struct(span.ledger, span.last_entry) >= struct(acknowledged.start_ledger, acknowledged.start_entry)
            AND struct(span.ledger, span.first_entry) < struct(acknowledged.end_ledger, acknowledged.end_entry))))),
        each -> each.changed))
"""
"""When a cursor that knows some of the acknowledgements, and is younger than they are, was written."""


def is_acknowledged(first: Column, last: Column) -> Column:
    """Whether a cursor (its `mark_…` and `ranges`) has acknowledged something between two positions."""
    mark = F.struct(F.col("mark_ledger").alias("ledger"), F.col("mark_entry").alias("entry"))
    return (first < mark) | F.exists(
        F.coalesce("ranges", F.array()),
        lambda each: (last >= F.struct(each["start_ledger"], each["start_entry"]))
        & (first < F.struct(each["end_ledger"], each["end_entry"])),
    )


def put_together(parts: Sequence[DataFrame], headers: DataFrame) -> DataFrame:
    """Participants of all their parts, each beside its header."""
    together = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), parts)
    grouped = together.groupBy(*WHO, *ODD).agg(
        *(function(_present(together, name)).alias(name) for name, function in SUMS.items())
    )
    # Headers that cannot be read have no id, and so nothing to be joined to.
    beside = {AS_OF: "header_as_of", "odd_key": "header_odd_key", "odd": "header_odd"}
    joined = grouped.join(headers.withColumnsRenamed(beside), "txn_id", "full")
    joined = joined.withColumns({name: F.coalesce(name, each) for name, each in beside.items()})
    joined = joined.drop(*beside.values())
    return joined.withColumns({name: F.coalesce(name, F.lit(0)) for name in ("operations", "announcements")})


def as_participants(rows: DataFrame) -> DataFrame:
    """Rows of what was read together, with what is known of participants beside."""
    is_there, has_header = F.col("segment").isNotNull(), F.col("state").isNotNull()
    shard = F.when(is_there, F.col("shard"))
    return rows.withColumns(
        {
            "operations": F.coalesce("operations", F.lit(0)),
            "least_shard": shard,
            "greatest_shard": shard,
            "header_shard": F.when(has_header, F.col("shard")),
            **{name: absent(name) for name in SUMS if name not in KNOWN},
        }
    )


def as_transactions(rows: DataFrame) -> DataFrame:
    """The same, with what is known of their transactions instead."""
    is_there, has_header = F.col("whole.participants") > 0, F.col("state").isNotNull()
    shard = F.when(is_there, F.col("shard"))
    return rows.withColumns(
        {
            **{name: F.col("whole")[name] for name in TOTALS},
            "least_shard": shard,
            "greatest_shard": shard,
            "header_shard": F.when(has_header, F.col("shard")),
        }
    )


def by_transaction(participants: DataFrame) -> DataFrame:
    return (
        participants.where("txn_id IS NOT NULL")
        .groupBy("txn_id", *HEADER)
        .agg(
            F.sum("operations").alias("operations"),
            F.min("first_sequence").alias("first_sequence"),
            F.max("last_sequence").alias("last_sequence"),
            F.max("last_written").alias("last_written"),
            F.count("segment").alias("participants"),
            F.count_if(F.col("operations") > 0).alias("unapplied_participants"),
            F.count("applied").alias("applied_participants"),
            F.max("applied").alias("last_applied"),
            F.min("least_shard").alias("least_shard"),
            F.max("greatest_shard").alias("greatest_shard"),
            F.max(AS_OF).alias(AS_OF),
        )
    )


def _present(rows: DataFrame, name: str) -> Column:
    """A column; null where this dialect has none."""
    return F.col(name) if name in rows.columns else absent(name)


def absent(name: str) -> Column:
    return F.lit(None).cast(_TYPES.get(name, "bigint"))
