"""The order of keys: encodings whose plain byte order is the order that clients see.

Everything below works with encoded keys and knows no order but memcmp's. A namespace has one of two orders:

- hierarchical (the default): two bytes of depth, then the key with each `/` as FF. Depth is the number of
  slashes, so that all children of a path lie side by side, without their own children between them.
- natural: the bytes of the key.

Keys that start with `__oxia/` are internal. Both encodings move them behind all others, to `user_end` and
beyond, so that no range of user keys ever meets one. Keys are UTF-8 (callers see to that): FF is never a
byte of a key, which makes both encodings reversible.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Protocol

INTERNAL_PREFIX = b"__oxia/"
DEPTH_MAX = 0x7FFF
"""Deeper keys all count as being this deep."""

_INTERNAL_DEPTH = 0x8000
_UNDERSCORE, _SLASH = b"_/"
_TO_ENCODED = bytes.maketrans(b"/", b"\xff")
_FROM_ENCODED = bytes.maketrans(b"\xff", b"/")
_DEPTH_BYTES = 2
_COMMON_DEPTHS = [depth.to_bytes(_DEPTH_BYTES, "big") for depth in range(256)]
_NATURAL_INTERNAL_PREFIX = b"\xff\xff" + INTERNAL_PREFIX[2:]


class KeyOrder(Protocol):
    """One of the orders that a namespace may have."""

    name: ClassVar[str]
    user_end: ClassVar[bytes]
    """Greater than every encoded user key, and not greater than any encoded internal one."""
    fixed_bytes: ClassVar[int]
    """Every encoded key begins with so many bytes that are not the key's own."""

    def encode(self, key: bytes) -> bytes:
        """The bytes whose order is the key's; no two keys have the same."""

    def decode(self, encoded: bytes) -> bytes:
        """The key that was encoded."""

    def decode_all(self, encoded: Iterable[bytes]) -> list[bytes]:
        """Many keys, at a lower price each."""

    def is_internal(self, key: bytes) -> bool:
        """Whether users are not shown the key (not encoded) unless they ask for it."""


class Hierarchical:
    """Shallow keys before deep ones; the children of a path side by side."""

    name: ClassVar[str] = "hierarchical"
    user_end: ClassVar[bytes] = _INTERNAL_DEPTH.to_bytes(_DEPTH_BYTES, "big")
    fixed_bytes: ClassVar[int] = _DEPTH_BYTES

    def encode(self, key: bytes) -> bytes:
        # The hottest function there is: what is rare shows in a byte at either end, or beyond the table.
        depth = key.count(b"/")
        if not depth:
            return b"\0\0" + key
        if key[-1] == _SLASH or key[0] == _UNDERSCORE:
            return _encode_rare(key, depth)
        try:
            return _COMMON_DEPTHS[depth] + key.translate(_TO_ENCODED)
        except IndexError:
            return _encode_rare(key, depth)

    def decode(self, encoded: bytes) -> bytes:
        return encoded[_DEPTH_BYTES:].translate(_FROM_ENCODED)

    def decode_all(self, encoded: Iterable[bytes]) -> list[bytes]:
        table = _FROM_ENCODED
        return [one[_DEPTH_BYTES:].translate(table) for one in encoded]

    def is_internal(self, key: bytes) -> bool:
        return key.startswith(INTERNAL_PREFIX)


class Natural:
    """The order of the bytes."""

    name: ClassVar[str] = "natural"
    user_end: ClassVar[bytes] = b"\xff\xff"
    fixed_bytes: ClassVar[int] = 0

    def encode(self, key: bytes) -> bytes:
        if key.startswith(INTERNAL_PREFIX):
            return b"\xff\xff" + key[2:]
        return key

    def decode(self, encoded: bytes) -> bytes:
        if encoded.startswith(_NATURAL_INTERNAL_PREFIX):
            return b"__" + encoded[2:]
        return encoded

    def decode_all(self, encoded: Iterable[bytes]) -> list[bytes]:
        decode = self.decode
        return [decode(one) for one in encoded]

    def is_internal(self, key: bytes) -> bool:
        return key.startswith(INTERNAL_PREFIX)


_ORDERS: dict[str, KeyOrder] = {Hierarchical.name: Hierarchical(), Natural.name: Natural()}


def key_order(name: str) -> KeyOrder:
    """The order of that name."""
    if name not in _ORDERS:
        raise ValueError(f"unknown key order {name!r}: one of {', '.join(_ORDERS)}")
    return _ORDERS[name]


def _encode_rare(key: bytes, depth: int) -> bytes:
    """Hierarchical, by all the rules."""
    if key.endswith(b"//"):
        # `a//` bounds the children of `a` from above, so it belongs on their level.
        depth -= 1
    depth = min(depth, DEPTH_MAX)
    if key.startswith(INTERNAL_PREFIX):
        depth |= _INTERNAL_DEPTH
    return depth.to_bytes(_DEPTH_BYTES, "big") + key.translate(_TO_ENCODED)
