"""The views of what segments say of themselves: `segments`, `segment_state`, `cursors`, and `numbers` of coordinators.

There are few of these records, so each is read by itself, by the code that the segment's owner reads it with.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from urllib.parse import unquote

import pyarrow

from metastore.interface import exactly
from metastore.spark import WrongOption
from metastore.spark.views import Scope, Selection, levels_below
from txn.audit.views.form import FLAG, NUMBER, TEXT, TIME, Cells, form_of, odd, view_of
from txn.decoding.fields import TIME_MS_MAX, checked_number, checked_text
from txn.decoding.tidemark import NUMBERS
from txn.hosting.descriptor import Descriptor
from txn.model import paths
from txn.model.errors import TxnError
from txn.model.fields import decoded_fields
from txn.segment.cursor import CursorState
from txn.segment.log.state import LogState
from txn.segment.subscription.cursor_record import is_deleting

_POSITION = [("ledger", NUMBER), ("entry", NUMBER)]
RANGES = pyarrow.list_(
    pyarrow.struct([(f"{bound}_{name}", kind) for bound in ("start", "end") for name, kind in _POSITION])
)
PARTS = pyarrow.list_(pyarrow.struct([*_POSITION, ("messages", pyarrow.list_(NUMBER))]))
LEDGERS = pyarrow.list_(pyarrow.struct([("ledger", NUMBER), ("length", NUMBER)]))

Reader = Callable[[list[str], bytes, int], Cells]


def _read(key: str, reader: Reader, parts: list[str], value: bytes, modified_ms: int) -> Cells:
    """A row; whatever is wrong with the record makes it an odd one."""
    try:
        return reader(parts, value, modified_ms)
    except (TxnError, ValueError, ArithmeticError, TypeError, KeyError, RecursionError) as error:
        return odd(key, str(error) or repr(error))


def _scopes(selection: Selection, key: Callable[[str], str], levels: int) -> list[Scope]:
    if selection.transaction is not None:
        raise WrongOption('records of segments name no transaction: leave out option "transaction"')
    if selection.segment is not None:
        return [Scope(exactly(key(selection.segment)), partition_key=selection.segment)]
    return [Scope(levels_below(paths.SEGMENTS, levels, selection.key_sorting))]


# -- descriptors


def _descriptor_scopes(selection: Selection) -> list[Scope]:
    return _scopes(selection, paths.descriptor_key, 2)


def _descriptor_row(key: str, value: bytes, _created_ms: int, modified_ms: int) -> Cells | None:
    parts = key.split("/")
    if len(parts) != 4 or parts[3] != "descriptor":
        return None
    return _read(key, _descriptor, parts, value, modified_ms)


def _descriptor(parts: list[str], value: bytes, _modified_ms: int) -> Cells:
    found = Descriptor.decode(value)
    checked_text("segment", found.segment)
    return {
        "segment": unquote(parts[2]),
        "state": found.state.value,
        "place": checked_text("log", found.place),
        "mark": checked_text("mark", found.mark),
        "begun": checked_number("created_ms", found.created_ms, most=TIME_MS_MAX),
    }


_DESCRIPTORS = form_of(
    [("segment", TEXT), ("state", TEXT), ("place", TEXT), ("mark", TEXT), ("begun", TIME)], _descriptor_row
)
segments = view_of(_DESCRIPTORS, _descriptor_scopes)


# -- logs


def _log_key(segment: str) -> str:
    return f"{paths.segment_path(segment)}/log"


def _state_scopes(selection: Selection) -> list[Scope]:
    return _scopes(selection, _log_key, 2)


def _state_row(key: str, value: bytes, _created_ms: int, modified_ms: int) -> Cells | None:
    parts = key.split("/")
    if len(parts) != 4 or parts[3] != "log":
        return None
    return _read(key, _state, parts, value, modified_ms)


def _state(parts: list[str], value: bytes, modified_ms: int) -> Cells:
    found = LogState.decode(value)
    return {
        "segment": unquote(parts[2]),
        "term": checked_number("term", found.term),
        "sealed": found.is_sealed,
        "trimmed_ledger": found.trimmed.ledger,
        "trimmed_entry": found.trimmed.entry,
        "closed": [{"ledger": ledger, "length": length} for ledger, length in found.closed],
        "changed": modified_ms,
    }


_STATES = form_of(
    [
        ("segment", TEXT),
        ("term", NUMBER),
        ("sealed", FLAG),
        ("trimmed_ledger", NUMBER),
        ("trimmed_entry", NUMBER),
        ("closed", LEDGERS),
        ("changed", TIME),
    ],
    _state_row,
)
segment_state = view_of(_STATES, _state_scopes)


# -- cursors


def _cursor_scopes(selection: Selection) -> list[Scope]:
    if selection.segment is not None and selection.transaction is None:
        below = paths.below(paths.cursors_path(selection.segment), selection.key_sorting)
        return [Scope(below, partition_key=selection.segment)]
    return _scopes(selection, paths.cursors_path, 3)


def _cursor_row(key: str, value: bytes, _created_ms: int, modified_ms: int) -> Cells | None:
    parts = key.split("/")
    if len(parts) != 5 or parts[3] != "cursors":
        return None
    found = _read(key, _cursor, parts, value, modified_ms)
    return found or None


def _cursor(parts: list[str], value: bytes, modified_ms: int) -> Cells:
    line, _, body = value.partition(b"\n")
    stamp = json.loads(line)
    cells = {
        "segment": unquote(parts[2]),
        "subscription": unquote(parts[4]),
        "term": checked_number("fence", stamp["fence"]),
        "changed": modified_ms,
    }
    if stamp.get("deleted"):
        return {}  # a fence where a subscription was
    if is_deleting(body):
        return {**cells, "deleting": True}
    state = CursorState.decode(body)
    return {
        **cells,
        "deleting": False,
        "mark_ledger": state.mark.ledger,
        "mark_entry": state.mark.entry,
        "ranges": [
            {
                "start_ledger": each.start.ledger,
                "start_entry": each.start.entry,
                "end_ledger": each.end.ledger,
                "end_entry": each.end.entry,
            }
            for each in state.ranges
        ],
        "parts": [
            {
                "ledger": position.ledger,
                "entry": position.entry,
                "messages": [index for index in range(messages.size) if messages.bits >> index & 1],
            }
            for position, messages in state.batches.items()
        ],
    }


_CURSORS = form_of(
    [
        ("segment", TEXT),
        ("subscription", TEXT),
        ("term", NUMBER),
        ("deleting", FLAG),
        ("mark_ledger", NUMBER),
        ("mark_entry", NUMBER),
        ("ranges", RANGES),
        ("parts", PARTS),
        ("changed", TIME),
    ],
    _cursor_row,
)
cursors = view_of(_CURSORS, _cursor_scopes)


# -- numbers


def _number_scopes(selection: Selection) -> list[Scope]:
    if selection.segment is not None or selection.transaction is not None:
        raise WrongOption('numbers are of coordinators: leave out options "segment" and "transaction"')
    return [Scope(levels_below(NUMBERS, 1, selection.key_sorting))]


def _number_row(key: str, value: bytes, _created_ms: int, modified_ms: int) -> Cells | None:
    parts = key.split("/")
    return _read(key, _number, parts, value, modified_ms) if len(parts) == 3 else None


def _number(parts: list[str], value: bytes, _modified_ms: int) -> Cells:
    following = decoded_fields("record of transaction numbers", value, 1).number("next")
    return {"coordinator": int(parts[2]), "next": checked_number("next", following)}


numbers = view_of(form_of([("coordinator", NUMBER), ("next", NUMBER)], _number_row), _number_scopes)
