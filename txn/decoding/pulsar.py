"""The decoder of what an Apache Pulsar 5 writes for its metadata-driven transactions.

Pulsar's metadata layer also leaves directory records behind: keys without a value, above the others. They are not odd.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import unquote_plus

from txn.decoding.fields import (
    Malformed,
    checked_number,
    json_object,
    number,
    optional_text,
    seconds_as_ms,
    shown,
    text,
)
from txn.decoding.rows import (
    AbortedRow,
    EventRow,
    OddRow,
    OperationRow,
    Row,
    SilentRow,
    TransactionRow,
    WatermarkRow,
)
from txn.model.header import TxnState
from txn.model.operation import OperationKind
from txn.model.position import Position

ROOT = "/txn"

_TXN_ID = re.compile(r"-?(?:0|[1-9][0-9]{0,18})_-?(?:0|[1-9][0-9]{0,18})")
_SEQUENCED = re.compile(r"(.+)-([0-9]{20})", re.DOTALL)


def decode(key: str, value: bytes, created_ms: int, modified_ms: int) -> Row | None:
    """What one of Pulsar's records says; None if it has nothing to do with transactions."""
    if key != ROOT and not key.startswith(f"{ROOT}/"):
        return None
    try:
        if not value:
            return SilentRow(key, "a directory")
        for room, decoder in _ROOMS.items():
            if key.startswith(room):
                return decoder(key, key.removeprefix(room), value, created_ms, modified_ms)
        raise Malformed("no record of a transaction has such a key")
    except ValueError as error:
        return OddRow(key, str(error))


def checked_id(name: str) -> str:
    """A transaction id as Pulsar writes them: `1_17`."""
    if not _TXN_ID.fullmatch(name):
        raise Malformed(f"{name[:80]!r} is no transaction id of Pulsar: MOST_LEAST is expected, as in 1_17")
    return name


def _header(key: str, name: str, value: bytes, _created: int, _modified: int) -> Row:
    fields = json_object(value)
    state = _state(fields.get("state"))
    begun_ms = seconds_as_ms(fields, "createdAt")
    finalized_ms = None if fields.get("finalizedAt") is None else seconds_as_ms(fields, "finalizedAt")
    if (state is TxnState.OPEN) != (finalized_ms is None):
        raise Malformed(f"a header in state {state.value} with finalizedAt={finalized_ms} ms")
    return TransactionRow(
        key,
        checked_id(name),
        state,
        begun_ms,
        begun_ms + seconds_as_ms(fields, "timeout"),
        finalized_ms,
        optional_text(fields, "owner"),
        None,
    )


def _operation(key: str, name: str, value: bytes, created_ms: int, _modified: int) -> Row:
    txn_id, sequence = _sequenced(name)
    fields = json_object(value)
    kind = _KINDS.get(text(fields, "kind"))
    if kind is None:
        raise Malformed(f"an operation of kind {text(fields, 'kind')[:80]!r}: WRITE or ACK is expected")
    is_ack = kind is OperationKind.ACK
    position = Position(number(fields, "ledgerId"), number(fields, "entryId")) if is_ack else None
    return OperationRow(
        key,
        checked_id(txn_id),
        sequence,
        kind,
        text(fields, "segment"),
        text(fields, "subscription") if is_ack else None,
        position,  # that of a write is 0:0 to its end: nobody fills it in
        position,
        fields.get("cumulative") is True,
        (),
        created_ms,
        "",
        0,
    )


def _segment_event(key: str, name: str, value: bytes, created_ms: int, _modified: int) -> Row:
    segment, sequence = _sequenced(name)
    return _event(key, unquote_plus(segment), None, sequence, value, created_ms)


def _subscription_event(key: str, name: str, value: bytes, created_ms: int, _modified: int) -> Row:
    participant, sequence = _sequenced(name)
    segment, separator, subscription = participant.partition(":")
    if not separator:
        raise Malformed("the event of a subscription that names none")
    return _event(key, unquote_plus(segment), unquote_plus(subscription), sequence, value, created_ms)


def _event(key: str, segment: str, subscription: str | None, sequence: int, value: bytes, created_ms: int) -> Row:
    fields = json_object(value)
    decision = _state(fields.get("decision"))
    return EventRow(key, checked_id(text(fields, "txnId")), segment, subscription, sequence, decision, created_ms)


def _watermark(key: str, name: str, value: bytes, _created: int, modified_ms: int) -> Row:
    fields = json_object(value)
    position = Position(number(fields, "ledgerId", least=-1), number(fields, "entryId", least=-1))
    return WatermarkRow(key, unquote_plus(name), position, modified_ms)


def _aborted(key: str, name: str, value: bytes, _created: int, modified_ms: int) -> Row:
    segment, separator, txn_id = name.rpartition(":")
    if not separator:
        raise Malformed("aborted entries of no transaction")
    fields = json_object(value)
    last = Position(number(fields, "maxLedgerId"), number(fields, "maxEntryId", least=-1))
    return AbortedRow(key, checked_id(txn_id), unquote_plus(segment), None, last, modified_ms)


def _numbers(key: str, _name: str, value: bytes, _created: int, _modified: int) -> Row:
    number(json_object(value), "next")
    return SilentRow(key, "numbers of transactions that were given")


def _leader(key: str, _name: str, value: bytes, _created: int, _modified: int) -> Row:
    text(json_object(value), "brokerId")
    return SilentRow(key, "the leader of a coordinator")


def _parallelism(key: str, name: str, value: bytes, _created: int, _modified: int) -> Row:
    if name or not value.isdigit():
        raise Malformed(f"a number of coordinators is {shown(value)}")
    return SilentRow(key, "how many coordinators there are")


def _sequenced(name: str) -> tuple[str, int]:
    match = _SEQUENCED.fullmatch(name)
    if match is None:
        raise Malformed("a record of a sequence without its number")
    return match[1], checked_number("sequence", int(match[2]))


def _state(found: object) -> TxnState:
    try:
        return TxnState(found)
    except ValueError as error:
        raise Malformed(f"a transaction in state {str(found)[:80]!r}") from error


_KINDS = {"WRITE": OperationKind.WRITE, "ACK": OperationKind.ACK}

_ROOMS: dict[str, Callable[[str, str, bytes, int, int], Row]] = {
    f"{ROOT}/id/": _header,
    f"{ROOT}/op/": _operation,
    f"{ROOT}/segment-events/": _segment_event,
    f"{ROOT}/subscription-events/": _subscription_event,
    f"{ROOT}/segment-state/watermark/": _watermark,
    f"{ROOT}/segment-state/aborted/": _aborted,
    f"{ROOT}/tc-seq/": _numbers,
    f"{ROOT}/tc/leader/": _leader,
    f"{ROOT}/tc/parallelism": _parallelism,
}
