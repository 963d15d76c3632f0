"""Sequence keys: which key a sequence put makes, and which one a watcher of the sequence is told."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from shard_model.order import Encoder
from shard_model.rules import invalid_argument

NUMBER_DIGITS = 20
MAX_NUMBER = 2**64 - 1
MAX_WATCHED_NUMBER = 2**63 - 1


def numbered(prefix: bytes, numbers: Iterable[int]) -> bytes:
    return prefix + b"".join(b"-%020d" % number for number in numbers)


def numbers_of(prefix: bytes, key: bytes) -> tuple[int, ...] | None:
    """The numbers of a key of this sequence; None for any other key, whatever it looks like."""
    match = re.fullmatch(re.escape(prefix) + rb"((?:-[0-9]{20})+)", key, re.DOTALL)
    if match is None:
        return None
    numbers = tuple(int(part) for part in match.group(1)[1:].split(b"-"))
    return numbers if max(numbers) <= MAX_NUMBER else None


def next_key(prefix: bytes, deltas: Sequence[int], keys: Iterable[bytes]) -> bytes:
    """The greatest key of the sequence with every delta added; missing numbers count as 0."""
    taken = [numbers for numbers in (numbers_of(prefix, key) for key in keys) if numbers is not None]
    base = max(taken, default=())
    if len(deltas) < len(base):
        raise invalid_argument(f"sequence {prefix!r} has {len(base)} numbers, the put {len(deltas)} deltas")
    if deltas[0] == 0:
        raise invalid_argument(f"the first delta of sequence {prefix!r} must be greater than 0")
    padded = base + (0,) * (len(deltas) - len(base))
    numbers = [number + delta for number, delta in zip(padded, deltas, strict=True)]
    if max(numbers) > MAX_NUMBER:
        raise invalid_argument(f"sequence {prefix!r} has no number left after {base}")
    return numbered(prefix, numbers)


def highest_key(prefix: bytes, keys: Iterable[bytes], encode: Encoder) -> bytes | None:
    """The greatest key of the sequence, made by hand or not, that is numbered below 2^63 - 1."""
    end = encode(numbered(prefix, [MAX_WATCHED_NUMBER]))
    watched = (key for key in keys if numbers_of(prefix, key) is not None and encode(key) < end)
    return max(watched, key=encode, default=None)
