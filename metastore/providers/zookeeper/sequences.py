"""Keys that a sequence numbers: `prefix-00000000000000000007-…`. Pure.

Which key comes next follows from the greatest one there is. To find that in a long directory costs reading all of its
names, so the greatest key of each sequence in use is kept in a znode of its own, a *counter*. It is written with the
keys themselves, and removed with the greatest of them: where it is, it is right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from metastore.interface import InvalidRequest
from metastore.interface.checks import SEQUENCE_DELTA_MAX, shown

NUMBER_MAX = SEQUENCE_DELTA_MAX
_NUMBER = re.compile(r"[0-9]{20}")
_DIGITS = 20


def numbers_of(prefix: str, key: str) -> tuple[int, ...]:
    """The numbers of a key of this sequence; none if it is not one."""
    head = prefix + "-"
    if not key.startswith(head):
        return ()
    parts = key[len(head) :].split("-")
    if not all(_NUMBER.fullmatch(part) for part in parts):
        return ()
    numbers = tuple([int(part) for part in parts])
    return numbers if max(numbers) <= NUMBER_MAX else ()


def prefixes_of(key: str) -> list[str]:
    """The sequences that a key may belong to: it is not written in the key where its prefix ends."""
    found = []
    rest = key
    while len(rest) > _DIGITS and rest[-_DIGITS - 1] == "-" and _NUMBER.fullmatch(rest[-_DIGITS:]):
        rest = rest[: -_DIGITS - 1]
        found.append(rest)
    return found


def greatest_of(prefix: str, keys: Iterable[str]) -> str | None:
    """The greatest key of a sequence; others among them do not disturb."""
    numbered = [(numbers_of(prefix, key), key) for key in keys]
    return max([each for each in numbered if each[0]], default=((), None))[1]


def next_key(prefix: str, greatest: str | None, deltas: Sequence[int]) -> str:
    """The key that a put to a sequence gets."""
    numbers = () if greatest is None else numbers_of(prefix, greatest)
    if len(numbers) > len(deltas):
        raise InvalidRequest(f"sequence {shown(prefix)} has {len(numbers)} parts: {len(deltas)} deltas are too few")
    padded = (*numbers, *[0] * (len(deltas) - len(numbers)))
    following = [number + delta for number, delta in zip(padded, deltas, strict=True)]
    if max(following) > NUMBER_MAX:
        raise InvalidRequest(f"sequence {shown(prefix)} is exhausted: a part would become {max(following)}")
    return "-".join([prefix, *[f"{number:020d}" for number in following]])
