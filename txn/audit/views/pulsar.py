"""The views of what an Apache Pulsar 5 writes for its transactions: columns as ours, and null where it says nothing."""

from __future__ import annotations

from urllib.parse import quote_plus, unquote_plus

from metastore.interface import Range, exactly
from metastore.spark import WrongOption
from metastore.spark.views import Scope, Selection, levels_below
from txn.audit.views.form import NUMBER, TEXT, TIME, Cells, form_of, odd, view_of
from txn.audit.views.headers import HEADER_COLUMNS, header_cells
from txn.audit.views.operations import OPERATION_COLUMNS, operation_cells
from txn.audit.views.outcomes import ABORTED_COLUMNS, aborted_cells
from txn.decoding import pulsar
from txn.decoding.fields import Malformed, json_object, number
from txn.decoding.rows import AbortedRow, EventRow, OddRow, OperationRow, Row, TransactionRow, WatermarkRow

IDS = f"{pulsar.ROOT}/id"
OPERATIONS = f"{pulsar.ROOT}/op"
EVENTS = (f"{pulsar.ROOT}/segment-events", f"{pulsar.ROOT}/subscription-events")
NUMBERS = f"{pulsar.ROOT}/tc-seq"
WATERMARKS = f"{pulsar.ROOT}/segment-state/watermark"
ABORTED = f"{pulsar.ROOT}/segment-state/aborted"
LEDGERS = "/managed-ledgers"
"""Below it, tenant, namespace, domain, topic, segment; below that subscriptions."""
SEGMENT_DOMAIN = "segment"
OPS_BY_TXN = "idx:ops-by-txn"
WRITES_BY_SEGMENT = "idx:writes-by-segment"
ACKS_BY_SUBSCRIPTION = "idx:acks-by-segment-subscription"
BY_DEADLINE = "idx:txn-by-deadline"
BY_FINAL_STATE = "idx:txn-by-final-state"
ABORTED_BY_POSITION = "idx:txn-aborted-by-position"


def _row(key: str, value: bytes, created_ms: int, modified_ms: int, room: str) -> Row | None:
    """A record of a room, decoded; None if it is of another, or says nothing of any transaction."""
    return pulsar.decode(key, value, created_ms, modified_ms) if key.startswith(f"{room}/") else None


def _named(selection: Selection) -> str | None:
    """The transaction that was asked for."""
    try:
        return None if selection.transaction is None else pulsar.checked_id(selection.transaction)
    except Malformed as error:
        raise WrongOption(f'option "transaction": {error}') from None


def _no_transaction(selection: Selection) -> None:
    if selection.transaction is not None:
        raise WrongOption('this view is by segment: leave out option "transaction"')


# -- headers


def _header_scopes(selection: Selection) -> list[Scope]:
    if selection.segment is not None:
        raise WrongOption('a header names no segment: read view `pulsar_ops` with option "segment"')
    txn_id = _named(selection)
    if txn_id is not None:
        return [Scope(exactly(f"{IDS}/{txn_id}"), partition_key=txn_id)]
    return [Scope(levels_below(IDS, 1, selection.key_sorting))]


def _header_row(key: str, value: bytes, created_ms: int, modified_ms: int) -> Cells | None:
    row = _row(key, value, created_ms, modified_ms, IDS)
    if isinstance(row, OddRow):
        return odd(key, row.reason)
    return header_cells(row) if isinstance(row, TransactionRow) else None


headers = view_of(form_of(HEADER_COLUMNS, _header_row), _header_scopes)


# -- operations


def _operation_scopes(selection: Selection) -> list[Scope]:
    txn_id = _named(selection)
    if txn_id is not None:
        return [Scope(exactly(f"{OPERATIONS}/{txn_id}"), OPS_BY_TXN)]
    if selection.segment is not None:
        segment = f"{OPERATIONS}/{quote_plus(selection.segment)}"
        acks = Scope(Range(f"{segment}:", f"{segment};"), ACKS_BY_SUBSCRIPTION)  # `;` is the byte behind the colon
        return [Scope(exactly(segment), WRITES_BY_SEGMENT), acks]
    return [Scope(levels_below(OPERATIONS, 1, selection.key_sorting))]


def _operation_row(key: str, value: bytes, created_ms: int, modified_ms: int) -> Cells | None:
    row = _row(key, value, created_ms, modified_ms, OPERATIONS)
    if isinstance(row, OddRow):
        return odd(key, row.reason)
    return operation_cells(row) if isinstance(row, OperationRow) else None


