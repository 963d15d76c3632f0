"""Scripted faults: calls that fail before or after they apply, calls that are held, lines that are cut."""

from __future__ import annotations

import asyncio
import errno

import pytest
from memory_helpers import World, asynchronous

from metastore.faults import ArmedFault, Faults
from metastore.interface import (
    ABSENT,
    Environment,
    OutcomeUnknown,
    Overloaded,
    Put,
    Range,
    StoreClosed,
    StoreFailed,
    StoreFull,
    Unavailable,
    UnexpectedVersion,
)
from metastore.providers.memory import MemoryStore, Part, Script


@asynchronous
async def test_the_next_calls_fail_before_they_apply() -> None:
    store = World().ours
    store.script.fail("put", Unavailable("nobody"), prefix="/txn/", times=2)
    await store.put("/other", b"")
    for _ in range(2):
        with pytest.raises(Unavailable, match="nobody"):
            await store.put("/txn/1", b"")
    assert await store.get("/txn/1") is None
    await store.put("/txn/1", b"")


@asynchronous
async def test_a_call_fails_after_it_applied() -> None:
    store = World().ours
    store.script.fail("put", OutcomeUnknown("cut off"), after=True)
    with pytest.raises(OutcomeUnknown):
        await store.put("/a", b"1")
    found = await store.get("/a")
    assert found is not None
    assert found.value == b"1"


@asynchronous
async def test_failures_may_begin_later_and_never_end() -> None:
    store = World().ours
    store.script.fail("delete", Overloaded("full"), skip=2, times=None)
    await store.delete("/a")
    await store.delete("/a")
    for _ in range(5):
        with pytest.raises(Overloaded):
            await store.delete("/a")
    store.script.clear()
    await store.delete("/a")


@asynchronous
async def test_every_method_passes_its_points() -> None:
    store = World(shards=2).ours
    await store.put("/a", b"", partition_key="p", sequence_deltas=[1])
    await store.get("/a")
    await store.delete("/a")
    await store.delete_range(Range("/x", "/y"))
    assert [key async for key in store.list()] == [record.key async for record in store.scan()]
    await store.transact("p", [Put("/b", b"")])
    await (await store.open_session()).close()
    async with store.watch() as watch:
        await anext(watch)
    assert await anext(store.watch_sequence("/a", partition_key="p"))
    for method in ("put", "get", "delete", "transact", "open_session", "close_session"):
        assert store.script.arrivals[f"memory.{method}.before"] == 1
        assert store.script.arrivals[f"memory.{method}.after"] == 1
    for method in ("delete_range", "list", "scan"):  # of every shard
        assert store.script.arrivals[f"memory.{method}.after"] == 2
    for method in ("watch", "watch_sequence"):
        assert store.script.arrivals[f"memory.{method}.before"] == 1


@asynchronous
async def test_a_scan_fails_between_two_shards() -> None:
    store = World(shards=3).ours
    store.script.fail("scan", Unavailable("lost"), skip=1)
    with pytest.raises(Unavailable):
        _ = [record async for record in store.scan()]


@asynchronous
async def test_a_watch_can_fail() -> None:
    store = World().ours
    async with store.watch() as watch:
        await anext(watch)
        store.script.fail("watch", StoreFailed("broken"))
        with pytest.raises(StoreFailed):
            await anext(watch)


@asynchronous
async def test_a_held_call_has_done_nothing_until_it_is_released() -> None:
    store = World().ours
    gate = store.script.hold("put", prefix="/a")
    put = asyncio.ensure_future(store.put("/a", b"1"))
    await gate.arrived()
    assert [held.arrival.keys for held in gate.held] == [("/a",)]
    assert await store.get("/a") is None
    gate.release()
    await put
    await store.put("/a", b"2")


@asynchronous
async def test_a_call_held_behind_its_effect_has_done_it() -> None:
    store = World().ours
    gate = store.script.hold("put", after=True)
    put = asyncio.ensure_future(store.put("/a", b"1"))
    await gate.arrived()
    assert await store.get("/a") is not None
    put.cancel()
    await asyncio.wait([put])
    assert gate.held == []
    assert await store.get("/a") is not None


