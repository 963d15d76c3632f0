"""The view `ops`: one row for each write or acknowledgement whose outcome is to be carried out."""

from __future__ import annotations

import pyarrow
import pyarrow.compute as pc

from metastore.interface import exactly
from metastore.spark.records import Records
from metastore.spark.views import Scope, Selection, levels_below
from txn.audit.views.form import (
    FLAG,
    NUMBER,
    POSITION_PATTERN,
    TEXT,
    TIME,
    Array,
    Cells,
    Swift,
    all_true,
    are_all_true,
    field,
    form_of,
    is_absent_or,
    is_between,
    json_fields,
    key_parts,
    odd,
    times,
    view_of,
)
from txn.audit.views.ids import ID, transaction_named
from txn.audit.views.laid import BATCH, laid_operations
from txn.decoding import tidemark
from txn.decoding.fields import TIME_MS_MAX
from txn.decoding.rows import OddRow, OperationRow
from txn.model import paths
from txn.model.operation import OperationKind


def _operation_scopes(selection: Selection) -> list[Scope]:
    txn_id = transaction_named(selection)
    if txn_id is not None:
        below = paths.below(paths.operations_path(txn_id), selection.key_sorting)
        return [Scope(below, partition_key=paths.partition(txn_id))]
    if selection.segment is not None:
        return [
            Scope(exactly(paths.escaped(selection.segment)), paths.WRITES_BY_SEGMENT),
            Scope(paths.subscriptions_of(selection.segment), paths.ACKS_BY_SUBSCRIPTION),
        ]
    return [Scope(levels_below(paths.OPERATIONS, 2, selection.key_sorting))]


def _operation_row(key: str, value: bytes, created_ms: int, modified_ms: int) -> Cells | None:
    row = tidemark.decode(key, value, created_ms, modified_ms)
    if isinstance(row, OddRow) and key.startswith(f"{paths.OPERATIONS}/"):
        return odd(key, row.reason)
    if not isinstance(row, OperationRow):
        return None
    return operation_cells(row)


def operation_cells(row: OperationRow) -> Cells:
    """An operation as a row, whoever wrote it."""
    return {
        "txn_id": row.txn_id,
        "sequence": row.sequence,
        "kind": row.kind.value,
        "segment": row.segment,
        "subscription": row.subscription,
        "ledger": None if row.first is None else row.first.ledger,
        "first_entry": None if row.first is None else row.first.entry,
        "last_entry": None if row.last is None else row.last.entry,
        "cumulative": row.is_cumulative,
        "batch": list(row.batch) or None,
        "written": row.written_ms,
        "broker": row.broker,
        "term": row.term,
    }


_OPERATION_FIELDS = pyarrow.schema(
    [
        ("format", NUMBER),
        ("kind", TEXT),
        ("segment", TEXT),
        ("position", TEXT),
        ("broker", TEXT),
        ("term", NUMBER),
        ("written_ms", NUMBER),
        ("last", TEXT),
        ("subscription", TEXT),
        ("cumulative", FLAG),
        ("batch", BATCH),
        ("batch_size", NUMBER),
    ]
)


def _swift_operations(records: Records) -> Swift | None:
    table = json_fields(records.values, _OPERATION_FIELDS)
    if table is None:
        return None
    parts = key_parts(records, f"^{paths.OPERATIONS}/(?P<txn_id>{ID})/-(?P<sequence>00[0-9]{{18}})$")
    first = pc.extract_regex(field(table, "position"), POSITION_PATTERN)
    last = field(table, "last")
    end = pc.extract_regex(last, POSITION_PATTERN)
    first_entry = pc.struct_field(first, "entry").cast(NUMBER)
    last_entry = pc.coalesce(pc.struct_field(end, "entry").cast(NUMBER), first_entry)
    is_ack = pc.equal(field(table, "kind"), OperationKind.ACK.value)
    return Swift(
        {
            "txn_id": lambda: pc.struct_field(parts, "txn_id"),
            "sequence": lambda: pc.struct_field(parts, "sequence").cast(NUMBER),
            "kind": lambda: field(table, "kind"),
            "segment": lambda: field(table, "segment"),
            "subscription": lambda: field(table, "subscription"),
            "ledger": lambda: pc.struct_field(first, "ledger").cast(NUMBER),
            "first_entry": lambda: first_entry,
            "last_entry": lambda: last_entry,
            "cumulative": lambda: pc.fill_null(field(table, "cumulative"), False),
            "batch": lambda: field(table, "batch"),
            "written": lambda: times(field(table, "written_ms")),
            "broker": lambda: field(table, "broker"),
            "term": lambda: field(table, "term"),
        },
        are_all_true(
            _is_kind_sound(table, is_ack),
            pc.is_valid(parts),
            pc.equal(field(table, "format"), 1),
            pc.is_valid(field(table, "segment")),
            pc.is_valid(field(table, "broker")),
            pc.is_valid(first),
            is_absent_or(last, pc.equal(pc.struct_field(end, "ledger"), pc.struct_field(first, "ledger"))),
            pc.greater_equal(last_entry, first_entry),
            is_between(field(table, "term"), 0, TIME_MS_MAX),
            is_between(field(table, "written_ms"), 0, TIME_MS_MAX),
        ),
    )


def _is_kind_sound(table: pyarrow.Table, is_ack: Array) -> Array:
    """Whether a write has what a write has, and an acknowledgement of whole entries what that has.

    Those of messages of a batch are few, and looked at one by one.
    """
    is_write = pc.equal(field(table, "kind"), OperationKind.WRITE.value)
    has_subscription = pc.is_valid(field(table, "subscription"))
    is_write_sound = all_true(is_write, pc.invert(has_subscription), pc.is_null(field(table, "cumulative")))
    is_ack_sound = all_true(is_ack, has_subscription, pc.is_null(field(table, "last")))
    is_whole = pc.and_(pc.is_null(field(table, "batch")), pc.is_null(field(table, "batch_size")))
    return pc.and_(pc.or_(is_write_sound, is_ack_sound), is_whole)


OPERATION_COLUMNS = [
    ("txn_id", TEXT),
    ("sequence", NUMBER),
    ("kind", TEXT),
    ("segment", TEXT),
    ("subscription", TEXT),
    ("ledger", NUMBER),
    ("first_entry", NUMBER),
    ("last_entry", NUMBER),
    ("cumulative", FLAG),
    ("batch", BATCH),
    ("written", TIME),
    ("broker", TEXT),
    ("term", NUMBER),
]
_OPERATIONS = form_of(OPERATION_COLUMNS, _operation_row, laid_operations, _swift_operations)
ops = view_of(_OPERATIONS, _operation_scopes)
