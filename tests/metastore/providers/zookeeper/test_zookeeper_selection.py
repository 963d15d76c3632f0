"""Rows of a range, found through directories, are those that a look at every record would find."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from zookeeper_tree import Tree, evaluate

from metastore.engine.index_keys import path_escape
from metastore.engine.keys import DEPTH_MAX, KeyOrder, key_order
from metastore.interface import ALL, Comparison, Range, Version, children_of, exactly
from metastore.providers.zookeeper.layout import Identity, Layout, directory_of
from metastore.providers.zookeeper.listing import rows_of
from metastore.providers.zookeeper.records import Header, Stored
from metastore.providers.zookeeper.selection import (
    Row,
    Selection,
    around,
    directory_bounds,
    nearest,
    place_of,
    select,
)

BUDGET = settings(deadline=None, database=None, derandomize=True)
LAYOUT = Layout("/r")
ORDERS = st.sampled_from([key_order("hierarchical"), key_order("natural")])
PIECES = st.sampled_from(["a", "b", "ab", "1_2", "1_20", "/", "//", "", "\0", "é", "\U0010ffff", "__oxia/", "x" * 240])
KEY = st.lists(PIECES, max_size=5).map("".join)
INDEXES = st.lists(st.tuples(st.sampled_from(["i", "j" * 300]), KEY), max_size=3).map(tuple)
HEADERS = st.dictionaries(
    st.builds(Identity, KEY, st.none() | st.sampled_from(["p", "q" * 300])), INDEXES, max_size=12
).map(lambda found: [Header(identity, Version(1, 0, 0, 0), indexes) for identity, indexes in found.items()])


def tree_of(headers: list[Header]) -> Tree:
    """The znodes of these records."""
    tree = Tree({"/r": (b"", 0)} | {table: (b"", 0) for table in LAYOUT.tables})
    for header in headers:
        record = LAYOUT.record(header.identity)
        entries = [LAYOUT.index_entry(name, key, header.identity) for name, key in header.indexes]
        for spot in (record, *entries):
            tree.nodes.update({above.path: (above.meaning, 0) for above in (*spot.directories, spot)})
        tree.nodes[record.path] = (Stored(header, b"").encode(), 0)
    return tree


def rows_by_looking_at_all(headers: list[Header], selection: Selection) -> list[Row]:
    return sorted((row for header in headers for row in selection.rows_of(header)), key=Row.rank)


@st.composite
def ranges(draw: st.DrawFn, order: KeyOrder) -> Range:
    """Any range, and those that are asked for most."""
    first, second = sorted([draw(KEY), draw(KEY)], key=lambda key: place_of(order, key))
    shapes = [ALL, Range(first, second), Range(first), Range("", second)]
    shapes += [] if first.endswith("//") else [exactly(first)]
    shapes += [] if first.endswith("/") else [children_of(first)]
    return draw(st.sampled_from(shapes))


@BUDGET
@given(st.data(), ORDERS, HEADERS)
def test_directories_lead_to_all_rows_and_to_no_others(
    data: st.DataObject, order: KeyOrder, headers: list[Header]
) -> None:
    index = data.draw(st.sampled_from([None, "i", "j" * 300]))
    partition_key = data.draw(st.sampled_from([None, "p", "q" * 300, "a"]))
    selection = select(order, data.draw(ranges(order)), index, partition_key)
    found = evaluate(tree_of(headers), lambda view: rows_of(view, LAYOUT, selection))
    assert found == rows_by_looking_at_all(headers, selection)


@BUDGET
@given(st.data(), ORDERS, HEADERS)
def test_rows_are_those_between_the_bounds(data: st.DataObject, order: KeyOrder, headers: list[Header]) -> None:
    range = data.draw(ranges(order))
    places = sorted(place_of(order, header.identity.key) for header in headers)
    high = min(place_of(order, range.end), order.user_end) if range.end else order.user_end
    expected = places[bisect_left(places, place_of(order, range.start)) : max(0, bisect_left(places, high))]
    found = rows_by_looking_at_all(headers, select(order, range))
    assert [row.place for row in found] == [(place, b"") for place in expected]


@BUDGET
@given(st.data(), ORDERS, HEADERS, KEY)
def test_the_nearest_row_is_the_one_beside_the_key(
    data: st.DataObject, order: KeyOrder, headers: list[Header], key: str
) -> None:
    index = data.draw(st.sampled_from([None, "i"]))
    comparison = data.draw(st.sampled_from(list(Comparison)))
    rows = evaluate(tree_of(headers), lambda view: rows_of(view, LAYOUT, around(order, key, comparison, index)))
    found = nearest(order, rows, key, comparison)
    every = rows_by_looking_at_all(headers, select(order, ALL, index))
    places = [row.place[0] for row in every]
    place = place_of(order, key)
    first, beyond = bisect_left(places, place), bisect_right(places, place)
    wanted = {
        Comparison.EQUAL: first if first < beyond else -1,
        Comparison.CEILING: first,
        Comparison.HIGHER: beyond,
        Comparison.LOWER: first - 1,
        Comparison.FLOOR: first if first < beyond else first - 1,
    }[comparison]
    assert found == (every[wanted] if 0 <= wanted < len(every) else None)


@BUDGET
@given(ORDERS, KEY)
def test_the_bounds_of_a_directory_hold_its_keys(order: KeyOrder, key: str) -> None:
    lowest, highest = directory_bounds(order, directory_of(key))
    assert lowest <= place_of(order, key) <= highest


@pytest.mark.parametrize(
    ("range", "directory"),
    [
        (exactly("a/b"), "a/"),
        (exactly("1_2"), ""),
        (children_of("/a"), "/a/"),
        (Range("/a/b", "/a/c"), "/a/"),
        (Range("/a/b", "/b/"), None),
        (Range("/a/"), None),
        (Range("a//", "a///"), None),
        (Range("/" * DEPTH_MAX + "a", "/" * DEPTH_MAX + "b"), None),
        (ALL, None),
    ],
)
def test_what_is_asked_for_most_looks_into_one_directory(range: Range, directory: str | None) -> None:
    assert select(key_order("hierarchical"), range).single_directory() == directory


def test_ties_of_an_index_are_in_the_order_of_their_keys() -> None:
    keys = ["b", "a/z", "a", "A"]
    headers = [Header(Identity(key), Version(1, 0, 0, 0), (("i", "same"),)) for key in keys]
    rows = rows_by_looking_at_all(headers, select(key_order("hierarchical"), ALL, "i"))
    assert [row.identity.key for row in rows] == sorted(keys, key=lambda key: path_escape(key.encode()))