@asynchronous
async def test_held_calls_go_on_one_by_one() -> None:
    store = World().ours
    gate = store.script.hold("put")
    puts = [asyncio.ensure_future(store.put("/a", b"%d" % number)) for number in range(3)]
    await gate.arrived(3)
    puts[0].cancel()
    await asyncio.wait([puts[0]])
    gate.release(1)
    await puts[1]
    assert not puts[2].done()
    found = await store.get("/a")
    assert found is not None
    assert found.value == b"1"
    store.script.clear()
    await puts[2]


@asynchronous
async def test_what_is_scripted_while_a_call_is_held_meets_it() -> None:
    store = World().ours
    gate = store.script.hold("put")
    put = asyncio.ensure_future(store.put("/a", b""))
    await gate.arrived()
    store.script.fail("put", Unavailable("meanwhile"))
    gate.release()
    with pytest.raises(Unavailable):
        await put


@asynchronous
async def test_held_calls_end_with_their_store() -> None:
    store = World().ours
    gate = store.script.hold("get")
    get = asyncio.ensure_future(store.get("/a"))
    await gate.arrived()
    await store.close()
    with pytest.raises(StoreClosed):
        await get


@asynchronous
async def test_a_lost_write_may_arrive_later() -> None:
    store = World().ours
    lost = store.script.lose("put", prefix="/a", times=2)
    for value in (b"1", b"2"):
        with pytest.raises(OutcomeUnknown):
            await store.put("/a", value, expected=ABSENT)
    await store.put("/b", b"")
    assert await store.get("/a") is None
    lost.arrive()
    found = await store.get("/a")
    assert found is not None
    assert found.value == b"1"
    assert [type(outcome) for outcome in lost.outcomes] == [type(None), UnexpectedVersion]
    lost.arrive()
    assert (await store.put("/a", b"3")).version.modifications == 1


@asynchronous
async def test_a_conditional_write_decides_about_a_lost_one() -> None:
    store = World().ours
    before = await store.put("/a", b"0")
    lost = store.script.lose("put")
    with pytest.raises(OutcomeUnknown):
        await store.put("/a", b"1", expected=before.version.version_id)
    await store.put("/a", b"2", expected=before.version.version_id)
    lost.arrive()
    found = await store.get("/a")
    assert found is not None
    assert found.value == b"2"


@asynchronous
async def test_stores_may_share_a_script() -> None:
    script = Script()
    world = World()
    stores = [MemoryStore(world.data, Environment(clock=world.clock, faults=script)) for _ in range(2)]
    gate = script.hold("put")
    puts = [asyncio.ensure_future(store.put("/a", b"")) for store in stores]
    await gate.arrived(2)
    gate.release()
    await asyncio.gather(*puts)
    assert script.arrivals["memory.put.after"] == 2


def test_a_method_that_is_none_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="puts"):
        Script().fail("puts", Unavailable(""))


@asynchronous
async def test_plain_faults_are_told_as_a_store_would() -> None:
    world = World()

    def armed(point: str, action: str) -> MemoryStore:
        faults: Faults = ArmedFault(point, 1, action)
        return MemoryStore(world.data, Environment(clock=world.clock, faults=faults))

    with pytest.raises(StoreFull):
        await armed("memory.put.before", "nospace").put("/a", b"")
    with pytest.raises(Unavailable):
        await armed("memory.put.before", "ioerror").put("/a", b"")
    with pytest.raises(Unavailable):
        await armed("memory.get.after", "ioerror").get("/a")
    assert await world.ours.get("/a") is None
    with pytest.raises(OutcomeUnknown) as caught:
        await armed("memory.put.after", "ioerror").put("/a", b"")
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == errno.EIO
    assert await world.ours.get("/a") is not None


@asynchronous
async def test_a_cut_line_carries_no_calls() -> None:
    world = World()
    gate = world.ours.script.hold("put", after=True)
    put = asyncio.ensure_future(world.ours.put("/a", b""))
    await gate.arrived()
    world.ours.line.cut(Part.CALLS)
    gate.release()
    with pytest.raises(OutcomeUnknown):
        await put
    with pytest.raises(Unavailable):
        await world.ours.put("/b", b"")
    with pytest.raises(Unavailable):
        await world.ours.get("/a")
    assert await world.theirs.get("/a") is not None
    assert await world.theirs.get("/b") is None
    world.ours.line.mend()
    assert await world.ours.get("/a") is not None
