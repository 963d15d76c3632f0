"""Elections where things go wrong: answers, sessions and watches are lost, at every step there is."""

from __future__ import annotations

import asyncio

import pytest
from coordination_world import ROLE, campaign, election_of, keeper_of, lock_of, never, pass_sessions

from metastore.coordination import Deposed, Grant
from metastore.interface import (
    ABSENT,
    OutcomeUnknown,
    SessionLost,
    StoreClosed,
    StoreError,
    TokenExpired,
    Unavailable,
)
from metastore.providers.memory import Part
from support.world import Process, World, run, settle

FAULTS: list[tuple[str, StoreError, bool]] = [
    ("open_session", Unavailable("down"), False),
    ("open_session", Unavailable("down"), True),
    ("put", Unavailable("down"), False),
    ("put", OutcomeUnknown("lost on the way"), False),
    ("put", OutcomeUnknown("the answer was lost"), True),
    ("get", Unavailable("down"), False),
    ("scan", Unavailable("down"), False),
    ("delete", Unavailable("down"), False),
    ("delete", OutcomeUnknown("lost on the way"), False),
    ("delete", OutcomeUnknown("the answer was lost"), True),
    ("watch", Unavailable("down"), False),
    ("watch", TokenExpired("trimmed"), False),
    ("close_session", Unavailable("down"), False),
    ("close_session", Unavailable("down"), True),
]
NAMES = [f"{method} {type(error).__name__} {'after' if is_after else 'before'}" for method, error, is_after in FAULTS]


def sessions_of(process: Process) -> list[int]:
    return [lease.session_id for lease in process.store.line.leases]


async def until_done(world: World, task: asyncio.Task[Grant]) -> Grant:
    """Lets time pass until a campaign has won: a bounded time."""
    for _ in range(20):
        if task.done():
            break
        await world.pass_ms(2_000)
    return task.result()


@pytest.mark.parametrize("has_keeper", [False, True], ids=["session of its own", "shared session"])
@pytest.mark.parametrize(("method", "error", "is_after"), FAULTS, ids=NAMES)
def test_a_fault_of_any_call_delays_a_campaign_and_does_no_harm(
    method: str, error: StoreError, is_after: bool, has_keeper: bool
) -> None:
    async def scenario(world: World) -> None:
        for times in (1, 3):
            for skip in range(4):
                holder, candidate = world.process(), world.process()
                keeper = keeper_of(candidate) if has_keeper else None
                first = await campaign(holder)
                candidate.script.fail(method, error, after=is_after, skip=skip, times=times)
                if method == "scan":  # the line is searched only after a lost answer
                    candidate.script.fail("put", OutcomeUnknown("lost"), prefix=ROLE + "/line", after=True)
                task = candidate.start(election_of(candidate, keeper=keeper).campaign())
                await settle()
                await world.pass_ms(200)
                await first.release()
                second = await until_done(world, task)
                assert second.term > first.term
                assert second.is_held
                release = candidate.start(second.release())
                for _ in range(10):
                    await world.pass_ms(2_000)
                assert release.done()
                if keeper is not None:
                    candidate.script.clear()
                    await keeper.close()
                await pass_sessions(world)
                assert await world.keys() == []

    run(scenario)


@pytest.mark.parametrize("is_after", [False, True], ids=["never arrived", "arrived"])
def test_a_candidate_whose_put_had_no_answer_does_not_wait_for_itself(is_after: bool) -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        process.script.fail("put", OutcomeUnknown("lost"), prefix=ROLE, after=is_after)
        task = process.start(campaign(process))
        await settle()
        if not is_after:
            assert not task.done()
            await world.pass_ms(100)
        grant = task.result()
        assert grant.is_held
        # What arrived was found. What did not may still arrive: its session is given up, and it would come too late.
        assert process.script.arrivals["memory.open_session.before"] == (1 if is_after else 2)
        await grant.update(b"it is ours")

    run(scenario)


def test_a_put_that_arrives_after_all_makes_no_holder_whom_nobody_knows() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        process.script.fail("put", OutcomeUnknown("under way"), prefix=ROLE)
        gate = process.script.hold("close_session")
        task = process.start(campaign(process))
        await gate.arrived()
        (named,) = world.data.sessions.values()
        gate.release()
        await settle()
        await world.pass_ms(100)
        await task.result().release()
        with pytest.raises(SessionLost):
            world.data.put(world.data.shard_of(ROLE), ROLE, b"late", ABSENT, (), named)
        assert await world.keys() == []

    run(scenario)


def test_the_session_may_end_after_any_number_of_turns() -> None:
    """At the store, behind the back of a candidate that believes in it."""

    async def scenario(world: World) -> None:
        for turns in range(80):
            holder, candidate = world.process(), world.process()
            first = await campaign(holder)
            task = candidate.start(campaign(candidate))
            await settle()
            releasing = holder.start(first.release())
            for _ in range(turns):
                await asyncio.sleep(0)
            for session_id in sessions_of(candidate):
                world.data.expire(session_id)
            await settle()
            world.data.tick()
            await settle()
            await releasing
            grant = await until_done(world, task)
            if not grant.is_held:
                with pytest.raises(Deposed):
                    grant.check()
                grant = await campaign(candidate)
            assert grant.term > first.term
            await grant.release()
            assert await world.keys() == []

    run(scenario)


