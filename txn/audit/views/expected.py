"""What the entries of indexes should add up to, by the records that were read.

Entries that lead to headers are counted and hashed by the state that headers have, those that lead to operations by
segment and subscription; as `sums` does with the entries that there are.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy
import pyarrow

from txn.audit.views.form import NUMBER, TEXT, field
from txn.audit.views.fragments import told_apart

SUM = pyarrow.struct(
    [("state", TEXT), ("segment", TEXT), ("subscription", TEXT), ("entries", NUMBER), ("hash", NUMBER)]
)
EXPECTED = pyarrow.schema([("expected", pyarrow.list_(SUM))])
SUMS_PER_ROW_MAX = 10_000

_By = tuple[str | None, ...]


class ExpectedSums:
    """Sums over what one task has read."""

    def __init__(self) -> None:
        self._found: dict[_By, tuple[int, int]] = {}

    def add_headers(self, headers: pyarrow.Table) -> None:
        """Rows of headers."""
        self._add(headers, ("state",), None, "entry_hash")

    def add_operations(self, parts: pyarrow.Table) -> None:
        """Rows of participants."""
        self._add(parts, ("segment", "subscription"), "operations", "keys_hash")

    def _add(self, rows: pyarrow.Table, by: tuple[str, ...], count: str | None, hashed: str) -> None:
        if not len(rows):
            return
        entries = numpy.ones(len(rows), numpy.int64) if count is None else field(rows, count).to_numpy()
        groups = told_apart(rows, by, numpy.zeros(len(rows), numpy.int64))
        order = numpy.argsort(groups, kind="stable")
        starts = numpy.flatnonzero(numpy.diff(groups[order], prepend=-1))
        counts = numpy.add.reduceat(entries[order], starts).tolist()
        hashes = numpy.bitwise_xor.reduceat(field(rows, hashed).to_numpy()[order], starts).tolist()
        names = rows.select(by).take(pyarrow.array(order[starts])).to_pylist()
        for name, more, hash_ in zip(names, counts, hashes, strict=True):
            key = name.get("state"), name.get("segment"), name.get("subscription")
            known, hash_before = self._found.get(key, (0, 0))
            self._found[key] = known + more, hash_before ^ hash_

    def tables(self) -> Iterator[pyarrow.Table]:
        """Rows of the view, in which nothing else is said."""
        sums = [(*by, *found) for by, found in self._found.items() if found[0]]
        for at in range(0, len(sums), SUMS_PER_ROW_MAX):
            row = [dict(zip(SUM.names, each, strict=True)) for each in sums[at : at + SUMS_PER_ROW_MAX]]
            yield pyarrow.table([pyarrow.array([row], pyarrow.list_(SUM))], EXPECTED)
