"""The view `headers`: one row for each transaction."""

from __future__ import annotations

import numpy
import pyarrow
import pyarrow.compute as pc

from metastore.interface import exactly
from metastore.spark import WrongOption
from metastore.spark.records import Records
from metastore.spark.views import Scope, Selection, levels_below
from txn.audit.views.form import (
    NUMBER,
    OF_RECORD,
    TEXT,
    TIME,
    Cells,
    Swift,
    are_all_true,
    field,
    form_of,
    from_ms,
    is_absent_or,
    is_between,
    is_one_of,
    json_fields,
    key_parts,
    odd,
    times,
    view_of,
)
from txn.audit.views.ids import ID, transaction_named
from txn.audit.views.usual import Example, usual
from txn.decoding import tidemark
from txn.decoding.fields import TIME_MS_MAX
from txn.decoding.rows import OddRow, TransactionRow
from txn.model import paths
from txn.model.header import Cause, Header, TxnState

_FINAL = (TxnState.COMMITTED.value, TxnState.ABORTED.value)


HEADER_COLUMNS = [
    ("txn_id", TEXT),
    ("state", TEXT),
    ("begun", TIME),
    ("deadline", TIME),
    ("finalized", TIME),
    ("owner", TEXT),
    ("cause", TEXT),
    *OF_RECORD.items(),
]


def header_cells(row: TransactionRow) -> Cells:
    """A row of headers; who decided is null where records do not say it."""
    return {
        "txn_id": row.txn_id,
        "state": row.state.value,
        "begun": row.created_ms,
        "deadline": row.deadline_ms,
        "finalized": row.finalized_ms,
        "owner": row.owner,
        "cause": None if row.cause is None else row.cause.value,
    }


def _header_scopes(selection: Selection) -> list[Scope]:
    if selection.segment is not None:
        raise WrongOption('a header names no segment: read view `ops` with option "segment"')
    txn_id = transaction_named(selection)
    if txn_id is not None:
        return [Scope(exactly(paths.header_key(txn_id)), partition_key=paths.partition(txn_id))]
    return [Scope(levels_below(paths.HEADERS, 1, selection.key_sorting))]


def _header_row(key: str, value: bytes, created_ms: int, modified_ms: int) -> Cells | None:
    row = tidemark.decode(key, value, created_ms, modified_ms)
    if isinstance(row, OddRow) and key.startswith(f"{paths.HEADERS}/"):
        return odd(key, row.reason)
    return header_cells(row) if isinstance(row, TransactionRow) else None


_HEADER_FIELDS = pyarrow.schema(
    [
        ("format", NUMBER),
        ("state", TEXT),
        ("created_ms", NUMBER),
        ("timeout_ms", NUMBER),
        ("owner", TEXT),
        ("finalized_ms", NUMBER),
        ("cause", TEXT),
    ]
)


def _swift_headers(records: Records) -> Swift | None:
    table = json_fields(records.values, _HEADER_FIELDS)
    if table is None:
        return None
    parts = key_parts(records, f"^{paths.HEADERS}/(?P<txn_id>{ID})$")
    state, finalized, cause = (field(table, name) for name in ("state", "finalized_ms", "cause"))
    is_final = is_one_of(state, _FINAL)
    return Swift(
        {
            "txn_id": lambda: pc.struct_field(parts, "txn_id"),
            "state": lambda: state,
            "begun": lambda: times(field(table, "created_ms")),
            "deadline": lambda: times(field(table, "timeout_ms")),
            "finalized": lambda: times(finalized),
            "owner": lambda: field(table, "owner"),
            "cause": lambda: cause,
        },
        are_all_true(
            pc.is_valid(parts),
            pc.equal(field(table, "format"), 1),
            pc.or_(is_final, pc.equal(state, TxnState.OPEN.value)),
            pc.equal(is_final, pc.is_valid(finalized)),
            pc.equal(is_final, pc.is_valid(cause)),
            is_absent_or(cause, is_one_of(cause, [each.value for each in Cause])),
            is_between(field(table, "created_ms"), 0, TIME_MS_MAX),
            is_between(field(table, "timeout_ms"), 0, TIME_MS_MAX),
            is_absent_or(finalized, is_between(finalized, 0, TIME_MS_MAX)),
        ),
    )


_EXAMPLES = (
    Header(TxnState.OPEN, 10**12, 10**12),
    *(Header(TxnState(state), 10**12, 10**12, None, 10**12, cause) for state in _FINAL for cause in Cause),
)
_LIKE_EXAMPLES = [Example(header.encode()) for header in _EXAMPLES]
_STATES = pyarrow.array([header.state.value for header in _EXAMPLES], TEXT)
_CAUSES = pyarrow.array([header.cause and header.cause.value for header in _EXAMPLES], TEXT)


def _usual_headers(records: Records) -> Swift:
    """Of those without an owner."""
    found = usual(records, _LIKE_EXAMPLES)
    begun_ms, deadline_ms, finalized_ms = found.times
    parts = key_parts(records, f"^{paths.HEADERS}/(?P<txn_id>{ID})$")
    example = pyarrow.array(numpy.maximum(found.example, 0))
    return Swift(
        {
            "txn_id": lambda: pc.struct_field(parts, "txn_id"),
            "state": lambda: _STATES.take(example),
            "begun": lambda: from_ms(begun_ms),
            "deadline": lambda: from_ms(deadline_ms),
            "finalized": lambda: times(pyarrow.array(finalized_ms, NUMBER, mask=finalized_ms == 0)),
            "owner": lambda: pyarrow.nulls(len(records), TEXT),
            "cause": lambda: _CAUSES.take(example),
        },
        parts.is_valid().to_numpy(zero_copy_only=False) & (found.example >= 0),
    )


headers = view_of(form_of(HEADER_COLUMNS, _header_row, _usual_headers, _swift_headers), _header_scopes)
