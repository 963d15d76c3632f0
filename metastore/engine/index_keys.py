"""The keys of secondary-index entries: one byte string that sorts by index name, secondary key, primary key.

    index name, escaped | 00 00 | secondary key, encoded and escaped | 00 00 | primary key, path-escaped

Escaping turns a zero byte of a name or a secondary key into 00 01. So 00 00 ends it and sorts below
whatever could go on: the order of the parts is the order of the whole, and no part can run into the next.
The order's own leading bytes (`fixed_bytes`) are not escaped, since their number is known. The primary key
comes last and needs no end; clients see ties in the order of its path-escaped form, so that form is what is
stored, and it contains no zero byte at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from metastore.engine.keys import KeyOrder

_END = b"\0\0"
_BEYOND_END = b"\0\1"
"""As a suffix in the place of `_END`: greater than all that continues behind that end."""
_ESCAPED_ZERO = b"\0\1"

_PATH_SAFE = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~$&+:=@"
_PATH_SAFE_OR_SLASH = _PATH_SAFE + b"/"
_PATH_ESCAPES = [bytes([byte]) if byte in _PATH_SAFE else b"%%%02X" % byte for byte in range(256)]


class IndexEntry(NamedTuple):
    """One entry of a secondary index."""

    index_name: bytes
    secondary: bytes
    primary: bytes


def entry_key(order: KeyOrder, index_name: bytes, secondary: bytes, primary: bytes) -> bytes:
    """The key of one entry."""
    return entry_keys(order, ((index_name, secondary),), primary)[0]


def entry_keys(order: KeyOrder, pairs: Iterable[tuple[bytes, bytes]], primary: bytes) -> list[bytes]:
    """The keys of the entries of one record, by its (index name, secondary key) pairs."""
    tail = _END + path_escape(primary)
    return [
        _name_part(name) + _secondary_part(order, secondary) + tail
        if 0 in name or 0 in secondary
        else b"".join((name, _END, order.encode(secondary), tail))
        for name, secondary in pairs
    ]


def decode_entry(order: KeyOrder, key: bytes) -> IndexEntry:
    """What `entry_key` was made of."""
    return IndexEntry(_unescape_zeros(key[: key.index(_END)]), secondary_of(order, key), primary_of(key))


def secondary_of(order: KeyOrder, key: bytes) -> bytes:
    """The secondary key of an entry."""
    secondary_start = key.index(_END) + len(_END)
    body_start = secondary_start + order.fixed_bytes
    # The last zero byte of all is the second one that ends the secondary key.
    body = _unescape_zeros(key[body_start : key.rindex(b"\0") + 1 - len(_END)])
    return order.decode(key[secondary_start:body_start] + body)


def primary_of(key: bytes) -> bytes:
    """The primary key of an entry."""
    return path_unescape(key[key.rindex(b"\0") + 1 :])


def index_bounds(index_name: bytes) -> tuple[bytes, bytes]:
    """The keys [low, high) of all entries of an index."""
    name = _escape_zeros(index_name)
    return name + _END, name + _BEYOND_END


def equal_bounds(order: KeyOrder, index_name: bytes, secondary: bytes) -> tuple[bytes, bytes]:
    """The keys [low, high) of all entries with one secondary key."""
    common = _name_part(index_name) + _secondary_part(order, secondary)
    return common + _END, common + _BEYOND_END


def range_bounds(order: KeyOrder, index_name: bytes, start: bytes, stop: bytes) -> tuple[bytes, bytes]:
    """The keys [low, high) of all entries with a secondary key of [start, stop); low >= high: there are none.

    The empty key is the least, so an empty `start` is the beginning of the index, and an empty `stop` selects
    nothing. For "to the end of the index" take the upper one of `index_bounds`.
    """
    name = _name_part(index_name)
    return name + _secondary_part(order, start) + _END, name + _secondary_part(order, stop) + _END


def path_escape(key: bytes) -> bytes:
    """Everything but letters, digits and `-_.~$&+:=@` as %XX."""
    if key.translate(None, _PATH_SAFE_OR_SLASH):
        return b"".join([_PATH_ESCAPES[byte] for byte in key])
    return key.replace(b"/", b"%2F")


def path_unescape(escaped: bytes) -> bytes:
    """The key that was path-escaped."""
    # Each % begins an escape, so slashes, which are by far the most frequent, can be taken out first.
    key = escaped.replace(b"%2F", b"/")
    return unquote_to_bytes(key) if b"%" in key else key


def _name_part(index_name: bytes) -> bytes:
    return _escape_zeros(index_name) + _END


def _secondary_part(order: KeyOrder, secondary: bytes) -> bytes:
    encoded = order.encode(secondary)
    if b"\0" not in secondary:
        return encoded
    fixed = order.fixed_bytes
    return encoded[:fixed] + _escape_zeros(encoded[fixed:])


def _escape_zeros(data: bytes) -> bytes:
    return data.replace(b"\0", _ESCAPED_ZERO)


def _unescape_zeros(data: bytes) -> bytes:
    return data.replace(_ESCAPED_ZERO, b"\0")
