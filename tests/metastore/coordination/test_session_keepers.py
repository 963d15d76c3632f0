"""One session for many: what hangs on it is won with it, lost with it, and ended with its keeper."""

from __future__ import annotations

import asyncio

import pytest
from coordination_world import ROLE, campaign, election_of, keeper_of

from metastore.coordination import Deposed
from metastore.interface import InvalidRequest, Unavailable
from metastore.providers.memory import MemorySession
from support.world import World, run, settle


def test_who_cannot_resign_gives_its_session_up() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        keeper = keeper_of(process)
        grant = await election_of(process, keeper=keeper).campaign()
        other = await election_of(process, "/other", keeper).campaign()
        process.script.fail("delete", Unavailable("down"), prefix=ROLE, times=5)
        releasing = process.start(grant.release())
        await settle()
        for _ in range(5):
            await world.pass_ms(1_000)
        assert releasing.done()
        assert await world.keys() == []
        with pytest.raises(Deposed):
            other.check()
        assert (await election_of(process, "/other", keeper).campaign()).term > other.term

    run(scenario)


def test_a_closed_keeper_takes_nobody_any_more() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        async with keeper_of(process) as keeper:
            grant = await election_of(process, keeper=keeper).campaign()
        assert not grant.is_held
        assert await world.keys() == []
        await keeper.close()
        with pytest.raises(InvalidRequest, match="was closed"):
            await election_of(process, keeper=keeper).campaign()

    run(scenario)


def test_candidates_of_one_keeper_share_its_session() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        async with keeper_of(process) as keeper:
            grants = await asyncio.gather(
                *(election_of(process, f"/role-{number}", keeper).campaign() for number in range(5))
            )
            assert len(world.data.sessions) == 1
            assert all(grant.is_held for grant in grants)
            session = await keeper.session()
            assert isinstance(session, MemorySession)
            world.data.expire(session.session_id)
            world.data.tick()
            await settle()
            assert not any(grant.is_held for grant in grants)
            assert (await keeper.session()) is not session

    run(scenario)


def test_closing_a_keeper_may_be_cancelled_and_is_done_all_the_same() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        keeper = keeper_of(process)
        await election_of(process, keeper=keeper).campaign()
        gate = process.script.hold("close_session")
        closing = [process.start(keeper.close()) for _ in range(2)]
        await gate.arrived()
        closing[0].cancel()
        await settle()
        assert closing[0].cancelled()
        assert not closing[1].done()
        gate.release()
        await closing[1]
        assert await world.keys() == []
        assert (await campaign(world.process(), ROLE)).is_held

    run(scenario)
