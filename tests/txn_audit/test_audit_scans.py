"""All rules share one scan: what the store has is read once, however many rules look at it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path

import pytest
from audit_stage import found, plant, source_at
from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from metastore.spark import WrongOption, pin
from metastore.spark.columns import names_of, schema_of
from metastore.spark.schemas import AS_OF
from metastore.spark.views import VIEW, View, Views, any_view_named, view_named
from txn.audit.dialect import TIDEMARK, DialectName
from txn.audit.engine import VIOLATION, violations
from txn.audit.faults import FAULTS, plant_fault
from txn.audit.planting import Planter
from txn.audit.rules.model import Context, OnTables, Rule, Severity
from txn.audit.rules.registry import rule_named, rules_of
from txn.audit.source import Source, StoreSource
from txn.audit.tables import Tables
from txn.audit.views.operations import ops
from txn.audit.views.outcomes import applied

TOGETHER = {"headers", "ops", "applied"}
"""What is put together while it is read, and so comes to Spark as participants only."""
SUMS = {"transaction_parts": "segment", "entry_sums": "entries"}
"""What comes instead of these and of entries of indexes, and a column of it."""


class CountingSource:
    """Counts the rows that executors have read of each view and index."""

    def __init__(self, spark: SparkSession, source: Source) -> None:
        self._spark = spark
        self._source = source
        self._totals: dict[str, Accumulator[int]] = {}

    @property
    def rows(self) -> dict[str, int]:
        """What was read so far."""
        return {name: total.value for name, total in self._totals.items()}

    def read(self, view: str, columns: Sequence[str]) -> DataFrame:
        return self._counted(view, self._source.read(view, columns))

    def several(self, views: Sequence[str]) -> DataFrame:
        return self._counted(",".join(views), self._source.several(views))

    def index(self, name: str) -> DataFrame:
        return self._counted(name, self._source.index(name))

    def _counted(self, name: str, frame: DataFrame) -> DataFrame:
        total = self._totals.setdefault(name, self._spark.sparkContext.accumulator(0))

        def counted(row: Row) -> Row:
            total.add(1)
            return row

        return self._spark.createDataFrame(frame.rdd.map(counted), frame.schema)


def counts(frames: Mapping[str, DataFrame]) -> dict[str, int]:
    """How many rows each has, in one query."""
    named = [frame.select(F.lit(name).alias("name")) for name, frame in frames.items()]
    rows = reduce(DataFrame.unionByName, named).groupBy("name").count().collect()
    return dict.fromkeys(frames, 0) | {row["name"]: row["count"] for row in rows}


def test_what_the_store_has_is_read_once(spark: SparkSession, tmp_path: Path) -> None:
    url, as_of_ms = plant(tmp_path / "store", lambda planter: planter.plant_clean(50))
    with pin(url) as point:
        source = source_at(spark, url, point, as_of_ms)
        counting = CountingSource(spark, source)
        tables = Tables(counting, TIDEMARK)
        assert violations(tables, rules_of(DialectName.TIDEMARK, history=False)).count() == 0
        assert violations(tables, [rule_named("acknowledged-by-two")]).columns == list(VIOLATION)
        reads = {",".join(TIDEMARK.small): source.several(TIDEMARK.small)}
        assert set(TIDEMARK.small) == TIDEMARK.views.keys() - TOGETHER
        reads |= {view: source.read(view, [column]) for view, column in SUMS.items()}
        present = counts(reads)
    assert present["transaction_parts"] >= 50
    assert counting.rows == present


def all_faults(folder: Path, shards: int) -> tuple[str, int]:
    """A store with each fault once."""

    async def work(planter: Planter) -> None:
        for realm, rule in enumerate(FAULTS):
            own = Planter(planter.store, planter.as_of_ms, planter.elsewhere, realm)
            await own.plant_clean(3)
            await plant_fault(own, rule, 1)

    return plant(folder, work, shards=shards)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("shards", [1, 2])
def test_the_same_is_found_whatever_is_kept_and_however_it_is_cut(
    spark: SparkSession, tmp_path: Path, shards: int
) -> None:
    """Kept whole nothing is let go, and read in one piece nothing is loose but what went astray."""
    url, as_of_ms = all_faults(tmp_path / "store", shards)
    rules = rules_of(DialectName.TIDEMARK, history=False)
    with pin(url) as point:
        outcomes = []
        for partitions in ("1", "7"):
            source = StoreSource(spark, {"store": url, "point": str(point), "partitions": partitions}, as_of_ms)
            sifted, whole = Tables(source, TIDEMARK), Tables(source, TIDEMARK)
            whole.expect(["totals"])
            outcomes += [found(sifted, rules), found(whole, rules)]
            assert whole.totals.count() == sifted.totals.count() > sifted.suspects("transactions").count()
            assert whole.participants.count() == sifted.participants.count() > sifted.suspects("participants").count()
    assert len(outcomes[0]) >= len(FAULTS) - 1
    assert all(each == outcomes[0] for each in outcomes)


def test_a_rule_of_whole_tables_sees_all_of_them(spark: SparkSession, tmp_path: Path) -> None:
    url, as_of_ms = plant(tmp_path / "store", lambda planter: planter.plant_clean(20))

    def find(tables: Tables, _: Context) -> DataFrame:
        return tables.participants.where("operations > 0").select("txn_id", "segment", "subscription")

    rule = Rule("any", "", "", "", Severity.WARNING, [OnTables(find)])
    declared = replace(rule, name="declared", checks=[OnTables(find, reads=["participants"])])
    with pin(url) as point:
        source = source_at(spark, url, point, as_of_ms)
        everyone = rules_of(DialectName.TIDEMARK, history=False)
        counts = [violations(Tables(source, TIDEMARK), [*everyone, each]).count() for each in (rule, declared)]
        whole = Tables(source, TIDEMARK).participants.where("operations > 0").count()
    assert counts == [whole, whole]
    assert whole > 0


def test_several_views_in_one_read_are_those_views(spark: SparkSession, tmp_path: Path) -> None:
    url, as_of_ms = plant(tmp_path / "store", lambda planter: planter.plant_clean(20))
    with pin(url) as point:
        source = source_at(spark, url, point, as_of_ms)
        together = source.several(TIDEMARK.small)
        for view in TIDEMARK.small:
            columns = names_of(view_named(view).schema)
            rows, alone = together.where(F.col(VIEW) == view).select(*columns, AS_OF), source.read(view, columns)
            assert rows.exceptAll(alone).isEmpty()
            assert alone.exceptAll(rows).isEmpty()
            assert not alone.isEmpty() or view == "aborted"


def test_views_that_cannot_be_read_together_are_told() -> None:
    assert schema_of(any_view_named("cursors,numbers"), None).startswith("view STRING, ")
    with pytest.raises(WrongOption, match="'transaction_parts' puts records together"):
        any_view_named("cursors,transaction_parts")
    with pytest.raises(WrongOption, match="'applied' has a column 'operations' of another type"):
        schema_of(Views({"ops": View("operations STRING", lambda _: [], ops.decode), "applied": applied}), None)
