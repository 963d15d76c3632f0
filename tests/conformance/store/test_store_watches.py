"""Watches of keys: a snapshot, then every change of it, in order and without a gap."""

from __future__ import annotations

import asyncio

import pytest
from store_helpers import Follower, Place, collect

from metastore.interface import (
    ABSENT,
    BatchKind,
    ChangeKind,
    Comparison,
    MetadataStore,
    Range,
    exactly,
)


async def test_a_snapshot_has_the_range_as_it_is(store: MetadataStore, place: Place) -> None:
    for name in "abcd":
        await store.put(place.key(name), name.encode())
    async with store.watch(Range(place.key("b"), place.key("d"))) as watch:
        follower = Follower(watch)
        state = await follower.begin()
        assert sorted(state) == [place.key("b"), place.key("c")]
        for key, record in state.items():
            assert record == await store.get(key)
    assert follower.changes == []


async def test_an_empty_range_has_an_empty_snapshot(store: MetadataStore, place: Place) -> None:
    async with store.watch(place.range) as watch:
        kinds = [(await anext(watch)).kind for _ in range(2)]
    assert kinds == [BatchKind.SNAPSHOT_BEGIN, BatchKind.SNAPSHOT_END]


async def test_a_large_snapshot_is_complete(store: MetadataStore, place: Place) -> None:
    keys = [place.key(f"{number:04d}") for number in range(1500)]
    await asyncio.gather(*(store.put(key, b"x" * 1000) for key in keys))
    async with store.watch(place.range) as watch:
        assert sorted(await Follower(watch).begin()) == keys


async def test_every_change_is_told_in_order(store: MetadataStore, place: Place) -> None:
    async with store.watch(place.range) as watch:
        follower = Follower(watch)
        await follower.begin()
        created = await store.put(place.key("a"), b"1")
        modified = await store.put(place.key("a"), b"2")
        await store.delete(place.key("a"))
        again = await store.put(place.key("a"), b"3")
        await follower.until_values({place.key("a"): b"3"})
    assert follower.state[place.key("a")].version == again.version
    if not store.capabilities.watches_every_change:
        return
    assert [(change.kind, change.record and change.record.version) for change in follower.changes] == [
        (ChangeKind.CREATED, created.version),
        (ChangeKind.MODIFIED, modified.version),
        (ChangeKind.DELETED, None),
        (ChangeKind.CREATED, again.version),
    ]
    assert [change.record and change.record.value for change in follower.changes] == [b"1", b"2", None, b"3"]
    assert [change.previous for change in follower.changes] == [None] * 4
    assert len({(change.shard, change.offset) for change in follower.changes}) == 4
    assert follower.changes[0].time_ms == created.version.modified_ms


async def test_what_happens_to_no_record_is_not_told(store: MetadataStore, place: Place) -> None:
    async with store.watch(place.range) as watch:
        follower = Follower(watch)
        await follower.begin()
        await store.delete(place.key("a"))
        await store.delete_range(place.range)
        with pytest.raises(Exception, match="version"):
            await store.put(place.key("a"), b"", expected=1000)
        await store.put(place.key("b"), b"1")
        (change,) = await follower.next_changes(1)
    assert (change.kind, change.key) == (ChangeKind.CREATED, place.key("b"))


async def test_what_is_beside_the_range_is_not_told(store: MetadataStore, place: Place) -> None:
    inside = Range(place.key("b"), place.key("c"))
    async with store.watch(inside) as watch:
        follower = Follower(watch)
        await follower.begin()
        for name in ("a", "c", "b", "bb", "c0", "b/x"):
            await store.put(place.key(name), b"1")
        listed = await collect(store.list(inside))
        assert set(listed) >= {place.key("b"), place.key("bb")}
        await follower.until_values(dict.fromkeys(listed, b"1"))
        await store.delete_range(place.range)
        await follower.until(lambda state: not set(state) & {place.key("b"), place.key("bb")})


async def test_a_deleted_range_is_told_record_by_record(store: MetadataStore, place: Place) -> None:
    for name in "abcde":
        await store.put(place.key(name), b"")
    async with store.watch(Range(place.key("b"), place.key("z")), previous_values=True) as watch:
        follower = Follower(watch)
        state = dict(await follower.begin())
        await store.delete_range(Range(place.key("a"), place.key("e")))
        changes = await follower.next_changes(3)
    assert sorted(change.key for change in changes) == [place.key(name) for name in "bcd"]
    assert {change.kind for change in changes} == {ChangeKind.DELETED}
    assert all(change.previous == state[change.key] for change in changes)
    assert list(follower.state) == [place.key("e")]


async def test_previous_values_are_told_on_request(store: MetadataStore, place: Place) -> None:
    first = await store.put(place.key("a"), b"1")
    async with store.watch(place.range, previous_values=True) as watch:
        follower = Follower(watch)
        await follower.begin()
        await store.put(place.key("a"), b"2")
        (modified,) = await follower.next_changes(1)
        await store.delete(place.key("a"))
        (deleted,) = await follower.next_changes(1)
        await store.put(place.key("a"), b"3")
        (created,) = await follower.next_changes(1)
    assert modified.previous is not None
    assert (modified.previous.value, modified.previous.version) == (b"1", first.version)
    assert deleted.previous == modified.record
    assert (created.kind, created.previous) == (ChangeKind.CREATED, None)


