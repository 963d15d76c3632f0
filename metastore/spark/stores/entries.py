"""Entries of an index: the key that each leads to, and by which secondary key it is found.

Those of one secondary key lie together, and it is decoded once: of thousands of entries no object is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy
import pyarrow

from metastore.engine.index_keys import secondary_of
from metastore.engine.keys import KeyOrder
from metastore.spark.records import KeysOnly, Numbers, Records, are_new
from metastore.spark.stores.leaves import Found

RUN_ENTRIES = 8
"""If fewer entries than that have one secondary key, to look at each byte costs less than to look at each of those."""


def keys_in(found: Found, shard: int, order: KeyOrder) -> KeysOnly:
    """Of entries as they are on LMDB's pages."""
    pieces = Records(found.buffer, found.nodes, shard)  # a node is where its key and its value are
    keys = pieces.cut(found.starts, found.lengths)
    heads, runs = _runs(pieces, found, _likely_ends(found))
    if len(runs) > len(keys) // RUN_ENTRIES or not all(map(partial(_is_head, found), runs, heads)):
        heads, runs = _runs(pieces, found, _sure_ends(found))
    return KeysOnly(keys, shard, runs, pyarrow.array([secondary_of(order, head) for head in heads], pyarrow.binary()))


def _runs(pieces: Records, found: Found, ends: Numbers) -> tuple[list[bytes], Numbers]:
    """The beginnings of keys up to there, of which neighbours are not the same, and from which entry on each counts."""
    starts = found.key_starts
    heads = pieces.cut(starts, numpy.maximum(ends - starts, 0))
    runs = numpy.flatnonzero(are_new(heads))
    return heads.take(pyarrow.array(runs)).to_pylist(), runs


def _likely_ends(found: Found) -> Numbers:
    """Where the key of the record begins in the key of each entry, if as much of it is escaped as in the first one."""
    starts, lengths = found.starts, found.lengths
    first = bytes(found.buffer[found.key_starts[0] : starts[0]])
    escaped = len(first) - first.rindex(b"\0") - 1
    return starts - lengths - (escaped - lengths[0])


def _is_head(found: Found, place: int, head: bytes) -> bool:
    """Whether the key of an entry begins so, and the key of its record behind that.

    A secondary key ends at the first end behind its beginning: then it does in all keys that begin so.
    """
    key = bytes(found.buffer[found.key_starts[place] : found.starts[place]])
    return key.rindex(b"\0") + 1 == len(head)


def _sure_ends(found: Found) -> Numbers:
    """The same, whatever is escaped: behind the last zero byte."""
    zeros = numpy.flatnonzero(found.buffer == 0)
    return zeros[numpy.searchsorted(zeros, found.starts) - 1] + 1


def keys_of(entries: Sequence[tuple[bytes, bytes]], shard: int, order: KeyOrder) -> KeysOnly:
    """Of entries one by one."""
    keys = pyarrow.array([primary for _, primary in entries], pyarrow.binary())
    found = pyarrow.array(secondary_keys(order, entries), pyarrow.binary())
    return KeysOnly(keys, shard, numpy.arange(len(entries)), found)


def secondary_keys(order: KeyOrder, entries: Sequence[tuple[bytes, bytes]]) -> list[bytes]:
    """By what each entry is found."""
    found: list[bytes] = []
    known = b""
    for encoded, _ in entries:
        head = encoded[: encoded.rindex(b"\0") + 1]
        if head != known:
            known, secondary = head, secondary_of(order, encoded)
        found.append(secondary)
    return found
