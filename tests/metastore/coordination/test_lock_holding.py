"""Locks: mutual exclusion, trying, giving up, losing."""

from __future__ import annotations

import asyncio

import pytest
from coordination_world import ROLE, keeper_of, lock_of, never

from metastore.coordination import Deposed, NotGranted
from metastore.interface import Unavailable
from support.world import World, run, settle

LACKS = [(), ("transact", "every_change")]


@pytest.mark.parametrize("lacks", LACKS, ids=["everything", "the least"])
def test_one_at_a_time_in_the_order_of_arrival(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World) -> None:
        order: list[int] = []
        terms: list[int] = []
        holders = 0

        async def work(number: int) -> None:
            nonlocal holders
            for _ in range(3):
                async with lock_of(world.process()).hold() as grant:
                    holders += 1
                    assert holders == 1
                    order.append(number)
                    terms.append(grant.term)
                    await settle()
                    holders -= 1

        grant = await lock_of(world.process()).acquire()
        async with asyncio.TaskGroup() as group:
            for number in range(4):
                group.create_task(work(number))
                await settle()
            await grant.release()
        assert order == [0, 1, 2, 3] * 3
        assert terms == sorted(set(terms))
        assert await world.keys() == []

    run(scenario, lacks)


def test_a_lock_may_be_tried() -> None:
    async def scenario(world: World) -> None:
        lock, other = lock_of(world.process()), lock_of(world.process())
        grant = await lock.try_acquire()
        assert grant is not None
        assert await other.try_acquire() is None
        assert len(world.data.sessions) == 1
        await grant.release()
        again = await other.try_acquire()
        assert again is not None
        assert again.term > grant.term

    run(scenario)


def test_trying_does_not_overtake_those_who_wait() -> None:
    async def scenario(world: World) -> None:
        process, waiting = world.process(), world.process()
        grant = await lock_of(process).acquire()
        gate = waiting.script.hold("put", prefix=ROLE)
        task = waiting.start(lock_of(waiting).acquire())
        await gate.arrived()
        gate.release(1)  # fails, for the lock is held
        await gate.arrived(2)
        gate.release(1)  # the place in line
        await settle()
        await grant.release()
        await gate.arrived(3)
        assert await lock_of(process).try_acquire() is None
        gate.release()
        assert (await task).is_held

    run(scenario)


def test_trying_once_tells_what_went_wrong() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        process.script.fail("get", Unavailable("down"))
        with pytest.raises(Unavailable):
            await lock_of(process).try_acquire()
        assert world.data.sessions == {}

    run(scenario)


def test_trying_may_be_cancelled_at_any_moment() -> None:
    async def scenario(world: World) -> None:
        turns, is_cancelled = 0, True
        while is_cancelled:
            process = world.process()
            task = process.start(lock_of(process, keeper=keeper_of(process)).try_acquire())
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await settle()
            is_cancelled = task.cancelled()
            assert await world.keys() == ([] if is_cancelled else [ROLE])
            turns += 1
        assert turns > 5

    run(scenario)


def test_waiting_has_the_limit_that_it_is_given() -> None:
    async def scenario(world: World) -> None:
        holder, process = world.process(), world.process()
        grant = await lock_of(holder).acquire()
        for timeout_s in (0, 5):
            task = process.start(lock_of(process).acquire(timeout_s=timeout_s))
            await settle()
            await world.pass_ms(timeout_s * 1_000)
            with pytest.raises(NotGranted):
                task.result()

        async def hold() -> None:
            async with lock_of(process).hold(timeout_s=5):
                await never()

        holding = process.start(hold())
        await settle()
        await grant.release()
        await settle()
        await world.pass_ms(6_000)
        assert not holding.done()
        holding.cancel()
        await settle()
        assert await world.keys() == []

    run(scenario)


def test_who_wins_in_the_very_moment_that_the_time_is_over_leaves_nothing() -> None:
    async def scenario(world: World) -> None:
        for turns in range(40):
            holder, process = world.process(), world.process()
            grant = await lock_of(holder).acquire()
            keeper = keeper_of(process)
            task = process.start(lock_of(process, keeper=keeper).acquire(timeout_s=1))
            await settle()
            releasing = holder.start(grant.release())
            for _ in range(turns):
                await asyncio.sleep(0)
            process.clock.advance_ms(1_000)
            process.sleeper.wake()
            await settle()
            await releasing
            if isinstance(task.exception(), NotGranted):
                assert await world.keys() == []
            else:
                await task.result().release()
            await keeper.close()

    run(scenario)


def test_the_loss_of_a_lock_interrupts_its_block_and_only_that() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        steps = []

        async def work() -> None:
            try:
                async with lock_of(process).hold():
                    steps.append("held")
                    await never()
            except Deposed:
                steps.append("lost")
            await asyncio.sleep(0)
            steps.append("on")

        task = process.start(work())
        await settle()
        process.store.line.cut()
        await world.pass_ms(9_000)
        await settle()
        assert steps == ["held", "lost", "on"]
        assert not task.cancelled()

    run(scenario)


def test_an_error_in_the_block_is_the_error_of_the_block() -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(ZeroDivisionError):
            async with lock_of(world.process()).hold():
                raise ZeroDivisionError
        assert await world.keys() == []

    run(scenario)


def test_a_lock_that_cannot_be_released_expires_and_the_block_ends_well() -> None:
    async def scenario(world: World) -> None:
        process, other = world.process(), world.process()

        async def work() -> None:
            async with lock_of(process).hold():
                process.store.line.cut()

        task = process.start(work())
        await settle()
        for _ in range(10):
            await world.pass_ms(1_000)
        await task
        assert (await lock_of(other).acquire()).is_held

    run(scenario)
