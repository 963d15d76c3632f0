"""Sequence keys: `prefix-00000000000000000007-…`, numbered by the server. Pure functions over a view."""

from __future__ import annotations

import re

from metastore.engine import limits
from metastore.engine.change import Table
from metastore.engine.errors import InvalidRequest
from metastore.engine.keys import KeyOrder
from metastore.engine.overlay import View
from metastore.engine.validate import shown

LAST_REPORTED = 1 << 63
"""A subscriber's first message names no key numbered from here (less one) on."""

_NUMBERS = re.compile(rb"[0-9]{1,20}(-[0-9]{1,20})*")
_FIRST_CHUNK = 1
_CHUNK_MAX = 256


def greatest_key(view: View, order: KeyOrder, prefix: bytes, first: bytes, end: bytes) -> bytes | None:
    """The greatest key `prefix-numbers` of [prefix-first, prefix-end); other keys between them do not disturb."""
    start, stop = order.encode(prefix + b"-" + first), order.encode(prefix + b"-" + end)
    chunk = _FIRST_CHUNK
    while start < stop:
        items = view.descending(Table.RECORDS, start, stop, chunk)
        for encoded, _ in items:
            key = order.decode(encoded)
            if key.startswith(prefix + b"-") and _NUMBERS.fullmatch(key, len(prefix) + 1):
                return key
        if len(items) < chunk:
            return None
        stop = items[-1][0]
        chunk = min(chunk * 4, _CHUNK_MAX)
    return None


def highest_key(view: View, order: KeyOrder, prefix: bytes) -> bytes | None:
    """What a new subscriber of a sequence is told first."""
    return greatest_key(view, order, prefix, b"%020d" % 0, b"%020d" % (LAST_REPORTED - 1))


def next_key(view: View, order: KeyOrder, prefix: bytes, deltas: tuple[int, ...]) -> bytes:
    """The key that a sequence put gets; refuses deltas that do not fit the sequence."""
    base = greatest_key(view, order, prefix, b"", b"%d" % limits.SEQUENCE_END)
    parts = [int(part) for part in base[len(prefix) + 1 :].split(b"-")] if base is not None else []
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
        if number >= limits.SEQUENCE_END:
            raise InvalidRequest(
                f"sequence {shown(prefix)} is exhausted: part {index + 1} would become {number}, "
                f"and numbers end at {limits.SEQUENCE_END - 1}"
            )
        key += b"-%020d" % number
    return key
