"""Keys of index entries: their order is that of the tuples that they stand for, and ranges never leak."""

from __future__ import annotations

from urllib.parse import quote_from_bytes

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metastore.engine.index_keys import (
    IndexEntry,
    decode_entry,
    entry_key,
    equal_bounds,
    index_bounds,
    path_escape,
    path_unescape,
    range_bounds,
)
from metastore.engine.keys import KeyOrder, key_order

ORDERS = pytest.mark.parametrize(
    "order", [key_order("hierarchical"), key_order("natural")], ids=lambda order: order.name
)
BUDGET = settings(max_examples=100, deadline=None, database=None, derandomize=True)


def made_of(characters: bytes, size: int) -> st.SearchStrategy[bytes]:
    return st.lists(st.sampled_from(characters), max_size=size).map(bytes)


# Few different bytes, those that an end or an escape could be mistaken for. FF is in no UTF-8 key, but may be
# in the parts that no key order encodes.
NAMES = made_of(b"\0\x01\x02/a\xff", 3)
RARE_SECONDARIES = [b"__oxia/", b"__oxia/\0", b"__oxia//", b"/" * 255 + b"\0", b"/" * 256 + b"\0", b"/" * 256]
SECONDARIES = made_of(b"\0\0\x01\x02//a\x7f", 4) | st.sampled_from(RARE_SECONDARIES)
PRIMARIES = made_of(b"\0\x01%/2Fa\xff", 4)
ENTRIES = st.builds(IndexEntry, NAMES, SECONDARIES, PRIMARIES)

Rank = tuple[bytes, bytes, bytes]


def rank(order: KeyOrder, entry: IndexEntry) -> Rank:
    """What entries are to be sorted by."""
    return entry.index_name, order.encode(entry.secondary), path_escape(entry.primary)


@ORDERS
@BUDGET
@given(one=ENTRIES, other=ENTRIES)
def test_byte_order_is_the_order_of_the_parts(order: KeyOrder, one: IndexEntry, other: IndexEntry) -> None:
    assert (entry_key(order, *one) < entry_key(order, *other)) == (rank(order, one) < rank(order, other))
    assert (entry_key(order, *one) == entry_key(order, *other)) == (one == other)


@ORDERS
@BUDGET
@given(name=NAMES, secondary=SECONDARIES, primary=PRIMARIES, other_primary=PRIMARIES)
def test_ties_are_in_the_order_of_the_escaped_primary(
    order: KeyOrder, name: bytes, secondary: bytes, primary: bytes, other_primary: bytes
) -> None:
    one, other = entry_key(order, name, secondary, primary), entry_key(order, name, secondary, other_primary)
    assert (one < other) == (path_escape(primary) < path_escape(other_primary))


@ORDERS
@BUDGET
@given(entry=ENTRIES | st.builds(IndexEntry, st.binary(), st.text().map(str.encode), st.binary()))
def test_decode_takes_back_encode(order: KeyOrder, entry: IndexEntry) -> None:
    assert decode_entry(order, entry_key(order, *entry)) == entry


@ORDERS
@BUDGET
@given(entries=st.lists(ENTRIES, max_size=20), name=NAMES, start=SECONDARIES, stop=SECONDARIES)
def test_a_range_selects_exactly_its_entries(
    order: KeyOrder, entries: list[IndexEntry], name: bytes, start: bytes, stop: bytes
) -> None:
    # All borders occur as entries too, of this index and of the neighbours whose names only just differ.
    entries += [
        IndexEntry(near, secondary, primary)
        for near in (name, name + b"\0", name + b"\0\0", name + b"\x01", name[:-1])
        for secondary in (start, stop, start + b"\0", stop + b"\0", b"", b"\x7f")
        for primary in (b"", b"a", b"\0", b"\xff")
    ]
    low, high = range_bounds(order, name, start, stop)
    first, end = order.encode(start), order.encode(stop)
    for entry in entries:
        is_inside = entry.index_name == name and first <= order.encode(entry.secondary) < end
        assert (low <= entry_key(order, *entry) < high) == is_inside
    assert (low >= high) == (first >= end)


@ORDERS
@BUDGET
@given(entry=ENTRIES, name=NAMES, secondary=SECONDARIES)
def test_equal_and_whole_index_select_exactly_theirs(
    order: KeyOrder, entry: IndexEntry, name: bytes, secondary: bytes
) -> None:
    for one in (entry, entry._replace(index_name=name), IndexEntry(name, secondary, entry.primary)):
        key = entry_key(order, *one)
        low, high = equal_bounds(order, name, secondary)
        assert (low <= key < high) == (one.index_name == name and one.secondary == secondary)
        low, high = index_bounds(name)
        assert (low <= key < high) == (one.index_name == name)


@ORDERS
@BUDGET
@given(name=NAMES, secondary=SECONDARIES, start=SECONDARIES, stop=SECONDARIES)
def test_bounds_nest(order: KeyOrder, name: bytes, secondary: bytes, start: bytes, stop: bytes) -> None:
    index_low, index_high = index_bounds(name)
    equal_low, equal_high = equal_bounds(order, name, secondary)
    low, high = range_bounds(order, name, start, stop)
    assert index_low <= equal_low < equal_high < index_high
    assert index_low <= low < index_high
    assert index_low <= high < index_high


@ORDERS
@BUDGET
@given(secondary=SECONDARIES)
def test_an_empty_start_is_the_beginning_and_an_empty_stop_selects_nothing(order: KeyOrder, secondary: bytes) -> None:
    low, high = range_bounds(order, b"index", b"", b"")
    assert low == high
    assert low <= entry_key(order, b"index", secondary, b"")


@BUDGET
@given(key=st.binary(max_size=40) | PRIMARIES)
def test_path_escape_leaves_only_what_go_leaves(key: bytes) -> None:
    escaped = path_escape(key)
    assert escaped == quote_from_bytes(key, safe="$&+:=@").encode()
    assert path_unescape(escaped) == key


@pytest.mark.parametrize(
    ("key", "escaped"),
    [
        (b"", b""),
        (b"azAZ09-_.~$&+:=@", b"azAZ09-_.~$&+:=@"),
        (b"/a/b", b"%2Fa%2Fb"),
        (b"%2F/", b"%252F%2F"),
        (b"a b;c,d?e", b"a%20b%3Bc%2Cd%3Fe"),
        ("é".encode(), b"%C3%A9"),
        (b"\0\xff", b"%00%FF"),
    ],
)
def test_path_escape(key: bytes, escaped: bytes) -> None:
    assert path_escape(key) == escaped
    assert path_unescape(escaped) == key


@ORDERS
def test_ties_are_in_the_order_that_a_real_server_showed(order: KeyOrder) -> None:
    shown = ["A", "a", "a$b", "a b", "a!b", "a%b", "a/b", "aéb", "a:b", "a_b", "ab", "a~b", "p/4", "p0"]
    expected = [key.encode() for key in shown]
    keys = sorted(entry_key(order, b"index", b"same", primary) for primary in reversed(expected))
    assert [decode_entry(order, key).primary for key in keys] == expected
