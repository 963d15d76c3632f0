"""Rows as Arrow batches: the columns that Spark asks for, of records or of what a view makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import pyarrow

from metastore.spark import schemas
from metastore.spark.errors import WrongOption
from metastore.spark.records import Records, records_of_entries
from metastore.spark.stores.model import ChangedRecord
from metastore.spark.views import COMMON_SCHEMA, JOINT_SCHEMA, VIEW, JointView, Selection, View, Views

Array = Any

TIME = pyarrow.timestamp("us", tz="UTC")


def times(milliseconds: Array) -> Array:
    """Milliseconds since the epoch, in numpy, as Spark wants times."""
    return pyarrow.array(milliseconds * 1000, pyarrow.int64()).cast(TIME)


def text(array: Array) -> Array:
    """Bytes as text. Bytes that are none, which only a plain Oxia has, are shown with escapes."""
    try:
        return array.cast(pyarrow.string())
    except pyarrow.ArrowInvalid:
        return pyarrow.array([each.decode("utf-8", "backslashreplace") for each in array.to_pylist()], pyarrow.string())


def shards(shard: int | None, count: int) -> Array:
    """The column `shard`."""
    return pyarrow.repeat(pyarrow.scalar(shard, pyarrow.int32()), count)


def moments(as_of_ms: int | None, count: int) -> Array:
    """The column `as_of`."""
    microseconds = pyarrow.scalar(None if as_of_ms is None else as_of_ms * 1000, pyarrow.int64())
    return pyarrow.repeat(microseconds.cast(TIME), count)


def _secondary_keys(records: Records) -> Array:
    return text(records.secondaries)


_OF_RECORDS: Mapping[str, Callable[[Records], Array]] = {
    "key": lambda records: text(records.keys),
    "value": lambda records: records.values,
    "version_id": lambda records: pyarrow.array(records.version_ids),
    "modifications": lambda records: pyarrow.array(records.modifications),
    "created": lambda records: times(records.created_ms),
    "modified": lambda records: times(records.modified_ms),
    "session": lambda records: records.sessions,
    "shard": lambda records: shards(records.shard, len(records)),
    "secondary_key": _secondary_keys,
    schemas.AS_OF: lambda records: moments(records.as_of_ms, len(records)),
}


AnyView = View | JointView | Views


def schema_of(view: AnyView | None, index: str | None) -> str:
    """The columns that there are, as DDL."""
    if isinstance(view, JointView):
        return f"{view.schema}, {JOINT_SCHEMA}"
    if isinstance(view, Views):
        return f"{VIEW} STRING, {_schema_of_all(view)}, {COMMON_SCHEMA}"
    if view is not None:
        return f"{view.schema}, {COMMON_SCHEMA}"
    return schemas.RECORDS if index is None else schemas.INDEX_ENTRIES


def _schema_of_all(views: Views) -> str:
    """The columns of all; one that several have must be of one type."""
    types: dict[str, str] = {}
    for name, view in views.named.items():
        for column, kind in types_of(view.schema).items():
            if types.setdefault(column, kind) != kind:
                raise WrongOption(f"view {name!r} has a column {column!r} of another type: read it by itself")
    return ", ".join(f"{column} {kind}" for column, kind in types.items())


def columns_of(view: AnyView | None, index: str | None, has_moment: bool = False) -> str:
    """The columns that a schema may name, as DDL: with a view of single records also those of its records."""
    found = schema_of(view, index)
    if isinstance(view, View):
        found = f"{view.schema}, {schemas.RECORDS}"
    return f"{found}, {schemas.AS_OF_SCHEMA}" if has_moment else found


@dataclass(frozen=True, slots=True)
class Table:
    """What a read makes of records. It travels to the tasks."""

    schema: pyarrow.Schema
    """What Spark wants: the names, in this order."""
    view: View | None
    selection: Selection

    @property
    def names(self) -> Sequence[str]:
        """The columns that are wanted."""
        return self.schema.names  # type: ignore[no-any-return]

    @property
    def is_of_keys(self) -> bool:
        """Whether an index's entries say it all."""
        if self.view is not None:
            return self.view.is_of_keys and _OF_KEYS.issuperset(_COMMON.intersection(self.names))
        return "secondary_key" in self.names and _OF_KEYS.issuperset(self.names)

    def batch(self, records: Records) -> pyarrow.RecordBatch:
        """A batch of rows."""
        rows: Array = None
        found: dict[str, Array] = {}
        if self.view is not None:
            own = [name for name in self.names if name not in _COMMON]
            decoded = self.view.decode(records, own, self.selection)
            found, rows = dict(decoded.columns), decoded.rows
        for name in self.names:
            if name not in found:
                array = _OF_RECORDS[name](records)
                found[name] = array if rows is None else array.take(pyarrow.array(rows, pyarrow.int64()))
        if not self.names:
            count = len(records) if rows is None else len(rows)
            return pyarrow.RecordBatch.from_struct_array(pyarrow.array([{}] * count, pyarrow.struct([])))
        return batch_of([found[name] for name in self.names], self.schema)


