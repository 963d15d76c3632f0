"""What the rules look at: the records of a store, joined once, so that each rule need only look at single rows.

    participants    one row for each participant of a transaction: what there is of its operations, what it has applied,
                    and beside it the header and what the segment says. A transaction without participants has one row
                    without a segment; a record that cannot be read has one with `odd_key` and `odd`.
    transactions    the same by transaction
    segments        one row for each segment; odd ones as well
    cursors         one row for each subscription, beside its segment

Operations are by far the most records. They are read once and added up where they are: of our own records while they
are read, and put beside their headers, so that Spark has about as many rows as there are participants, and joins only
those that may not have met.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from threading import RLock
from typing import Any, TypeVar

from pyspark import SparkContext, StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from metastore.spark.schemas import AS_OF
from metastore.spark.views import VIEW
from txn.audit.dialect import Dialect, DialectName, Limits
from txn.audit.keys import operation_key
from txn.audit.participants import (
    EARLY_AT,
    HEADER,
    IS_BEYOND,
    KNOWN,
    ODD,
    PARTS,
    SUMS,
    WHO,
    absent,
    by_transaction,
    put_together,
)
from txn.audit.source import History, Source

C = TypeVar("C")

MADE_AT_ONCE_MAX = 8
SEEMS_WHOLE = "NOT coalesce(is_loose, false)"
BROADCAST_MAX = 100_000
"""So many transactions may be sent to every executor."""


class made_once(cached_property[C]):
    """A cached property of tables for which several threads may ask: the first one makes it, and the others wait."""

    def __get__(self, tables: Tables, owner: type | None = None) -> C:  # type: ignore[override]
        assert self.attrname is not None, "it is a property of a class"
        with tables.locks[self.attrname]:
            return super().__get__(tables, owner)


class Tables:
    """The tables of one audit, each made when it is asked for first, and no more than once."""

    def __init__(
        self, source: Source, dialect: Dialect, limits: Limits | None = None, history: History | None = None
    ) -> None:
        self.source = source
        self._history = history
        self.dialect = dialect
        self.limits = dialect.limits if limits is None else limits
        self._made: dict[Any, DataFrame] = {}
        self.locks = {name: RLock() for name, each in vars(Tables).items() if isinstance(each, made_once)}

    def keep(self, frame: DataFrame) -> DataFrame:
        """Computes a DataFrame, now and never again: on the executors' disks where there is no room in memory.

        What was computed has no history, so that plans which use it are small ones. It goes with the object.
        """
        return frame.localCheckpoint(eager=True, storageLevel=StorageLevel.MEMORY_AND_DISK)

    def once(self, make: Callable[[Tables, C], DataFrame], context: C) -> DataFrame:
        """What several rules need, made by the first of them."""
        if make not in self._made:
            self._made[make] = make(self, context)
        return self._made[make]

    def has(self, name: str) -> bool:
        """Whether there are such records in this dialect."""
        return name in self.dialect.views

    def begin(self, names: Iterable[str]) -> None:
        """Makes these tables, and those that everybody needs: while one is planned another one is read."""
        every = dict.fromkeys(["together", "small", "lives", *(["segments"] if self.has("segments") else []), *names])
        # What others wait for comes first.
        with ThreadPoolExecutor(MADE_AT_ONCE_MAX, "tables") as threads:
            for made in [threads.submit(self._make, name) for name in every]:
                made.result()

    def _make(self, name: str) -> None:
        # Where Spark is fair to pools, no table waits until another one is read.
        SparkContext.getOrCreate().setLocalProperty("spark.scheduler.pool", name)
        getattr(self, name)

    @property
    def has_history(self) -> bool:
        """Whether there is a ledger of earlier audits."""
        return self._history is not None

    def history(self, name: str) -> DataFrame:
        """All rows of a view that the ledger has."""
        assert self._history is not None, "rules over history are evaluated where there is a ledger"
        return self._history.read(name)

    def view(self, name: str, *columns: str) -> DataFrame:
        """Columns of a view, by the audit's name for it, and `as_of`."""
        view = self.dialect.views[name]
        if name in self.dialect.small:
            return self.small.where(F.col(VIEW) == view).select(*columns, AS_OF)
        return self.source.read(view, columns)

    @made_once
    def small(self) -> DataFrame:
        """All of that of which there is little; kept."""
        return self.keep(self.source.several([self.dialect.views[name] for name in self.dialect.small]))

    # -- parts of participants

    @made_once
    def headers(self) -> DataFrame:
        """Headers, and records that should be some."""
        columns = ["txn_id", "state", "begun", "deadline", "finalized", "owner", "modifications", "shard"]
        return self.view("headers", *columns, *ODD).withColumnRenamed("shard", "header_shard")

    def _operations(self) -> DataFrame:
        """Operations, each as what its participant's add up to."""
        columns = ("sequence", "cumulative", "written", "ledger", "term", "shard")
        operations = self.view("ops", *WHO, *columns, *ODD)
        key = operation_key(self.dialect, F.col("sequence"))
        return operations.select(
            *(*WHO, *ODD, AS_OF),
            F.when(F.col("sequence").isNotNull(), 1).otherwise(0).cast("bigint").alias("operations"),
            F.col("cumulative").cast("bigint").alias("cumulative"),
            F.col("sequence").alias("first_sequence"),
            F.col("sequence").alias("last_sequence"),
            F.col("written").alias("first_written"),
            F.col("written").alias("last_written"),
            F.col("ledger").alias("last_ledger"),
            F.col("term").alias("last_term"),
            F.col("shard").alias("least_shard"),
            F.col("shard").alias("greatest_shard"),
            F.xxhash64(key).alias("keys_hash"),
        )

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

    @made_once
    def together(self) -> DataFrame | None:
        """Transactions as they were put together where they were read, kept; None where that cannot be."""
        if self.dialect.parts is None:
            return None
        columns = [*PARTS, "places", "entry_hash", "is_loose", "whole", "shard"]
        return self.keep(self.source.read(self.dialect.parts, columns))

    @made_once
    def _loose_ids(self) -> tuple[DataFrame, int]:
        """The transactions of which records may lie in several places, and how many; kept.

        One of them is null if segments skip what cannot be read.
        """
        assert self.together is not None, "rows are loose where they were put together"
        ids = self.together.where("is_loose").select("txn_id").unionByName(self._aborted().select("txn_id"))
        found = self.keep(ids.distinct())
        return found, found.count()

    @made_once
    def _torn(self) -> DataFrame | None:
        """Rows that seemed to be all of their transactions, and are not; kept.

        None if there are none, as nearly always: most loose rows are of transactions of which there is nothing else.
        """
        ids, count = self._loose_ids
        if not count:
            return None
        assert self.together is not None, "rows are loose where they were put together"
        found = self.keep(self.together.where(SEEMS_WHOLE).join(self._small(ids, count), "txn_id", "left_semi"))
        return None if found.isEmpty() else found

    def _whole(self, together: DataFrame) -> DataFrame:
        """Those rows that are of transactions all of whose records are in one place."""
        rows = together.where(SEEMS_WHOLE)
        return rows if self._torn is None else rows.join(self._small(*self._loose_ids), "txn_id", "left_anti")

    def _small(self, frame: DataFrame, count: int) -> DataFrame:
        return F.broadcast(frame) if count <= BROADCAST_MAX else frame

    @made_once
    def _put_together(self) -> DataFrame | None:
        """Participants of all others, which are put together here; kept. None if there are none."""
        if self.together is None:
            parts = [self._operations(), self._aborted(), self._announced()]
            return self.keep(put_together(parts, self.headers))
        _, count = self._loose_ids
        if not count:
            return None
        loose = self.together.where("is_loose")
        loose = loose if self._torn is None else loose.unionByName(self._torn)
        fragments = loose.where("segment IS NOT NULL").withColumns(
            {"least_shard": F.col("shard"), "greatest_shard": F.col("shard")}
        )
        fragments = fragments.drop(*HEADER, "is_loose", "whole", "places", "entry_hash", "shard")
        headers = loose.where("state IS NOT NULL AND (is_loose OR whole IS NOT NULL)")
        headers = headers.withColumnRenamed("shard", "header_shard").select("txn_id", *HEADER, *ODD, AS_OF)
        return self.keep(put_together([fragments, self._aborted()], headers))

    @made_once
    def lives(self) -> DataFrame:
        """Participants, by what records of transactions say of them."""
        return self._lives(self.together)

    def _lives(self, together: DataFrame | None) -> DataFrame:
        """The same of some rows of what was put together while it was read."""
        if together is None:
            assert self._put_together is not None
            return self._put_together
        is_there, has_header = F.col("segment").isNotNull(), F.col("state").isNotNull()
        shard = F.when(is_there, F.col("shard"))
        whole = self._whole(together).withColumns(
            {
                "operations": F.coalesce("operations", F.lit(0)),
                "least_shard": shard,
                "greatest_shard": shard,
                "header_shard": F.when(has_header, F.col("shard")),
                **{name: absent(name) for name in SUMS if name not in KNOWN},
            }
        )
        whole = whole.drop("is_loose", "whole", "shard", "places", "entry_hash")
        return whole if self._put_together is None else whole.unionByName(self._put_together)

    @made_once
    def _acknowledging(self) -> DataFrame | None:
        """What was put together while it was read, of acknowledgements; kept."""
        return None if self.together is None else self.keep(self.together.where("subscription IS NOT NULL"))

    @made_once
    def acknowledgers(self) -> DataFrame:
        """Participants that acknowledge."""
        return self._lives(self._acknowledging).where("subscription IS NOT NULL")

    @made_once
    def places(self) -> DataFrame | None:
        """Which transactions acknowledge which entries, one by one, by hashes; None where that is not known."""
        if self._acknowledging is None:
            return None
        return self._acknowledging.select("txn_id", "segment", "subscription", F.explode("places").alias("place"))

    @made_once
    def participants(self) -> DataFrame:
        """Participants, beside what is known of their segments and subscriptions."""
        joined = self.lives.join(F.broadcast(self._known_segments()), "segment", "left")
        joined = joined.join(F.broadcast(self._known_subscriptions()), ["segment", "subscription"], "left")
        if not self.has("cursors"):
            return joined.withColumn("beyond_log", absent("beyond_log"))
        return joined.withColumn("beyond_log", F.expr(IS_BEYOND)).drop("spans", "closed", "cursors")

    def _known_segments(self) -> DataFrame:
        if self.dialect.name is DialectName.PULSAR:
            names = self.view("participants", "segment", "subscription").where("subscription IS NULL")
            return names.select("segment", F.lit(True).alias("has_segment")).distinct()
        kept = ("has_segment", "term", "trimmed_ledger", "trimmed_entry", "log_changed")
        said = [F.when(F.col("has_segment"), F.col(name)).alias(name) for name in kept]
        return self.segments.where("segment IS NOT NULL").select("segment", *said, "closed")

    def early_at(self, participants: DataFrame) -> DataFrame:
        """Participants whose acknowledgements may have been known to their cursor before, and since when it was."""
        known = F.broadcast(self._known_subscriptions())
        joined = participants.where("size(spans) > 0").join(known, ["segment", "subscription"])
        return joined.withColumn("early_at", F.expr(EARLY_AT)).where("early_at IS NOT NULL")

    def _known_subscriptions(self) -> DataFrame:
        if self.dialect.name is DialectName.PULSAR:
            names = self.view("participants", "segment", "subscription").where("subscription IS NOT NULL")
            return names.select("segment", "subscription", F.lit(True).alias("has_subscription")).distinct()
        said = F.struct("mark_ledger", "mark_entry", "ranges", "changed")
        cursors = F.collect_list(F.when(~F.col("deleting"), said)).alias("cursors")
        known = self.cursor_records.where("odd_key IS NULL").groupBy("segment", "subscription")
        return known.agg(F.lit(True).alias("has_subscription"), cursors)

    @made_once
    def totals(self) -> DataFrame:
        """By transaction, of those that have a header or operations or have applied any."""
        if self.together is None:
            return self.keep(by_transaction(self.lives))
        whole = self._whole(self.together).where("whole IS NOT NULL").withColumn("header_shard", F.col("shard"))
        is_there = F.col("whole.participants") > 0
        shards = [F.when(is_there, F.col("shard")).alias(name) for name in ("least_shard", "greatest_shard")]
        found = whole.select("txn_id", *HEADER, "whole.*", *shards, AS_OF)
        return found if self._put_together is None else found.unionByName(by_transaction(self._put_together))

    @made_once
    def transactions(self) -> DataFrame:
        """The same, beside the next number that its coordinator gives out."""
        numbers = self.view("numbers", "coordinator", "next", "odd_key").where("odd_key IS NULL")
        given = numbers.groupBy(F.col("coordinator").cast("string").alias("coordinator"))
        # Of Pulsar's ids as well the last two parts are the coordinator and the number.
        coordinator = F.substring_index(F.substring_index("txn_id", "_", -2), "_", 1)
        number = F.substring_index("txn_id", "_", -1).cast("bigint")
        named = self.totals.withColumns({"coordinator": coordinator, "number": number})
        return named.join(F.broadcast(given.agg(F.max("next").alias("next"))), "coordinator", "left")

    @made_once
    def states(self) -> DataFrame:
        """Logs of segments, as far as they are in the store."""
        columns = ["segment", "term", "sealed", "trimmed_ledger", "trimmed_entry", "closed", "changed", "shard"]
        return self.view("segment_state", *columns, *ODD).withColumnRenamed("changed", "log_changed")

    @made_once
    def cursor_records(self) -> DataFrame:
        """Cursors, whatever is known of their segments."""
        columns = ["segment", "subscription", "deleting", "mark_ledger", "mark_entry", "ranges", "changed"]
        return self.view("cursors", *columns, *ODD)

    @made_once
    def entry_sums(self) -> DataFrame | None:
        """What entries of indexes add up to: `index` and `found_by`, `entries`, `hash`; kept. None where they are not
        added up while they are read."""
        if self.dialect.entry_sums is None:
            return None
        sums = self.source.read(self.dialect.entry_sums, ("index", "found_by", "entries", "keys_hash"))
        added = F.sum("entries").alias("entries"), F.bit_xor("keys_hash").alias("hash")
        return self.keep(sums.groupBy("index", "found_by").agg(*added))

    @made_once
    def record_sums(self) -> DataFrame | None:
        """What entries of indexes should add up to, by what records say: of those that lead to headers by their state,
        of others by segment and subscription; kept. None where records are not hashed while they are put together."""
        if self.together is None:
            return None
        added = [F.sum("entries").alias("entries"), F.bit_xor("hash").alias("hash")]
        is_header = "state IS NOT NULL AND (is_loose OR whole IS NOT NULL)"
        headers = self.together.where(is_header).selectExpr("state", "1 AS entries", "entry_hash AS hash")
        rows = self.together.where("operations > 0")
        rows = rows.selectExpr("segment", "subscription", "operations AS entries", "keys_hash AS hash")
        of_headers = headers.groupBy("state").agg(*added)
        of_rows = rows.groupBy("segment", "subscription").agg(*added)
        return self.keep(of_headers.unionByName(of_rows, allowMissingColumns=True))

    @made_once
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

    @made_once
    def cursors(self) -> DataFrame:
        """Cursors, each beside its segment."""
        segments = self.segments.where("odd_key IS NULL").drop(*ODD, AS_OF).withColumnRenamed("term", "log_term")
        lengths = self.states.select("segment", F.inline("closed")).withColumnsRenamed(
            {"ledger": "mark_ledger", "length": "mark_length"}
        )
        joined = self.cursor_records.join(F.broadcast(segments), "segment", "left")
        return joined.join(F.broadcast(lengths), ["segment", "mark_ledger"], "left")
