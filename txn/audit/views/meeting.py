"""Where participants meet the header of their transaction, and what a transaction comes to altogether."""

from __future__ import annotations

from collections.abc import Iterator

import numpy
import pyarrow
import pyarrow.compute as pc

from metastore.spark.records import Numbers
from metastore.spark.views import AreHome
from txn.audit.views.form import FLAG, NUMBER, TEXT, TIME, Array, field
from txn.audit.views.fragments import FRAGMENT

HEADER = pyarrow.schema(
    [
        *(("txn_id", TEXT), ("state", TEXT), ("begun", TIME), ("deadline", TIME), ("finalized", TIME)),
        *(("owner", TEXT), ("modifications", NUMBER), ("entry_hash", NUMBER)),
    ]
)
WHOLE = pyarrow.struct(
    [
        *(("operations", NUMBER), ("first_sequence", NUMBER), ("last_sequence", NUMBER), ("last_written", TIME)),
        *(("participants", NUMBER), ("unapplied_participants", NUMBER)),
        *(("applied_participants", NUMBER), ("last_applied", TIME)),
    ]
)
"""What there is of a transaction altogether."""
MET = pyarrow.schema(
    [*FRAGMENT, *(each for each in HEADER if each.name != "txn_id"), ("is_loose", FLAG), ("whole", WHOLE)]
)

_LEAST, _GREATEST = numpy.iinfo(numpy.int64).min, numpy.iinfo(numpy.int64).max


def met(headers: pyarrow.Table, parts: pyarrow.Table, are_home: AreHome) -> Iterator[pyarrow.Table]:
    """Rows of these headers and these participants, of which those of a transaction lie beside each other."""
    headers = headers.combine_chunks()
    ids = field(headers, "txn_id")
    is_sure = are_home(ids)
    counts = ids.value_counts()
    if len(counts) < len(ids):
        several = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
        is_sure &= ~pc.is_in(ids, value_set=several).to_numpy(zero_copy_only=False)
    sure, unsure = headers, headers.slice(0, 0)
    if not is_sure.all():
        sure, unsure = headers.filter(pyarrow.array(is_sure)), headers.filter(pyarrow.array(~is_sure))
        ids = field(sure, "txn_id")
    places = pc.index_in(field(parts, "txn_id"), value_set=ids)
    has_header = places.is_valid()
    is_lone = numpy.ones(len(ids), bool)
    is_lone[places.drop_null().to_numpy()] = False
    yield unmet(parts.filter(pc.invert(has_header)))
    yield _of_headers_alone(unsure, is_loose=True)
    yield _of_headers_alone(sure.filter(pyarrow.array(is_lone)), is_loose=False)
    yield _beside_headers(parts.filter(has_header), sure, places.drop_null())


def unmet(parts: pyarrow.Table) -> pyarrow.Table:
    """Rows of participants whose header is not here."""
    return _with(parts, is_loose=pyarrow.repeat(pyarrow.scalar(True), len(parts)))


def _of_headers_alone(headers: pyarrow.Table, *, is_loose: bool) -> pyarrow.Table:
    count = len(headers)
    zeros = pyarrow.array(numpy.zeros(count, numpy.int64))
    none = [zeros if each.name in _COUNTS else pyarrow.nulls(count, each.type) for each in WHOLE]
    whole = None if is_loose else pyarrow.StructArray.from_arrays(none, fields=list(WHOLE))
    flags = pyarrow.repeat(pyarrow.scalar(is_loose), count)
    return _with(headers, is_loose=flags, whole=whole, operations=zeros)


_COUNTS = frozenset({"operations", "participants", "unapplied_participants", "applied_participants"})


def _beside_headers(parts: pyarrow.Table, headers: pyarrow.Table, places: Array) -> pyarrow.Table:
    count = len(parts)
    beside = {name: headers[name].take(places) for name in HEADER.names if name != "txn_id"}
    flags = pyarrow.repeat(pyarrow.scalar(False), count)
    return _with(parts, **beside, is_loose=flags, whole=_wholes(parts.combine_chunks(), places.to_numpy()))


def _wholes(parts: pyarrow.Table, places: Numbers) -> Array:
    """What each transaction comes to, at its first row; null at the others."""
    count = len(parts)
    if not count:
        return pyarrow.nulls(0, WHOLE)
    is_first = numpy.concatenate([[True], places[1:] != places[:-1]])
    starts = numpy.flatnonzero(is_first)
    operations, applied = _numbers(parts, "operations", 0), _numbers(parts, "applied", _LEAST)
    found = {
        "operations": numpy.add.reduceat(operations, starts),
        "first_sequence": numpy.minimum.reduceat(_numbers(parts, "first_sequence", _GREATEST), starts),
        "last_sequence": numpy.maximum.reduceat(_numbers(parts, "last_sequence", _LEAST), starts),
        "last_written": numpy.maximum.reduceat(_numbers(parts, "last_written", _LEAST), starts),
        "participants": numpy.diff(numpy.concatenate([starts, [count]])),
        "unapplied_participants": numpy.add.reduceat((operations > 0).astype(numpy.int64), starts),
        "applied_participants": numpy.add.reduceat((applied != _LEAST).astype(numpy.int64), starts),
        "last_applied": numpy.maximum.reduceat(applied, starts),
    }
    columns = []
    for each in WHOLE:
        numbers = found[each.name]
        is_null = (numbers == _LEAST) | (numbers == _GREATEST)
        columns.append(pyarrow.array(numbers, NUMBER, mask=is_null).cast(each.type))
    wholes = pyarrow.StructArray.from_arrays(columns, fields=list(WHOLE))
    return wholes.take(pyarrow.array(numpy.cumsum(is_first) - 1, mask=~is_first))


def _numbers(parts: pyarrow.Table, name: str, null: int) -> Numbers:
    return field(parts, name).cast(NUMBER).fill_null(null).to_numpy()


def _with(rows: pyarrow.Table, **more: Array) -> pyarrow.Table:
    """Rows of the view; what is not known of these is null."""
    columns = {name: rows[name] for name in rows.column_names}
    columns |= {name: each for name, each in more.items() if each is not None}
    arrays = [columns.get(each.name, pyarrow.nulls(len(rows), each.type)) for each in MET]
    return pyarrow.table(arrays, schema=MET)
