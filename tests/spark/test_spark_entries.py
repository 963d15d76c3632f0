"""Entries of indexes, as they are on LMDB's pages, are the pairs that were put."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metastore.engine.index_keys import entry_key
from metastore.engine.keys import key_order
from metastore.spark.stores.entries import RUN_ENTRIES, keys_in
from metastore.spark.stores.leaves import Found

INDEX = b"by\0name"
NODE = struct.Struct("<HHHH")
Pair = tuple[bytes, bytes]

SECONDARIES = st.one_of(
    st.sampled_from([b"a", b"a\0", b"a\0\0", b"", b"\0", b"a/b", b"a/b/c", b"%2F"]),
    st.text("a/\0é", max_size=6).map(str.encode),
)
PRIMARIES = st.text("ab/%é +\x01", min_size=1, max_size=9).map(str.encode)


def found(pairs: Sequence[Pair], sorting: str) -> tuple[Found, list[Pair]]:
    """Nodes of a leaf, one behind the other, and the pairs in their order."""
    order = key_order(sorting)
    entries = sorted((entry_key(order, INDEX, *pair), pair) for pair in pairs)
    buffer, nodes = b"", []
    for key, (_, primary) in entries:
        nodes.append(len(buffer))
        buffer += NODE.pack(len(primary), 0, 0, len(key)) + key + primary
    at = numpy.array(nodes)
    starts = at + NODE.size + numpy.array([len(key) for key, _ in entries])
    return Found(numpy.frombuffer(buffer, numpy.uint8), starts, at), [pair for _, pair in entries]


def check(pairs: Sequence[Pair], sorting: str) -> None:
    leaf, expected = found(pairs, sorting)
    read = keys_in(leaf, 0, key_order(sorting))
    assert list(zip(read.secondaries.to_pylist(), read.keys.to_pylist(), strict=True)) == expected
    starts, secondaries = read.secondary_runs
    assert starts[0] == 0
    assert [expected[start][0] for start in starts] == secondaries.to_pylist()


@pytest.mark.parametrize("sorting", ["hierarchical", "natural"])
@settings(max_examples=200, deadline=None)
@given(pairs=st.lists(st.tuples(SECONDARIES, PRIMARIES), min_size=1, max_size=30, unique=True))
def test_whatever_is_escaped(sorting: str, pairs: list[Pair]) -> None:
    check(pairs, sorting)


@pytest.mark.parametrize("sorting", ["hierarchical", "natural"])
@settings(max_examples=100, deadline=None)
@given(
    secondaries=st.lists(SECONDARIES, min_size=1, max_size=3, unique=True),
    primaries=st.lists(PRIMARIES, min_size=RUN_ENTRIES, max_size=6 * RUN_ENTRIES, unique=True),
)
def test_many_of_one_secondary_key(sorting: str, secondaries: list[bytes], primaries: list[bytes]) -> None:
    check([(secondary, primary) for secondary in secondaries for primary in primaries], sorting)
