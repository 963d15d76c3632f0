"""Sessions on a clock that tests move: what the owner believes, and when the store ends them."""

from __future__ import annotations

import asyncio

import pytest
from memory_helpers import World, asynchronous

from metastore.interface import SessionLost, Unavailable, Watch
from metastore.providers.memory import Part
from metastore.providers.memory.line import LEASE_SHARE

TIMEOUT_MS = 10_000
LEASE_MS = int(TIMEOUT_MS * LEASE_SHARE)


@asynchronous
async def test_heartbeats_keep_a_session_for_ever() -> None:
    world = World()
    session = await world.ours.open_session(TIMEOUT_MS)
    await world.ours.put("/a", b"", session=session)
    for _ in range(10):
        world.pass_time(10 * TIMEOUT_MS)
        assert not session.is_lost
        assert session.remaining_s == LEASE_MS / 1000
    assert await world.theirs.get("/a") is not None


@asynchronous
async def test_the_owner_lets_go_before_the_store_ends_the_session() -> None:
    world = World()
    session = await world.ours.open_session(TIMEOUT_MS)
    await world.ours.put("/a", b"", session=session)
    world.ours.line.cut(Part.HEARTBEATS)
    waiting = asyncio.ensure_future(session.wait_lost())
    world.pass_time(LEASE_MS - 1)
    assert not session.is_lost
    assert session.remaining_s == pytest.approx(0.001)
    world.pass_time(1)
    assert (session.is_lost, session.remaining_s) == (True, 0.0)
    await waiting
    assert await world.theirs.get("/a") is not None
    world.pass_time(TIMEOUT_MS - LEASE_MS - 1)
    assert await world.theirs.get("/a") is not None
    world.pass_time(1)
    assert await world.theirs.get("/a") is None


@asynchronous
async def test_time_counts_from_the_last_heartbeat() -> None:
    world = World()
    session = await world.ours.open_session(TIMEOUT_MS)
    world.clock.advance_ms(TIMEOUT_MS - 1)
    world.ours.line.cut(Part.HEARTBEATS)
    world.clock.advance_ms(LEASE_MS - 1)
    assert not session.is_lost
    world.ours.line.mend()
    assert session.remaining_s == LEASE_MS / 1000
    world.ours.line.cut(Part.HEARTBEATS)
    world.clock.advance_ms(LEASE_MS)
    assert session.is_lost


@asynchronous
async def test_what_was_lost_stays_lost() -> None:
    """The connection is back before the store has ended the session: nobody relies on it any more all the same."""
    world = World()
    session = await world.ours.open_session(TIMEOUT_MS)
    await world.ours.put("/a", b"", session=session)
    world.ours.line.cut(Part.HEARTBEATS)
    world.pass_time(LEASE_MS)
    world.ours.line.mend()
    assert session.is_lost
    with pytest.raises(SessionLost):
        await world.ours.put("/a", b"", session=session)
    world.pass_time(TIMEOUT_MS - LEASE_MS)
    assert await world.theirs.get("/a") is None


@asynchronous
async def test_a_session_may_end_while_its_owner_believes_in_it() -> None:
    world = World()
    session = await world.ours.open_session(TIMEOUT_MS)
    put = await world.ours.put("/a", b"", session=session)
    assert put.version.session_id is not None
    world.data.expire(put.version.session_id)
    assert await world.theirs.get("/a") is None
    assert not session.is_lost
    with pytest.raises(SessionLost):
        await world.ours.put("/a", b"", session=session)
    assert session.is_lost


@asynchronous
async def test_the_next_heartbeat_tells_of_an_end() -> None:
    world = World()
    session = await world.ours.open_session(TIMEOUT_MS)
    put = await world.ours.put("/a", b"", session=session)
    assert put.version.session_id is not None
    waiting = asyncio.ensure_future(session.wait_lost())
    world.data.expire(put.version.session_id)
    world.data.expire(put.version.session_id)
    await asyncio.sleep(0)
    assert not waiting.done()
    world.data.tick()
    await waiting
    assert session.is_lost


@asynchronous
async def test_each_client_has_a_line_of_its_own() -> None:
    world = World()
    ours, theirs = await world.ours.open_session(TIMEOUT_MS), await world.theirs.open_session(TIMEOUT_MS)
    world.ours.line.cut()
    world.pass_time(TIMEOUT_MS)
    assert ours.is_lost
    assert not theirs.is_lost
    with pytest.raises(Unavailable):
        await world.ours.open_session(TIMEOUT_MS)


@asynchronous
async def test_a_close_that_does_not_get_through_leaves_the_session_to_expire() -> None:
    world = World()
    session = await world.ours.open_session(TIMEOUT_MS)
    await world.ours.put("/a", b"", session=session)
    world.ours.line.cut(Part.CALLS)
    with pytest.raises(Unavailable):
        await session.close()
    assert session.is_lost
    world.pass_time(TIMEOUT_MS)
    assert await world.theirs.get("/a") is None
    await session.close()


@asynchronous
async def test_sessions_of_a_closed_store_expire_in_their_time() -> None:
    world = World(shards=3)
    session = await world.ours.open_session(TIMEOUT_MS)
    for number in range(9):
        await world.ours.put(f"/{number}", b"", session=session)
    watch: Watch = world.theirs.watch()
    await world.ours.close()
    world.pass_time(TIMEOUT_MS - 1)
    assert len([key async for key in world.theirs.list()]) == 9
    world.pass_time(1)
    assert [key async for key in world.theirs.list()] == []
    await watch.close()


@asynchronous
async def test_the_owners_clock_counts_for_the_owner() -> None:
    """A process whose clock stands still believes longer than the store: so the store must not trust it."""
    world = World()
    session = await world.ours.open_session(TIMEOUT_MS)
    await world.ours.put("/a", b"", session=session)
    world.ours.line.cut(Part.HEARTBEATS)
    world.clock.advance_ms(TIMEOUT_MS)
    world.data.tick()
    assert await world.theirs.get("/a") is None
