"""How records of one kind become columns: all at once where they are as they should be, one by one where not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy
import pyarrow
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from metastore.spark.columns import text
from metastore.spark.records import Records
from metastore.spark.views import Decoded, Scope, Selection, View
from txn.audit.views.letters import Flags

Array = Any
"""An array of Arrow."""

TIME = pyarrow.timestamp("us", tz="UTC")
TEXT = pyarrow.string()
NUMBER = pyarrow.int64()
FLAG = pyarrow.bool_()
POSITION_PATTERN = r"^(?P<ledger>0|[1-9][0-9]{0,17}):(?P<entry>0|[1-9][0-9]{0,17})$"
"""Positions whose numbers fit for certain."""
JSON_BLOCK_BYTES = 64 << 20
"""More than a batch of records can be."""

ODD = (("odd_key", TEXT), ("odd", TEXT))
"""Of a record that cannot be read: its key, and why. Null in all others, as everything else is in that one."""

OF_RECORD = {"modifications": NUMBER}
"""Columns that any record has, whatever it says."""

_DDL = {TIME: "TIMESTAMP", TEXT: "STRING", NUMBER: "BIGINT", FLAG: "BOOLEAN"}

Cells = Mapping[str, object]
"""One row, by the names of its columns; a time is in milliseconds."""


@dataclass(frozen=True, slots=True)
class Swift:
    """Columns of a whole batch."""

    columns: Mapping[str, Callable[[], Array]]
    """Made only when asked for."""
    is_sound: Flags
    """Which records are beyond doubt what they should be. The others are looked at one by one."""


@dataclass(frozen=True, slots=True)
class Form:
    """The columns of one kind of records, and how they are made."""

    columns: pyarrow.Schema
    row: Callable[[str, bytes, int, int], Cells | None]
    """A record (its key, value, and when it was created and modified) as a row; None if it is of another kind."""
    swift: Sequence[Callable[[Records], Swift | None]] = ()
    """Ways to do all records at once, the swiftest first; the next one is for those that were not sound. None if it
    cannot be done with this batch."""


def form_of(
    columns: Sequence[tuple[str, pyarrow.DataType]],
    row: Callable[[str, bytes, int, int], Cells | None],
    *swift: Callable[[Records], Swift | None],
) -> Form:
    """A form whose columns, and those of what cannot be read, are these."""
    return Form(pyarrow.schema([*columns, *ODD]), row, swift)


def view_of(form: Form, scopes: Callable[[Selection], Sequence[Scope]]) -> View:
    """The view of records of a form."""
    return View(", ".join(f"{each.name} {ddl(each.type)}" for each in form.columns), scopes, partial(decode, form))


def odd(key: str, reason: str) -> Cells:
    """The row of a record that cannot be read."""
    return {"odd_key": key, "odd": reason}


def decode(form: Form, records: Records, names: Sequence[str], selection: Selection) -> Decoded:
    """The columns asked for of a batch."""
    wanted = {*names, *(name for name, asked in _asked(selection) if asked is not None and name in form.columns.names)}
    columns, rows = _columns(form, records, wanted, form.swift)
    for name in OF_RECORD.keys() & wanted:
        columns[name] = pyarrow.array(getattr(records, name)[rows], NUMBER)
    return _selected(columns, rows, names, selection, len(records))


def _columns(
    form: Form, records: Records, wanted: set[str], ways: Sequence[Callable[[Records], Swift | None]]
) -> tuple[dict[str, Array], Array]:
    """The columns, and which record each row is of."""
    if not ways or not len(records):
        return _one_by_one(form, records, wanted)
    swift = ways[0](records)
    if swift is None:
        return _columns(form, records, wanted, ways[1:])
    sound = numpy.flatnonzero(swift.is_sound)
    if not len(sound):
        return _columns(form, records, wanted, ways[1:])
    columns = {name: _cast(swift.columns[name](), form, name) for name in wanted if name in swift.columns}
    columns |= {name: pyarrow.nulls(len(records), _type(form, name)) for name in wanted if name not in columns}
    if len(sound) == len(records):
        return columns, sound
    others = numpy.flatnonzero(~swift.is_sound)
    columns = {name: array.take(pyarrow.array(sound)) for name, array in columns.items()}
    found, rows = _columns(form, records.some(others), wanted, ways[1:])
    return _joined(columns, sound, found, others[rows])


def _one_by_one(form: Form, records: Records, wanted: set[str]) -> tuple[dict[str, Array], Array]:
    found: list[Cells] = []
    rows: list[int] = []
    each = zip(
        records.keys.to_pylist(),
        records.values.to_pylist(),
        records.created_ms.tolist(),
        records.modified_ms.tolist(),
        strict=True,
    )
    for place, (key, value, created_ms, modified_ms) in enumerate(each):
        cells = form.row(key.decode("utf-8", "backslashreplace"), value, created_ms, modified_ms)
        if cells is not None:
            found.append(cells)
            rows.append(place)
    return {name: _column(form, name, found) for name in wanted}, numpy.array(rows, numpy.int64)


def _column(form: Form, name: str, rows: Sequence[Cells]) -> Array:
    kind = _type(form, name)
    if kind == TIME:
        return times(pyarrow.array([row.get(name) for row in rows], NUMBER))
    return pyarrow.array([row.get(name) for row in rows], kind)


def _joined(
    left: dict[str, Array], rows: Array, right: dict[str, Array], others: Array
) -> tuple[dict[str, Array], Array]:
    """Both in the order of the records."""
    every = numpy.concatenate([rows, others])
    order = pyarrow.array(numpy.argsort(every, kind="stable"))
    return {name: pyarrow.concat_arrays([left[name], right[name]]).take(order) for name in left}, numpy.sort(every)


def _asked(selection: Selection) -> tuple[tuple[str, str | None], ...]:
    return ("txn_id", selection.transaction), ("segment", selection.segment)


def _selected(
    columns: dict[str, Array], rows: Array, names: Sequence[str], selection: Selection, records: int
) -> Decoded:
    """Leaves out what the selection does not want; an index range or a key range may have led to more."""
    for name, asked in _asked(selection):
        if asked is not None and name in columns:
            is_wanted = pc.fill_null(pc.equal(columns[name], asked), False)
            columns = {each: array.filter(is_wanted) for each, array in columns.items()}
            rows = rows[is_wanted.to_numpy(zero_copy_only=False)]
    return Decoded({name: columns[name] for name in names}, None if len(rows) == records else rows)


def _type(form: Form, name: str) -> pyarrow.DataType:
    return form.columns.field(name).type


def _cast(array: Array, form: Form, name: str) -> Array:
    array = array.combine_chunks() if isinstance(array, pyarrow.ChunkedArray) else array
    return array if array.type == _type(form, name) else array.cast(_type(form, name))


def ddl(kind: pyarrow.DataType) -> str:
    """A type as Spark names it."""
    if pyarrow.types.is_list(kind):
        return f"ARRAY<{ddl(kind.value_type)}>"
    if pyarrow.types.is_struct(kind):
        return f"STRUCT<{', '.join(f'{each.name}: {ddl(each.type)}' for each in kind)}>"
    return _DDL[kind]


# -- what swift forms are made of


def times(milliseconds: Array) -> Array:
    """Milliseconds since the epoch as Spark wants times."""
    return pc.multiply(milliseconds, 1000).cast(TIME)


def key_parts(records: Records, pattern: str) -> Array:
    """The named parts of keys; null where a key is another one."""
    return pc.extract_regex(text(records.keys), pattern)


def json_fields(values: Array, fields: pyarrow.Schema) -> pyarrow.Table | None:
    """The fields of JSON objects; None unless all are objects of one line with fields of these types."""
    count = len(values)
    joined = pc.binary_join(pyarrow.ListArray.from_arrays([0, count], values), b"\n")[0].as_buffer()
    # None is blank, so as many objects as values means one object in each.
    breaks = numpy.count_nonzero(numpy.frombuffer(joined, numpy.uint8) == ord("\n"))
    if breaks != count - 1 or not pc.all(pc.starts_with(values, "{")).as_py():
        return None
    try:
        found = arrow_json.read_json(
            pyarrow.BufferReader(joined),
            read_options=arrow_json.ReadOptions(
                use_threads=False, block_size=max(1, min(len(joined) + 1, JSON_BLOCK_BYTES))
            ),
            parse_options=arrow_json.ParseOptions(explicit_schema=fields, unexpected_field_behavior="ignore"),
        )
    except pyarrow.ArrowException:
        return None
    return found.combine_chunks() if found.num_rows == count else None


def field(table: pyarrow.Table, name: str) -> Array:
    """A field of all objects."""
    column = table[name]
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def are_all_true(*conditions: Array) -> Flags:
    """Where all hold, for numpy."""
    found: Flags = all_true(*conditions).to_numpy(zero_copy_only=False)
    return found


def all_true(*conditions: Array) -> Array:
    """Where all hold; a condition that is unknown does not."""
    found = conditions[0]
    for condition in conditions[1:]:
        found = pc.and_kleene(found, condition)
    return pc.fill_null(found, False)


def is_one_of(array: Array, values: Sequence[object]) -> Array:
    """Whether each is one of these."""
    return pc.is_in(array, value_set=pyarrow.array(values, array.type))


def is_between(array: Array, least: int, most: int) -> Array:
    """Whether each number is from one to another; unknown where it is not there."""
    return pc.and_kleene(pc.greater_equal(array, least), pc.less_equal(array, most))


def is_absent_or(array: Array, condition: Array) -> Array:
    """Whether each is null, or a condition holds of it."""
    return pc.or_kleene(pc.is_null(array), condition)


def mapped(array: Array, change: Callable[[str], str]) -> Array:
    """Each text changed; of many equal ones only one is."""
    encoded = array.dictionary_encode()
    changed = [change(each) for each in encoded.dictionary.to_pylist()]
    return pyarrow.array(changed, TEXT).take(encoded.indices)


def from_ms(array: Array) -> Array:
    """Milliseconds since the epoch, in numpy, as times."""
    return times(pyarrow.array(array, NUMBER))
