"""Watches of the memory store: breaks, what is no longer kept, coalescing, and batches of a bounded size."""

from __future__ import annotations

import asyncio

import pytest
from memory_helpers import World, asynchronous

from metastore.interface import (
    BatchKind,
    Change,
    ChangeKind,
    Environment,
    Range,
    TokenExpired,
    Watch,
    WatchBatch,
    exactly,
)
from metastore.providers.memory import MemoryStore, Part
from metastore.providers.memory.watch import BATCH_WRITES_MAX, PROGRESS_WRITES, SNAPSHOT_RECORDS_MAX


async def read_snapshot(watch: Watch) -> list[WatchBatch]:
    batches = [await anext(watch)]
    while batches[-1].kind is not BatchKind.SNAPSHOT_END:
        batches.append(await anext(watch))
    return batches


@asynchronous
async def test_a_watch_begins_when_it_is_first_asked() -> None:
    world = World()
    watch = world.ours.watch(snapshot=False)
    await world.ours.put("/a", b"")
    assert (await anext(watch)).kind is BatchKind.PROGRESS
    await world.ours.put("/b", b"")
    assert [change.key for change in (await anext(watch)).changes] == ["/b"]


@asynchronous
async def test_a_snapshot_that_breaks_begins_anew() -> None:
    world = World()
    await world.ours.put("/a", b"1")
    watch = world.ours.watch()
    assert (await anext(watch)).kind is BatchKind.SNAPSHOT_BEGIN
    assert (await anext(watch)).kind is BatchKind.SNAPSHOT
    world.ours.line.cut(Part.WATCHES)
    await world.theirs.put("/b", b"2")
    waiting = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    assert not waiting.done()
    world.ours.line.mend(Part.WATCHES)
    assert (await waiting).kind is BatchKind.SNAPSHOT_BEGIN
    assert [record.key for record in (await anext(watch)).records] == ["/a", "/b"]
    assert (await anext(watch)).kind is BatchKind.SNAPSHOT_END


@asynchronous
async def test_a_break_behind_the_snapshot_goes_unnoticed() -> None:
    world = World()
    watch = world.ours.watch()
    await read_snapshot(watch)
    world.ours.line.cut()
    for number in range(5):
        await world.theirs.put("/a", b"%d" % number)
    world.ours.line.mend()
    changes = (await anext(watch)).changes
    assert [change.record and change.record.value for change in changes] == [b"0", b"1", b"2", b"3", b"4"]


@asynchronous
async def test_who_lags_too_far_is_told() -> None:
    world = World(retention_writes=10)
    watch = world.ours.watch()
    await read_snapshot(watch)
    for number in range(11):
        await world.ours.put("/a", b"%d" % number)
    with pytest.raises(TokenExpired) as caught:
        await anext(watch)
    assert caught.value.oldest_offset == 1


@asynchronous
async def test_what_is_just_kept_is_told() -> None:
    world = World(retention_writes=10)
    watch = world.ours.watch()
    await read_snapshot(watch)
    for number in range(10):
        await world.ours.put("/a", b"%d" % number)
    assert len((await anext(watch)).changes) == 10


@asynchronous
async def test_a_token_of_what_is_trimmed_is_too_old() -> None:
    world = World(shards=2)
    watch = world.ours.watch()
    token = (await read_snapshot(watch))[-1].token
    for number in range(8):
        await world.ours.put(f"/{number}", b"")
    world.data.trim()
    with pytest.raises(TokenExpired):
        await anext(world.theirs.watch(resume=token))
    with pytest.raises(TokenExpired):
        await anext(watch)


@asynchronous
async def test_a_token_survives_a_trim_up_to_it() -> None:
    world = World()
    await world.ours.put("/a", b"")
    token = (await read_snapshot(world.ours.watch()))[-1].token
    world.data.trim()
    watch = world.ours.watch(resume=token)
    await world.ours.put("/b", b"")
    assert [change.key for change in (await anext(watch)).changes] == ["/b"]


