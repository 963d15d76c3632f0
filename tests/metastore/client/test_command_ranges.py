"""What a prefix is: the range of just those keys that begin with it, in either order."""

from __future__ import annotations

import sys

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from metastore.client.ranges import prefix_range
from metastore.engine.keys import KeyOrder, key_order
from metastore.interface import ALL, InvalidRequest, Range, children_of

CHARACTERS = st.sampled_from(["/", ".", "0", "a", "b", "é", "\ud7ff", "\ue000", "\U00010000", chr(sys.maxunicode)])
KEYS = st.text(CHARACTERS, max_size=6)


def holds(range: Range, key: str, order: KeyOrder) -> bool:
    place = order.encode(key.encode())
    return order.encode(range.start.encode()) <= place and (not range.end or place < order.encode(range.end.encode()))


@settings(deadline=None, database=None, derandomize=True, max_examples=1000)
@given(KEYS, KEYS, KEYS)
def test_in_the_natural_order_it_has_all_that_begin_so(prefix: str, rest: str, other: str) -> None:
    order = key_order("natural")
    for key in (prefix + rest, other):
        assert holds(prefix_range(prefix, "natural"), key, order) == key.startswith(prefix)


@settings(deadline=None, database=None, derandomize=True, max_examples=1000)
@given(KEYS, KEYS, KEYS)
def test_in_the_hierarchical_order_it_has_those_of_its_level(prefix: str, rest: str, other: str) -> None:
    assume(prefix.strip(chr(sys.maxunicode)) and not prefix.endswith("//"))
    order = key_order("hierarchical")
    for key in (prefix + rest, other):
        # A key with two slashes at its end is a bound and not a child: it stands above those of its level.
        if not key.endswith("//"):
            expected = key.startswith(prefix) and key.count("/") == prefix.count("/")
            assert holds(prefix_range(prefix, "hierarchical"), key, order) == expected


def test_the_children_of_a_path() -> None:
    assert prefix_range("/a/", "hierarchical") == children_of("/a")
    assert prefix_range("/a/b", "hierarchical") == Range("/a/b", "/a/c")
    assert prefix_range("/a/b.", "hierarchical") == Range("/a/b.", "/a/b0")
    assert prefix_range("/a/b.", "natural") == Range("/a/b.", "/a/b/")
    assert prefix_range("", "hierarchical") == prefix_range("", "natural") == ALL


@pytest.mark.parametrize("prefix", ["/a//", "//", chr(sys.maxunicode)])
def test_a_prefix_that_no_range_has_is_refused(prefix: str) -> None:
    with pytest.raises(InvalidRequest, match="no range"):
        prefix_range(prefix, "hierarchical")
    assert prefix_range(prefix, "natural").start == prefix
