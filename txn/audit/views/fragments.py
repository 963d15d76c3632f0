"""What operations, and records of what was applied, add up to by participant: in numpy, of thousands at a time.

A fragment is what some records say of one participant. Of fragments come fragments: whatever is cut apart by a batch is
added up later, by the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy
import pyarrow
import pyarrow.compute as pc

from metastore.spark.records import Numbers, Records, are_new
from metastore.spark.views import Selection
from txn.audit.views.form import NUMBER, ODD, TEXT, TIME, Array, field, from_ms
from txn.audit.views.hashing import hashes, mixed
from txn.audit.views.laid import Laid
from txn.audit.views.operations import ops
from txn.audit.views.outcomes import applied

SPAN = pyarrow.struct([("ledger", NUMBER), ("first_entry", NUMBER), ("last_entry", NUMBER), ("first_written", TIME)])
FRAGMENT = pyarrow.schema(
    [
        *(("txn_id", TEXT), ("segment", TEXT), ("subscription", TEXT)),
        *(("operations", NUMBER), ("cumulative", NUMBER), ("first_sequence", NUMBER), ("last_sequence", NUMBER)),
        *(("first_written", TIME), ("last_written", TIME), ("last_ledger", NUMBER), ("last_term", NUMBER)),
        *(("keys_hash", NUMBER), ("applied", TIME)),
        ("places", pyarrow.list_(NUMBER)),
        ("spans", pyarrow.list_(SPAN)),
    ]
)
"""Times and numbers are null where no record says them. `places` are hashes of the entries that are acknowledged one by
one; `spans` says between which entries of each ledger acknowledgements are."""

_GREATEST, _LEAST = numpy.iinfo(numpy.int64).max, numpy.iinfo(numpy.int64).min
_SUMS: Mapping[str, tuple[Callable[[Numbers, Numbers], Numbers], int]] = {
    "operations": (numpy.add.reduceat, 0),
    "cumulative": (numpy.add.reduceat, 0),
    "first_sequence": (numpy.minimum.reduceat, _GREATEST),
    "last_sequence": (numpy.maximum.reduceat, _LEAST),
    "first_written": (numpy.minimum.reduceat, _GREATEST),
    "last_written": (numpy.maximum.reduceat, _LEAST),
    "last_ledger": (numpy.maximum.reduceat, _LEAST),
    "last_term": (numpy.maximum.reduceat, _LEAST),
    "keys_hash": (numpy.bitwise_xor.reduceat, 0),
    "applied": (numpy.maximum.reduceat, _LEAST),
}
"""How each column is added up, and what stands for null meanwhile."""
_SELECTION = Selection("")
_READ = (
    *("txn_id", "segment", "subscription"),
    *("ledger", "first_entry", "last_entry", "cumulative", "batch", "written"),
)


def of_operations(records: Records) -> pyarrow.Table:
    """A fragment of each operation, or of several beside each other, and rows of what cannot be read."""
    laid = Laid(records)
    return _of_runs(records, laid) if laid.is_sound.all() else _of_each(records)


def _of_runs(records: Records, laid: Laid) -> pyarrow.Table:
    """Those of one participant that follow each other, added up before anything else is made of them."""
    said, runs, sequence = laid.heads, laid.runs, laid.sequence
    columns = {
        "operations": numpy.diff(numpy.append(runs, len(records))),
        "cumulative": numpy.add.reduceat(said.is_cumulative.astype(numpy.int64), runs),
        "first_sequence": numpy.minimum.reduceat(sequence, runs),
        "last_sequence": numpy.maximum.reduceat(sequence, runs),
        "last_ledger": numpy.maximum.reduceat(said.ledger, runs),
        "last_term": numpy.maximum.reduceat(said.term, runs),
        "keys_hash": numpy.bitwise_xor.reduceat(hashes(records.keys).view(numpy.int64), runs),
    }
    found = {
        "txn_id": laid.txn_ids,
        "segment": laid.segments,
        "subscription": laid.subscriptions,
        **{name: pyarrow.array(numbers) for name, numbers in columns.items()},
        "first_written": from_ms(numpy.minimum.reduceat(said.written_ms, runs)),
        "last_written": from_ms(numpy.maximum.reduceat(said.written_ms, runs)),
    }
    if said.is_ack.any():
        each = _acknowledged({name: laid.columns[name]() for name in _READ})
        found["places"] = _places_together(each["places"], laid.run_of, len(runs))
        found["spans"] = _spans_together(each["spans"], laid.run_of, len(runs))
    return _table(found, len(runs))


def _of_each(records: Records) -> pyarrow.Table:
    decoded = ops.decode(records, [*_READ, "sequence", "term", *(name for name, _ in ODD)], _SELECTION)
    columns = decoded.columns
    keys = records.keys if decoded.rows is None else records.keys.take(pyarrow.array(decoded.rows))
    count = len(keys)
    found = {
        **{name: columns[name] for name in ("txn_id", "segment", "subscription", "odd_key", "odd")},
        "operations": pyarrow.array(numpy.ones(count, numpy.int64)),
        "cumulative": columns["cumulative"].cast(pyarrow.int8()).cast(NUMBER),
        "first_sequence": columns["sequence"],
        "last_sequence": columns["sequence"],
        "first_written": columns["written"],
        "last_written": columns["written"],
        "last_ledger": columns["ledger"],
        "last_term": columns["term"],
        "keys_hash": pyarrow.array(hashes(keys).view(numpy.int64)),
        **_acknowledged(columns),
    }
    return _table(found, count)


def _table(found: Mapping[str, Array], count: int) -> pyarrow.Table:
    """Fragments and what cannot be read, with nulls where nothing is known."""
    schema = pyarrow.schema([*FRAGMENT, *ODD])
    return pyarrow.table([found.get(each.name, pyarrow.nulls(count, each.type)) for each in schema], schema=schema)


def _acknowledged(columns: Mapping[str, Array]) -> dict[str, Array]:
    """What each operation acknowledges."""
    is_ack = columns["subscription"].is_valid().to_numpy(zero_copy_only=False)
    return {"places": _listed(places_of(columns)), "spans": _spans(columns, is_ack)}


def places_of(columns: Mapping[str, Array]) -> Array:
    """Of acknowledgements of whole entries, hashes of what each acknowledges; null for all else."""
    is_ack = columns["subscription"].is_valid().to_numpy(zero_copy_only=False)
    is_cumulative = columns["cumulative"].fill_null(True).to_numpy(zero_copy_only=False)
    is_whole = columns["batch"].is_null().to_numpy(zero_copy_only=False)
    is_place = is_ack & ~is_cumulative & is_whole
    found = numpy.zeros(len(is_place), numpy.uint64)
    chosen = pyarrow.array(numpy.flatnonzero(is_place))
    if len(chosen):
        mixture = hashes(columns["segment"].take(chosen))
        for more in (
            hashes(columns["subscription"].take(chosen)),
            *(columns[name].take(chosen).to_numpy().view(numpy.uint64) for name in ("ledger", "last_entry")),
        ):
            mixture = mixed(mixture ^ mixed(more))
        found[is_place] = mixture
    return pyarrow.array(found.view(numpy.int64), NUMBER, mask=~is_place)


def _spans(columns: Mapping[str, Array], is_ack: Numbers) -> Array:
    chosen = pyarrow.array(numpy.flatnonzero(is_ack))
    names = ("ledger", "first_entry", "last_entry", "written")
    values = pyarrow.StructArray.from_arrays([columns[name].take(chosen) for name in names], fields=list(SPAN))
    return pyarrow.ListArray.from_arrays(_offsets(is_ack), values, mask=pyarrow.array(~is_ack))


def _listed(values: Array) -> Array:
    """A list of each value that is not null."""
    is_there = values.is_valid().to_numpy(zero_copy_only=False)
    return pyarrow.ListArray.from_arrays(_offsets(is_there), values.drop_null(), mask=pyarrow.array(~is_there))


def _offsets(counts: Numbers) -> Array:
    return pyarrow.array(numpy.concatenate([[0], numpy.cumsum(counts)]), pyarrow.int32())


def of_applied(records: Records) -> pyarrow.Table:
    """A fragment of each participant that has carried an outcome out, and rows of what cannot be read."""
    names = ("txn_id", "segment", "subscription", "applied", *(name for name, _ in ODD))
    columns = applied.decode(records, names, _SELECTION).columns
    count = len(columns["txn_id"])
    none = pyarrow.array(numpy.zeros(count, numpy.int64))
    return _table({**dict.fromkeys(("operations", "cumulative", "keys_hash"), none), **columns}, count)


def added_up(fragments: pyarrow.Table) -> pyarrow.Table:
    """One fragment for each participant, those of a transaction beside each other."""
    fragments = fragments.combine_chunks()
    if len(fragments) < 2:
        return fragments
    groups = _groups(fragments)
    order = numpy.argsort(groups, kind="stable")
    ordered = groups[order]
    starts = numpy.flatnonzero(numpy.concatenate([[True], ordered[1:] != ordered[:-1]]))
    if len(starts) == len(fragments):
        return fragments.take(pyarrow.array(order))
    first = pyarrow.array(order[starts])
    found = {name: field(fragments, name).take(first) for name in ("txn_id", "segment", "subscription")}
    for name, (function, null) in _SUMS.items():
        column = field(fragments, name)
        numbers = column.cast(NUMBER).fill_null(null).to_numpy()
        sums = function(numbers[order], starts)
        is_null = sums == null if null else None
        found[name] = pyarrow.array(sums, NUMBER, mask=is_null).cast(column.type)
    members = numpy.empty(len(groups), numpy.int64)
    members[order] = numpy.cumsum(numpy.concatenate([[0], (ordered[1:] != ordered[:-1]).astype(numpy.int64)]))
    found["places"] = _places_together(field(fragments, "places"), members, len(starts))
    found["spans"] = _spans_together(field(fragments, "spans"), members, len(starts))
    return pyarrow.table(found)


def _groups(fragments: pyarrow.Table) -> Numbers:
    """A number for each participant, the same for all its fragments; those of a transaction follow each other."""
    ids = field(fragments, "txn_id")
    # Those of one transaction lie beside each other: one look is enough for them.
    is_new = are_new(ids)
    heads = ids.take(pyarrow.array(numpy.flatnonzero(is_new))).dictionary_encode()
    found = heads.indices.to_numpy().astype(numpy.int64)[numpy.cumsum(is_new) - 1]
    return told_apart(fragments, ("segment", "subscription"), found)


def told_apart(rows: pyarrow.Table, names: Sequence[str], groups: Numbers) -> Numbers:
    """Groups of rows, each parted by what these columns say: a number for each, the same for all of its rows."""
    for name in names:
        encoded = field(rows, name).dictionary_encode()
        codes = encoded.indices.cast(NUMBER).fill_null(-1).to_numpy() + 1
        groups = groups * (len(encoded.dictionary) + 1) + codes
    return groups


def _places_together(lists: Array, members: Numbers, count: int) -> Array:
    values = lists.flatten()
    if not len(values):
        return pyarrow.nulls(count, lists.type)
    parents = members[pc.list_parent_indices(lists).to_numpy()]
    order = numpy.argsort(parents, kind="stable")
    return _lists(values.take(pyarrow.array(order)), numpy.bincount(parents, minlength=count))


def _spans_together(lists: Array, members: Numbers, count: int) -> Array:
    """Of each ledger one span."""
    values = lists.flatten()
    if not len(values):
        return pyarrow.nulls(count, lists.type)
    parents = members[pc.list_parent_indices(lists).to_numpy()]
    ledgers, first, last, written = (
        values.field(name).cast(NUMBER).to_numpy() for name in ("ledger", "first_entry", "last_entry", "first_written")
    )
    order = numpy.lexsort((ledgers, parents))
    parents, ledgers = parents[order], ledgers[order]
    is_new = numpy.concatenate([[True], (parents[1:] != parents[:-1]) | (ledgers[1:] != ledgers[:-1])])
    starts = numpy.flatnonzero(is_new)
    columns = [
        ledgers[starts],
        numpy.minimum.reduceat(first[order], starts),
        numpy.maximum.reduceat(last[order], starts),
        numpy.minimum.reduceat(written[order], starts),
    ]
    arrays = [pyarrow.array(column, NUMBER).cast(each.type) for column, each in zip(columns, SPAN, strict=True)]
    spans = pyarrow.StructArray.from_arrays(arrays, fields=list(SPAN))
    return _lists(spans, numpy.bincount(parents[starts], minlength=count))


def _lists(values: Array, counts: Numbers) -> Array:
    """So many values for each; null for none."""
    return pyarrow.ListArray.from_arrays(_offsets(counts), values, mask=pyarrow.array(counts == 0))