_COMMON = frozenset(_OF_RECORDS)
_OF_KEYS = frozenset({"key", "secondary_key", "shard", schemas.AS_OF})


def check_names(wanted: Iterable[str], schema: str) -> None:
    """Refuses columns that there are not."""
    known = names_of(schema)
    for name in wanted:
        if name not in known:
            raise WrongOption(f"there is no column {name!r}: there are {', '.join(known)}")


def names_of(schema: str) -> list[str]:
    """The columns of a schema in DDL. Spark's own parser needs a session."""
    return list(types_of(schema))


def types_of(schema: str) -> dict[str, str]:
    """The columns of a schema in DDL, and what each is."""
    found, depth, start = {}, 0, 0
    for place, character in enumerate(schema + ","):
        depth += (character in "<(") - (character in ">)")
        if character == "," and not depth:
            name, _, kind = schema[start:place].strip().partition(" ")
            found[name.strip("`")] = kind
            start = place + 1
    return found


def batch_of(arrays: Sequence[Array], schema: pyarrow.Schema) -> pyarrow.RecordBatch:
    """Columns as a batch, if they are what the schema says."""
    for array, field in zip(arrays, schema, strict=True):
        if array.type != field.type:
            raise WrongOption(f"column {field.name!r} is {array.type}, and the schema says {field.type}")
    return pyarrow.RecordBatch.from_arrays(arrays, schema=schema)


def change_batches(
    writes: Iterator[list[ChangedRecord]], schema: pyarrow.Schema, shard: int, rows: int
) -> Iterator[pyarrow.RecordBatch]:
    """Changes as rows, about so many at a time."""
    pending: list[ChangedRecord] = []
    for changes in writes:
        pending += changes
        if len(pending) >= rows:
            yield _change_batch(pending, schema, shard)
            pending = []
    if pending:
        yield _change_batch(pending, schema, shard)


def _change_batch(changes: list[ChangedRecord], schema: pyarrow.Schema, shard: int) -> pyarrow.RecordBatch:
    present = numpy.array([each.entry is not None for each in changes])
    records = records_of_entries([each.entry for each in changes if each.entry is not None], shard)
    places = pyarrow.array(numpy.cumsum(present) - 1, mask=~present)
    columns: dict[str, Callable[[], Array]] = {
        "change": lambda: pyarrow.array([each.kind for each in changes]),
        "offset": lambda: pyarrow.array([each.offset for each in changes], pyarrow.int64()),
        "time": lambda: times(numpy.array([each.time_ms for each in changes], numpy.int64)),
        "key": lambda: text(pyarrow.array([each.key for each in changes], pyarrow.binary())),
        "shard": lambda: pyarrow.repeat(pyarrow.scalar(shard, pyarrow.int32()), len(changes)),
    }
    arrays = [columns[name]() if name in columns else _OF_RECORDS[name](records).take(places) for name in schema.names]
    return batch_of(arrays, schema)
