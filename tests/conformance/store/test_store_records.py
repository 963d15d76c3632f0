"""Single records: puts, gets and deletes, with and without conditions, and the versions that they leave."""

from __future__ import annotations

import asyncio

import pytest
from store_helpers import Place

from metastore.interface import ABSENT, MetadataStore, UnexpectedVersion

KEYS = ["a", "b c", "é", "\U0010ffff", "\0", "\x01", "%2F", "x" * 1000, "a//b", "trailing/", "__", "~!$&'()*+,;=:@-_."]


async def test_a_record_is_read_as_it_was_put(store: MetadataStore, place: Place) -> None:
    put = await store.put(place.key("a"), b"value")
    assert put.key == place.key("a")
    found = await store.get(place.key("a"))
    assert found is not None
    assert (found.key, found.value, found.version, found.secondary_key) == (put.key, b"value", put.version, None)
    assert await store.get(place.key("b")) is None


async def test_any_text_may_be_a_key(store: MetadataStore, place: Place) -> None:
    puts = {name: await store.put(place.key(name), name.encode()) for name in KEYS}
    for name, put in puts.items():
        found = await store.get(place.key(name))
        assert found is not None, name
        assert (found.key, found.value, found.version) == (put.key, name.encode(), put.version)
    for name in KEYS:
        assert await store.delete(place.key(name)), name
        assert await store.get(place.key(name)) is None


async def test_any_bytes_may_be_a_value(store: MetadataStore, place: Place) -> None:
    for value in (b"", b"\0", bytes(range(256)), b"x" * 500_000):
        await store.put(place.key("a"), value)
        found = await store.get(place.key("a"))
        assert found is not None
        assert found.value == value


async def test_values_may_be_left_out(store: MetadataStore, place: Place) -> None:
    put = await store.put(place.key("a"), b"value")
    found = await store.get(place.key("a"), include_value=False)
    assert found is not None
    assert (found.value, found.version) == (None, put.version)
    assert await store.get(place.key("b"), include_value=False) is None


async def test_versions_tell_a_records_history(store: MetadataStore, place: Place) -> None:
    first = (await store.put(place.key("a"), b"1")).version
    second = (await store.put(place.key("a"), b"2")).version
    assert (first.modifications, second.modifications) == (0, 1)
    assert first.created_ms == first.modified_ms == second.created_ms <= second.modified_ms
    assert second.version_id > first.version_id >= 0
    assert (second.session_id, second.identity, second.is_ephemeral) == (None, None, False)


async def test_a_new_life_goes_on_from_the_earlier_version(store: MetadataStore, place: Place) -> None:
    first = (await store.put(place.key("a"), b"1")).version
    await store.delete(place.key("a"))
    second = (await store.put(place.key("a"), b"2")).version
    assert second.modifications == 0
    assert second.version_id > first.version_id
    assert second.created_ms == second.modified_ms >= first.modified_ms


async def test_a_put_that_expects_no_record_makes_one_only_once(store: MetadataStore, place: Place) -> None:
    await store.put(place.key("a"), b"1", expected=ABSENT)
    with pytest.raises(UnexpectedVersion) as caught:
        await store.put(place.key("a"), b"2", expected=ABSENT)
    assert (caught.value.key, caught.value.expected) == (place.key("a"), ABSENT)
    found = await store.get(place.key("a"))
    assert found is not None
    assert (found.value, found.version.modifications) == (b"1", 0)


async def test_a_put_that_expects_a_version_is_refused_at_another(store: MetadataStore, place: Place) -> None:
    first = (await store.put(place.key("a"), b"1")).version
    second = (await store.put(place.key("a"), b"2", expected=first.version_id)).version
    for expected in (first.version_id, second.version_id + 1000, ABSENT):
        with pytest.raises(UnexpectedVersion) as caught:
            await store.put(place.key("a"), b"3", expected=expected)
        assert (caught.value.key, caught.value.expected) == (place.key("a"), expected)
    assert (await store.put(place.key("a"), b"3", expected=second.version_id)).version.modifications == 2


async def test_a_put_that_expects_a_version_makes_no_record(store: MetadataStore, place: Place) -> None:
    version_id = (await store.put(place.key("b"), b"")).version.version_id
    with pytest.raises(UnexpectedVersion):
        await store.put(place.key("a"), b"1", expected=version_id)
    assert await store.get(place.key("a")) is None


async def test_a_delete_says_whether_there_was_a_record(store: MetadataStore, place: Place) -> None:
    await store.put(place.key("a"), b"1")
    assert await store.delete(place.key("a")) is True
    assert await store.delete(place.key("a")) is False
    assert await store.get(place.key("a")) is None


async def test_a_delete_that_expects_a_version_is_refused_at_another(store: MetadataStore, place: Place) -> None:
    version_id = (await store.put(place.key("a"), b"1")).version.version_id
    for expected in (version_id + 1000, ABSENT):
        with pytest.raises(UnexpectedVersion) as caught:
            await store.delete(place.key("a"), expected=expected)
        assert (caught.value.key, caught.value.expected) == (place.key("a"), expected)
    assert await store.delete(place.key("a"), expected=version_id) is True
    with pytest.raises(UnexpectedVersion):
        await store.delete(place.key("a"), expected=version_id)
    assert await store.delete(place.key("a"), expected=ABSENT) is False


async def test_of_many_that_expect_the_same_version_one_succeeds(store: MetadataStore, place: Place) -> None:
    version_id = (await store.put(place.key("a"), b"")).version.version_id
    puts = [store.put(place.key("a"), b"%d" % number, expected=version_id) for number in range(10)]
    outcomes = await asyncio.gather(*puts, return_exceptions=True)
    won = [number for number, outcome in enumerate(outcomes) if not isinstance(outcome, BaseException)]
    assert len(won) == 1
    assert all(isinstance(outcome, UnexpectedVersion) for outcome in outcomes if isinstance(outcome, BaseException))
    found = await store.get(place.key("a"))
    assert found is not None
    assert found.value == b"%d" % won[0]


async def test_many_calls_may_be_under_way(store: MetadataStore, place: Place) -> None:
    names = [f"{number:03d}" for number in range(200)]
    puts = await asyncio.gather(*(store.put(place.key(name), name.encode()) for name in names))
    assert [put.key for put in puts] == [place.key(name) for name in names]
    found = await asyncio.gather(*(store.get(place.key(name)) for name in names))
    assert [record and record.value for record in found] == [name.encode() for name in names]
    assert await asyncio.gather(*(store.delete(place.key(name)) for name in names)) == [True] * len(names)


async def test_every_put_of_a_record_makes_a_version_of_its_own(store: MetadataStore, place: Place) -> None:
    puts = await asyncio.gather(*(store.put(place.key("a"), b"%d" % number) for number in range(50)))
    assert sorted(put.version.modifications for put in puts) == list(range(50))
    version_ids = [put.version.version_id for put in sorted(puts, key=lambda put: put.version.modifications)]
    assert version_ids == sorted(set(version_ids))


async def test_another_store_object_sees_what_was_put(store: MetadataStore, other: MetadataStore, place: Place) -> None:
    put = await store.put(place.key("a"), b"1")
    found = await other.get(place.key("a"))
    assert found is not None
    assert (found.value, found.version) == (b"1", put.version)
    await other.delete(place.key("a"), expected=put.version.version_id)
    assert await store.get(place.key("a")) is None
