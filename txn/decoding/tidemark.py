"""The decoder of this project's own records."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import unquote

from txn.decoding.fields import TIME_MS_MAX, Malformed, checked_number, checked_text
from txn.decoding.rows import AbortedRow, AppliedRow, OddRow, OperationRow, Row, SilentRow, TransactionRow
from txn.model import paths
from txn.model.aborted import AbortedRange
from txn.model.applied import Applied
from txn.model.errors import TxnError
from txn.model.header import Header
from txn.model.ids import TxnId
from txn.model.operation import Operation
from txn.model.position import Position

_OPERATION_KEY = re.compile(r"-([0-9]{20})")


def decode(key: str, value: bytes, created_ms: int, modified_ms: int) -> Row | None:
    """What one of our records says; None if it is none of ours."""
    parts = key.split("/")
    if len(parts) < 2 or parts[0]:
        return None
    decoder = _ROOMS.get(f"/{parts[1]}")
    if decoder is None:
        return None
    try:
        return decoder(key, parts[2:], value, modified_ms)
    except (TxnError, ValueError, ArithmeticError, TypeError, KeyError, RecursionError) as error:
        return OddRow(key, str(error) or repr(error))


def _header(key: str, parts: list[str], value: bytes, _: int) -> Row | None:
    if len(parts) != 1:
        return None  # deeper down there may be records of others
    txn_id = TxnId.parse(parts[0])
    header = Header.decode(value)
    for name, found in (("created_ms", header.created_ms), ("timeout_ms", header.timeout_ms)):
        checked_number(name, found, most=TIME_MS_MAX)
    if header.finalized_ms is not None:
        checked_number("finalized_ms", header.finalized_ms, most=TIME_MS_MAX)
    if header.owner is not None:
        checked_text("owner", header.owner)
    return TransactionRow(
        key,
        str(txn_id),
        header.state,
        header.created_ms,
        header.timeout_ms,
        header.finalized_ms,
        header.owner,
        header.cause,
    )


def _operation(key: str, parts: list[str], value: bytes, _: int) -> Row | None:
    txn_id = TxnId.parse(parts[0]) if parts else None
    match = _OPERATION_KEY.fullmatch(parts[1]) if len(parts) == 2 else None
    if txn_id is None or match is None:
        raise Malformed("an operation's key is /txn-op/ID/-NUMBER")
    operation = Operation.decode(value)
    if operation.subscription is not None:
        checked_text("subscription", operation.subscription)
    return OperationRow(
        key,
        str(txn_id),
        checked_number("sequence", int(match[1])),
        operation.kind,
        checked_text("segment", operation.segment),
        operation.subscription,
        _checked(operation.position),
        _checked(operation.last or operation.position),
        operation.is_cumulative,
        tuple(checked_number("batch", index) for index in operation.batch),
        checked_number("written_ms", operation.written_ms, most=TIME_MS_MAX),
        checked_text("broker", operation.broker),
        checked_number("term", operation.term),
    )


def _checked(position: Position) -> Position:
    checked_number("ledger", position.ledger)
    checked_number("entry", position.entry)
    return position


def _applied(key: str, parts: list[str], value: bytes, _: int) -> Row | None:
    if len(parts) != 2:
        raise Malformed("the key of what was applied is /txn-applied/ID/PARTICIPANT")
    segment, separator, subscription = parts[1].partition(":")
    applied = Applied.decode(value)
    return AppliedRow(
        key,
        str(TxnId.parse(parts[0])),
        unquote(segment),
        unquote(subscription) if separator else None,
        checked_number("applied_ms", applied.applied_ms, most=TIME_MS_MAX),
        checked_text("broker", applied.broker),
        checked_number("term", applied.term),
        checked_number("operations", applied.operations),
        checked_number("first_ms", applied.first_ms, most=TIME_MS_MAX),
        checked_number("last_ms", applied.last_ms, most=TIME_MS_MAX),
    )


def _of_segment(key: str, parts: list[str], value: bytes, modified_ms: int) -> Row | None:
    if len(parts) != 3 or parts[1] != "aborted":
        return SilentRow(key, "a segment's own")
    found = AbortedRange.decode(value)
    first, last = _checked(found.first), _checked(found.last)
    return AbortedRow(key, str(TxnId.parse(parts[2])), unquote(parts[0]), first, last, modified_ms)


def _owner(key: str, _parts: list[str], _value: bytes, _: int) -> Row | None:
    return SilentRow(key, "who owns a segment, or waits to")


def _numbers(key: str, _parts: list[str], _value: bytes, _: int) -> Row | None:
    return SilentRow(key, "numbers of transactions that were given")


NUMBERS = "/txn-ids"

_ROOMS: dict[str, Callable[[str, list[str], bytes, int], Row | None]] = {
    paths.HEADERS: _header,
    paths.OPERATIONS: _operation,
    paths.APPLIED: _applied,
    paths.SEGMENTS: _of_segment,
    paths.OWNERS: _owner,
    NUMBERS: _numbers,
}
