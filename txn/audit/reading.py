"""What an audit reads: the views of a store, as they are; those that are looked at again and again are kept."""

from __future__ import annotations

from functools import cached_property
from threading import RLock
from typing import TypeVar

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from metastore.spark.schemas import AS_OF
from metastore.spark.views import VIEW
from txn.audit.dialect import Dialect, DialectName, Limits
from txn.audit.keys import operation_key
from txn.audit.participants import ODD, WHO
from txn.audit.source import History, Source

C = TypeVar("C")


class made_once(cached_property[C]):
    """A cached property of tables for which several threads may ask: the first one makes it, and the others wait."""

    def __get__(self, reading: Reading, owner: type | None = None) -> C:  # type: ignore[override]
        assert self.attrname is not None, "it is a property of a class"
        with reading.locks[self.attrname]:
            return super().__get__(reading, owner)


class Reading:
    """The views of one audit, each read when it is asked for first, and those that are kept no more than once."""

    def __init__(
        self, source: Source, dialect: Dialect, limits: Limits | None = None, history: History | None = None
    ) -> None:
        self.source = source
        self.dialect = dialect
        self.limits = dialect.limits if limits is None else limits
        self._history = history
        every = [named for each in type(self).__mro__ for named in vars(each).items()]
        self.locks = {name: RLock() for name, each in every if isinstance(each, made_once)}

    def keep(self, frame: DataFrame) -> DataFrame:
        """Computes a DataFrame, now and never again: on the executors' disks where there is no room in memory.

        What was computed has no history, so that plans which use it are small ones. It goes with the object.
        """
        return frame.localCheckpoint(eager=True, storageLevel=StorageLevel.MEMORY_AND_DISK)

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
        """Columns of a view, by the audit's name for it, and `as_of`."""
        view = self.dialect.views[name]
        if name in self.dialect.small:
            return self.small.where(F.col(VIEW) == view).select(*columns, AS_OF)
        return self.source.read(view, columns)

    @made_once
    def small(self) -> DataFrame:
        """All of that of which there is little; kept."""
        return self.keep(self.source.several([self.dialect.views[name] for name in self.dialect.small]))

    # -- transactions

    @made_once
    def headers(self) -> DataFrame:
        """Headers, and records that should be some."""
        columns = ["txn_id", "state", "begun", "deadline", "finalized", "owner", "modifications", "shard"]
        return self.view("headers", *columns, *ODD).withColumnRenamed("shard", "header_shard")

    def operations(self) -> DataFrame:
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

    def aborted(self) -> DataFrame:
        aborted = self.view("aborted", "txn_id", "segment", "last_ledger", "last_entry", "written", *ODD)
        names = {"written": "aborted", "last_ledger": "aborted_ledger", "last_entry": "aborted_entry"}
        return aborted.withColumnsRenamed(names)

    def announced(self) -> DataFrame:
        events = self.view("events", *WHO, "decision", "written", *ODD)
        return events.groupBy(*WHO, *ODD).agg(
            F.count("decision").alias("announcements"),
            F.count_if(F.col("decision") == "COMMITTED").alias("committed_announcements"),
            F.count_if(F.col("decision") == "ABORTED").alias("aborted_announcements"),
            F.max("written").alias("last_announced"),
            F.max(AS_OF).alias(AS_OF),
        )

    @made_once
    def entry_sums(self) -> DataFrame | None:
        """What entries of indexes add up to: `index` and `found_by`, `entries`, `hash`; kept. None where they are not
        added up while they are read."""
        if self.dialect.entry_sums is None:
            return None
        sums = self.source.read(self.dialect.entry_sums, ("index", "found_by", "entries", "keys_hash"))
        added = F.sum("entries").alias("entries"), F.bit_xor("keys_hash").alias("hash")
        return self.keep(sums.groupBy("index", "found_by").agg(*added))

    # -- segments

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

    def known_segments(self) -> DataFrame:
        if self.dialect.name is DialectName.PULSAR:
            names = self.view("participants", "segment", "subscription").where("subscription IS NULL")
            return names.select("segment", F.lit(True).alias("has_segment")).distinct()
        kept = ("has_segment", "term", "trimmed_ledger", "trimmed_entry", "log_changed")
        said = [F.when(F.col("has_segment"), F.col(name)).alias(name) for name in kept]
        return self.segments.where("segment IS NOT NULL").select("segment", *said, "closed")

    def known_subscriptions(self) -> DataFrame:
        if self.dialect.name is DialectName.PULSAR:
            names = self.view("participants", "segment", "subscription").where("subscription IS NOT NULL")
            return names.select("segment", "subscription", F.lit(True).alias("has_subscription")).distinct()
        said = F.struct("mark_ledger", "mark_entry", "ranges", "changed")
        cursors = F.collect_list(F.when(~F.col("deleting"), said)).alias("cursors")
        known = self.cursor_records.where("odd_key IS NULL").groupBy("segment", "subscription")
        return known.agg(F.lit(True).alias("has_subscription"), cursors)
