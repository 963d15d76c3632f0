"""Sessions of the embedded store: they live with the process, end by the clock, and are left to expire by a crash."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from local_helpers import Barrier, opened, run

from metastore.clock import ManualClock
from metastore.faults import ArmedFault
from metastore.interface import Environment, InvalidRequest, Put, SessionLost, StoreFailed

TIMEOUT_MS = 10_000


def test_a_session_is_kept_alive_by_the_process(tmp_path: Path) -> None:
    clock = ManualClock()

    async def scenario() -> None:
        async with await opened(tmp_path, environment=Environment(clock=clock)) as store:
            session = await store.open_session(TIMEOUT_MS)
            await store.put("/live", b"", session=session)
            for _ in range(10):
                clock.advance_ms(TIMEOUT_MS // 2)
                store.lasting.beat()
                assert not session.is_lost
            assert store.shards[0].shard.expire_sessions() == 0
            assert await store.get("/live") is not None

    run(scenario)


def test_the_owner_lets_go_before_the_store_does(tmp_path: Path) -> None:
    clock = ManualClock()

    async def scenario() -> None:
        async with await opened(tmp_path, environment=Environment(clock=clock)) as store:
            session = await store.open_session(TIMEOUT_MS)
            await store.put("/live", b"", session=session)
            # As if the process had been stopped for so long: no heartbeat in between.
            clock.advance_ms(TIMEOUT_MS - 500)
            assert session.is_lost
            assert session.remaining_s == 0
            assert await store.get("/live") is not None
            await session.wait_lost()
            store.lasting.beat()
            assert session.is_lost
            with pytest.raises(SessionLost):
                await store.put("/more", b"", session=session)
            clock.advance_ms(500)
            store.shards[0].shard.expire_sessions()
            assert await store.get("/live") is None
            await session.close()

    run(scenario)


def test_waiting_for_the_loss_needs_no_call(tmp_path: Path) -> None:
    clock = ManualClock()

    async def scenario() -> None:
        async with await opened(tmp_path, environment=Environment(clock=clock)) as store:
            session = await store.open_session(TIMEOUT_MS)
            waiting = asyncio.ensure_future(session.wait_lost())
            await asyncio.sleep(0)
            clock.advance_ms(TIMEOUT_MS)
            await waiting

    run(scenario)


def test_closing_removes_the_records_of_all_shards(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await opened(tmp_path, "shards=4") as store:
            async with await store.open_session(TIMEOUT_MS, identity="me") as session:
                stored = await asyncio.gather(*(store.put(f"/{number}", b"", session=session) for number in range(40)))
                assert {each.version.identity for each in stored} == {"me"}
                ids = {shard: [] for shard in store.shards}  # type: dict[object, list[int | None]]
                assert len({each.version.session_id for each in stored}) <= len(ids)
                assert sum(len(shard.shard.sessions) for shard in store.shards) == len(store.shards)
            assert session.is_lost
            await session.wait_lost()
            assert [key async for key in store.list()] == []
            assert sum(len(shard.shard.sessions) for shard in store.shards) == 0

    run(scenario)


def test_concurrent_first_puts_share_a_session(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await opened(tmp_path) as store:
            session = await store.open_session(TIMEOUT_MS)
            stored = await asyncio.gather(*(store.put(f"/{number}", b"", session=session) for number in range(20)))
            assert len({each.version.session_id for each in stored}) == 1
            (put,) = await store.transact("p", [Put("/t", b"", is_ephemeral=True)], session=session)
            assert put is not None
            assert put.version.session_id == stored[0].version.session_id

    run(scenario)


def test_a_put_that_is_cancelled_while_its_session_begins_leaves_it_usable(tmp_path: Path) -> None:
    barrier = Barrier("round.append.before")

    async def scenario() -> None:
        async with await opened(tmp_path, environment=Environment(faults=barrier)) as store:
            session = await store.open_session(TIMEOUT_MS)
            put = asyncio.ensure_future(store.put("/a", b"", session=session))
            await asyncio.get_running_loop().run_in_executor(None, barrier.reached.wait)
            put.cancel()
            with pytest.raises(asyncio.CancelledError):
                await put
            barrier.opened.set()
            assert (await store.put("/b", b"", session=session)).version.is_ephemeral
            assert len(store.shards[0].shard.sessions) == 1

    run(scenario)


def test_a_session_of_a_process_that_died_expires(tmp_path: Path) -> None:
    clock = ManualClock()

    async def scenario() -> None:
        store = await opened(tmp_path, environment=Environment(clock=clock))
        session = await store.open_session(TIMEOUT_MS)
        await store.put("/live", b"", session=session)
        await store.close()
        assert session.is_lost
        await session.close()
        async with await opened(tmp_path, environment=Environment(clock=clock)) as store:
            with pytest.raises(InvalidRequest, match="another store's"):
                await store.put("/a", b"", session=session)
            assert await store.get("/live") is not None
            async with store.watch(snapshot=False) as watch:
                await anext(watch)
                clock.advance_ms(TIMEOUT_MS)
                (change,) = (await anext(watch)).changes
                assert (change.key, change.record) == ("/live", None)

    run(scenario)


def test_a_session_of_a_shard_that_stopped_is_lost(tmp_path: Path) -> None:
    clock = ManualClock()
    fault = ArmedFault("round.sync.after", 3, "ioerror")

    async def scenario() -> None:
        async with await opened(tmp_path, environment=Environment(clock=clock, faults=fault)) as store:
            session = await store.open_session(TIMEOUT_MS)
            await store.put("/live", b"", session=session)
            with pytest.raises(StoreFailed):
                await store.put("/a", b"")
            clock.advance_ms(TIMEOUT_MS // 2)
            await session.wait_lost()

    run(scenario)
