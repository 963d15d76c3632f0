"""Entries of indexes, added up where they are read, so that few rows reach Spark.

Entries lie beside those of their segment: nearly all that is to be added up is in one batch, and what a batch cuts
apart Spark puts together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy
import pyarrow

from metastore.spark.columns import text
from metastore.spark.records import Numbers, Records
from metastore.spark.views import Decoded, Scope, Selection, View
from txn.audit.views.form import NUMBER, TEXT, Array, ddl
from txn.audit.views.hashing import Hashes, hashes, mixed
from txn.model import paths

_ENTRIES = {"index": TEXT, "found_by": TEXT, "entries": NUMBER, "keys_hash": NUMBER}
_OF_HEADERS = frozenset(name.encode() for name in (paths.BY_DEADLINE, paths.BY_FINAL_STATE))
"""Their secondary keys are nearly as many as their entries: these are added up whatever they are, and so hashed."""


def entry_hashes(secondary_keys: Array, keys: Array) -> Array:
    """Of entries that lead to headers: hashes of by what, and to what."""
    return pyarrow.array(mixed(hashes(secondary_keys) ^ mixed(hashes(keys))).view(numpy.int64))


def _entries_summed(records: Records, names: Sequence[str], _: Selection) -> Decoded:
    index = None if records.index is None else records.index.decode()
    if records.index in _OF_HEADERS:
        hashed = entry_hashes(records.secondaries, records.keys).to_numpy()
        found = {
            "index": pyarrow.array([index], TEXT),
            "found_by": pyarrow.nulls(1, TEXT),
            "entries": pyarrow.array([len(records)], NUMBER),
            "keys_hash": pyarrow.array([numpy.bitwise_xor.reduce(hashed)], NUMBER),
        }
        return Decoded({name: found[name] for name in names}, numpy.zeros(1, numpy.int64))
    starts, secondaries = records.secondary_runs
    found = {
        "index": pyarrow.repeat(pyarrow.scalar(index, TEXT), len(starts)),
        "found_by": text(secondaries),
        "entries": pyarrow.array(numpy.diff(numpy.append(starts, len(records)))),
        "keys_hash": pyarrow.array(_exclusive_or(hashes(records.keys), starts).view(numpy.int64)),
    }
    return Decoded({name: found[name] for name in names}, starts)


def _exclusive_or(found: Hashes, starts: Numbers) -> Hashes:
    """All hashes from each start to the next one, in one."""
    return numpy.bitwise_xor.reduceat(found, starts) if len(starts) else found


def _schema(columns: Mapping[str, pyarrow.DataType]) -> str:
    return ", ".join(f"{name} {ddl(kind)}" for name, kind in columns.items())


def _entry_scopes(_: Selection) -> list[Scope]:
    names = (paths.WRITES_BY_SEGMENT, paths.ACKS_BY_SUBSCRIPTION, paths.BY_DEADLINE, paths.BY_FINAL_STATE)
    return [Scope(index=name) for name in names]


entry_sums = View(_schema(_ENTRIES), _entry_scopes, _entries_summed, is_of_keys=True)
"""What a batch has of the entries by which operations and headers are found."""
