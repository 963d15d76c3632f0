"""The rows of a ledger, as DataFrames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from metastore.spark.columns import names_of
from metastore.spark.schemas import AS_OF
from metastore.spark.views import COMMON_SCHEMA, view_named
from metastore.tables import moment_text
from txn.audit.dialect import Dialect
from txn.audit.ledger.folder import DAY, Folder, files_in
from txn.audit.source import StoreSource, declared

IDENTITY = ("key", "version_id")
OFFSET = "offset"
"""Which write of its shard a row is of; null where a snapshot saw it."""
REMOVED = "removed"
"""Of what was removed: its key, shard and offset."""
REMOVED_SCHEMA = "shard INT, key STRING"
SEEN = "_seen"
STREAM = "_stream"
START = "start.json"
SNAPSHOT = "snapshot"
COMPACTION = "compaction"
FILES_OF_A_SIZE_MAX = 8
"""More files of a day that are of about one size are put together. One of the result is of the next size."""
SMALLEST_BYTES = 64 << 10
LARGEST_BYTES = 256 << 20
"""Files of this size are left alone."""


def schema_of(dialect: Dialect, name: str) -> str:
    """What the ledger keeps of a view, as DDL, without when it was so."""
    if name == REMOVED:
        return REMOVED_SCHEMA
    return f"{view_named(dialect.views[name]).schema}, {COMMON_SCHEMA}"


class Ledger:
    """One ledger, of records of one dialect."""

    def __init__(self, spark: SparkSession, path: Path, dialect: Dialect) -> None:
        self._spark = spark
        self.dialect = dialect
        self.folder = Folder(path)

    @property
    def names(self) -> Sequence[str]:
        """What it has rows of."""
        return [*self.dialect.views, REMOVED]

    @property
    def is_empty(self) -> bool:
        """Whether nothing was added yet."""
        return not self.folder.files("headers")

    @property
    def is_recorded(self) -> bool:
        """Whether the stream feeds it."""
        return (self.folder.path / STREAM / START).exists()

    # -- reading

    @contextmanager
    def past(self) -> Iterator[Past]:
        """What it has now, whatever is added from now on."""
        with self.folder.reading(self.names) as files:
            yield Past(self._spark, self.folder.path, self.dialect, files)

    def read(self, name: str) -> DataFrame:
        """All rows of a view that there are now, to be used at once."""
        return Past(self._spark, self.folder.path, self.dialect, {name: self.folder.files(name)}).read(name)

    # -- adding

    def append(self, source: StoreSource, *, beside: Mapping[str, str] | None = None) -> None:
        """What a store says now, as far as it is not known, and small files beside it."""
        draft, seen_before = self.folder.draft(), list((self.folder.path / SEEN).rglob("*.parquet"))
        for name, view in self.dialect.views.items():
            # First which versions there are: of a store without points a later version may then be added twice, and
            # none is left out.
            versions = source.read(view, IDENTITY).select(*IDENTITY)
            versions.write.parquet(str(draft / SEEN / name))
            rows = source.read(view, names_of(schema_of(self.dialect, name)))
            known = self._known(name)
            if known is not None:
                rows = rows.join(known, list(IDENTITY), "left_anti")
            self.write(rows.withColumn(OFFSET, F.lit(None).cast("bigint")), name, draft)
        for path, content in (beside or {}).items():
            (draft / path).parent.mkdir(parents=True, exist_ok=True)
            (draft / path).write_text(content)
        self.folder.add(f"{SNAPSHOT}-{source.as_of_ms}", seen_before)

    def _known(self, name: str) -> DataFrame | None:
        """Which versions were added, if any were. Between snapshots only what the last one saw is read, and nothing of
        the ledger's rows, so that adding costs the same however old it is; behind a gap of the stream, all rows are."""
        if self.is_recorded:
            return self.read(name).select(*IDENTITY)
        files = files_in(self.folder.path / SEEN / name)
        return self._spark.read.schema("key STRING, version_id BIGINT").parquet(*map(str, files)) if files else None

    def write(self, rows: DataFrame, name: str, draft: Path) -> None:
        """Rows of a view, with `offset` and `as_of`, into a draft."""
        columns = [*names_of(schema_of(self.dialect, name)), OFFSET, AS_OF]
        days = rows.select(*columns, F.to_date(AS_OF).alias(DAY))
        days.write.mode("append").partitionBy(DAY).parquet(str(draft / name))

    # -- housekeeping

    def look_after(self, keep_ms: int, as_of_ms: int) -> None:
        """What is due after something was added: to the newest days, that is, so that old ones cost nothing."""
        self.compact([days[-1] for name in self.names if (days := self.folder.days(name))])
        self.expire(keep_ms, as_of_ms)

    def compact(self, days: Sequence[Path]) -> int:
        """Puts files of these days together where many are of one size, unless somebody reads; how often it did."""
        count = 0
        for day in days:
            for files in _crowds(files_in(day)):
                with self.folder.unread() as is_unread:
                    if not is_unread:
                        return count
                    self._put_together(day.parent.name, day, files)
                    count += 1
        return count

    def _put_together(self, name: str, day: Path, files: Sequence[Path]) -> None:
        draft = self.folder.draft()
        columns = f"{schema_of(self.dialect, name)}, {OFFSET} BIGINT, {AS_OF} TIMESTAMP"
        rows = self._spark.read.schema(declared(columns, names_of(columns))).parquet(*map(str, files))
        rows.coalesce(1).write.parquet(str(draft / name / day.name))
        self.folder.add(f"{COMPACTION}-{uuid4().hex}", files)

    def expire(self, keep_ms: int, as_of_ms: int) -> int:
        """Removes days that lie further back than that, unless somebody reads; how many, over all views."""
        oldest = f"{DAY}={moment_text(as_of_ms - keep_ms)[:10]}"
        with self.folder.unread() as is_unread:
            old = [day for name in self.names for day in self.folder.days(name) if day.name < oldest and is_unread]
            for day in old:
                self.folder.remove_day(day)
        return len(old)


@dataclass(frozen=True, slots=True)
class Past:
    """What a ledger had at a moment: rules over history look at nothing that was added since the store was read."""

    _spark: SparkSession
    _path: Path
    _dialect: Dialect
    _files: Mapping[str, Sequence[Path]]

    def read(self, name: str) -> DataFrame:
        """All rows of a view, with `offset`, `as_of` and `day`."""
        schema = f"{schema_of(self._dialect, name)}, {OFFSET} BIGINT, {AS_OF} TIMESTAMP, {DAY} DATE"
        files = self._files[name]
        if not files:
            return self._spark.createDataFrame([], schema)
        reader = self._spark.read.schema(schema).option("basePath", str(self._path / name))
        return reader.parquet(*map(str, files))


def _crowds(files: Sequence[Path]) -> list[list[Path]]:
    """Files of about one size each, where they are too many. So a row is written anew as often as sizes grow, and not
    with everything that is added."""
    sizes: dict[int, list[Path]] = {}
    for file in files:
        size = file.stat().st_size
        if size < LARGEST_BYTES:
            step = 0
            while size >= SMALLEST_BYTES * FILES_OF_A_SIZE_MAX**step:
                step += 1
            sizes.setdefault(step, []).append(file)
    return [crowd for crowd in sizes.values() if len(crowd) > FILES_OF_A_SIZE_MAX]