ops = view_of(form_of(OPERATION_COLUMNS, _operation_row), _operation_scopes)


# -- events


def _event_scopes(selection: Selection) -> list[Scope]:
    return [Scope(levels_below(room, 1, selection.key_sorting)) for room in EVENTS]


def _event_row(key: str, value: bytes, created_ms: int, modified_ms: int) -> Cells | None:
    if not key.startswith(tuple(f"{room}/" for room in EVENTS)):
        return None
    row = pulsar.decode(key, value, created_ms, modified_ms)
    if isinstance(row, OddRow):
        return odd(key, row.reason)
    if not isinstance(row, EventRow):
        return None
    return {
        "txn_id": row.txn_id,
        "segment": row.segment,
        "subscription": row.subscription,
        "sequence": row.sequence,
        "decision": row.decision.value,
        "written": row.written_ms,
    }


events = view_of(
    form_of(
        [
            ("txn_id", TEXT),
            ("segment", TEXT),
            ("subscription", TEXT),
            ("sequence", NUMBER),
            ("decision", TEXT),
            ("written", TIME),
        ],
        _event_row,
    ),
    _event_scopes,
)


# -- aborted entries and watermarks


def _aborted_scopes(selection: Selection) -> list[Scope]:
    return [Scope(levels_below(ABORTED, 1, selection.key_sorting))]


def _aborted_row(key: str, value: bytes, created_ms: int, modified_ms: int) -> Cells | None:
    row = _row(key, value, created_ms, modified_ms, ABORTED)
    if isinstance(row, OddRow):
        return odd(key, row.reason)
    return aborted_cells(row) if isinstance(row, AbortedRow) else None


aborted = view_of(form_of(ABORTED_COLUMNS, _aborted_row), _aborted_scopes)


def _watermark_scopes(selection: Selection) -> list[Scope]:
    _no_transaction(selection)
    return [Scope(levels_below(WATERMARKS, 1, selection.key_sorting))]


def _watermark_row(key: str, value: bytes, created_ms: int, modified_ms: int) -> Cells | None:
    row = _row(key, value, created_ms, modified_ms, WATERMARKS)
    if isinstance(row, OddRow):
        return odd(key, row.reason)
    if not isinstance(row, WatermarkRow):
        return None
    return {
        "segment": row.segment,
        "ledger": row.position.ledger,
        "entry": row.position.entry,
        "written": row.written_ms,
    }


watermarks = view_of(
    form_of([("segment", TEXT), ("ledger", NUMBER), ("entry", NUMBER), ("written", TIME)], _watermark_row),
    _watermark_scopes,
)


# -- numbers of coordinators


def _number_scopes(selection: Selection) -> list[Scope]:
    _no_transaction(selection)
    return [Scope(levels_below(NUMBERS, 1, selection.key_sorting))]


def _number_row(key: str, value: bytes, created_ms: int, modified_ms: int) -> Cells | None:
    row = _row(key, value, created_ms, modified_ms, NUMBERS)
    if isinstance(row, OddRow):
        return odd(key, row.reason)
    if row is None or not value:
        return None  # a directory says nothing
    return {"coordinator": key.rpartition("/")[2], "next": number(json_object(value), "next")}


numbers = view_of(form_of([("coordinator", TEXT), ("next", NUMBER)], _number_row), _number_scopes)


# -- which segments and subscriptions there are


def _participant_scopes(selection: Selection) -> list[Scope]:
    _no_transaction(selection)
    levels = (5, 6) if selection.key_sorting == "hierarchical" else (5,)  # elsewhere one range has both
    return [Scope(levels_below(LEDGERS, each, selection.key_sorting)) for each in levels]


def _participant_row(key: str, _value: bytes, _created_ms: int, _modified_ms: int) -> Cells | None:
    parts = [unquote_plus(part) for part in key.split("/")]
    if len(parts) not in (7, 8) or f"/{parts[1]}" != LEDGERS or parts[4] != SEGMENT_DOMAIN:
        return None
    tenant, namespace, domain, topic, segment = parts[2:7]
    name = f"{domain}://{tenant}/{namespace}/{topic}/{segment}"
    return {"segment": name, "subscription": parts[7] if len(parts) == 8 else None}


_PARTICIPANTS = form_of([("segment", TEXT), ("subscription", TEXT)], _participant_row)
participants = view_of(_PARTICIPANTS, _participant_scopes)