@asynchronous
async def test_batches_are_bounded() -> None:
    world = World(retention_writes=10 * BATCH_WRITES_MAX)
    for number in range(SNAPSHOT_RECORDS_MAX + 1):
        await world.ours.put(f"/{number:04d}", b"")
    watch = world.ours.watch()
    batches = await read_snapshot(watch)
    assert [len(batch.records) for batch in batches] == [0, SNAPSHOT_RECORDS_MAX, 1, 0]
    for _ in range(BATCH_WRITES_MAX + 1):
        await world.ours.put("/a", b"")
    assert [len((await anext(watch)).changes) for _ in range(2)] == [BATCH_WRITES_MAX, 1]


@asynchronous
async def test_progress_is_told_after_so_many_writes_of_others() -> None:
    world = World()
    watch = world.ours.watch(exactly("/quiet"))
    await read_snapshot(watch)
    waiting = asyncio.ensure_future(anext(watch))
    for number in range(PROGRESS_WRITES - 1):
        await world.ours.put(f"/{number}", b"")
    assert not waiting.done()
    await world.ours.put("/last", b"")
    batch = await waiting
    assert batch.kind is BatchKind.PROGRESS
    world.data.trim()
    watch = world.ours.watch(exactly("/quiet"), resume=batch.token)
    await world.ours.put("/quiet", b"")
    assert len((await anext(watch)).changes) == 1


def coalescing(world: World) -> MemoryStore:
    return MemoryStore(world.data, Environment(clock=world.clock), lacks=["every_change"])


async def told_at_once(*writes: str) -> tuple[Change, ...]:
    """What a coalescing watch of `/a`, which is there at first, makes of some writes."""
    world = World()
    await world.ours.put("/a", b"0")
    watch = coalescing(world).watch(Range("/a", "/c"), previous_values=True)
    await read_snapshot(watch)
    for number, write in enumerate(writes, 1):
        if write.startswith("-"):
            await world.ours.delete(write[1:])
        else:
            await world.ours.put(write, b"%d" % number)
    return (await anext(watch)).changes


@asynchronous
async def test_several_changes_of_a_record_come_as_one_where_a_store_can_no_more() -> None:
    (change,) = await told_at_once("/a", "/a", "/a")
    assert (change.kind, change.record and change.record.value) == (ChangeKind.MODIFIED, b"3")
    assert (change.previous and change.previous.value, change.offset) == (b"0", 3)
    (change,) = await told_at_once("-/a", "/a")
    assert (change.kind, change.record and change.record.value) == (ChangeKind.MODIFIED, b"2")
    (change,) = await told_at_once("/b", "/b", "-/a", "-/b")
    assert (change.kind, change.key) == (ChangeKind.DELETED, "/a")
    changes = await told_at_once("/b", "/a", "/b")
    assert [(change.kind, change.key) for change in changes] == [
        (ChangeKind.MODIFIED, "/a"),
        (ChangeKind.CREATED, "/b"),
    ]


@asynchronous
async def test_the_state_that_coalescing_watches_tell_is_right() -> None:
    world = World()
    watch = coalescing(world).watch()
    await read_snapshot(watch)
    state: dict[str, bytes | None] = {}
    for number in range(200):
        key = f"/{number * 7 % 5}"
        if number % 3:
            await world.ours.put(key, b"%d" % number)
        else:
            await world.ours.delete(key)
        if number % 11 == 0:
            await world.ours.put(f"/mark/{number}", b"")  # so that there is news
            for change in (await anext(watch)).changes:
                assert (change.key in state) == (change.kind is not ChangeKind.CREATED)
                state.pop(change.key, None)
                if change.record is not None:
                    state[change.key] = change.record.value
    await world.ours.put("/end", b"")
    for change in (await anext(watch)).changes:
        state.pop(change.key, None)
        if change.record is not None:
            state[change.key] = change.record.value
    assert state == {record.key: record.value async for record in world.ours.scan()}
