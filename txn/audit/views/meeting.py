"""Where participants meet the header of their transaction, and what a transaction comes to altogether."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy
import pyarrow
import pyarrow.compute as pc

from metastore.spark.records import Numbers, are_new
from metastore.spark.views import Surroundings
from txn.audit.views.form import FLAG, NUMBER, TEXT, TIME, Array, field
from txn.audit.views.fragments import FRAGMENT
from txn.audit.views.letters import Flags

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
    [
        *FRAGMENT,
        *(each for each in HEADER if each.name != "txn_id"),
        *(("is_loose", FLAG), ("is_astray", FLAG), ("whole", WHOLE)),
    ]
)
"""`is_loose` are rows of transactions that may have more elsewhere. If one is `is_astray` too, another row of its
transaction may say that it is all of it; the others are loose everywhere."""

_LEAST, _GREATEST = numpy.iinfo(numpy.int64).min, numpy.iinfo(numpy.int64).max


class Meeting:
    """Where headers and participants of a task meet."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._own_prefixes = pyarrow.array(prefixes(surroundings.bounds), TEXT)

    def met(self, headers: pyarrow.Table, parts: pyarrow.Table) -> Iterator[pyarrow.Table]:
        """Rows of these headers and these participants, of which those of a transaction lie beside each other."""
        sure = headers.combine_chunks()
        ids = field(sure, "txn_id")
        is_home = self._surroundings.are_home(ids)
        is_sure = is_home & ~self._is_at_a_bound(ids)
        if not is_sure.all():
            yield _of_headers_alone(headers.filter(pyarrow.array(~is_sure)), is_home[~is_sure])
            sure = headers.filter(pyarrow.array(is_sure)).combine_chunks()
            ids = field(sure, "txn_id")
        places = pc.index_in(field(parts, "txn_id"), value_set=ids)
        is_lone = numpy.ones(len(ids), bool)
        is_lone[places.drop_null().to_numpy()] = False
        if is_lone.any():
            yield _of_headers_alone(sure.filter(pyarrow.array(is_lone)))
        if places.null_count:
            yield from self._unmet(parts.filter(places.is_null()))
            parts, places = parts.filter(places.is_valid()), places.drop_null()
        yield _beside_headers(parts, sure, places)

    def _unmet(self, parts: pyarrow.Table) -> Iterator[pyarrow.Table]:
        """Participants without a header: where there is but one shard it is nowhere, unless a bound lies between."""
        ids = field(parts, "txn_id")
        is_home, is_sure = self._surroundings.are_home(ids), ~self._is_at_a_bound(ids)
        if self._surroundings.is_divided:
            is_sure[:] = False
        yield loose(parts.filter(pyarrow.array(~is_sure)), ~is_home[~is_sure])
        yield _all_of_it(parts.filter(pyarrow.array(is_sure)))

    def _is_at_a_bound(self, ids: Array) -> Flags:
        """Whether some records may lie behind a bound."""
        found = pc.is_in(ids, value_set=self._own_prefixes).to_numpy(zero_copy_only=False)
        for bound in self._surroundings.bounds:
            goes_on = pc.and_(pc.starts_with(ids, bound), pc.not_equal(ids, bound))
            found |= goes_on.to_numpy(zero_copy_only=False)
        return found


def prefixes(names: Iterable[str]) -> list[str]:
    """Everything that one of these begins with, but not the whole."""
    return sorted({name[:length] for name in names for length in range(1, len(name))})


def loose(rows: pyarrow.Table, is_astray: Flags) -> pyarrow.Table:
    """Rows of what may have more elsewhere."""
    flags = pyarrow.repeat(pyarrow.scalar(True), len(rows))
    return _with(rows, is_loose=flags, is_astray=pyarrow.array(is_astray))


def _all_of_it(parts: pyarrow.Table) -> pyarrow.Table:
    """Rows of participants of which there is certainly no header."""
    ids = field(parts, "txn_id")
    flags = pyarrow.repeat(pyarrow.scalar(False), len(ids))
    return _with(parts, is_loose=flags, whole=_wholes(parts.combine_chunks(), numpy.cumsum(are_new(ids))))


def _of_headers_alone(headers: pyarrow.Table, are_home: Flags | None = None) -> pyarrow.Table:
    """Rows of headers without participants; if it is said where they belong, some may be elsewhere."""
    count = len(headers)
    zeros = pyarrow.array(numpy.zeros(count, numpy.int64))
    rows = headers.append_column("operations", zeros)
    if are_home is not None:
        return loose(rows, ~are_home)
    none = [zeros if each.name in _COUNTS else pyarrow.nulls(count, each.type) for each in WHOLE]
    flags = pyarrow.repeat(pyarrow.scalar(False), count)
    return _with(rows, is_loose=flags, whole=pyarrow.StructArray.from_arrays(none, fields=list(WHOLE)))


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
    columns = {name: rows[name] for name in rows.column_names} | more
    arrays = [columns.get(each.name, pyarrow.nulls(len(rows), each.type)) for each in MET]
    return pyarrow.table(arrays, schema=MET)
