"""The ledger: what audits have seen, kept as Parquet for longer than the store keeps it.

    DIR/VIEW/day=2026-11-18/…       rows of a view, as one audit found them first, with `as_of`

Each audit appends the rows that the ledger does not have yet: a record is known by its key and version, so what has not
changed is written once, whatever it is seen of. Nothing is ever changed. A column that a later version adds is null in
what was written before.

`compact` puts the many small files of a day together, and `expire` removes old days. What is put together is written
before its parts are taken away: a reader that comes in between may see rows twice, which no rule minds, and never
misses any.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from metastore.spark.columns import names_of
from metastore.spark.views import COMMON_SCHEMA, view_named
from metastore.tables import moment_text
from txn.audit.dialect import Dialect
from txn.audit.source import AS_OF, StoreSource, declared

DAY = "day"
IDENTITY = ("key", "version_id")
FILES_OF_A_DAY_MAX = 8
"""A day with more is compacted."""


class Ledger:
    """One ledger, of records of one dialect."""

    def __init__(self, spark: SparkSession, folder: Path, dialect: Dialect) -> None:
        self._spark = spark
        self._folder = folder.absolute()
        self._dialect = dialect

    @property
    def is_empty(self) -> bool:
        """Whether there was no audit yet."""
        return not self._days("headers")

    # -- reading

    def read(self, name: str) -> DataFrame:
        """All rows of a view that were ever seen, with `as_of`."""
        schema = f"{self._schema(name)}, {AS_OF} TIMESTAMP, {DAY} DATE"
        if not self._days(name):
            return self._spark.createDataFrame([], schema)
        return self._spark.read.schema(schema).parquet(str(self._folder / name))

    def _schema(self, name: str) -> str:
        return f"{view_named(self._dialect.views[name]).schema}, {COMMON_SCHEMA}"

    # -- writing

    def append(self, source: StoreSource) -> None:
        """What a store says now, as far as it is new."""
        for name, view in self._dialect.views.items():
            rows = source.read(view, names_of(self._schema(name)))
            if self._days(name):
                known = self.read(name).select(*IDENTITY)
                rows = rows.join(known, list(IDENTITY), "left_anti")
            rows = rows.withColumn(DAY, F.to_date(AS_OF))
            rows.select(*names_of(self._schema(name)), AS_OF, DAY).write.mode("append").partitionBy(DAY).parquet(
                str(self._folder / name)
            )

    # -- housekeeping

    def compact(self) -> int:
        """Puts the files of days together that have many; how many days those were."""
        count = 0
        for name in self._dialect.views:
            for day in self._days(name):
                if len(_files(day)) > FILES_OF_A_DAY_MAX:
                    self._compact_day(name, day)
                    count += 1
        return count

    def _compact_day(self, name: str, day: Path) -> None:
        before = _files(day)
        schema = declared(f"{self._schema(name)}, {AS_OF} TIMESTAMP", [*names_of(self._schema(name)), AS_OF])
        rows = self._spark.read.schema(schema).parquet(*map(str, before))
        rows.dropDuplicates(list(IDENTITY)).coalesce(1).write.mode("append").parquet(str(day))
        for file in before:
            file.unlink()

    def expire(self, keep_ms: int, as_of_ms: int) -> int:
        """Removes days that lie further back than that; how many they were, over all views."""
        oldest = _day_of(as_of_ms - keep_ms)
        old = [day for name in self._dialect.views for day in self._days(name) if day.name < f"{DAY}={oldest}"]
        for day in old:
            shutil.rmtree(day)
        return len(old)

    def _days(self, name: str) -> Sequence[Path]:
        return sorted((self._folder / name).glob(f"{DAY}=*"))


def _files(day: Path) -> list[Path]:
    return sorted(day.glob("*.parquet"))


def _day_of(time_ms: int) -> str:
    return moment_text(time_ms)[:10]
