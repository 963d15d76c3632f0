"""Entries of an index: the key that each leads to, and by which secondary key it is found.

Those of one secondary key lie together, and it is decoded once: of thousands of entries no object is made.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy
import pyarrow
import pyarrow.compute as pc

from metastore.engine.index_keys import secondary_of
from metastore.engine.keys import KeyOrder
from metastore.spark.records import KeysOnly, Numbers, Records
from metastore.spark.stores.leaves import Found


def keys_in(found: Found, shard: int, order: KeyOrder) -> KeysOnly:
    """Of entries as they are on LMDB's pages."""
    pieces = Records(found.buffer, found.nodes, shard)  # a node is where its key and its value are
    keys = pieces.cut(found.starts, found.lengths)
    heads = pieces.cut(found.key_starts, _head_ends(found) - found.key_starts)
    is_new = numpy.ones(len(keys), bool)
    is_new[1:] = pc.not_equal(heads[1:], heads[:-1]).to_numpy(zero_copy_only=False)
    each = heads.take(pyarrow.array(numpy.flatnonzero(is_new))).to_pylist()
    decoded = pyarrow.array([secondary_of(order, head) for head in each], pyarrow.binary())
    return KeysOnly(keys, shard, decoded.take(pyarrow.array(numpy.cumsum(is_new) - 1)))


def _head_ends(found: Found) -> Numbers:
    """Where the key of the record begins in the key of each entry: behind its last zero byte."""
    zeros = numpy.flatnonzero(found.buffer == 0)
    return zeros[numpy.searchsorted(zeros, found.starts) - 1] + 1


def keys_of(entries: Sequence[tuple[bytes, bytes]], shard: int, order: KeyOrder) -> KeysOnly:
    """Of entries one by one."""
    keys = pyarrow.array([primary for _, primary in entries], pyarrow.binary())
    return KeysOnly(keys, shard, pyarrow.array(secondary_keys(order, entries), pyarrow.binary()))


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
