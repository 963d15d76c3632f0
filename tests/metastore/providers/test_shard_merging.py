"""Answers of several shards put into one order."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metastore.interface import Comparison, Record, Version
from metastore.providers.merging import Merge, Place, StoreOrder

VERSION = Version(1, 0, 0, 0)


def place(item: bytes) -> Place:
    return item, b""


@settings(deadline=None, database=None, derandomize=True, max_examples=300)
@given(st.lists(st.lists(st.lists(st.binary(max_size=2), min_size=1, max_size=3), max_size=4), min_size=1, max_size=4))
def test_portions_are_merged_as_they_arrive(portions: list[list[list[bytes]]]) -> None:
    """Each source's portions, sorted through, come out as one sorted whole, whatever their sizes."""
    sources: list[list[Sequence[bytes]]] = []
    for cut in portions:
        items = sorted(item for portion in cut for item in portion)
        lengths = iter([len(portion) for portion in cut])
        pieces, position = [], 0
        for length in lengths:
            pieces.append(items[position : position + length])
            position += length
        sources.append(list(pieces))
    merge: Merge[bytes] = Merge(len(sources), place)
    told: list[bytes] = []
    while True:
        for source in merge.wanted():
            if sources[source]:
                merge.feed(source, sources[source].pop(0))
            else:
                merge.end(source)
        if merge.wanted():
            continue
        taken = merge.take()
        if not taken:
            break
        told += taken
    assert told == sorted(item for cut in portions for portion in cut for item in portion)


def record(key: str, secondary_key: str | None = None) -> Record:
    return Record(key, b"", VERSION, secondary_key)


@pytest.mark.parametrize(
    ("comparison", "expected"),
    [(Comparison.FLOOR, "/b"), (Comparison.LOWER, "/b"), (Comparison.CEILING, "/a"), (Comparison.HIGHER, "/a")],
)
def test_the_nearest_of_several_records(comparison: Comparison, expected: str) -> None:
    order = StoreOrder("hierarchical")
    nearest = order.nearest([record("/a"), record("/b")], "/x", comparison)
    assert nearest is not None
    assert nearest.key == expected
    assert order.nearest([], "/x", comparison) is None


def test_of_equal_secondary_keys_the_first_answers_a_floor_and_the_last_a_lower() -> None:
    order = StoreOrder("natural")
    found = [record("/2", "s"), record("/1", "s"), record("/3", "s")]
    for asked, comparison, expected in (
        ("s", Comparison.FLOOR, "/1"),
        ("t", Comparison.FLOOR, "/3"),
        ("t", Comparison.LOWER, "/3"),
        ("s", Comparison.CEILING, "/1"),
    ):
        nearest = order.nearest(found, asked, comparison)
        assert nearest is not None
        assert nearest.key == expected


def test_orders_differ() -> None:
    keys = ["/a/b", "/c", "/a"]
    assert sorted(keys, key=StoreOrder("hierarchical").position) == ["/a", "/c", "/a/b"]
    assert sorted(keys, key=StoreOrder("natural").position) == ["/a", "/a/b", "/c"]