async def test_a_watch_of_one_key_tells_its_life(store: MetadataStore, place: Place) -> None:
    async with store.watch(exactly(place.key("1_2"))) as watch:
        follower = Follower(watch)
        await follower.begin()
        for name in ("1_", "1_2", "1_20", "1_2\0"):
            await store.put(place.key(name), b"1", expected=ABSENT)
        (change,) = await follower.next_changes(1)
        assert change.key == place.key("1_2")
        await store.put(place.key("1_20"), b"2")
        await store.delete(place.key("1_2"))
        (change,) = await follower.next_changes(1)
    assert (change.kind, change.record) == (ChangeKind.DELETED, None)


async def test_open_ends_reach_as_far_as_keys_go(store: MetadataStore, place: Place) -> None:
    ranges = [Range(), Range(start=place.key("b")), Range(end=place.key("b"))]
    everything, upwards, downwards = followers = [Follower(store.watch(range), only=place.name) for range in ranges]
    for follower in followers:
        await follower.begin()
    for name in "abc":
        await store.put(place.key(name), b"1")
    await store.put(f"__oxia/{place.name}", b"internal")
    await store.delete(place.key("a"))
    await everything.until(lambda state: place.key("a") not in state and place.key("c") in state)
    await upwards.until(lambda state: place.key("c") in state and place.key("b") in state)
    await store.put(place.key("a"), b"2")
    await downwards.until(lambda state: place.key("a") in state)
    assert not any(change.key.startswith("__oxia/") for follower in followers for change in follower.changes)
    assert place.key("a") not in upwards.state
    assert place.key("b") not in downwards.state
    await asyncio.gather(*(follower.watch.close() for follower in followers))


async def test_progress_is_told_while_others_are_busy(store: MetadataStore, place: Place) -> None:
    async with store.watch(exactly(place.key("quiet"))) as watch:
        follower = Follower(watch)
        await follower.begin()
        token = follower.token
        step = asyncio.ensure_future(follower.step())
        while not step.done():
            await store.put(place.key("busy"), b"")
        assert (await step).kind is BatchKind.PROGRESS
    assert follower.token != token


async def test_many_watches_of_one_store_do_not_disturb_each_other(store: MetadataStore, place: Place) -> None:
    watches = [store.watch(exactly(place.key(f"{number:03d}"))) for number in range(100)]
    followers = [Follower(watch) for watch in watches]
    await asyncio.gather(*(follower.begin() for follower in followers))
    for number in reversed(range(100)):
        await store.put(place.key(f"{number:03d}"), b"%d" % number)
    for number, follower in enumerate(followers):
        await follower.until_values({place.key(f"{number:03d}"): b"%d" % number})
        assert len(follower.changes) == 1
    await asyncio.gather(*(watch.close() for watch in watches))


async def test_a_watch_that_is_not_read_stops_no_other(store: MetadataStore, place: Place) -> None:
    async with store.watch(place.range) as idle, store.watch(place.range) as read:
        lazy, eager = Follower(idle), Follower(read)
        await lazy.begin()
        await eager.begin()
        for number in range(300):
            await store.put(place.key("a"), b"%d" % number)
        await eager.until_values({place.key("a"): b"299"})
        await lazy.until_values({place.key("a"): b"299"})
        if store.capabilities.watches_every_change:
            assert len(lazy.changes) == len(eager.changes) == 300


async def test_a_cancelled_wait_loses_nothing(store: MetadataStore, place: Place) -> None:
    async with store.watch(place.range) as watch:
        follower = Follower(watch)
        await follower.begin()
        for number in range(60):
            waiting = asyncio.ensure_future(follower.step())
            for _ in range(number % 7):
                await asyncio.sleep(0)
            putting = asyncio.ensure_future(store.put(place.key(f"{number:02d}"), b"1"))
            for _ in range(number % 5):
                await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
            await putting
        await follower.until_values({place.key(f"{number:02d}"): b"1" for number in range(60)})


async def test_changes_go_on_where_the_snapshot_ends(store: MetadataStore, place: Place) -> None:
    """Writers are busy while watches begin: what a watch was told is always what is there."""
    is_over = False

    async def write(name: str) -> None:
        number = 0
        while not is_over:
            number += 1
            if number % 5:
                await store.put(place.key(f"{name}{number % 9}"), b"%d" % number)
            else:
                await store.delete(place.key(f"{name}{(number + 3) % 9}"))

    writers = [asyncio.ensure_future(write(name)) for name in "abc"]
    followers = []
    for _ in range(12):
        followers.append(Follower(store.watch(place.range)))
        await followers[-1].begin()
    is_over = True
    await asyncio.gather(*writers)
    await store.put(place.key("last"), b"")
    records = {record.key: record async for record in store.scan(place.range)}
    for follower in followers:
        await follower.until(lambda state: state == records)
        await follower.watch.close()


async def test_a_closed_watch_is_over(store: MetadataStore, place: Place) -> None:
    watch = store.watch(place.range)
    await Follower(watch).begin()
    waiting = asyncio.ensure_future(anext(watch, None))
    await asyncio.sleep(0)
    await watch.close()
    await watch.close()
    assert await waiting is None
    with pytest.raises(StopAsyncIteration):
        await anext(watch)
    assert await store.get(place.key("a"), comparison=Comparison.EQUAL) is None


async def test_other_store_objects_are_heard_of(store: MetadataStore, other: MetadataStore, place: Place) -> None:
    async with store.watch(place.range) as watch:
        follower = Follower(watch)
        await follower.begin()
        await other.put(place.key("a"), b"1")
        await follower.until_values({place.key("a"): b"1"})
        await other.delete(place.key("a"))
        await follower.until_values({})
