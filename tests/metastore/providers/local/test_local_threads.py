"""The event loop and the threads: the loop waits for no disk, and what comes together goes together."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from local_helpers import Barrier, opened, run

from metastore.clock import ManualClock
from metastore.engine.limits import ROUND_REQUESTS_MAX
from metastore.faults import ArmedFault
from metastore.interface import Environment, StoreClosed, StoreFailed, Unavailable, children_of
from metastore.providers.local.reading import STALLED_READER_S
from metastore.providers.local.store import DRIVERS_MAX
from metastore.providers.local.threads import Driver, Gathering, LoopInbox

RECORDS = 3000
"""More than one chunk of a scan."""


async def exhaust(items: AsyncIterator[object]) -> None:
    async for _ in items:
        pass


def test_many_posts_wake_the_loop_once() -> None:
    async def scenario() -> None:
        inbox = LoopInbox(asyncio.get_running_loop())
        told: list[int] = []
        done = asyncio.Event()

        def post_all() -> None:
            for number in range(1000):
                inbox.post(told.append, number)
            inbox.post(done.set)

        poster = threading.Thread(target=post_all)
        poster.start()
        poster.join()  # the loop stands still meanwhile
        await done.wait()
        assert told == list(range(1000))
        assert inbox.wakes == 1
        inbox.post(done.clear)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert inbox.wakes == 2

    run(scenario)


def test_a_closed_loop_hears_nothing() -> None:
    loop = asyncio.new_event_loop()
    inbox = LoopInbox(loop)
    loop.close()
    inbox.post(pytest.fail, "the loop is closed")


def test_what_a_loop_submits_in_one_turn_is_driven_once() -> None:
    async def scenario() -> None:
        driver = Driver("test-driver")
        drives: list[int] = []
        driven = asyncio.Event()
        inbox = LoopInbox(asyncio.get_running_loop())

        def drive() -> None:
            drives.append(threading.get_ident())
            inbox.post(driven.set)

        gathering = Gathering(driver, asyncio.get_running_loop())
        for _ in range(100):
            gathering.schedule(drive)
        await driven.wait()
        assert len(drives) == 1
        assert drives[0] != threading.get_ident()
        other = threading.Thread(target=gathering.schedule, args=(drive,))
        other.start()
        other.join()
        driver.stop()
        assert len(drives) == 2

    run(scenario)


def test_concurrent_puts_share_rounds(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await opened(tmp_path, "sync=false") as store:
            statistics = store.shards[0].shard.statistics.round_requests
            await asyncio.gather(*(store.put(f"/{number}", b"") for number in range(ROUND_REQUESTS_MAX)))
            assert statistics.count == 1
            assert statistics.total == ROUND_REQUESTS_MAX

    run(scenario)


def test_the_loop_goes_on_while_a_round_is_on_its_way_to_the_disk(tmp_path: Path) -> None:
    barrier = Barrier("round.sync.after")

    async def scenario() -> None:
        async with await opened(tmp_path, environment=Environment(faults=barrier)) as store:
            put = asyncio.ensure_future(store.put("/a", b"1"))
            await asyncio.get_running_loop().run_in_executor(None, barrier.reached.wait)
            # Here a loop that was itself in the fsync would stand still, and nobody would open the barrier.
            assert await store.get("/a") is None
            assert [key async for key in store.list()] == []
            assert not put.done()
            barrier.opened.set()
            assert (await put).key == "/a"
            assert threading.get_ident() not in barrier.threads

    run(scenario)


def test_a_get_does_not_wait_on_the_loop_for_the_shard_s_lock(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await opened(tmp_path) as store:
            await store.put("/a", b"1")
            with store.shards[0].shard.store.lock:
                get = asyncio.ensure_future(store.get("/a"))
                await asyncio.sleep(0)
                assert not get.done()
            record = await get
            assert record is not None
            assert record.value == b"1"

    run(scenario)


def test_a_cancelled_put_harms_nobody(tmp_path: Path) -> None:
    barrier = Barrier("round.append.before")

    async def scenario() -> None:
        async with await opened(tmp_path, environment=Environment(faults=barrier)) as store:
            first, second = (asyncio.ensure_future(store.put(key, b"")) for key in ("/a", "/b"))
            await asyncio.get_running_loop().run_in_executor(None, barrier.reached.wait)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            barrier.opened.set()
            await second
            assert [key async for key in store.list()] == ["/a", "/b"]

    run(scenario)


def test_what_waits_when_the_store_is_closed_is_answered(tmp_path: Path) -> None:
    barrier = Barrier("round.append.before")

    async def scenario() -> None:
        store = await opened(tmp_path, environment=Environment(faults=barrier))
        first = asyncio.ensure_future(store.put("/a", b""))
        await asyncio.get_running_loop().run_in_executor(None, barrier.reached.wait)
        second = asyncio.ensure_future(store.put("/b", b""))
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(store.close())
        await asyncio.sleep(0)
        barrier.opened.set()
        await closing
        await first
        outcome = await asyncio.gather(second, return_exceptions=True)
        assert isinstance(outcome[0], StoreClosed) or outcome[0] == await second

    run(scenario)


def test_a_store_whose_disk_fails_stops_and_tells_all_who_wait(tmp_path: Path) -> None:
    fault = ArmedFault("round.sync.after", 2, "ioerror")

    async def scenario() -> None:
        async with await opened(tmp_path, environment=Environment(faults=fault)) as store:
            await store.put("/a", b"")
            async with store.watch(snapshot=False) as watch:
                await anext(watch)
                keys = store.watch_sequence("/s", partition_key="p")
                waiting = [asyncio.ensure_future(anext(watch)), asyncio.ensure_future(anext(keys))]
                with pytest.raises(StoreFailed):
                    await store.put("/b", b"")
                for each in waiting:
                    with pytest.raises(StoreFailed, match="stopped"):
                        await each
            with pytest.raises(StoreFailed):
                await store.get("/a")

    run(scenario)


def test_a_scan_is_of_one_state_and_may_be_left(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await opened(tmp_path, "sync=false") as store:
            await asyncio.gather(*(store.put(f"/a/{number:05}", b"old") for number in range(RECORDS)))
            engine = store.shards[0].shard.store
            scan = store.scan(children_of("/a"))
            first = await anext(scan)
            assert engine.open_snapshots == 1
            await store.delete_range(children_of("/a"))
            rest = [record async for record in scan]
            assert [first.key, *(record.key for record in rest)] == [f"/a/{number:05}" for number in range(RECORDS)]
            assert engine.open_snapshots == 0
            await asyncio.gather(*(store.put(f"/a/{number:05}", b"new") for number in range(RECORDS)))
            left = store.list(children_of("/a"))
            async for _ in left:
                break
            await left.aclose()  # type: ignore[attr-defined]
            assert engine.open_snapshots == 0
            unfinished = store.scan()
            await anext(unfinished)
        with pytest.raises(StoreClosed):
            await exhaust(unfinished)

    run(scenario)


def test_a_scan_whose_reader_stands_still_is_ended(tmp_path: Path) -> None:
    clock = ManualClock()

    async def scenario() -> None:
        async with await opened(tmp_path, "sync=false", Environment(clock=clock)) as store:
            await asyncio.gather(*(store.put(f"/{number:05}", b"") for number in range(RECORDS)))
            scan = store.scan()
            await anext(scan)
            clock.advance_ms(int(STALLED_READER_S * 1000) + 1)
            store.lasting.tend(clock.monotonic_s())
            assert store.shards[0].shard.store.open_snapshots == 0
            with pytest.raises(Unavailable, match="took nothing for 60 s"):
                await exhaust(scan)

    run(scenario)


def test_shards_share_drivers_where_there_are_many(tmp_path: Path) -> None:
    async def scenario() -> None:
        before = threading.active_count()
        async with await opened(tmp_path, f"sync=false&shards={DRIVERS_MAX + 2}") as store:
            drivers = [each for each in threading.enumerate() if each.name.startswith("tidemark-driver")]
            assert len(drivers) == DRIVERS_MAX
            await asyncio.gather(*(store.put(f"/{number}", b"") for number in range(100)))
            assert all(shard.shard.statistics.puts for shard in store.shards)
            assert len([key async for key in store.list()]) == 100
        assert threading.active_count() <= before + 1  # the thread that closed it may be the last to go

    run(scenario)
