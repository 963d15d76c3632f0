"""Winning, handing over, waiting in line, giving up: elections where nothing goes wrong."""

from __future__ import annotations

import asyncio

import pytest
from coordination_world import ROLE, campaign, election_of, keeper_of, never, pass_sessions

from metastore.coordination import Deposed, Election, Grant, Leader, NotGranted
from metastore.interface import InvalidRequest
from support.world import World, run, settle


def test_the_first_candidate_leads_at_once() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        async with election_of(process).lead() as leadership:
            leadership.check()
            leader = await election_of(process).leader()
            assert leader == Leader(leadership.term, b"process-1", "process-1")
            assert await world.keys() == [ROLE]
        assert not leadership.is_held
        assert await election_of(process).leader() is None
        assert await world.keys() == []

    run(scenario)


def test_who_resigns_hands_over_to_the_next_in_line_and_the_term_grows() -> None:
    async def scenario(world: World) -> None:
        first = await campaign(world.process())
        second, third = (process.start(campaign(process)) for process in (world.process(), world.process()))
        await settle()
        assert not second.done()
        assert not third.done()
        await first.release()
        await settle()
        assert not third.done()
        assert second.result().term > first.term
        await second.result().release()
        assert (await third).term > second.result().term
        assert await world.keys() == [ROLE]

    run(scenario)


def test_a_handover_wakes_only_the_next_in_line() -> None:
    async def scenario(world: World) -> None:
        holder = await campaign(world.process())
        waiting = []
        for _ in range(5):
            process = world.process()
            waiting.append((process, process.start(campaign(process))))
            await settle()
        before = [process.script.arrivals.copy() for process, _ in waiting]
        await holder.release()
        await settle()
        assert [task.done() for _, task in waiting] == [True, False, False, False, False]
        # The second moves up when the first leaves the line: it looks who is ahead, and then at the grant.
        calls = [process.script.arrivals - past for (process, _), past in zip(waiting, before, strict=True)]
        assert [count["memory.put.before"] for count in calls] == [1, 0, 0, 0, 0]
        assert [count["memory.get.before"] for count in calls] == [0, 1, 0, 0, 0]

    run(scenario)


def test_one_who_returns_at_once_does_not_overtake_those_who_wait() -> None:
    async def scenario(world: World) -> None:
        eager, patient = world.process(), world.process()
        grant = await campaign(eager)
        waiting = patient.start(campaign(patient))
        await settle()
        await grant.release()
        again = eager.start(campaign(eager))
        await settle()
        assert waiting.done()
        assert not again.done()

    run(scenario)


def test_who_overtakes_the_first_in_line_all_the_same_only_makes_it_wait_longer() -> None:
    async def scenario(world: World) -> None:
        holder, waiting, quick = world.process(), world.process(), world.process()
        grant = await campaign(holder)
        gate = waiting.script.hold("put", prefix=ROLE + "/line")
        task = waiting.start(campaign(waiting))
        await gate.arrived()  # it has seen the grant, and is not in the line yet
        await grant.release()
        overtaker = await campaign(quick)
        gate.release()
        await settle()
        assert not task.done()
        await overtaker.release()
        await settle()
        assert task.result().term > overtaker.term

    run(scenario)


def test_a_candidate_that_dies_in_line_leaves_a_gap_that_closes() -> None:
    async def scenario(world: World) -> None:
        holder, dying, last = world.process(), world.process(), world.process()
        grant = await campaign(holder)
        waiting = dying.start(campaign(dying))
        await settle()
        patient = last.start(campaign(last))
        await settle()
        dying.store.line.cut()
        await pass_sessions(world)
        assert await world.keys() == [ROLE, ROLE + "/line-00000000000000000002"]
        await grant.release()
        await settle()
        assert patient.done()
        assert not waiting.done()

    run(scenario)


@pytest.mark.parametrize("has_keeper", [False, True], ids=["session of its own", "shared session"])
def test_a_campaign_that_is_cancelled_at_any_moment_leaves_nothing_behind(has_keeper: bool) -> None:
    """Cancels it after each number of turns that it may have taken, alone and behind another."""

    async def cancel_after(world: World, turns: int) -> bool:
        process = world.process()
        keeper = keeper_of(process) if has_keeper else None
        task = process.start(election_of(process, keeper=keeper).campaign())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await settle()
        if not task.cancelled():
            await task.result().release()
        return task.cancelled()

    async def scenario(world: World) -> None:
        turns = 0
        while await cancel_after(world, turns):
            assert await world.keys() == [], turns
            turns += 1
        assert turns > 5
        holder = await campaign(world.process())
        for turns in range(60):
            assert await cancel_after(world, turns)
            assert await world.keys() == [ROLE], turns
        await holder.release()
        assert await world.keys() == []

    run(scenario)


