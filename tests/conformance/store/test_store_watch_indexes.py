"""Watches of a range of an index: what is created and deleted there, and what enters and leaves."""

from __future__ import annotations

import asyncio

import pytest
from store_helpers import Follower, Place, collect

from metastore.interface import ChangeKind, Index, MetadataStore, Range, TokenExpired, exactly
from support.stores import Subject


async def begin(follower: Follower) -> Follower:
    await follower.begin()
    return follower


async def test_a_snapshot_of_an_index_has_each_record_once(store: MetadataStore, place: Place) -> None:
    index = place.index()
    await store.put(place.key("a"), b"1", indexes=[(index, "x1"), (index, "x2"), (index, "y")])
    await store.put(place.key("b"), b"2", indexes=[(index, "x1")])
    await store.put(place.key("c"), b"3", indexes=[(index, "y"), (place.index("other"), "x1")])
    async with store.watch(Range("x", "y"), index=index) as watch:
        state = await Follower(watch).begin()
    assert {key: record.value for key, record in state.items()} == {place.key("a"): b"1", place.key("b"): b"2"}


async def test_records_enter_and_leave_the_range(store: MetadataStore, place: Place) -> None:
    key, index = place.key("a"), place.index()

    async def put(value: bytes, *indexes: Index) -> None:
        await store.put(key, value, indexes=indexes)

    async with store.watch(exactly("in"), index=index, previous_values=True) as watch:
        follower = await begin(Follower(watch))
        kinds = []
        for value, indexes in [
            (b"1", [(index, "in")]),
            (b"2", [(index, "in")]),
            (b"3", [(index, "out")]),
            (b"4", [(index, "out"), (index, "in")]),
            (b"5", [(index, "in"), ("another", "in")]),
            (b"6", []),
            (b"7", [(index, "in")]),
        ]:
            await put(value, *indexes)
            (change,) = await follower.next_changes(1)
            assert change.record is not None
            assert (change.key, change.record.value) == (key, value)
            before = None if value == b"1" else b"%d" % (int(value) - 1)
            assert (change.previous and change.previous.value) == before
            kinds.append(change.kind)
        await store.delete(key)
        (change,) = await follower.next_changes(1)
        assert (change.kind, change.record) == (ChangeKind.DELETED, None)
        assert change.previous is not None
        assert change.previous.value == b"7"
    assert kinds == [
        ChangeKind.CREATED,
        ChangeKind.MODIFIED,
        ChangeKind.LEFT,
        ChangeKind.ENTERED,
        ChangeKind.MODIFIED,
        ChangeKind.LEFT,
        ChangeKind.ENTERED,
    ]


async def test_what_stays_outside_the_range_is_not_told(store: MetadataStore, place: Place) -> None:
    index = place.index()
    async with store.watch(exactly("1_2"), index=index) as watch:
        follower = await begin(Follower(watch))
        for number, secondary in enumerate(("1_", "1_20", "1_2\0", "1_1", "1_3", "")):
            await store.put(place.key(str(number)), b"", indexes=[(index, secondary)])
            await store.put(place.key(str(number)), b"", indexes=[(index + "x", "1_2"), (index, secondary)])
        await store.delete(place.key("0"))
        await store.put(place.key("in"), b"", indexes=[(index, "1_2")])
        (change,) = await follower.next_changes(1)
    assert (change.kind, change.key) == (ChangeKind.CREATED, place.key("in"))


async def test_secondary_keys_with_slashes_are_told(store: MetadataStore, place: Place) -> None:
    index = place.index()
    await store.put(place.key("a"), b"", indexes=[(index, "p/1")])
    async with store.watch(Range("p/", "p/~"), index=index) as watch:
        follower = await begin(Follower(watch))
        assert list(follower.state) == [place.key("a")]
        await store.put(place.key("b"), b"", indexes=[(index, "p/2")])
        await store.put(place.key("a"), b"", indexes=[(index, "q/1")])
        await follower.until(lambda state: list(state) == [place.key("b")])


async def test_deleted_ranges_are_told(store: MetadataStore, place: Place) -> None:
    index = place.index()
    for name in "abc":
        await store.put(place.key(name), b"", indexes=[(index, "in" if name != "b" else "out")])
    async with store.watch(exactly("in"), index=index) as watch:
        follower = await begin(Follower(watch))
        await store.delete_range(place.range)
        changes = await follower.next_changes(2)
    assert {(change.kind, change.key) for change in changes} == {
        (ChangeKind.DELETED, place.key("a")),
        (ChangeKind.DELETED, place.key("c")),
    }


