"""Sequences: generated keys, which count on from the greatest one there is."""

from __future__ import annotations

import asyncio

import pytest
from store_helpers import Place, close, collect

from metastore.interface import InvalidRequest, MetadataStore, Range
from metastore.interface.checks import SEQUENCE_DELTA_MAX, SEQUENCE_PARTS_MAX
from support.stores import Subject

PARTITION = "p"


def numbered(prefix: str, *numbers: int) -> str:
    return "-".join([prefix, *(f"{number:020d}" for number in numbers)])


async def put_next(store: MetadataStore, prefix: str, *deltas: int, value: bytes = b"") -> str:
    return (await store.put(prefix, value, partition_key=PARTITION, sequence_deltas=deltas)).key


async def test_keys_are_numbered_by_the_deltas(store: MetadataStore, place: Place) -> None:
    prefix = place.key("s")
    assert await put_next(store, prefix, 3, value=b"one") == numbered(prefix, 3)
    assert await put_next(store, prefix, 1, 6) == numbered(prefix, 4, 6)
    assert await put_next(store, prefix, 1, 6) == numbered(prefix, 5, 12)
    assert await put_next(store, prefix, 2, 0, 1) == numbered(prefix, 7, 12, 1)
    found = await store.get(numbered(prefix, 3), partition_key=PARTITION)
    assert found is not None
    assert (found.value, found.version.modifications) == (b"one", 0)
    assert await store.get(prefix, partition_key=PARTITION) is None


async def test_a_sequence_cannot_lose_parts(store: MetadataStore, place: Place) -> None:
    prefix = place.key("s")
    await put_next(store, prefix, 1, 1)
    with pytest.raises(InvalidRequest):
        await put_next(store, prefix, 1)
    assert await collect(store.list(place.range)) == [numbered(prefix, 1, 1)]


async def test_sequences_are_generated_one_after_another(store: MetadataStore, place: Place) -> None:
    prefix = place.key("s")
    keys = await asyncio.gather(*(put_next(store, prefix, 1) for _ in range(100)))
    assert sorted(keys) == [numbered(prefix, number) for number in range(1, 101)]
    assert await collect(store.list(place.range)) == sorted(keys)


async def test_other_keys_beside_a_sequence_do_not_disturb_it(
    subject: Subject, store: MetadataStore, place: Place
) -> None:
    """Prefix `x` beside `x-1`, and keys that only look alike."""
    if "sequence neighbours" in subject.faults:
        pytest.skip("a real Oxia is disturbed")
    prefix = place.key("x")
    strangers = [
        prefix, prefix + "-", prefix + "-1", prefix + "-5/a", prefix + "--5", prefix + "+7", prefix + "-x",
        prefix + "-0000000000000000009", prefix + "-000000000000000000099", prefix + "-00000000000000000009x",
        prefix + "-00000000000000000009-", prefix + "-00000000000000000009-7", prefix + "-99999999999999999999",
        prefix + "y-00000000000000000055",
    ]  # fmt: skip
    for key in strangers:
        await store.put(key, b"", partition_key=PARTITION)
    assert await put_next(store, prefix, 1) == numbered(prefix, 1)
    assert await put_next(store, prefix + "-1", 10) == numbered(prefix + "-1", 10)
    assert await put_next(store, prefix, 1) == numbered(prefix, 2)
    assert await put_next(store, prefix + "-1", 10) == numbered(prefix + "-1", 20)
    assert await put_next(store, prefix + "y", 1) == numbered(prefix + "y", 56)


async def test_a_sequence_counts_on_from_the_greatest_key(store: MetadataStore, place: Place) -> None:
    prefix = place.key("s")
    for _ in range(3):
        await put_next(store, prefix, 1)
    await store.delete(numbered(prefix, 1), partition_key=PARTITION)
    assert await put_next(store, prefix, 1) == numbered(prefix, 4)
    await store.put(numbered(prefix, 1000), b"by hand", partition_key=PARTITION)
    assert await put_next(store, prefix, 1) == numbered(prefix, 1001)