def test_a_campaign_cancelled_twice_still_cleans_up() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        keeper = keeper_of(process)
        gate = process.script.hold("put", after=True)
        task = process.start(election_of(process, keeper=keeper).campaign())
        await gate.arrived()
        for _ in range(2):
            task.cancel()
            await settle()
        assert task.cancelled()
        assert await world.keys() == [ROLE]
        gate.release()
        await settle()
        assert await world.keys() == []

    run(scenario)


def test_the_time_for_a_campaign_may_be_limited() -> None:
    async def scenario(world: World) -> None:
        holder, process = world.process(), world.process()
        grant = await campaign(holder)
        task = process.start(election_of(process).campaign(timeout_s=3))
        await settle()
        await world.pass_ms(2_999)
        assert not task.done()
        await world.pass_ms(1)
        with pytest.raises(NotGranted, match="within 3 s"):
            task.result()
        assert await world.keys() == [ROLE]
        assert grant.is_held

    run(scenario)


def test_observers_are_told_who_leads() -> None:
    async def scenario(world: World) -> None:
        observer, process = world.process(), world.process()
        async with election_of(observer).observe() as leaders:
            assert await anext(leaders) is None
            grant = await campaign(process)
            assert await anext(leaders) == Leader(grant.term, b"process-2", "process-2")
            await grant.update(b"elsewhere")
            assert await anext(leaders) == Leader(grant.term, b"elsewhere", "process-2")
            waiting = asyncio.ensure_future(anext(leaders))
            await settle()
            assert not waiting.done()
            waiting.cancel()
            await settle()
            await grant.release()
            assert await anext(leaders) is None

    run(scenario)


def test_observers_of_a_quick_change_see_terms_that_grow() -> None:
    async def scenario(world: World) -> None:
        observer = world.process()
        terms = []
        async with election_of(observer).observe() as leaders:
            await anext(leaders)
            for _ in range(3):
                async with election_of(world.process()).lead():
                    await settle()
            last = await campaign(world.process())
            async for leader in leaders:
                terms += [leader.term] if leader is not None else []
                if last.term in terms:
                    break
        assert terms == sorted(set(terms))

    run(scenario, lacks=("every_change",))


def test_several_campaigns_of_one_election_object_exclude_each_other() -> None:
    async def scenario(world: World) -> None:
        election = election_of(world.process())
        leading = 0
        terms: list[int] = []

        async def lead() -> None:
            nonlocal leading
            async with election.lead() as leadership:
                leading += 1
                assert leading == 1
                terms.append(leadership.term)
                await settle()
                leading -= 1

        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(lead())
        assert len(terms) == 4
        assert terms == sorted(set(terms))

    run(scenario)


def test_elections_in_one_partition_do_not_disturb_each_other() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        grants = [
            await Election(process.store, name, partition_key="/together", pace=process.pace).campaign()
            for name in ("/role", "/role/line", "/role2", "/rol")
        ]
        assert all(grant.is_held for grant in grants)
        async with asyncio.timeout(60):
            for grant in grants:
                await grant.release()

    run(scenario)


def test_releasing_inside_the_block_does_not_interrupt_it() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        async with election_of(process).lead() as leadership:
            await leadership.release()
            await settle()
            with pytest.raises(Deposed, match="it was released"):
                leadership.check()

    run(scenario)


def test_a_cancellation_of_the_leader_is_not_taken_for_the_loss_of_leadership() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        grants: list[Grant] = []

        async def lead() -> None:
            async with election_of(process).lead() as leadership:
                grants.append(leadership)
                await never()

        task = process.start(lead())
        await settle()
        task.cancel()
        await settle()
        assert task.cancelled()
        assert grants[0].is_released
        assert await world.keys() == []

    run(scenario)


@pytest.mark.parametrize("name", ["", "/role/", "\ud800"])
def test_bad_names_are_refused_at_once(name: str) -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(InvalidRequest):
            election_of(world.process(), name)

    run(scenario)
