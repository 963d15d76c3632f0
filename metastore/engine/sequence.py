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
    """What a new subscriber of a sequence is told first: the greatest key of its range, whoever made it."""
    start, stop = order.encode(prefix + b"-%020d" % 0), order.encode(prefix + b"-%020d" % REPORTED_END)
    items = view.descending(Table.RECORDS, start, stop, 1) if start < stop else []
    return order.decode(items[0][0]) if items else None


def _greatest_numbers(view: View, order: KeyOrder, prefix: bytes) -> list[int]:
    """The numbers of the greatest key `prefix-numbers`; other keys between them do not disturb."""
    start = order.encode(prefix + b"-")
    stop = order.encode(prefix + b"-%020d" % (limits.SEQUENCE_NUMBER_MAX + 1))
    chunk = 1
    while start < stop:
        items = view.descending(Table.RECORDS, start, stop, chunk)
        for encoded, _ in items:
            suffix = order.decode(encoded)[len(prefix) + 1 :]
            if _NUMBERS.fullmatch(suffix):
                numbers = [int(part) for part in suffix.split(b"-")]
                if max(numbers) <= limits.SEQUENCE_NUMBER_MAX:
                    return numbers
        if len(items) < chunk:
            break
        stop = items[-1][0]
        chunk = min(chunk * 4, _CHUNK_MAX)
    return []


def next_key(view: View, order: KeyOrder, prefix: bytes, deltas: tuple[int, ...]) -> bytes:
    """The key that a sequence put gets; refuses deltas that do not fit the sequence."""
    parts = _greatest_numbers(view, order, prefix)
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
