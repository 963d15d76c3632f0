"""What the rules look at: the records of a store, joined once, so that each rule need only look at single rows.

    participants    one row for each participant of a transaction: what there is of its operations, what it has applied,
                    and beside it the header and what the segment says. A transaction without participants has one row
                    without a segment; a record that cannot be read has one with `odd_key` and `odd`.
    transactions    the same by transaction
    segments        one row for each segment; odd ones as well
    cursors         one row for each subscription, beside its segment

Operations are by far the most records. They are read once and added up where they are: of our own records while they
are read, and put beside their headers, so that Spark sees about as many rows as there are participants. Nearly all of
those break no rule: they are let go while they are read, and only what conditions object to is kept (`suspects`), and
what may not have met all that belongs to it. Who asks for whole tables is given them, and for that they are kept whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from metastore.spark.schemas import AS_OF
from txn.audit.dialect import Dialect, Limits
from txn.audit.participants import (
    EARLY_AT,
    HEADER,
    IS_BEYOND,
    ODD,
    PARTS,
    PUT_TOGETHER,
    TOTALS,
    absent,
    as_participants,
    as_transactions,
    by_transaction,
    put_together,
)
from txn.audit.reading import Reading, made_once
from txn.audit.source import History, Source

C = TypeVar("C")

MADE_AT_ONCE_MAX = 8
SEEMS_WHOLE = "NOT coalesce(is_loose, false) AND expected IS NULL"
SIFTED = frozenset({"participants", "transactions"})
"""Tables of which all but a few rows are let go, unless they are kept whole."""
WHOLE = frozenset({*SIFTED, "lives", "totals"})
"""Tables for which all is kept."""
BROADCAST_MAX = 100_000
"""So many transactions may be sent to every executor."""


class Counts(NamedTuple):
    """How many rows ..."""

    loose: int
    """... may have more of their transaction elsewhere"""
    astray: int
    """... and of how many another one may say that it is whole"""
    acknowledging: int
    """... and how many are of acknowledgements."""


class Tables(Reading):
    """The tables of one audit, each made when it is asked for first, and no more than once."""

    def __init__(
        self, source: Source, dialect: Dialect, limits: Limits | None = None, history: History | None = None
    ) -> None:
        super().__init__(source, dialect, limits, history)
        self._made: dict[Any, DataFrame] = {}
        self._conditions: Mapping[str, Column] = {}
        self._is_kept_whole = False

    def once(self, make: Callable[[Tables, C], DataFrame], context: C) -> DataFrame:
        """What several rules need, made by the first of them."""
        if make not in self._made:
            self._made[make] = make(self, context)
        return self._made[make]

    def expect(self, reads: Iterable[str]) -> None:
        """Says, before anything is read, which tables will be asked for as a whole."""
        self._is_kept_whole |= not WHOLE.isdisjoint(reads)

    def open(self) -> None:
        """Reads what everything else is held against; there is not much of it."""
        self._make(["small"])
        known = {"segments": self.has("segments"), "_aborted_ids": self._is_put_together}
        self._make(name for name, is_there in known.items() if is_there)

    def read(self, conditions: Mapping[str, Column], names: Iterable[str] = ()) -> None:
        """Reads what there is most of, and makes these tables.

        `conditions` are those that break a rule, by table: `suspects` are the rows of which one holds.
        """
        assert not conditions or "_sifted" not in vars(self), "other conditions have decided what is let go"
        self._conditions = {name: conditions[name] for name in sorted(SIFTED.intersection(conditions))}
        # What the others wait for comes first, and the others where that leaves room.
        long = [*(["_sifted"] if self._is_put_together else []), *(name for name in names if name not in WHOLE)]
        self._make(dict.fromkeys([*long, "_put_together"]))

    def _make(self, names: Iterable[str]) -> None:
        with ThreadPoolExecutor(MADE_AT_ONCE_MAX, "tables") as threads:
            for made in [threads.submit(getattr, self, name) for name in names]:
                made.result()

    def suspects(self, name: str) -> DataFrame:
        """Of the rows of a table at least those of which a condition holds, as `read` was told."""
        if not self._is_put_together or name not in SIFTED:
            return getattr(self, name)  # type: ignore[no-any-return]
        assert name in self._conditions, f"it was not said what is looked for among {name}"
        rows = self._sifted.where("is_suspect")
        if name == "participants":
            return self._beside_segments(self._lives(rows))
        return self._numbered(self._totals(rows))

    # -- what is put together while it is read

    @property
    def _is_put_together(self) -> bool:
        """Whether records are put together while they are read."""
        return self.dialect.parts is not None

    def _parts(self) -> DataFrame:
        """Transactions as they are put together where they are read."""
        assert self.dialect.parts is not None, "they are not in every dialect"
        return self.source.read(self.dialect.parts, [*PARTS, *PUT_TOGETHER])

    @made_once
    def _together(self) -> DataFrame:
        """The same, kept."""
        return self.keep(self._parts())

    @made_once
    def _sifted(self) -> DataFrame:
        """Those of which a condition holds (`is_suspect`), which acknowledge, or whose transaction may have more
        elsewhere; and what indexes should add up to. Kept."""
        rows = self._together if self._is_kept_whole else self._parts()
        aborted, count = self._aborted_ids
        mark = F.lit(False)
        if count:
            rows = rows.join(self._small(aborted.withColumn("is_there", F.lit(True)), count), "txn_id", "left")
            mark = F.col("is_there").isNotNull()
        rows = self._marked(rows.withColumn("is_aborted", mark).drop("is_there"))
        needed = "is_suspect OR is_loose OR is_aborted OR subscription IS NOT NULL OR expected IS NOT NULL"
        return self.keep(rows.where(needed))

    def _marked(self, rows: DataFrame) -> DataFrame:
        """Rows, each with whether a condition holds of what is made of it."""
        # Both tables are made beside each other, of names that are the same in part.
        names, own = rows.columns, {f"own_{name}": F.col(name) for name in TOTALS if name in rows.columns}
        found, is_suspect = rows.withColumns(own), F.lit(False)
        if "participants" in self._conditions:
            found = self._beside_segments(as_participants(found)).withColumn("breaks", self._conditions["participants"])
            is_suspect = F.coalesce("breaks", F.lit(False))
        if "transactions" in self._conditions:
            found = self._numbered(as_transactions(found))
            found = found.withColumn("breaks_whole", F.col("whole").isNotNull() & self._conditions["transactions"])
            is_suspect = is_suspect | F.coalesce("breaks_whole", F.lit(False))
        restored = [F.col(f"own_{name}").alias(name) if f"own_{name}" in own else F.col(name) for name in names]
        return found.select(*restored, is_suspect.alias("is_suspect"))

    @made_once
    def _aborted_ids(self) -> tuple[DataFrame, int]:
        """The transactions of which segments say that they are aborted, and how many.

        One of them is null if segments skip what cannot be read.
        """
        found = self.keep(self.aborted().select("txn_id").distinct())
        return found, found.count()

    @made_once
    def _counts(self) -> Counts:
        """Of what was put together while it was read."""
        conditions = ("is_loose", "is_astray", "subscription IS NOT NULL")
        (row,) = self._sifted.agg(*(F.count_if(F.expr(each)) for each in conditions)).collect()
        return Counts(*row)

    @property
    def has_acknowledgements(self) -> bool:
        """Whether any operation may acknowledge something."""
        return not self._is_put_together or self._counts.acknowledging > 0

    @made_once
    def _torn_ids(self) -> tuple[DataFrame, int]:
        """The transactions of which rows seem whole that are not, and how many; kept."""
        aborted, count = self._aborted_ids
        if not self._counts.astray:
            return aborted, count
        found = self.keep(aborted.union(self._sifted.where("is_astray").select("txn_id")).distinct())
        return found, found.count()

    @made_once
    def _torn(self) -> DataFrame | None:
        """Their rows, kept; None if there are none, as nearly always."""
        ids, count = self._torn_ids
        if not count:
            return None
        rows = self._sifted
        if self._counts.astray:  # nobody knew, so they may have been let go
            rows = self._together if self._is_kept_whole else self._parts()
        found = self.keep(rows.where(SEEMS_WHOLE).join(self._small(ids, count), "txn_id", "left_semi"))
        return None if found.isEmpty() else found

    def _whole(self, rows: DataFrame) -> DataFrame:
        """Those rows that are of transactions all of whose records are in one place."""
        rows = rows.where(SEEMS_WHOLE)
        return rows if self._torn is None else rows.join(self._small(*self._torn_ids), "txn_id", "left_anti")

    def _small(self, frame: DataFrame, count: int) -> DataFrame:
        return F.broadcast(frame) if count <= BROADCAST_MAX else frame

    @made_once
    def _put_together(self) -> DataFrame | None:
        """Participants of all others, which are put together here; kept. None if there are none."""
        if not self._is_put_together:
            parts = [self.operations(), self.aborted(), self.announced()]
            return self.keep(put_together(parts, self.headers))
        if not self._counts.loose and not self._aborted_ids[1]:
            return None
        loose = self._sifted.where("is_loose")
        loose = loose if self._torn is None else loose.unionByName(self._torn, allowMissingColumns=True)
        fragments = loose.where("segment IS NOT NULL").withColumns(
            {"least_shard": F.col("shard"), "greatest_shard": F.col("shard")}
        )
        fragments = fragments.drop(*HEADER, *PUT_TOGETHER, "is_aborted", "is_suspect")
        headers = loose.where("state IS NOT NULL AND (is_loose OR whole IS NOT NULL)")
        headers = headers.withColumnRenamed("shard", "header_shard").select("txn_id", *HEADER, *ODD, AS_OF)
        return self.keep(put_together([fragments, self.aborted()], headers))

    @made_once
    def lives(self) -> DataFrame:
        """Participants, by what records of transactions say of them."""
        return self._lives(None if not self._is_put_together else self._together)

    def _lives(self, rows: DataFrame | None) -> DataFrame:
        """The same of some of the rows that were put together while they were read."""
        if rows is None:
            assert self._put_together is not None
            return self._put_together
        whole = as_participants(self._whole(rows)).drop(*PUT_TOGETHER, "is_aborted", "is_suspect")
        return whole if self._put_together is None else whole.unionByName(self._put_together)

    @made_once
    def _acknowledging(self) -> DataFrame | None:
        """What was put together while it was read, of acknowledgements."""
        return None if not self._is_put_together else self._sifted.where("subscription IS NOT NULL")

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
        return self._beside_segments(self.lives)

    def _beside_segments(self, lives: DataFrame) -> DataFrame:
        joined = lives.join(F.broadcast(self.known_segments()), "segment", "left")
        joined = joined.join(F.broadcast(self.known_subscriptions()), ["segment", "subscription"], "left")
        if not self.has("cursors"):
            return joined.withColumn("beyond_log", absent("beyond_log"))
        return joined.withColumn("beyond_log", F.expr(IS_BEYOND)).drop("closed", "cursors")

    def early_at(self, participants: DataFrame) -> DataFrame:
        """Participants whose acknowledgements may have been known to their cursor before, and since when it was."""
        known = F.broadcast(self.known_subscriptions())
        joined = participants.where("size(spans) > 0").join(known, ["segment", "subscription"])
        return joined.withColumn("early_at", F.expr(EARLY_AT)).where("early_at IS NOT NULL")

    @made_once
    def totals(self) -> DataFrame:
        """By transaction, of those that have a header or operations or have applied any."""
        if not self._is_put_together:
            return self.keep(by_transaction(self.lives))
        return self._totals(self._together)

    def _totals(self, rows: DataFrame) -> DataFrame:
        """The same of some of the rows that were put together while they were read."""
        whole = as_transactions(self._whole(rows).where("whole IS NOT NULL"))
        found = whole.select("txn_id", *HEADER, *TOTALS, "least_shard", "greatest_shard", AS_OF)
        return found if self._put_together is None else found.unionByName(by_transaction(self._put_together))

    @property
    def known_headers(self) -> DataFrame:
        """Headers that can be read, by transaction."""
        if self._is_put_together:  # and for the most part let go
            return self.headers.where("odd_key IS NULL")
        return self.totals.where("state IS NOT NULL")

    @made_once
    def transactions(self) -> DataFrame:
        """The same, beside the next number that its coordinator gives out."""
        return self._numbered(self.totals)

    def _numbered(self, totals: DataFrame) -> DataFrame:
        numbers = self.view("numbers", "coordinator", "next", "odd_key").where("odd_key IS NULL")
        given = numbers.groupBy(F.col("coordinator").cast("string").alias("coordinator"))
        # Of Pulsar's ids as well the last two parts are the coordinator and the number.
        coordinator = F.substring_index(F.substring_index("txn_id", "_", -2), "_", 1)
        number = F.substring_index("txn_id", "_", -1).cast("bigint")
        named = totals.withColumns({"coordinator": coordinator, "number": number})
        return named.join(F.broadcast(given.agg(F.max("next").alias("next"))), "coordinator", "left")

    @made_once
    def record_sums(self) -> DataFrame | None:
        """What entries of indexes should add up to, by what records say: of those that lead to headers by their state,
        of others by segment and subscription. None where records are not hashed while they are put together."""
        if not self._is_put_together:
            return None
        sums = self._sifted.where("expected IS NOT NULL").select(F.inline("expected"))
        added = [F.sum("entries").alias("entries"), F.bit_xor("hash").alias("hash")]
        return sums.groupBy("state", "segment", "subscription").agg(*added)