async def test_an_open_end_reaches_to_the_end_of_the_index(store: MetadataStore, place: Place) -> None:
    index = place.index()
    async with store.watch(index=index) as everything, store.watch(Range(start="m"), index=index) as upwards:
        followers = [await begin(Follower(watch)) for watch in (everything, upwards)]
        for number, secondary in enumerate(("a", "z", "\U0010ffff", "a/b/c")):
            await store.put(place.key(str(number)), b"", indexes=[(index, secondary)])
        await store.put(place.key("other"), b"", indexes=[(index + "x", "z"), (index[:-1], "z")])
        expected = await collect(store.list(Range(start="m"), index=index))
        await followers[0].until(lambda state: len(state) == 4)
        await followers[1].until(lambda state: set(state) == set(expected))


async def test_an_index_watch_is_resumed(store: MetadataStore, subject: Subject, place: Place) -> None:
    index = place.index()
    await store.put(place.key("a"), b"1", indexes=[(index, "in")])
    async with store.watch(exactly("in"), index=index) as watch:
        follower = await begin(Follower(watch))
    state, token = dict(follower.state), follower.token
    await store.put(place.key("a"), b"2", indexes=[(index, "out")])
    await store.put(place.key("b"), b"3", indexes=[(index, "in")])
    async with store.watch(exactly("in"), index=index, resume=token) as watch:
        resumed = Follower(watch, state)
        resumed.token = token
        if "what was in a range" in subject.faults:
            with pytest.raises(TokenExpired):
                await resumed.until_values({place.key("b"): b"3"})
            return
        await resumed.until_values({place.key("b"): b"3"})
    assert {change.kind for change in resumed.changes} == {ChangeKind.LEFT, ChangeKind.CREATED}


async def test_an_index_watch_is_resumed_where_records_are_new(store: MetadataStore, place: Place) -> None:
    """Which every store can: what is created since the token was in no range before."""
    index = place.index()
    async with store.watch(exactly("in"), index=index) as watch:
        follower = await begin(Follower(watch))
    state, token = dict(follower.state), follower.token
    await store.put(place.key("a"), b"1", indexes=[(index, "in")])
    await store.put(place.key("b"), b"2", indexes=[(index, "out")])
    async with store.watch(exactly("in"), index=index, resume=token) as watch:
        resumed = Follower(watch, state)
        resumed.token = token
        await resumed.until_values({place.key("a"): b"1"})
        await store.put(place.key("b"), b"3", indexes=[(index, "in")])
        await store.delete(place.key("a"))
        await resumed.until_values({place.key("b"): b"3"})


async def test_an_index_watch_of_one_partition(store: MetadataStore, place: Place) -> None:
    index = place.index()
    await store.put(place.key("a"), b"", partition_key="p", indexes=[(index, "in")])
    async with store.watch(exactly("in"), index=index, partition_key="p") as watch:
        follower = await begin(Follower(watch))
        assert list(follower.state) == [place.key("a")]
        await store.put(place.key("b"), b"", partition_key="p", indexes=[(index, "in")])
        await store.put(place.key("a"), b"", partition_key="p")
        await follower.until(lambda state: list(state) == [place.key("b")])


async def test_busy_writers_and_an_index_agree(store: MetadataStore, place: Place) -> None:
    """Records wander in and out while watches begin; what each was told is what the index has."""
    index = place.index()

    async def wander(name: str) -> None:
        for number in range(40):
            secondary = ("in1", "in2", "out")[(number * 7 + ord(name)) % 3]
            if number % 6 == 5:
                await store.delete(place.key(name))
            else:
                await store.put(place.key(name), b"%d" % number, indexes=[(index, secondary)])

    writers = [asyncio.ensure_future(wander(name)) for name in "abcdef"]
    followers = []
    for _ in range(8):
        followers.append(await begin(Follower(store.watch(Range("in", "io"), index=index))))
    await asyncio.gather(*writers)
    await store.put(place.key("last"), b"", indexes=[(index, "in3")])
    expected = {record.key: record.version async for record in store.scan(Range("in", "io"), index=index)}
    for follower in followers:
        await follower.until(lambda state: {key: record.version for key, record in state.items()} == expected)
        await follower.watch.close()
