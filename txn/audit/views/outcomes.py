"""The views `applied` and `aborted`: what is left of outcomes that were carried out."""

from __future__ import annotations

from urllib.parse import unquote

import pyarrow
import pyarrow.compute as pc

from metastore.spark.records import Records
from metastore.spark.views import Scope, Selection, levels_below
from txn.audit.views.form import (
    NUMBER,
    POSITION_PATTERN,
    TEXT,
    TIME,
    Array,
    Cells,
    Swift,
    are_all_true,
    field,
    form_of,
    from_ms,
    is_between,
    json_fields,
    key_parts,
    mapped,
    odd,
    times,
    view_of,
)
from txn.audit.views.ids import ID, transaction_named
from txn.decoding import tidemark
from txn.decoding.fields import TIME_MS_MAX
from txn.decoding.rows import AbortedRow, AppliedRow, OddRow
from txn.model import paths


def _applied_scopes(selection: Selection) -> list[Scope]:
    txn_id = transaction_named(selection)
    if txn_id is not None:
        below = paths.below(paths.applied_path(txn_id), selection.key_sorting)
        return [Scope(below, partition_key=paths.partition(txn_id))]
    return [Scope(levels_below(paths.APPLIED, 2, selection.key_sorting))]


def _applied_row(key: str, value: bytes, created_ms: int, modified_ms: int) -> Cells | None:
    row = tidemark.decode(key, value, created_ms, modified_ms)
    if isinstance(row, OddRow) and key.startswith(f"{paths.APPLIED}/"):
        return odd(key, row.reason)
    if not isinstance(row, AppliedRow):
        return None
    return {
        "txn_id": row.txn_id,
        "segment": row.segment,
        "subscription": row.subscription,
        "applied": row.applied_ms,
        "broker": row.broker,
        "term": row.term,
        "operations": row.operations,
        "first_written": row.first_ms,
        "last_written": row.last_ms,
    }


_APPLIED_FIELDS = pyarrow.schema(
    [
        ("format", NUMBER),
        ("applied_ms", NUMBER),
        ("broker", TEXT),
        ("term", NUMBER),
        ("operations", NUMBER),
        ("first_ms", NUMBER),
        ("last_ms", NUMBER),
    ]
)


def _swift_applied(records: Records) -> Swift | None:
    table = json_fields(records.values, _APPLIED_FIELDS)
    if table is None:
        return None
    pattern = f"^{paths.APPLIED}/(?P<txn_id>{ID})/(?P<segment>[^/:]+)(?P<colon>:?)(?P<subscription>[^/]*)$"
    parts = key_parts(records, pattern)
    times_ms = [field(table, name) for name in ("applied_ms", "first_ms", "last_ms")]
    numbers = [field(table, name) for name in ("term", "operations")]
    is_ack = pc.equal(pc.struct_field(parts, "colon"), ":")

    def subscriptions() -> Array:
        return pc.if_else(is_ack, mapped(pc.struct_field(parts, "subscription"), unquote), pyarrow.scalar(None, TEXT))

    return Swift(
        {
            "txn_id": lambda: pc.struct_field(parts, "txn_id"),
            "segment": lambda: mapped(pc.struct_field(parts, "segment"), unquote),
            "subscription": subscriptions,
            "applied": lambda: times(times_ms[0]),
            "broker": lambda: field(table, "broker"),
            "term": lambda: numbers[0],
            "operations": lambda: numbers[1],
            "first_written": lambda: times(times_ms[1]),
            "last_written": lambda: times(times_ms[2]),
        },
        are_all_true(
            pc.is_valid(parts),
            pc.equal(field(table, "format"), 1),
            pc.is_valid(field(table, "broker")),
            *(is_between(each, 0, TIME_MS_MAX) for each in (*times_ms, *numbers)),
        ),
    )


_APPLIED = form_of(
    [
        ("txn_id", TEXT),
        ("segment", TEXT),
        ("subscription", TEXT),
        ("applied", TIME),
        ("broker", TEXT),
        ("term", NUMBER),
        ("operations", NUMBER),
        ("first_written", TIME),
        ("last_written", TIME),
    ],
    _applied_row,
    _swift_applied,
)
applied = view_of(_APPLIED, _applied_scopes)


# -- what was aborted


def _aborted_scopes(selection: Selection) -> list[Scope]:
    if selection.segment is not None:
        below = paths.below(paths.aborted_path(selection.segment), selection.key_sorting)
        return [Scope(below, partition_key=selection.segment)]
    return [Scope(levels_below(paths.SEGMENTS, 3, selection.key_sorting))]


def _aborted_row(key: str, value: bytes, created_ms: int, modified_ms: int) -> Cells | None:
    row = tidemark.decode(key, value, created_ms, modified_ms)
    if isinstance(row, OddRow) and key.startswith(f"{paths.SEGMENTS}/"):
        return odd(key, row.reason)
    if not isinstance(row, AbortedRow):
        return None
    return aborted_cells(row)


def aborted_cells(row: AbortedRow) -> Cells:
    """An aborted transaction of a segment as a row, whoever wrote it."""
    return {
        "txn_id": row.txn_id,
        "segment": row.segment,
        "first_ledger": None if row.first is None else row.first.ledger,
        "first_entry": None if row.first is None else row.first.entry,
        "last_ledger": row.last.ledger,
        "last_entry": row.last.entry,
        "written": row.written_ms,
    }


def _swift_aborted(records: Records) -> Swift | None:
    fields = pyarrow.schema([("format", NUMBER), ("first", TEXT), ("last", TEXT)])
    parts = key_parts(records, f"^{paths.SEGMENTS}/(?P<segment>[^/]+)/aborted/(?P<txn_id>{ID})$")
    is_ours = pc.is_valid(parts)
    # Cursors lie beside them.
    table = json_fields(pc.if_else(is_ours, records.values, b"{}"), fields)
    if table is None:
        return None
    first, last = (pc.extract_regex(field(table, name), POSITION_PATTERN) for name in ("first", "last"))
    first_ledger, first_entry, last_ledger, last_entry = (
        pc.struct_field(each, name).cast(NUMBER) for each in (first, last) for name in ("ledger", "entry")
    )
    is_behind = pc.or_kleene(
        pc.greater(last_ledger, first_ledger),
        pc.and_kleene(pc.equal(last_ledger, first_ledger), pc.greater_equal(last_entry, first_entry)),
    )
    return Swift(
        {
            "txn_id": lambda: pc.struct_field(parts, "txn_id"),
            "segment": lambda: mapped(pc.struct_field(parts, "segment"), unquote),
            "first_ledger": lambda: first_ledger,
            "first_entry": lambda: first_entry,
            "last_ledger": lambda: last_ledger,
            "last_entry": lambda: last_entry,
            "written": lambda: from_ms(records.modified_ms),
        },
        are_all_true(is_ours, pc.equal(field(table, "format"), 1), is_behind),
    )


ABORTED_COLUMNS = [
    ("txn_id", TEXT),
    ("segment", TEXT),
    ("first_ledger", NUMBER),
    ("first_entry", NUMBER),
    ("last_ledger", NUMBER),
    ("last_entry", NUMBER),
    ("written", TIME),
]
_ABORTED = form_of(ABORTED_COLUMNS, _aborted_row, _swift_aborted)
aborted = view_of(_ABORTED, _aborted_scopes)
