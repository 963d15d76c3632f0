"""How a plain Oxia keeps the entries of its indexes, and where to look for those of a range. Pure.

An entry is the internal key

    __oxia/idx/INDEX/SECONDARY 0x01 PRIMARY, path-escaped

and stands where the order of keys puts it. That is not quite where the contract wants it, in two cases:

- `a 0x00` is behind `a` by the contract, but its entry is before those of `a`, and those of `a 0x01 b` are among them.
  All entries whose secondary keys are alike up to the first byte below 0x02, their *stem*, stand together, though, and
  the stems are in order.
- With hierarchical sorting the level of a key is the number of its slashes, less one if it ends in two. The entry of
  such a key does not end in two: it is one level further down.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from metastore.engine.index_keys import path_unescape
from metastore.engine.keys import INTERNAL_PREFIX
from metastore.providers.merging import Place, StoreOrder
from metastore.providers.wire.protocol import from_wire, to_wire
from metastore.providers.wire.scans import IndexedKey

_ENTRY_TAIL = b"\x01"
_BEHIND_STEM = b"\x02"
_BEYOND_TEXT = b"\xff"
"""No text has it. In the hierarchical order it stands where a slash does, and is none."""
_CONTROL = re.compile(rb"[\x00\x01]")
_TWO_SLASHES = b"//"


def entries_prefix(index: str) -> bytes:
    """What all entries of an index begin with.

    A slash in the index's name would make entries of two indexes look alike, so it is escaped; names without slashes
    and percent signs stay what other clients call them.
    """
    return INTERNAL_PREFIX + b"idx/" + stored_index_name(index) + b"/"


def stored_index_name(index: str) -> bytes:
    """The name under which an index is kept."""
    return to_wire(index.replace("%", "%25").replace("/", "%2F"))


def decode_entry(tail: bytes) -> IndexedKey:
    """Secondary key and key of an entry, of what is behind the prefix."""
    secondary_key, _, primary = tail.rpartition(_ENTRY_TAIL)
    return from_wire(secondary_key), from_wire(path_unescape(primary))


def level_of(key: bytes) -> int:
    """The level of a secondary key by the contract."""
    return key.count(b"/") - key.endswith(_TWO_SLASHES)


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of entries: from one border to before another, without the prefix. All on one level."""

    start: bytes
    end: bytes


class Borders:
    """Where to look for the entries of a range of secondary keys.

    A border must be on the level of what it bounds, and must not end in two slashes, which the server counts
    otherwise. What is found between two borders is all that is wanted, and perhaps a little more.
    """

    def __init__(self, is_hierarchical: bool) -> None:
        self._is_hierarchical = is_hierarchical

    def span(self, level: int, start: bytes | None, end: bytes | None) -> Span:
        """The entries of a level, from a secondary key on, to before one; None: from its start, to its end."""
        low = level_start(level) if start is None else self._low(start)
        return Span(low, level_end(level) if end is None else self._high(end))

    def _low(self, key: bytes) -> bytes:
        return key[:-1] + _BEYOND_TEXT if self._is_one_up(key) else key + b"\0"

    def _high(self, key: bytes) -> bytes:
        if self._is_one_up(key):
            return key[:-1] + _BEYOND_TEXT
        control = _CONTROL.search(key)
        if control is None:
            return key + b"\0"
        slashes_cut_off = key.count(b"/", control.start()) if self._is_hierarchical else 0
        return key[: control.start()] + _BEHIND_STEM + b"/" * slashes_cut_off + b"\0"

    def _is_one_up(self, key: bytes) -> bool:
        return self._is_hierarchical and key.endswith(_TWO_SLASHES)

    def span_of_displaced(self, level: int, start: bytes | None, end: bytes | None) -> Span | None:
        """Where to look for secondary keys of this range that end in two slashes: one level further down."""
        is_one_key = start is not None and end == start + b"\0"
        if not self._is_hierarchical or not level or is_one_key:
            return None
        common = b"" if start is None or end is None else _common_prefix(start, end)
        return Span(_before_all(common, level + 1), _behind_all(common, level + 1))


def level_start(level: int) -> bytes:
    """A border before all entries of a level. (But for those whose secondary keys begin with nine zero bytes.)"""
    return b"\0" * 8 + b"/" * level + b"\0"


def level_end(level: int) -> bytes:
    """A border behind all entries of a level."""
    return _behind_all(b"", level)


def _common_prefix(one: bytes, other: bytes) -> bytes:
    size = next((place for place, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
    return one[:size] if size is not None else min(one, other, key=len)


def _behind_all(prefix: bytes, level: int) -> bytes:
    """A border of this level behind all that begins so."""
    return prefix + b"/" * (level - prefix.count(b"/")) + _BEYOND_TEXT


def _before_all(prefix: bytes, level: int) -> bytes:
    """A border of this level before all that begins so."""
    prefix = prefix.rstrip(b"\0")
    if not prefix:
        return level_start(level)
    last = _BEYOND_TEXT[0] if prefix.endswith(b"/") else prefix[-1]
    lesser = last - 1 if last - 1 != b"/"[0] else last - 2
    return _behind_all(prefix[:-1] + bytes([lesser]), level)


class Reorder:
    """Puts entries that come as the server has them into the order of the contract.

    Those of a secondary key without bytes below 0x02 can be handed on at once; the others wait until everything with
    their stem is there.
    """

    def __init__(self, order: StoreOrder) -> None:
        self._order = order
        self._stem = b""
        self._held: list[IndexedKey] = []

    def feed(self, entry: IndexedKey) -> list[IndexedKey]:
        """What can be handed on now that this entry has come."""
        raw = to_wire(entry[0])
        control = _CONTROL.search(raw)
        stem = raw if control is None else raw[: control.start()]
        ready = self.end() if stem != self._stem else []
        self._stem = stem
        if control is None:
            ready.append(entry)
        else:
            self._held.append(entry)
        return ready

    def end(self) -> list[IndexedKey]:
        """Nothing more comes, at least not with this stem."""
        held, self._held = self._held, []
        return sorted(held, key=self.place)

    def place(self, entry: IndexedKey) -> Place:
        """Where an entry stands by the contract."""
        return self._order.place_in_index(*entry)
