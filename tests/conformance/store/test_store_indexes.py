"""Secondary indexes: exact bounds, the order of answers, and that entries follow their records."""

from __future__ import annotations

import pytest
from store_helpers import LAST_CHARACTER, Place, collect

from metastore.interface import (
    Comparison,
    Index,
    InvalidRequest,
    MetadataStore,
    Range,
    Record,
    exactly,
)
from shard_model.order import ENCODERS
from support.stores import Subject

SECONDARY_KEYS = [
    "", "1", "1_2", "1_20", "1_2/", "1_2/3", "1_2//", "1_2\0", "1_2\0\0", "1_2\x01", "1_3", "/", "//", "/a", "/a/b",
    "a", "é", "~", LAST_CHARACTER, "\0", "%2F", "x" * 600, "x" * 600 + "/y",
]  # fmt: skip


@pytest.fixture
def secondary_keys(subject: Subject) -> list[str]:
    """Without those that a real Oxia is known to lose its way with."""
    if "secondary keys" not in subject.faults:
        return SECONDARY_KEYS
    return [key for key in SECONDARY_KEYS if key and not set(key) & {"/", "\0", "\x01"}]


async def put_entries(store: MetadataStore, place: Place, secondary_keys: list[str]) -> dict[str, str]:
    """One record for each secondary key; returns their keys."""
    keys = {secondary: place.key(f"{number:02d}") for number, secondary in enumerate(secondary_keys)}
    for secondary, key in keys.items():
        await store.put(key, secondary.encode(), indexes=[(place.index(), secondary)])
    return keys


def encoded(store: MetadataStore, key: str) -> bytes:
    return ENCODERS[store.key_sorting](key.encode())


def in_order(store: MetadataStore, keys: list[str]) -> list[str]:
    return sorted(keys, key=lambda key: encoded(store, key))


def expect_order(store: MetadataStore, found: list[str], expected: list[str]) -> None:
    """Over all partitions the order is not everybody's; what is found is."""
    if store.capabilities.orders_index_scans:
        assert found == expected
    else:
        assert sorted(found) == sorted(expected)


async def test_an_index_is_in_the_order_of_its_secondary_keys(
    store: MetadataStore, place: Place, secondary_keys: list[str]
) -> None:
    keys = await put_entries(store, place, secondary_keys)
    expected = [keys[secondary] for secondary in in_order(store, secondary_keys)]
    expect_order(store, await collect(store.list(index=place.index())), expected)
    records = await collect(store.scan(index=place.index()))
    expect_order(store, [record.key for record in records], expected)
    assert all(record.key == keys[(record.value or b"").decode()] for record in records)
    assert all(record.secondary_key in (None, (record.value or b"").decode()) for record in records)


async def test_one_secondary_key_is_selected_exactly(
    store: MetadataStore, place: Place, secondary_keys: list[str]
) -> None:
    keys = await put_entries(store, place, secondary_keys)
    for secondary in secondary_keys:
        if not secondary.endswith("//"):
            assert await collect(store.list(exactly(secondary), index=place.index())) == [keys[secondary]], secondary
            records = await collect(store.scan(exactly(secondary), index=place.index()))
            assert [record.value for record in records] == [secondary.encode()], secondary
        found = await store.get(secondary, index=place.index())
        assert found is not None, secondary
        assert (found.key, found.secondary_key) == (keys[secondary], secondary)
    for absent in ("1_", "1_22", "2", "b", "\0\0"):
        assert await collect(store.list(exactly(absent), index=place.index())) == []
        assert await store.get(absent, index=place.index()) is None


