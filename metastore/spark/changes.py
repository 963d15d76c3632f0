"""Changes of a stream read as the columns of a view: what each record said when it was written."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any

import numpy
import pyarrow
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from metastore.engine.record import encode_entry, encode_times, encode_version
from metastore.spark.records import records_of_entries
from metastore.spark.views import Selection, view_named

DELETED = "deleted"
OF_CHANGES = ("shard", "key", "version_id", "offset", "time")
"""What a change itself says, and its view beside it."""
_STORED = ("key", "value", "version_id", "modifications", "created", "modified", "session")
_SELECTION = Selection("natural")


def is_in_view(name: str, key: Column) -> Column:
    """Whether a key lies where a view has its records, or near by: what is none of its own the view leaves out."""
    scopes = view_named(name).scopes(_SELECTION)
    assert all(scope.index is None for scope in scopes), f"the view {name!r} is read by keys"
    return reduce(or_, ((key >= scope.range.start) & (key < scope.range.end) for scope in scopes))


def as_view(changes: DataFrame, name: str) -> DataFrame:
    """The columns of a view, of the records that changes have written, and those of `OF_CHANGES`.

    What was deleted says nothing. A view that makes several rows of a record, or one of several, is none for changes.
    """
    schema = StructType.fromDDL(view_named(name).schema)
    assert isinstance(schema, StructType)
    columns = to_arrow_schema(schema, timezone="UTC")

    # Were it said to be deterministic, it would be done once to see which rows there are, and once more to make them.
    said = arrow_udf(lambda *cells: _decoded(name, columns, cells), schema).asNondeterministic()  # type: ignore[call-overload]
    written = changes.where(F.col("change") != DELETED).where(is_in_view(name, F.col("key")))
    rows = written.select(*OF_CHANGES, said(*_STORED).alias("said")).where("said IS NOT NULL")
    return rows.select("said.*", *OF_CHANGES)


def _decoded(name: str, columns: pyarrow.Schema, cells: Sequence[pyarrow.Array[Any]]) -> pyarrow.Array[Any]:
    """What records say, each in its place; null where a record is none of the view's."""
    count = len(cells[0])
    records = records_of_entries([_entry(*each) for each in zip(*map(_plain, cells), strict=True)], None)
    found = view_named(name).decode(records, columns.names, _SELECTION)
    said = pyarrow.StructArray.from_arrays([found.columns[each] for each in columns.names], fields=list(columns))
    if found.rows is None:
        return said
    places, is_there = numpy.zeros(count, numpy.int64), numpy.zeros(count, bool)
    places[found.rows], is_there[found.rows] = numpy.arange(len(found.rows)), True
    return said.take(pyarrow.array(places, mask=~is_there))


def _plain(column: pyarrow.Array[Any]) -> list[Any]:
    """Values of Python; of times, milliseconds."""
    if pyarrow.types.is_timestamp(column.type):
        column = pc.divide(column.cast(pyarrow.int64()), 1000)
    cells: list[Any] = column.to_pylist()
    return cells


def _entry(
    key: str, value: bytes, version_id: int, modifications: int, created_ms: int, modified_ms: int, session: int | None
) -> bytes:
    """A record as the store hands it out."""
    version = encode_version(version_id, modifications, encode_times(created_ms, modified_ms), session, None)
    return encode_entry(version, value, key.encode())
