"""What the rules look at: the records of a store, joined once, so that each rule need only look at single rows.

    participants    one row for each participant of a transaction: what there is of its operations, what it has applied,
                    and beside it the header and what the segment says. A transaction without participants has one row
                    without a segment; a record that cannot be read has one with `odd_key` and `odd`.
    transactions    the same by transaction
    segments        one row for each segment; odd ones as well
    cursors         one row for each subscription, beside its segment

Operations are by far the most records. They are read once and added up where they are: of our own records while they
are read, so that Spark has about as many rows as there are participants.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from metastore.spark.schemas import AS_OF
from txn.audit.dialect import Dialect, DialectName, Limits
from txn.audit.keys import operation_key
from txn.audit.source import History, Source

C = TypeVar("C")

ODD = ["odd_key", "odd"]
WHO = ["txn_id", "segment", "subscription"]
HEADER = ["state", "begun", "deadline", "finalized", "owner", "modifications", "header_shard"]
_SUMS: dict[str, Callable[[Column], Column]] = {
    "operations": F.sum,
    "cumulative": F.sum,
    "first_sequence": F.min,
    "last_sequence": F.max,
    "first_written": F.min,
    "last_written": F.max,
    "least_shard": F.min,
    "greatest_shard": F.max,
    "beyond_log": F.max,
    "early_at": F.max,
    "keys_hash": F.bit_xor,
    "last_ledger": F.max,
    "last_term": F.max,
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
SUMMED = (
    *(*WHO, "ledger", *ODD, "operations", "cumulative", "first_sequence", "last_sequence", "first_entry", "last_entry"),
    *("first_written", "last_written", "last_term", "keys_hash"),
)
"""What operations are added up to."""
_TYPES = {"beyond_log": "boolean"} | dict.fromkeys(("applied", "aborted", "last_announced", "early_at"), "timestamp")
"""Those that are no numbers, where a dialect may lack them."""


class Tables:
    """The tables of one audit, each made when it is asked for first, and no more than once."""

    def __init__(
        self, source: Source, dialect: Dialect, limits: Limits | None = None, history: History | None = None
    ) -> None:
        self.source = source
        self._history = history
        self.dialect = dialect
        self.limits = dialect.limits if limits is None else limits
        self._made: dict[Any, DataFrame | None] = {}

    def keep(self, frame: DataFrame) -> DataFrame:
        """Computes a DataFrame, now and never again: on the executors' disks where there is no room in memory.

        What was computed has no history, so that plans which use it are small ones. It goes with the object.
        """
        return frame.localCheckpoint(eager=True, storageLevel=StorageLevel.MEMORY_AND_DISK)

    def once(self, make: Callable[[Tables, C], DataFrame | None], context: C) -> DataFrame | None:
        """What several rules need, made by the first of them."""
        if make not in self._made:
            self._made[make] = make(self, context)
        return self._made[make]

    def has(self, name: str) -> bool:
        """Whether there are such records in this dialect."""
        return name in self.dialect.views

    @property
    def has_history(self) -> bool:
        """Whether there is a ledger of earlier audits."""
        return self._history is not None

    def history(self, name: str) -> DataFrame:
        """All rows of a view that the ledger has."""
        assert self._history is not None, "rules over history are evaluated where there is a ledger"
        return self._history.read(name)

    def view(self, name: str, *columns: str) -> DataFrame:
        """Columns of a view, by the audit's name for it."""
        return self.source.read(self.dialect.views[name], columns)

    # -- parts of participants

    @cached_property
    def headers(self) -> DataFrame:
        """Headers, and records that should be some."""
        columns = ["txn_id", "state", "begun", "deadline", "finalized", "owner", "modifications", "shard"]
        return self.view("headers", *columns, *ODD).withColumnRenamed("shard", "header_shard")

    @cached_property
    def operation_sums(self) -> DataFrame:
        """What operations add up to, several rows for some participants; kept if it was added up while it was read."""
        if self.dialect.operation_sums is not None:
            return self.keep(self.source.read(self.dialect.operation_sums, [*SUMMED, "places", "shard"]))
        columns = ("sequence", "ledger", "first_entry", "last_entry", "cumulative", "written", "term", "shard")
        operations = self.view("ops", *WHO, *columns, *ODD)
        key = operation_key(self.dialect, F.col("sequence"))
        return operations.select(
            *(*WHO, "ledger", *ODD, "first_entry", "last_entry", "shard", AS_OF),
            F.when(F.col("sequence").isNotNull(), 1).otherwise(0).cast("bigint").alias("operations"),
            F.col("cumulative").cast("bigint").alias("cumulative"),
            F.col("sequence").alias("first_sequence"),
            F.col("sequence").alias("last_sequence"),
            F.col("written").alias("first_written"),
            F.col("written").alias("last_written"),
            F.col("term").alias("last_term"),
            F.xxhash64(key).alias("keys_hash"),
        )

    def _operations(self) -> DataFrame:
        sums = self.operation_sums.withColumns({"least_shard": F.col("shard"), "greatest_shard": F.col("shard")})
        if self.has("segment_state"):
            sums = self._beside_logs(sums)
        return sums.withColumnRenamed("ledger", "last_ledger").drop("first_entry", "last_entry", "shard", "places")

    def _beside_logs(self, sums: DataFrame) -> DataFrame:
        """What the positions mean: whether the log may have them, whether the cursor has some already."""
        lengths = self.states.select("segment", F.inline("closed"))
        cursors = self.cursor_records.where("odd_key IS NULL AND NOT deleting")
        cursors = cursors.drop(AS_OF, *ODD, "deleting").withColumnRenamed("changed", "cursor_changed")
        joined = sums.join(F.broadcast(lengths), ["segment", "ledger"], "left")
        joined = joined.join(F.broadcast(cursors), ["segment", "subscription"], "left")
        is_ack = F.col("subscription").isNotNull()
        is_older = F.col("first_written") <= F.col("cursor_changed")
        first, last = F.struct("ledger", "first_entry"), F.struct("ledger", "last_entry")
        is_early = is_ack & is_older & is_acknowledged(first, last)
        joined = joined.withColumn("beyond_log", is_ack & (F.col("last_entry") >= F.col("length")))
        joined = joined.withColumn("early_at", F.when(is_early, F.col("cursor_changed")))
        return joined.drop("length", "mark_ledger", "mark_entry", "ranges", "cursor_changed")

    def _applied(self) -> DataFrame:
        applied = self.view("applied", *WHO, "applied", "shard", *ODD)
        return applied.withColumn("least_shard", F.col("shard")).withColumnRenamed("shard", "greatest_shard")

    def _aborted(self) -> DataFrame:
        aborted = self.view("aborted", "txn_id", "segment", "last_ledger", "last_entry", "written", *ODD)
        names = {"written": "aborted", "last_ledger": "aborted_ledger", "last_entry": "aborted_entry"}
        return aborted.withColumnsRenamed(names)

    def _announced(self) -> DataFrame:
        events = self.view("events", *WHO, "decision", "written", *ODD)
        return events.groupBy(*WHO, *ODD).agg(
            F.count("decision").alias("announcements"),
            F.count_if(F.col("decision") == "COMMITTED").alias("committed_announcements"),
            F.count_if(F.col("decision") == "ABORTED").alias("aborted_announcements"),
            F.max("written").alias("last_announced"),
            F.max(AS_OF).alias(AS_OF),
        )

    # -- tables

    @cached_property
    def participants(self) -> DataFrame:
        """Participants, kept."""
        parts = [self._operations(), self._aborted()]
        parts += [self._applied()] if self.has("applied") else []
        parts += [self._announced()] if self.has("events") else []
        names = [*WHO, *ODD]
        together = _together(parts)
        if self.dialect.operation_sums is not None:
            # Few rows are of one participant: they travel once, to where they meet their header as well.
            together = together.repartition("txn_id")
        grouped = together.groupBy(*names).agg(
            *(function(_present(parts, name)).alias(name) for name, function in _SUMS.items())
        )
        # Headers that cannot be read have no id, and so nothing to be joined to.
        beside = {AS_OF: "header_as_of", "odd_key": "header_odd_key", "odd": "header_odd"}
        joined = grouped.join(self.headers.withColumnsRenamed(beside), "txn_id", "full")
        joined = joined.withColumns({name: F.coalesce(name, each) for name, each in beside.items()})
        joined = joined.drop(*beside.values())
        for name in ("operations", "announcements"):
            joined = joined.withColumn(name, F.coalesce(name, F.lit(0)))
        return self.keep(self._beside_segments(joined))

    def _beside_segments(self, participants: DataFrame) -> DataFrame:
        known = F.broadcast(self._known_segments())
        subscriptions = F.broadcast(self._known_subscriptions())
        return participants.join(known, "segment", "left").join(subscriptions, ["segment", "subscription"], "left")

    def _known_segments(self) -> DataFrame:
        if self.dialect.name is DialectName.PULSAR:
            names = self.view("participants", "segment", "subscription").where("subscription IS NULL")
            return names.select("segment", F.lit(True).alias("has_segment")).distinct()
        kept = ("segment", "has_segment", "term", "trimmed_ledger", "trimmed_entry", "log_changed")
        return self.segments.where("has_segment").select(*kept)

    def _known_subscriptions(self) -> DataFrame:
        if self.dialect.name is DialectName.PULSAR:
            names = self.view("participants", "segment", "subscription").where("subscription IS NOT NULL")
        else:
            names = self.cursor_records.where("odd_key IS NULL")
        return names.select("segment", "subscription", F.lit(True).alias("has_subscription")).distinct()

    @cached_property
    def transactions(self) -> DataFrame:
        """By transaction, of those that have a header or operations or have applied any."""
        return self.keep(
            self.participants.where("txn_id IS NOT NULL")
            .groupBy("txn_id", *HEADER)
            .agg(
                F.sum("operations").alias("operations"),
                F.min("first_sequence").alias("first_sequence"),
                F.max("last_sequence").alias("last_sequence"),
                F.max("last_written").alias("last_written"),
                F.min("least_shard").alias("least_shard"),
                F.max("greatest_shard").alias("greatest_shard"),
                F.count("segment").alias("participants"),
                F.count_if(F.col("operations") > 0).alias("unapplied_participants"),
                F.count("applied").alias("applied_participants"),
                F.max("applied").alias("last_applied"),
                F.max(AS_OF).alias(AS_OF),
            )
        )

    @cached_property
    def states(self) -> DataFrame:
        """Logs of segments, as far as they are in the store."""
        columns = ["segment", "term", "sealed", "trimmed_ledger", "trimmed_entry", "closed", "changed", "shard"]
        return self.keep(self.view("segment_state", *columns, *ODD).withColumnRenamed("changed", "log_changed"))

    @cached_property
    def cursor_records(self) -> DataFrame:
        """Cursors, whatever is known of their segments."""
        columns = ["segment", "subscription", "deleting", "mark_ledger", "mark_entry", "ranges", "changed"]
        return self.keep(self.view("cursors", *columns, *ODD))

    @cached_property
    def segments(self) -> DataFrame:
        """Segments."""
        descriptors = self.view("segments", "segment", "state", "begun", "shard", *ODD)
        descriptors = descriptors.withColumnsRenamed({"state": "segment_state", "shard": "descriptor_shard"})
        states = self.states.withColumnRenamed("shard", "log_shard")
        odd = states.where("odd_key IS NOT NULL").select(*ODD, AS_OF)
        states = states.where("odd_key IS NULL").drop(*ODD).withColumnRenamed(AS_OF, "log_as_of")
        joined = descriptors.unionByName(odd, allowMissingColumns=True).join(states, "segment", "full")
        joined = joined.withColumn(AS_OF, F.coalesce(AS_OF, "log_as_of")).drop("log_as_of")
        return self.keep(joined.withColumn("has_segment", F.col("segment_state").isNotNull()))

    @cached_property
    def cursors(self) -> DataFrame:
        """Cursors, each beside its segment."""
        segments = self.segments.where("odd_key IS NULL").drop(*ODD, AS_OF).withColumnRenamed("term", "log_term")
        lengths = self.states.select("segment", F.inline("closed")).withColumnsRenamed(
            {"ledger": "mark_ledger", "length": "mark_length"}
        )
        joined = self.cursor_records.join(F.broadcast(segments), "segment", "left")
        return joined.join(F.broadcast(lengths), ["segment", "mark_ledger"], "left")


def is_acknowledged(first: Column, last: Column) -> Column:
    """Whether a cursor (its `mark_…` and `ranges`) has acknowledged something between two positions."""
    mark = F.struct(F.col("mark_ledger").alias("ledger"), F.col("mark_entry").alias("entry"))
    return (first < mark) | F.exists(
        F.coalesce("ranges", F.array()),
        lambda each: (last >= F.struct(each["start_ledger"], each["start_entry"]))
        & (first < F.struct(each["end_ledger"], each["end_entry"])),
    )


def _together(parts: list[DataFrame]) -> DataFrame:
    together = parts[0]
    for part in parts[1:]:
        together = together.unionByName(part, allowMissingColumns=True)
    return together


def _present(parts: list[DataFrame], name: str) -> Column:
    """A column of any of the parts; null where this dialect has none."""
    kind = _TYPES.get(name, "bigint")
    return F.col(name) if any(name in part.columns for part in parts) else F.lit(None).cast(kind)
