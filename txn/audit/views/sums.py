"""Operations and entries of their indexes, added up where they are read, so that few rows reach Spark.

Operations lie beside those of their transaction, and index entries beside those of their segment: nearly all that is to
be added up is in one batch, and what a batch cuts apart Spark puts together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy
import pyarrow

from metastore.spark.columns import text
from metastore.spark.records import Records
from metastore.spark.views import Decoded, Scope, Selection, View
from txn.audit.views.form import NUMBER, ODD, TEXT, TIME, Array, ddl
from txn.audit.views.hashing import Hashes, hashes, mixed
from txn.audit.views.operations import ops
from txn.model import paths

_KEYS = {"txn_id": TEXT, "segment": TEXT, "subscription": TEXT, "ledger": NUMBER, **dict(ODD)}
_AGGREGATES: Mapping[str, tuple[str, str, pyarrow.DataType]] = {
    "operations": ("sequence", "count", NUMBER),
    "cumulative": ("cumulative", "sum", NUMBER),
    "first_sequence": ("sequence", "min", NUMBER),
    "last_sequence": ("sequence", "max", NUMBER),
    "first_entry": ("first_entry", "min", NUMBER),
    "last_entry": ("last_entry", "max", NUMBER),
    "first_written": ("written", "min", TIME),
    "last_written": ("written", "max", TIME),
    "last_term": ("term", "max", NUMBER),
}
"""Which column each is made of, how, and what it is."""
_READ = (*_KEYS, *dict.fromkeys(column for column, _, _ in _AGGREGATES.values()), "batch")
_SUMMED = {
    **_KEYS,
    **{name: kind for name, (_, _, kind) in _AGGREGATES.items()},
    "keys_hash": NUMBER,
    "places": pyarrow.list_(NUMBER),
}
_ENTRIES = {"index": TEXT, "secondary_key": TEXT, "entries": NUMBER, "keys_hash": NUMBER}


def _operations_summed(records: Records, names: Sequence[str], selection: Selection) -> Decoded:
    decoded = ops.decode(records, _READ, selection)
    rows = numpy.arange(len(records)) if decoded.rows is None else decoded.rows
    if not len(rows):
        return Decoded({name: pyarrow.array([], _SUMMED[name]) for name in names}, rows)
    columns = dict(decoded.columns)
    columns["place"] = _places(columns)
    columns["hash"] = _signed(hashes(records.keys.take(pyarrow.array(rows))))
    columns["row"] = pyarrow.array(rows, NUMBER)
    del columns["batch"]
    aggregates = [(column, function) for column, function, _ in _AGGREGATES.values()]
    grouped = pyarrow.table(columns).group_by(list(_KEYS), use_threads=False)
    sums = grouped.aggregate([*aggregates, ("row", "min"), ("hash", "list"), ("place", "list")])
    sums = sums.take(numpy.argsort(sums["row_min"]))  # in the order of the records
    found = {name: _whole(sums[name]) for name in _KEYS}
    found |= {name: _whole(sums[f"{column}_{function}"]) for name, (column, function, _) in _AGGREGATES.items()}
    found["keys_hash"] = _exclusive_or(_whole(sums["hash_list"]))
    found["places"] = _without_nulls(_whole(sums["place_list"]))
    return Decoded({name: found[name].cast(_SUMMED[name]) for name in names}, sums["row_min"].to_numpy())


def _places(columns: Mapping[str, Array]) -> Array:
    """Of acknowledgements of whole entries, hashes of what each acknowledges; null for all else."""
    is_ack = columns["subscription"].is_valid().to_numpy(zero_copy_only=False)
    is_cumulative = columns["cumulative"].fill_null(True).to_numpy(zero_copy_only=False)
    is_whole = columns["batch"].is_null().to_numpy(zero_copy_only=False)
    is_place = is_ack & ~is_cumulative & is_whole
    found = numpy.zeros(len(is_place), numpy.uint64)
    chosen = pyarrow.array(numpy.flatnonzero(is_place))
    if len(chosen):
        mixture = hashes(columns["segment"].take(chosen))
        for more in (hashes(columns["subscription"].take(chosen)), *(
            columns[name].take(chosen).to_numpy().view(numpy.uint64) for name in ("ledger", "last_entry")
        )):
            mixture = mixed(mixture ^ mixed(more))
        found[is_place] = mixture
    return pyarrow.array(_signed(found), NUMBER, mask=~is_place)


def _entries_summed(records: Records, names: Sequence[str], _: Selection) -> Decoded:
    table = pyarrow.table(
        {
            "secondary_key": records.secondaries,
            "hash": _signed(hashes(records.keys)),
            "row": numpy.arange(len(records)),
        }
    )
    sums = table.group_by("secondary_key", use_threads=False).aggregate([("hash", "list"), ("row", "min")])
    sums = sums.take(numpy.argsort(sums["row_min"]))
    lists = _whole(sums["hash_list"])
    index = None if records.index is None else records.index.decode()
    found = {
        "index": pyarrow.array([index] * len(sums), TEXT),
        "secondary_key": text(_whole(sums["secondary_key"])),
        "entries": lists.value_lengths().cast(NUMBER),
        "keys_hash": _exclusive_or(lists),
    }
    return Decoded({name: found[name] for name in names}, sums["row_min"].to_numpy())


def _signed(found: Hashes) -> Hashes:
    return found.view(numpy.int64)


def _whole(column: Array) -> Array:
    """A column of a table in one piece."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _exclusive_or(lists: Array) -> Array:
    """All numbers of each list, of which none is empty, in one."""
    starts = lists.offsets.to_numpy()[:-1]
    return pyarrow.array(numpy.bitwise_xor.reduceat(lists.values.to_numpy(), starts) if len(lists) else starts, NUMBER)


def _without_nulls(lists: Array) -> Array:
    """Each list without its nulls."""
    is_valid = lists.values.is_valid().to_numpy(zero_copy_only=False)
    before = numpy.concatenate([[0], numpy.cumsum(is_valid)])
    offsets = pyarrow.array(before[lists.offsets.to_numpy()], pyarrow.int32())
    return pyarrow.ListArray.from_arrays(offsets, lists.values.drop_null())


def _schema(columns: Mapping[str, pyarrow.DataType]) -> str:
    return ", ".join(f"{name} {ddl(kind)}" for name, kind in columns.items())


def _entry_scopes(_: Selection) -> list[Scope]:
    return [Scope(index=paths.WRITES_BY_SEGMENT), Scope(index=paths.ACKS_BY_SUBSCRIPTION)]


operation_sums = View(_schema(_SUMMED), ops.scopes, _operations_summed)
"""What a batch has of a participant's operations."""
entry_sums = View(_schema(_ENTRIES), _entry_scopes, _entries_summed, is_of_keys=True)
"""What a batch has of the entries by which operations are found."""
