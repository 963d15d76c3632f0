"""Partition keys: records that live together, and calls that ask one shard or all of them."""

from __future__ import annotations

import pytest
from store_helpers import Follower, Place, collect, values_of

from metastore.interface import Comparison, MetadataStore, UnexpectedVersion

PARTITIONS = [f"partition-{number}" for number in range(12)]


async def test_a_record_is_found_where_it_was_put(store: MetadataStore, place: Place) -> None:
    for partition in PARTITIONS:
        await store.put(place.key(partition), partition.encode(), partition_key=partition)
    for partition in PARTITIONS:
        found = await store.get(place.key(partition), partition_key=partition)
        assert found is not None
        assert found.value == partition.encode()
        assert place.key(partition) in await collect(store.list(place.range, partition_key=partition))
    assert await collect(store.list(place.range)) == sorted(map(place.key, PARTITIONS))
    for partition in PARTITIONS:
        assert await store.delete(place.key(partition), partition_key=partition)
    assert await collect(store.list(place.range)) == []


async def test_the_records_of_a_partition_are_read_together(store: MetadataStore, place: Place) -> None:
    keys = [place.key(f"{number:02d}") for number in range(30)]
    for key in keys:
        await store.put(key, key.encode(), partition_key="p", indexes=[(place.index(), key[::-1])])
    assert await collect(store.list(place.range, partition_key="p")) == keys
    assert await values_of(store.scan(place.range, partition_key="p")) == {key: key.encode() for key in keys}
    backwards = sorted(keys, key=lambda key: key[::-1])
    assert await collect(store.list(index=place.index(), partition_key="p")) == backwards
    assert await collect(store.list(place.range)) == keys


async def test_every_partition_has_records_of_its_own(store: MetadataStore, place: Place) -> None:
    """The same key in several partitions: one record for each shard that these are on, whatever their number."""
    key = place.key("a")
    for partition in PARTITIONS:
        await store.put(key, partition.encode(), partition_key=partition)
    seen = [await store.get(key, partition_key=partition) for partition in PARTITIONS]
    values = {record.value for record in seen if record is not None}
    assert len(await collect(store.list(place.range))) == len(values)
    assert {record.value for record in await collect(store.scan(place.range))} == values
    for partition in PARTITIONS:
        assert len(await collect(store.list(place.range, partition_key=partition))) == 1
    await store.delete_range(place.range)
    assert await collect(store.list(place.range)) == []


async def test_conditions_are_judged_in_the_partition(store: MetadataStore, place: Place) -> None:
    put = await store.put(place.key("a"), b"1", partition_key="p", expected=-1)
    with pytest.raises(UnexpectedVersion):
        await store.put(place.key("a"), b"2", partition_key="p", expected=-1)
    with pytest.raises(UnexpectedVersion):
        await store.delete(place.key("a"), partition_key="p", expected=put.version.version_id + 1000)
    await store.put(place.key("a"), b"2", partition_key="p", expected=put.version.version_id)
    found = await store.get(place.key("a"), partition_key="p")
    assert found is not None
    assert found.value == b"2"


@pytest.mark.parametrize(
    ("comparison", "asked", "expected"),
    [
        (Comparison.FLOOR, "b", "b"),
        (Comparison.FLOOR, "bb", "b"),
        (Comparison.LOWER, "b", "a"),
        (Comparison.CEILING, "bb", "c"),
        (Comparison.HIGHER, "b", "c"),
    ],
)
async def test_comparing_gets_ask_all_partitions_or_one(
    store: MetadataStore, place: Place, comparison: Comparison, asked: str, expected: str
) -> None:
    for name in "abc":
        await store.put(place.key(name), b"", partition_key="p")
    for name in ("b!", "bz"):
        await store.put(place.key(name + name), b"", partition_key="elsewhere")
    inside = await store.get(place.key(asked), comparison=comparison, partition_key="p")
    everywhere = await store.get(place.key(asked), comparison=comparison)
    assert inside is not None
    assert everywhere is not None
    keys = sorted(await collect(store.list(place.range)))
    own = sorted(await collect(store.list(place.range, partition_key="p")))
    assert inside.key == nearest(own, place.key(asked), comparison)
    assert everywhere.key == nearest(keys, place.key(asked), comparison)
    assert place.key(expected) in own


def nearest(keys: list[str], asked: str, comparison: Comparison) -> str:
    if comparison in (Comparison.FLOOR, Comparison.LOWER):
        return max(key for key in keys if key < asked or (key == asked and comparison is Comparison.FLOOR))
    return min(key for key in keys if key > asked or (key == asked and comparison is Comparison.CEILING))


async def test_a_range_of_one_partition_is_deleted(store: MetadataStore, place: Place) -> None:
    for name in "abc":
        await store.put(place.key(name), b"", partition_key="p")
    own = await collect(store.list(place.range, partition_key="p"))
    assert own == [place.key(name) for name in "abc"]
    await store.delete_range(place.range, partition_key="p")
    assert await collect(store.list(place.range)) == []


async def test_a_watch_of_a_partition_tells_of_it_alone(store: MetadataStore, place: Place) -> None:
    await store.put(place.key("a"), b"1", partition_key="p")
    async with store.watch(place.range, partition_key="p") as watch:
        follower = Follower(watch)
        assert list(await follower.begin()) == [place.key("a")]
        await store.put(place.key("b"), b"2", partition_key="p")
        await store.delete(place.key("a"), partition_key="p")
        await follower.until_values({place.key("b"): b"2"})
    assert len({change.shard for change in follower.changes}) == 1


async def test_a_watch_of_all_partitions_tells_of_each(store: MetadataStore, place: Place) -> None:
    async with store.watch(place.range) as watch:
        follower = Follower(watch)
        await follower.begin()
        for partition in PARTITIONS:
            await store.put(place.key(partition), partition.encode(), partition_key=partition)
        await follower.until_values({place.key(partition): partition.encode() for partition in PARTITIONS})
        await store.delete_range(place.range)
        await follower.until_values({})


async def test_the_empty_partition_key_is_one(store: MetadataStore, place: Place) -> None:
    await store.put(place.key("a"), b"1", partition_key="")
    found = await store.get(place.key("a"), partition_key="")
    assert found is not None
    assert await collect(store.list(place.range, partition_key="")) == [place.key("a")]
    assert await store.delete(place.key("a"), partition_key="")
