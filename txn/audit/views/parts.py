"""The view `transaction_parts`: headers, operations and what was applied, put together where they are read.

One row for each participant of a transaction, with what its operations add up to and the transaction's header beside
it; of a transaction without participants one row, without a segment. Records of a transaction lie in the same range of
names, so nearly all of them meet in one task. Rows of those that may not have met all of theirs are `is_loose`: others
must still be put together. `whole` is there once for each transaction that is not: what there is of it altogether.

Behind them come rows with `expected` and nothing else: what the entries of the indexes add up to, if they lead to the
records that were read, and to no others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy
import pyarrow
import pyarrow.compute as pc

from metastore.spark.records import Records
from metastore.spark.views import JointView, Kind, Selection, Surroundings
from txn.audit.views.expected import EXPECTED, ExpectedSums
from txn.audit.views.form import ODD, TEXT, Array, ddl, field
from txn.audit.views.fragments import FRAGMENT, added_up, of_applied, of_operations
from txn.audit.views.headers import headers
from txn.audit.views.meeting import HEADER, MET, Meeting, loose, prefixes
from txn.audit.views.sums import entry_hashes
from txn.model import paths
from txn.model.header import TxnState

BATCH_ROWS = 10_000
"""Decoded at once: little enough for a processor's own memory."""
PULL_ROWS = 80_000
"""Put together at once: enough that the calls are no cost."""
NUMBER_DIGITS = 20
"""Of a time in a secondary key."""
HELD_MAX = 100_000
"""Rows of one transaction that wait for its other records."""

Found = tuple[pyarrow.Table, pyarrow.Table]
"""Rows of one kind, by transaction, and those that cannot be read."""

_ROW = pyarrow.schema([*MET, *ODD, *EXPECTED])
_SELECTION = Selection("")


def _headers(records: Records) -> Found:
    names = [name for name in (*HEADER.names, "odd_key", "odd") if name != "entry_hash"]
    decoded = headers.decode(records, names, _SELECTION)
    keys = records.keys if decoded.rows is None else records.keys.take(pyarrow.array(decoded.rows))
    hashed = entry_hashes(_secondary_keys(decoded.columns), keys)
    return parted(pyarrow.table({**decoded.columns, "entry_hash": hashed}), HEADER)


def _secondary_keys(columns: Mapping[str, Array]) -> Array:
    """By which each header is to be found."""
    is_open = pc.equal(columns["state"], TxnState.OPEN.value)
    time = pc.if_else(is_open, columns["deadline"], columns["finalized"])
    milliseconds = pc.divide(time.cast(pyarrow.int64()), 1000)
    number = pc.utf8_lpad(milliseconds.cast(pyarrow.string()), NUMBER_DIGITS, "0")
    return pc.if_else(is_open, number, pc.binary_join_element_wise(columns["state"], number, ":"))


def _operations(records: Records) -> Found:
    return parted(of_operations(records), FRAGMENT)


def _applied(records: Records) -> Found:
    return parted(of_applied(records), FRAGMENT)


_KINDS = ((_headers, HEADER), (_operations, FRAGMENT), (_applied, FRAGMENT))


def parted(table: pyarrow.Table, schema: pyarrow.Schema) -> Found:
    """What can be read, and what cannot."""
    is_odd = pc.is_valid(table["odd_key"])
    odd = table.filter(is_odd).select([name for name, _ in ODD]) if pc.any(is_odd).as_py() else _NO_ODD
    return (table.filter(pc.invert(is_odd)) if len(odd) else table).select(schema.names), odd


_NO_ODD = pyarrow.schema(ODD).empty_table()


@dataclass(slots=True)
class _Stream:
    """Records of a kind, as far as they were read and are not told of."""

    records: Iterator[Records]
    decode: Callable[[Records], Found]
    together: Callable[[pyarrow.Table], pyarrow.Table]
    rows: pyarrow.Table
    last: str | None = ""
    """The transaction of the record that was read last; None at the end."""

    def pull(self) -> pyarrow.Table:
        """Reads on; what cannot be read is returned."""
        count, pulled, odd = 0, [self.rows], [_NO_ODD]
        while count < PULL_ROWS:
            records = next(self.records, None)
            if records is None:
                self.last = None
                break
            count += len(records)
            found, unread = self.decode(records)
            if len(found):
                self.last = found["txn_id"][-1].as_py()
            pulled.append(found)
            odd.append(unread)
        self.rows = self.together(pyarrow.concat_tables(pulled))
        return pyarrow.concat_tables(odd)

    def take(self, bound: str | None, early: Array) -> pyarrow.Table:
        """The rows of transactions before that one but for those that kinds differ in; or all."""
        if bound is None:
            found, self.rows = self.rows, self.rows.slice(0, 0)
            return found
        ids = field(self.rows, "txn_id")
        is_before = pc.and_not(pc.less(ids, bound), pc.is_in(ids, value_set=early))
        count = pc.sum(is_before).as_py() or 0
        if pc.all(is_before[:count]).as_py():
            found, self.rows = self.rows.slice(0, count), self.rows.slice(count)
        else:
            found, self.rows = self.rows.filter(is_before), self.rows.filter(pc.invert(is_before))
        return found


def _decoded(
    kinds: Sequence[Iterator[Records]], names: Sequence[str], surroundings: Surroundings
) -> Iterator[Mapping[str, Array]]:
    streams = [
        _Stream(records, decode, pyarrow.Table.combine_chunks if schema is HEADER else added_up, schema.empty_table())
        for records, (decode, schema) in zip(kinds, _KINDS, strict=True)
    ]
    expected = ExpectedSums()
    for table in chain(_blocks(streams, Meeting(surroundings), expected), expected.tables()):
        if len(table):
            known = set(table.column_names)
            yield {
                name: field(table, name) if name in known else pyarrow.nulls(len(table), _ROW.field(name).type)
                for name in names
            }


def _blocks(streams: Sequence[_Stream], meeting: Meeting, expected: ExpectedSums) -> Iterator[pyarrow.Table]:
    """All transactions, some at a time: as far as every kind was read."""
    bound: str | None = ""
    while bound is not None:
        for stream in streams:
            # Whoever is behind reads on; the others wait for him.
            if stream.last is not None and stream.last <= bound:
                yield stream.pull()
        read_to = [stream.last for stream in streams if stream.last is not None]
        bound = min(read_to, default=None)
        # Of an id with which another one begins, what is in keys behind it may come later.
        early = pyarrow.array(prefixes(read_to), TEXT)
        own, *parts = (stream.take(bound, early) for stream in streams)
        # What one kind alone says is added up already.
        present = [part for part in parts if len(part)]
        every = added_up(pyarrow.concat_tables(present)) if len(present) > 1 else next(iter(present), parts[0])
        expected.add_headers(own)
        expected.add_operations(every)
        yield from meeting.met(own, every)
        for stream in streams[1:]:
            if len(stream.rows) > HELD_MAX:
                held = stream.take(None, early)
                expected.add_operations(held)
                yield loose(held, numpy.ones(len(held), bool))


transaction_parts = JointView(
    ", ".join(f"{each.name} {ddl(each.type)}" for each in _ROW),
    [Kind(paths.HEADERS), Kind(paths.OPERATIONS, 2), Kind(paths.APPLIED, 2)],
    _decoded,
    BATCH_ROWS,
)
"""What there is of each transaction."""
