"""The two key orders: against vectors, and against a plain model of the rules."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metastore.engine.keys import DEPTH_MAX, INTERNAL_PREFIX, KeyOrder, key_order

HIERARCHICAL = key_order("hierarchical")
NATURAL = key_order("natural")
ORDERS = pytest.mark.parametrize("order", [HIERARCHICAL, NATURAL], ids=lambda order: order.name)
BUDGET = settings(max_examples=200, deadline=None, database=None, derandomize=True)

SEGMENTS = st.text(st.sampled_from("\0\x01!./0a_~é€\U0010ffff"), max_size=3)
PATHS = st.lists(SEGMENTS, max_size=6).map("/".join)
STARTS = st.sampled_from(["", "", "/", "//", "_", "__", "__oxi", "__oxia", "__oxia/", "__oxia//", "_/oxia/"])
ENDS = st.sampled_from(["", "/", "//"])
KEYS = st.builds(lambda start, path, end: (start + path + end).encode(), STARTS, PATHS, ENDS)

Rank = tuple[bool, int, list[int]]


def hierarchical_rank(key: bytes) -> Rank:
    """The rules once more: internal keys last, then by depth, then by bytes with the slash above all."""
    depth = key.count(b"/") - key.endswith(b"//")
    return key.startswith(b"__oxia/"), min(depth, 32767), [256 if byte == ord("/") else byte for byte in key]


def natural_rank(key: bytes) -> Rank:
    return key.startswith(b"__oxia/"), 0, list(key)


RANKS = {"hierarchical": hierarchical_rank, "natural": natural_rank}


@pytest.mark.parametrize(
    ("key", "encoded"),
    [
        (b"", b"\0\0"),
        (b"a", b"\0\0a"),
        (b"a\0b", b"\0\0a\0b"),
        (b"/", b"\0\x01\xff"),
        (b"a/b", b"\0\x01a\xffb"),
        (b"/a/", b"\0\x02\xffa\xff"),
        (b"//", b"\0\x01\xff\xff"),
        (b"/a//", b"\0\x02\xffa\xff\xff"),
        (b"//a", b"\0\x02\xff\xffa"),
        (b"///", b"\0\x02\xff\xff\xff"),
        (b"__oxia", b"\0\0__oxia"),
        (b"_/a", b"\0\x01_\xffa"),
        (b"__oxia/", b"\x80\x01__oxia\xff"),
        (b"__oxia//", b"\x80\x01__oxia\xff\xff"),
        (b"__oxia/a/b", b"\x80\x02__oxia\xffa\xffb"),
    ],
)
def test_hierarchical_encoding(key: bytes, encoded: bytes) -> None:
    assert HIERARCHICAL.encode(key) == encoded
    assert HIERARCHICAL.decode(encoded) == key


@pytest.mark.parametrize(
    ("key", "encoded"),
    [
        (b"", b""),
        (b"/a//", b"/a//"),
        (b"__oxia", b"__oxia"),
        (b"__oxia/", b"\xff\xffoxia/"),
        (b"__oxia/a/b", b"\xff\xffoxia/a/b"),
    ],
)
def test_natural_encoding(key: bytes, encoded: bytes) -> None:
    assert NATURAL.encode(key) == encoded
    assert NATURAL.decode(encoded) == key


def test_shallow_keys_come_first() -> None:
    ordered = b"a zz a/b / /a /b // a/b/c /a/ /a/x /a// /b/x ///".split()
    assert sorted(ordered, key=HIERARCHICAL.encode) == ordered


def test_children_lie_side_by_side() -> None:
    low, high = HIERARCHICAL.encode(b"/a/"), HIERARCHICAL.encode(b"/a//")
    children = [b"/a/", b"/a/b", "/a/\U0010ffff".encode()]
    others = [b"/a", b"/a/b/", b"/a/b/c", b"/b/c", b"/a.", b"/0/z", b"/a//", b"/a//b"]
    assert all(low <= HIERARCHICAL.encode(key) < high for key in children)
    assert not any(low <= HIERARCHICAL.encode(key) < high for key in others)


@pytest.mark.parametrize("start", [b"", INTERNAL_PREFIX], ids=["user", "internal"])
@pytest.mark.parametrize("end", [b"a", b"//"], ids=["plain", "double slash"])
@pytest.mark.parametrize("slashes", [254, 255, 256, 257, 32765, 32766, 32767, 32768, 32769, 65536])
def test_depth_is_capped(start: bytes, end: bytes, slashes: int) -> None:
    key = start + b"/" * slashes + end
    encoded = HIERARCHICAL.encode(key)
    depth = min(key.count(b"/") - (end == b"//"), DEPTH_MAX)
    assert int.from_bytes(encoded[:2], "big") == depth + (0x8000 if start else 0)
    assert HIERARCHICAL.decode(encoded) == key
    assert (encoded < HIERARCHICAL.user_end) == (not start)


@ORDERS
@BUDGET
@given(one=KEYS, other=KEYS)
def test_byte_order_is_key_order(order: KeyOrder, one: bytes, other: bytes) -> None:
    rank = RANKS[order.name]
    assert (order.encode(one) < order.encode(other)) == (rank(one) < rank(other))
    assert (order.encode(one) == order.encode(other)) == (one == other)


@ORDERS
@BUDGET
@given(keys=st.lists(KEYS | st.text().map(str.encode), max_size=5))
def test_decode_takes_back_encode(order: KeyOrder, keys: list[bytes]) -> None:
    encoded = [order.encode(key) for key in keys]
    assert [order.decode(one) for one in encoded] == keys
    assert order.decode_all(encoded) == keys


@ORDERS
@BUDGET
@given(key=KEYS)
def test_internal_keys_lie_beyond_all_others(order: KeyOrder, key: bytes) -> None:
    assert order.is_internal(key) == key.startswith(b"__oxia/")
    assert (order.encode(key) >= order.user_end) == order.is_internal(key)


@ORDERS
@BUDGET
@given(one=KEYS, other=KEYS)
def test_the_fixed_bytes_are_not_the_keys_own(order: KeyOrder, one: bytes, other: bytes) -> None:
    encoded = order.encode(one)
    assert len(encoded) == order.fixed_bytes + len(one)
    assert encoded.count(0, order.fixed_bytes) == one.count(0)


@pytest.mark.parametrize("name", ["hierarchical", "natural"])
def test_an_order_has_a_name(name: str) -> None:
    assert key_order(name).name == name


def test_an_unknown_order_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown key order 'sideways': one of hierarchical, natural"):
        key_order("sideways")