async def test_numbers_go_up_to_the_greatest(subject: Subject, store: MetadataStore, place: Place) -> None:
    prefix = place.key("s")
    assert await put_next(store, prefix, SEQUENCE_DELTA_MAX) == numbered(prefix, SEQUENCE_DELTA_MAX)
    if "sequence neighbours" not in subject.faults:  # a real Oxia begins anew at 0
        with pytest.raises(InvalidRequest):
            await put_next(store, prefix, 1)


async def test_as_many_parts_as_is_said(store: MetadataStore, place: Place) -> None:
    prefix = place.key("s")
    deltas = range(1, SEQUENCE_PARTS_MAX + 1)
    assert await put_next(store, prefix, *deltas) == numbered(prefix, *deltas)


async def test_records_of_a_sequence_have_all_that_others_have(store: MetadataStore, place: Place) -> None:
    async with await store.open_session(identity="me") as session:
        put = await store.put(
            place.key("s"),
            b"1",
            partition_key=PARTITION,
            sequence_deltas=[7],
            session=session,
            indexes=[(place.index(), "x")],
        )
        assert (put.key, put.version.identity) == (numbered(place.key("s"), 7), "me")
        assert await collect(store.list(index=place.index())) == [put.key]
    assert await collect(store.list(place.range)) == []


async def test_each_partition_counts_for_itself(store: MetadataStore, place: Place) -> None:
    prefix = place.key("s")
    generated: dict[str, list[str]] = {}
    for _ in range(3):
        for number in range(8):
            partition = f"partition-{number}"
            put = await store.put(prefix, b"", partition_key=partition, sequence_deltas=[1])
            generated.setdefault(partition, []).append(put.key)
    for partition, keys in generated.items():
        assert keys == sorted(set(keys))
        own = await collect(store.list(place.range, partition_key=partition))
        assert set(keys) <= set(own)
        assert own == [numbered(prefix, number) for number in range(1, len(own) + 1)]


async def test_a_sequence_is_watched_from_its_greatest_key(store: MetadataStore, place: Place) -> None:
    prefix = place.key("s")
    await put_next(store, prefix, 1)
    await put_next(store, prefix, 1)
    watch = store.watch_sequence(prefix, partition_key=PARTITION)
    assert await anext(watch) == numbered(prefix, 2)
    await put_next(store, prefix, 1)
    assert await anext(watch) == numbered(prefix, 3)
    await store.put(prefix + "-x", b"", partition_key=PARTITION)
    await put_next(store, prefix, 1)
    assert await anext(watch) == numbered(prefix, 4)
    await close(watch)


async def test_a_slow_reader_of_a_sequence_gets_the_last_key(store: MetadataStore, place: Place) -> None:
    prefix = place.key("s")
    await put_next(store, prefix, 1)
    watch = store.watch_sequence(prefix, partition_key=PARTITION)
    told = [await anext(watch)]
    for _ in range(50):
        await put_next(store, prefix, 1)
    while told[-1] != numbered(prefix, 51):
        told.append(await anext(watch))
    assert told == sorted(set(told))
    await close(watch)


async def test_a_sequence_may_be_watched_before_it_begins(store: MetadataStore, place: Place) -> None:
    prefix = place.key("s")
    watch = store.watch_sequence(prefix, partition_key=PARTITION)
    first = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    assert not first.done()
    await put_next(store, prefix, 5)
    assert await first == numbered(prefix, 5)
    await close(watch)


async def test_a_deleted_range_of_a_sequence_is_no_news(store: MetadataStore, place: Place) -> None:
    prefix = place.key("s")
    for _ in range(3):
        await put_next(store, prefix, 1)
    watch = store.watch_sequence(prefix, partition_key=PARTITION)
    assert await anext(watch) == numbered(prefix, 3)
    await store.delete_range(Range(numbered(prefix, 1), numbered(prefix, 3)), partition_key=PARTITION)
    await put_next(store, prefix, 1)
    assert await anext(watch) == numbered(prefix, 4)
    await close(watch)