def test_who_wins_when_its_session_is_over_by_the_clock_has_not_won() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        gate = process.script.hold("put", after=True)
        task = process.start(campaign(process))
        await gate.arrived()
        process.store.line.cut(Part.HEARTBEATS)
        await world.pass_ms(9_000)
        process.store.line.mend()
        gate.release()
        grant = await until_done(world, task)
        assert grant.is_held

    run(scenario)


def test_a_lost_leader_is_told_before_another_can_win() -> None:
    async def scenario(world: World) -> None:
        leading, waiting = world.process(), world.process()
        grant = await campaign(leading)
        task = waiting.start(campaign(waiting))
        lost = leading.start(grant.wait_lost())
        await settle()
        leading.store.line.cut()
        while not task.done():
            held_before, told_before = grant.is_held, lost.done()
            await world.pass_ms(100)
        assert not held_before
        assert told_before
        assert task.result().term > grant.term

    run(scenario)


def test_the_loss_of_leadership_cuts_the_block_short() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        cleaned_up = []

        async def lead() -> None:
            async with election_of(process).lead():
                try:
                    await never()
                finally:
                    cleaned_up.append(True)

        task = process.start(lead())
        await settle()
        process.store.line.cut()
        await world.pass_ms(9_000)
        with pytest.raises(Deposed, match="its session has ended"):
            task.result()
        assert cleaned_up

    run(scenario)


def test_a_block_that_wants_no_interruption_asks_by_itself() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        async with election_of(process).lead(interrupt=False) as leadership:
            process.store.line.cut()
            await world.pass_ms(9_000)
            assert not leadership.is_held
            await leadership.wait_lost()
            with pytest.raises(Deposed):
                leadership.check()

    run(scenario)


def test_a_frozen_process_finds_itself_deposed_when_it_wakes() -> None:
    async def scenario(world: World) -> None:
        frozen, waiting = world.process(), world.process()
        grant = await campaign(frozen)
        task = waiting.start(campaign(waiting))
        await settle()
        frozen.store.line.cut(Part.HEARTBEATS, Part.WATCHES)
        world.clock.advance_ms(20_000)
        for process in (frozen, waiting):
            process.clock.advance_ms(20_000)
        # Nothing of the frozen process has run since: the clock alone tells it.
        assert not grant.is_held
        world.data.tick()
        await settle()
        assert task.result().is_held

    run(scenario)


@pytest.mark.parametrize("is_replaced", [False, True], ids=["removed", "replaced"])
def test_a_grant_that_is_removed_by_force_is_lost_as_soon_as_the_watch_tells_it(is_replaced: bool) -> None:
    async def scenario(world: World) -> None:
        process, operator = world.process(), world.process()
        grant = await campaign(process)
        if is_replaced:
            await operator.store.put(ROLE, b"by hand", partition_key=ROLE)
        else:
            await operator.store.delete(ROLE, partition_key=ROLE)
        await grant.wait_lost()
        with pytest.raises(Deposed, match="removed or replaced"):
            grant.check()
        await grant.release()
        assert await world.keys() == ([ROLE] if is_replaced else [])

    run(scenario)


def test_resigning_late_does_not_remove_the_successor() -> None:
    async def scenario(world: World) -> None:
        first, second = world.process(), world.process()
        grant = await election_of(first, keeper=keeper_of(first)).campaign()
        gate = first.script.hold("delete")
        releasing = first.start(grant.release())
        await gate.arrived()
        for session_id in sessions_of(first):
            world.data.expire(session_id)
        successor = await campaign(second)
        gate.release()
        await releasing
        assert successor.is_held
        assert await world.keys() == [ROLE]

    run(scenario)


def test_resigning_finds_its_record_after_a_change_without_an_answer() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        keeper = keeper_of(process)
        grant = await election_of(process, keeper=keeper).campaign()
        process.script.fail("put", OutcomeUnknown("lost"), after=True)
        with pytest.raises(OutcomeUnknown):
            await grant.update(b"new")
        await grant.release()
        assert await world.keys() == []
        assert process.script.arrivals["memory.open_session.before"] == 1

    run(scenario)


def test_watches_that_break_and_come_back_too_late_are_begun_again() -> None:
    async def scenario(world: World) -> None:
        holder, waiting = world.process(), world.process()
        grant = await campaign(holder)
        task = waiting.start(campaign(waiting))
        async with election_of(waiting).observe() as leaders:
            first = await anext(leaders)
            assert first is not None
            assert first.term == grant.term
            waiting.store.line.cut(Part.WATCHES)
            await grant.release()
            async with lock_of(world.process(), "/something/else").hold():
                world.data.trim()
            await settle()
            assert not task.done()
            waiting.store.line.mend()
            await settle()
            await waiting.store.put("/and/more", b"", partition_key=ROLE)
            await settle()
            assert task.result().term > grant.term
            leader = await anext(leaders)
            assert leader is None or leader.term == task.result().term

    run(scenario, shards=1)


def test_an_error_that_no_waiting_mends_ends_the_campaign() -> None:
    async def scenario(world: World) -> None:
        holder, process = world.process(), world.process()
        await campaign(holder)
        task = process.start(campaign(process))
        await settle()
        await process.store.close()
        await settle()
        await world.pass_ms(100)
        with pytest.raises(StoreClosed):
            task.result()

    run(scenario)


def test_a_leader_whose_store_is_closed_has_lost() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        grant = await campaign(process)
        await process.store.close()
        assert not grant.is_held
        await grant.wait_lost()
        with pytest.raises(Deposed):
            grant.check()

    run(scenario)