async def test_ranges_of_an_index_have_exact_bounds(
    store: MetadataStore, place: Place, secondary_keys: list[str]
) -> None:
    keys = await put_entries(store, place, secondary_keys)
    ordered = in_order(store, secondary_keys)
    for first in range(0, len(ordered), 3):
        for last in range(first, len(ordered), 4):
            if ordered[last]:
                found = await collect(store.list(Range(ordered[first], ordered[last]), index=place.index()))
                expect_order(store, found, [keys[secondary] for secondary in ordered[first:last]])
        found = await collect(store.list(Range(start=ordered[first]), index=place.index()))
        expect_order(store, found, [keys[secondary] for secondary in ordered[first:]])
    middle = ordered[len(ordered) // 2]
    found = await collect(store.list(Range(end=middle), index=place.index()))
    expect_order(store, found, [keys[secondary] for secondary in ordered[: len(ordered) // 2]])


@pytest.mark.parametrize("comparison", Comparison)
async def test_gets_by_index_find_the_nearest(
    store: MetadataStore, place: Place, secondary_keys: list[str], comparison: Comparison
) -> None:
    keys = await put_entries(store, place, secondary_keys)
    ordered = in_order(store, secondary_keys)
    for asked in (*secondary_keys, "0", "1_1", "b", "zz", LAST_CHARACTER * 2):
        below = [each for each in ordered if encoded(store, each) < encoded(store, asked)]
        above = [each for each in ordered if encoded(store, each) > encoded(store, asked)]
        exact = [asked] if asked in keys else []
        expected = {
            Comparison.EQUAL: exact[:1],
            Comparison.FLOOR: (below + exact)[-1:],
            Comparison.LOWER: below[-1:],
            Comparison.CEILING: (exact + above)[:1],
            Comparison.HIGHER: above[:1],
        }[comparison]
        found = await store.get(asked, comparison=comparison, index=place.index())
        told = [] if found is None else [found.secondary_key]
        assert told == expected, asked
        assert found is None or found.key == keys[expected[0]]


async def test_of_several_with_one_secondary_key_the_nearest_answers(store: MetadataStore, place: Place) -> None:
    for secondary in ("b", "d"):
        for name in "213":
            await store.put(place.key(secondary + name), b"", indexes=[(place.index(), secondary)])

    async def asked(secondary: str, comparison: Comparison) -> str:
        found = await store.get(secondary, comparison=comparison, index=place.index())
        assert found is not None
        return found.key.removeprefix(place.key(""))

    assert await asked("b", Comparison.EQUAL) == "b1"
    assert await asked("a", Comparison.CEILING) == "b1"
    assert await asked("b", Comparison.CEILING) == "b1"
    assert await asked("b", Comparison.HIGHER) == "d1"
    assert await asked("d", Comparison.LOWER) == "b3"
    assert await asked("c", Comparison.FLOOR) == "b3"
    assert await asked("d", Comparison.FLOOR) == "d1"
    found = await collect(store.list(index=place.index()))
    expect_order(store, found, [place.key(name) for name in ("b1", "b2", "b3", "d1", "d2", "d3")])


async def test_an_index_that_no_record_has_is_empty(store: MetadataStore, place: Place) -> None:
    await store.put(place.key("a"), b"", indexes=[(place.index(), "a")])
    absent = place.index("absent")
    assert await collect(store.list(index=absent)) == []
    assert await collect(store.scan(Range("a", "b"), index=absent)) == []
    for comparison in Comparison:
        assert await store.get("a", comparison=comparison, index=absent) is None


async def test_neighbouring_indexes_do_not_mix(subject: Subject, store: MetadataStore, place: Place) -> None:
    if "secondary keys" in subject.faults:
        pytest.skip("a real Oxia mixes them up")
    names = [place.index(), place.index() + "/", place.index() + "\0", place.index() + "x", place.index()[:-1]]
    for number, name in enumerate(names):
        await store.put(place.key(str(number)), b"", indexes=[(name, "a"), (name, "c")])
    for number, name in enumerate(names):
        assert await collect(store.list(index=name)) == [place.key(str(number))] * 2
        assert await store.get("c", comparison=Comparison.HIGHER, index=name) is None
        assert await store.get("a", comparison=Comparison.LOWER, index=name) is None


async def test_a_record_comes_once_for_each_secondary_key(store: MetadataStore, place: Place) -> None:
    entries = [(place.index(), "b"), (place.index(), "a"), (place.index(), "d"), (place.index("other"), "c")]
    await store.put(place.key("x"), b"", indexes=entries)
    await store.put(place.key("y"), b"", indexes=[(place.index(), "c")])
    x, y = place.key("x"), place.key("y")
    expect_order(store, await collect(store.list(index=place.index())), [x, x, y, x])
    records = await collect(store.scan(Range("a", "c"), index=place.index()))
    assert [record.key for record in records] == [x, x]
    assert [record.secondary_key for record in records] in (["a", "b"], [None, None])
    assert await collect(store.list(index=place.index("other"))) == [x]


async def test_the_same_entry_twice_counts_once(store: MetadataStore, place: Place) -> None:
    await store.put(place.key("a"), b"", indexes=[(place.index(), "x"), (place.index(), "x")])
    assert await collect(store.list(index=place.index())) == [place.key("a")]
    await store.delete(place.key("a"))
    assert await collect(store.list(index=place.index())) == []


async def test_a_put_replaces_all_entries(store: MetadataStore, place: Place) -> None:
    async def put(*indexes: Index) -> list[str]:
        await store.put(place.key("a"), b"", indexes=indexes)
        return [key for index in (place.index(), place.index("2")) for key in await collect(store.list(index=index))]

    a = place.key("a")
    assert await put((place.index(), "x"), (place.index("2"), "y")) == [a, a]
    assert await put((place.index(), "z")) == [a]
    assert await collect(store.list(exactly("x"), index=place.index())) == []
    assert await collect(store.list(exactly("z"), index=place.index())) == [a]
    assert await put() == []


async def test_a_delete_removes_the_entries(store: MetadataStore, place: Place) -> None:
    for name in "abc":
        await store.put(place.key(name), b"", indexes=[(place.index(), name)])
    await store.delete(place.key("a"))
    assert await store.get("a", index=place.index()) is None
    await store.delete_range(Range(place.key("b"), place.key("c")))
    assert await collect(store.list(index=place.index())) == [place.key("c")]


async def test_a_refused_put_leaves_the_entries(store: MetadataStore, place: Place) -> None:
    put = await store.put(place.key("a"), b"", indexes=[(place.index(), "x")])
    with pytest.raises(Exception, match="version"):
        await store.put(place.key("a"), b"", expected=put.version.version_id + 9, indexes=[(place.index(), "y")])
    found: Record | None = await store.get("x", index=place.index())
    assert found is not None
    assert await store.get("y", index=place.index()) is None


async def test_values_may_be_left_out_of_gets_by_index(store: MetadataStore, place: Place) -> None:
    await store.put(place.key("a"), b"value", indexes=[(place.index(), "x")])
    with_value = await store.get("x", index=place.index())
    without = await store.get("x", index=place.index(), include_value=False)
    assert with_value is not None
    assert without is not None
    assert (with_value.value, without.value) == (b"value", None)
    assert with_value.version == without.version


async def test_indexes_of_a_partition_are_asked_alone(store: MetadataStore, place: Place) -> None:
    for number in range(10):
        name = f"{number}"
        await store.put(place.key(name), b"", partition_key="p", indexes=[(place.index(), name)])
        await store.put(place.key(name + "x"), b"", partition_key="q", indexes=[(place.index(), name)])
    own = await collect(store.list(Range("2", "5"), index=place.index(), partition_key="p"))
    everywhere = await collect(store.list(Range("2", "5"), index=place.index()))
    assert [key for key in own if not key.endswith("x")] == [place.key(name) for name in "234"]
    expect_order(store, everywhere, [place.key(name) for name in ("2", "2x", "3", "3x", "4", "4x")])
    found = await store.get("3", comparison=Comparison.CEILING, index=place.index(), partition_key="p")
    assert found is not None
    assert found.key == place.key("3")


async def test_inverted_ranges_of_an_index_are_refused(store: MetadataStore, place: Place) -> None:
    with pytest.raises(InvalidRequest):
        await collect(store.list(Range("1_3", "1_2"), index=place.index()))
