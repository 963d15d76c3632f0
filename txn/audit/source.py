"""Where the audit gets its rows: views of a store at one point, or DataFrames that somebody else has made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, reduce
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from metastore.spark.columns import schema_of, types_of
from metastore.spark.schemas import AS_OF, AS_OF_SCHEMA
from metastore.spark.views import VIEW, any_view_named

INDEX_SCHEMA = "secondary_key STRING, key STRING, shard INT"


class Source(Protocol):
    """What the tables are made from. Rows of views say in the column `as_of` when what they say was so."""

    def read(self, view: str, columns: Sequence[str]) -> DataFrame:
        """These columns of a view, and `as_of`."""

    def several(self, views: Sequence[str]) -> DataFrame:
        """All columns of several views, and `as_of`, and in `view` whose row it is."""

    def index(self, name: str) -> DataFrame:
        """The entries of an index: `secondary_key`, `key`, `shard`."""


class History(Protocol):
    """What there was before."""

    def read(self, name: str) -> DataFrame:
        """All rows of a view, by the audit's name for it, or of `removed`, with `as_of`; none if none were recorded."""


def declared(schema: str, columns: Sequence[str]) -> str:
    """Some columns of a schema, as DDL."""
    types = types_of(schema)
    return ", ".join(f"{name} {types[name]}" for name in columns)


class StoreSource:
    """A store at one point."""

    def __init__(self, spark: SparkSession, options: Mapping[str, str], as_of_ms: int) -> None:
        self._spark = spark
        # The moment is a column: were it in the plans, Java would compile each of them anew for each audit.
        self._options = {**options, "asOf": str(as_of_ms)}
        """Of the data source: the store, the point, the namespace."""
        self.as_of_ms = as_of_ms

    def read(self, view: str, columns: Sequence[str]) -> DataFrame:
        schema = declared(schema_of(any_view_named(view), None), columns)
        reader = self._spark.read.format("tidemark").options(**self._options).option("view", view)
        return reader.schema(f"{schema}, {AS_OF_SCHEMA}").load()

    def several(self, views: Sequence[str]) -> DataFrame:
        every = ",".join(views)
        schema = schema_of(any_view_named(every), None)
        reader = self._spark.read.format("tidemark").options(**self._options).option("view", every)
        return reader.schema(f"{schema}, {AS_OF_SCHEMA}").load()

    def index(self, name: str) -> DataFrame:
        reader = self._spark.read.format("tidemark").options(**self._options).option("index", name)
        return reader.schema(INDEX_SCHEMA).load()


class FrameSource:
    """DataFrames by the names of views: what was read before, or elsewhere."""

    def __init__(self, frames: Mapping[str, DataFrame], indexes: Mapping[str, DataFrame]) -> None:
        self._frames = frames
        self._indexes = indexes

    def read(self, view: str, columns: Sequence[str]) -> DataFrame:
        return self._frames[view].select(*columns, AS_OF)

    def several(self, views: Sequence[str]) -> DataFrame:
        frames = [self._frames[view].withColumn(VIEW, F.lit(view)) for view in views]
        return reduce(partial(DataFrame.unionByName, allowMissingColumns=True), frames)

    def index(self, name: str) -> DataFrame:
        return self._indexes[name]
