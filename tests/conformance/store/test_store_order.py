"""The order of keys: what lists, scans and comparing gets say of it, in either order and on any number of shards."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from store_helpers import LAST_CHARACTER, Place, collect, values_of

from metastore.interface import (
    ALL,
    Comparison,
    InvalidRequest,
    MetadataStore,
    Range,
    Record,
    children_of,
    exactly,
)
from shard_model.order import ENCODERS

DEEP_NAMES = ["", "/", "/a", "/a/", "/a/b", "/a//", "/a/b/c", "/b", "/b/x", "/~", "/é", "//", "///", "/a0", "/a b", "0"]
FLAT_NAMES = ["a", "a!", "a0", "aa", "b", "é", "\0", "a\0", "\x01", "~", "\U0001f600"]


def in_order(store: MetadataStore, keys: list[str]) -> list[str]:
    encode = ENCODERS[store.key_sorting]
    return sorted(keys, key=lambda key: encode(key.encode()))


def key_of(record: Record | None) -> str | None:
    return None if record is None else record.key


async def put_all(store: MetadataStore, keys: list[str]) -> None:
    for key in keys:
        await store.put(key, key.encode())


async def test_keys_come_in_the_stores_order(store: MetadataStore, place: Place) -> None:
    keys = [f"{prefix}{name}" for prefix in (place.name, place.path) for name in DEEP_NAMES]
    await put_all(store, keys)
    expected = in_order(store, keys)
    assert [key async for key in store.list() if place.name in key] == expected
    records = [record async for record in store.scan(ALL) if place.name in record.key]
    assert [record.key for record in records] == expected
    assert [record.value for record in records] == [key.encode() for key in expected]
    versions = [record.version for record in records]
    assert versions == [found.version for key in expected if (found := await store.get(key))]


@pytest.mark.parametrize("comparison", Comparison)
async def test_gets_find_the_nearest_key(store: MetadataStore, place: Place, comparison: Comparison) -> None:
    keys = in_order(store, [place.key(name) for name in FLAT_NAMES])
    await put_all(store, keys)
    encode = ENCODERS[store.key_sorting]
    for asked in (*keys, *(f"{key}\x02" for key in keys), *(f"{key}z" for key in keys)):
        place_of_asked = encode(asked.encode())
        below = [key for key in keys if encode(key.encode()) < place_of_asked]
        above = [key for key in keys if encode(key.encode()) > place_of_asked]
        exact = [asked] if asked in keys else []
        expected = {
            Comparison.EQUAL: exact[:1],
            Comparison.FLOOR: (below + exact)[-1:],
            Comparison.LOWER: below[-1:],
            Comparison.CEILING: (exact + above)[:1],
            Comparison.HIGHER: above[:1],
        }[comparison]
        found = await store.get(asked, comparison=comparison)
        if expected:
            assert key_of(found) == expected[0]
        else:  # beyond what this test has put, or nothing at all
            assert found is None or found.key not in keys


async def test_nothing_is_below_the_least_and_above_the_greatest_key(store: MetadataStore, place: Place) -> None:
    await store.put(place.key("a"), b"")
    greatest = {"hierarchical": "/" * 40_000, "natural": LAST_CHARACTER * 100}[store.key_sorting]
    for comparison in (Comparison.HIGHER, Comparison.CEILING):
        assert await store.get(greatest, comparison=comparison) is None
    assert await store.get("", comparison=Comparison.LOWER) is None


async def test_a_comparing_get_can_leave_the_value_out(store: MetadataStore, place: Place) -> None:
    await store.put(place.key("a"), b"value")
    found = await store.get(place.key("b"), comparison=Comparison.FLOOR, include_value=False)
    assert found is not None
    assert (found.key, found.value) == (place.key("a"), None)


async def test_a_range_has_its_start_and_not_its_end(store: MetadataStore, place: Place) -> None:
    keys = [place.key(name) for name in "abcde"]
    await put_all(store, keys)
    for first, start in enumerate(keys):
        for last in range(first, len(keys)):
            assert await collect(store.list(Range(start, keys[last]))) == keys[first:last]
    assert await values_of(store.scan(Range(keys[1], keys[3]))) == {key: key.encode() for key in keys[1:3]}
    assert await collect(store.list(Range(place.key("x"), place.key("z")))) == []


async def test_ranges_may_be_open_at_either_end(store: MetadataStore, place: Place) -> None:
    keys = [place.key(name) for name in "abc"]
    await put_all(store, keys)
    assert [key async for key in store.list(Range(start=keys[1])) if key in keys] == keys[1:]
    assert [key async for key in store.list(Range(end=keys[1])) if key in keys] == keys[:1]
    assert [key async for key in store.list(ALL) if key in keys] == keys


async def test_a_range_of_exactly_one_key_has_no_neighbours(store: MetadataStore, place: Place) -> None:
    keys = [place.key(name) for name in ("1_2", "1_20", "1_2\0", "1_2\0\0", "1_2/", "1_2/a", "1_", "1_3")]
    await put_all(store, keys)
    for key in keys:
        assert await collect(store.list(exactly(key))) == [key]
        assert await values_of(store.scan(exactly(key))) == {key: key.encode()}
        async with store.watch(exactly(key)) as watch:
            batches = [await anext(watch) for _ in range(3)]
        assert [record.key for batch in batches for record in batch.records] == [key]
    with pytest.raises(InvalidRequest):
        exactly("a//")


async def test_children_of_a_path_are_side_by_side(store: MetadataStore, place: Place) -> None:
    if store.key_sorting != "hierarchical":
        pytest.skip("in this order they are not")
    names = ["", "/", "/a", "/a/b", "/b", "/b/c/d", "/~", "0", "0/a", "//", "/é"]
    await put_all(store, [place.path + name for name in names])
    expected = in_order(store, [place.path + name for name in ("/", "/a", "/b", "/~", "/é")])
    assert await collect(store.list(children_of(place.path))) == expected
    await store.delete_range(children_of(place.path))
    assert await collect(store.list(children_of(place.path))) == []
    assert [key async for key in store.list() if key.startswith(place.path)] == in_order(
        store, [place.path + name for name in ("", "/a/b", "/b/c/d", "0", "0/a", "//")]
    )


async def test_a_range_is_deleted_and_nothing_beside_it(store: MetadataStore, place: Place) -> None:
    keys = [place.key(name) for name in "abcde"]
    for key in keys:
        await store.put(key, b"", indexes=[(place.index(), key)])
    await store.delete_range(Range(keys[1], keys[4]))
    assert await collect(store.list(place.range)) == [keys[0], keys[4]]
    assert sorted(await collect(store.list(index=place.index()))) == [keys[0], keys[4]]
    await store.delete_range(Range(keys[1], keys[4]))
    assert await collect(store.list(place.range)) == [keys[0], keys[4]]


async def test_internal_keys_are_left_out(store: MetadataStore, place: Place) -> None:
    key = f"__oxia/{place.name}"
    await store.put(key, b"1")
    found = await store.get(key)
    assert found is not None
    assert found.value == b"1"
    assert [each async for each in store.list() if each.startswith("__oxia/")] == []
    assert [each async for each in store.scan(Range("__oxia/")) if each.key.startswith("__oxia/")] == []
    nearest = await store.get(key, comparison=Comparison.LOWER)
    assert nearest is None or not nearest.key.startswith("__oxia/")
    assert await store.get(key, comparison=Comparison.HIGHER) is None
    assert await store.delete(key)


async def test_a_long_scan_is_complete_and_in_order(store: MetadataStore, place: Place) -> None:
    values = {place.key(f"{number:04d}"): b"%d" % number * 500 for number in range(2000)}
    for first in range(0, len(values), 500):
        await put_many(store, dict(list(values.items())[first : first + 500]))
    found = await collect(store.scan(place.range))
    assert all(one.key < two.key for one, two in pairwise(found))
    assert {record.key: record.value for record in found} == values
    assert await collect(store.list(place.range)) == list(values)


async def put_many(store: MetadataStore, values: dict[str, bytes]) -> None:
    await asyncio.gather(*(store.put(key, value) for key, value in values.items()))


async def test_a_scan_may_be_left_early(store: MetadataStore, place: Place) -> None:
    await put_many(store, {place.key(f"{number:04d}"): b"" for number in range(300)})
    for _ in range(20):
        async for record in store.scan(place.range):
            assert record.key == place.key("0000")
            break
    assert len(await collect(store.list(place.range))) == 300
