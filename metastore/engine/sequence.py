"""Sequence keys: `prefix-00000000000000000007-…`, numbered by the server. Pure functions over a view."""

from __future__ import annotations

import re

from metastore.engine import limits
from metastore.engine.change import Table
from metastore.engine.errors import InvalidRequest
from metastore.engine.keys import KeyOrder
from metastore.engine.overlay import View
from metastore.engine.validate import shown

REPORTED_END = (1 << 63) - 1
"""A new subscriber is told of no key numbered from here on."""

_NUMBERS = re.compile(rb"[0-9]{20}(-[0-9]{20})*")
_CHUNK_MAX = 256


def highest_key(view: View, order: KeyOrder, prefix: bytes) -> bytes | None:
    """What a new subscriber of a sequence is told first."""
    return _greatest_key(view, order, prefix, REPORTED_END)


def _greatest_key(view: View, order: KeyOrder, prefix: bytes, end: int) -> bytes | None:
    """The greatest key of a sequence whose first number is below `end`; other keys between them do not disturb."""
    start, stop = order.encode(prefix + b"-"), order.encode(prefix + b"-%020d" % end)
    chunk = 1
    while start < stop:
        items = view.descending(Table.RECORDS, start, stop, chunk)
        for encoded, _ in items:
            key = order.decode(encoded)
            if _numbers(prefix, key):
                return key
        if len(items) < chunk:
            break
        stop = items[-1][0]
        chunk = min(chunk * 4, _CHUNK_MAX)
    return None


def _numbers(prefix: bytes, key: bytes) -> list[int]:
    """The numbers of a key of the sequence; none if the key only looks alike."""
    suffix = key[len(prefix) + 1 :]
    if not _NUMBERS.fullmatch(suffix):
        return []
    numbers = [int(part) for part in suffix.split(b"-")]
    return numbers if max(numbers) <= limits.SEQUENCE_NUMBER_MAX else []


def next_key(view: View, order: KeyOrder, prefix: bytes, deltas: tuple[int, ...]) -> bytes:
    """The key that a sequence put gets; refuses deltas that do not fit the sequence."""
    base = _greatest_key(view, order, prefix, limits.SEQUENCE_NUMBER_MAX + 1)
    parts = [] if base is None else _numbers(prefix, base)
    if len(parts) > len(deltas):
        raise InvalidRequest(
            f"sequence {shown(prefix)} is numbered by {len(parts)} parts, "
            f"but the put gives {len(deltas)} deltas: missing some sequence deltas"
        )
    if deltas[0] == 0:
        raise InvalidRequest(f"the first delta of a put to sequence {shown(prefix)} must be greater than 0")
    key = prefix
    for index, delta in enumerate(deltas):
        number = delta + (parts[index] if index < len(parts) else 0)
        if number > limits.SEQUENCE_NUMBER_MAX:
            raise InvalidRequest(
                f"sequence {shown(prefix)} is exhausted: part {index + 1} would become {number}, "
                f"and numbers end at {limits.SEQUENCE_NUMBER_MAX}"
            )
        key += b"-%020d" % number
    return key
