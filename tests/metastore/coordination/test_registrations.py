"""Members of a group: registered, seen, changed, lost and back again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from coordination_world import SESSION_MS, keeper_of, never, pass_sessions

from metastore.coordination import Member, MembersChange, Registration, SessionKeeper, members, watch_members
from metastore.coordination.pace import PAUSE_MAX_S
from metastore.interface import InvalidRequest, LimitExceeded, OutcomeUnknown, StoreClosed, Unavailable
from metastore.providers.memory import MemoryData, MemoryStore
from support.world import Process, World, run, settle

GROUP = "/brokers"


def registration(
    process: Process, name: str = "one", value: bytes = b"here", keeper: SessionKeeper | None = None
) -> Registration:
    return Registration(
        process.store,
        GROUP,
        name,
        value,
        keeper=keeper,
        session_timeout_ms=SESSION_MS,
        identity=process.name,
        pace=process.pace,
    )


def is_there(one: Registration) -> bool:
    """A function, for type checkers take a property for as constant as an attribute."""
    return one.is_registered


async def until_done(world: World, task: asyncio.Task[Any]) -> None:
    """Lets time pass until something has succeeded: a bounded time."""
    await settle()
    for _ in range(20):
        if not task.done():
            await world.pass_ms(1_000)
    task.result()


async def names(process: Process) -> list[str]:
    return sorted(await members(process.store, GROUP))


def test_a_member_is_there_for_the_length_of_the_block() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        async with registration(process) as one:
            assert is_there(one)
            assert await members(process.store, GROUP) == {"one": Member("one", b"here", "process-1")}
        assert not is_there(one)
        assert await names(process) == []
        assert world.data.sessions == {}

    run(scenario)


def test_a_member_changes_its_value() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        async with registration(process) as one, watch_members(process.store, GROUP, pace=process.pace) as view:
            assert await anext(view) == MembersChange((Member("one", b"here", "process-1"),), (), ())
            await one.update(b"there")
            assert await anext(view) == MembersChange((), (), (Member("one", b"there", "process-1"),))
            assert is_there(one)

    run(scenario)


def test_a_view_follows_who_joins_and_leaves() -> None:
    async def scenario(world: World) -> None:
        first, second, observer = (world.process() for _ in range(3))
        async with watch_members(observer.store, GROUP, pace=observer.pace) as view:
            assert await anext(view) == MembersChange((), (), ())
            async with registration(first, "a"):
                assert [member.name for member in (await anext(view)).joined] == ["a"]
                async with registration(second, "b"):
                    assert [member.name for member in (await anext(view)).joined] == ["b"]
                    assert sorted(view.members) == ["a", "b"]
                assert [member.name for member in (await anext(view)).left] == ["b"]
                first.store.line.cut()
                await pass_sessions(world)
                assert [member.name for member in (await anext(view)).left] == ["a"]
                assert dict(view.members) == {}

    run(scenario)


def test_a_view_that_was_cut_off_catches_up() -> None:
    async def scenario(world: World) -> None:
        observer = world.process()
        async with (
            watch_members(observer.store, GROUP, pace=observer.pace) as view,
            registration(world.process(), "a") as a,
            registration(world.process(), "b"),
        ):
            await anext(view)
            while len(view.members) < 2:
                await anext(view)
            waiting = asyncio.ensure_future(anext(view))
            await settle()
            observer.store.line.cut()
            async with registration(world.process(), "c"):
                await a.update(b"changed")
            async with registration(world.process(), "d"):
                world.data.trim()
                observer.store.line.mend()
                await settle()
                await a.update(b"changed")
                change = await waiting
                assert [member.name for member in change.joined] == ["d"]
                assert [member.name for member in change.changed] == ["a"]

    run(scenario, shards=1)


def test_records_below_members_are_no_members() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        for key in ("/brokers/one/detail", "/brokers", "/brokers2/x", "/brokers/"):
            await process.store.put(key, b"", partition_key=GROUP)
        async with registration(process), watch_members(process.store, GROUP, pace=process.pace) as view:
            assert [member.name for member in (await anext(view)).joined] == ["one"]
            assert await names(process) == ["one"]

    run(scenario)


def test_groups_work_in_the_natural_order_of_keys_too() -> None:
    async def scenario() -> None:
        store = MemoryStore(MemoryData(key_sorting="natural"))
        async with store:
            for key in ("/brokers/one/detail", "/brokers2"):
                await store.put(key, b"", partition_key=GROUP)
            async with Registration(store, GROUP, "one"), Registration(store, GROUP, "~"):
                assert sorted(await members(store, GROUP)) == ["one", "~"]
                async with watch_members(store, GROUP) as view:
                    assert [member.name for member in (await anext(view)).joined] == ["one", "~"]

    asyncio.run(scenario())


def test_a_member_whose_session_ends_comes_back_by_itself() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        async with registration(process) as one:
            for _ in range(3):
                (session_id,) = world.data.sessions
                world.data.expire(session_id)
                world.data.tick()
                await settle()
                assert not is_there(one)
                assert await names(process) == []
                await world.pass_ms(1_000)
                await one.wait_registered()
                assert is_there(one)
                assert await names(process) == ["one"]

    run(scenario)


def test_a_member_that_was_cut_off_takes_over_what_it_has_left() -> None:
    async def scenario(world: World) -> None:
        process, observer = world.process(), world.process()
        async with registration(process) as one, watch_members(observer.store, GROUP, pace=observer.pace) as view:
            await anext(view)
            process.store.line.cut()
            await world.pass_ms(9_500)  # lost by its own clock, and not yet at the store
            assert not is_there(one)
            process.store.line.mend()
            await world.pass_ms(400)
            assert is_there(one)
            await pass_sessions(world)
            assert is_there(one)
            news = asyncio.ensure_future(anext(view))
            await settle()
            assert not news.done(), "others never saw it go"
            news.cancel()

    run(scenario)


def test_while_the_store_is_away_it_tries_at_bounded_intervals() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        async with registration(process) as one:
            process.store.line.cut()
            for _ in range(100):
                await world.pass_ms(1_000)
            attempts = process.script.arrivals["memory.open_session.before"]
            assert 100 / PAUSE_MAX_S <= attempts <= 100 / (PAUSE_MAX_S / 2) + 12
            assert max(process.sleeper.slept) <= PAUSE_MAX_S
            process.store.line.mend()
            await world.pass_ms(int(PAUSE_MAX_S * 1_000))
            assert is_there(one)

    run(scenario)


def test_a_record_that_somebody_deletes_comes_back_at_once() -> None:
    async def scenario(world: World) -> None:
        process, operator = world.process(), world.process()
        async with registration(process) as one:
            await operator.store.delete(GROUP + "/one", partition_key=GROUP)
            await settle()
            assert is_there(one)
            assert await names(operator) == ["one"]

    run(scenario)


def test_the_newcomer_replaces_what_a_crash_has_left_and_nobody_fights() -> None:
    async def scenario(world: World) -> None:
        crashed, restarted = world.process(), world.process()
        async with registration(crashed, value=b"old") as old, registration(restarted, value=b"new") as new:
            await settle()
            assert is_there(new)
            assert not is_there(old)
            assert (await members(restarted.store, GROUP))["one"].value == b"new"
            crashed.store.line.cut()
            await pass_sessions(world)
            crashed.store.line.mend()
            await world.pass_ms(5_000)
            # It wakes, and finds its place taken.
            assert not is_there(old)
            assert is_there(new)
            await restarted.store.delete(GROUP + "/one", partition_key=GROUP)
            await settle()
            assert is_there(old) or is_there(new)

    run(scenario)


@pytest.mark.parametrize("has_keeper", [False, True], ids=["session of its own", "shared session"])
@pytest.mark.parametrize("method", ["put", "get", "watch", "open_session", "delete", "close_session"])
def test_faults_of_any_call_delay_a_member_and_do_no_harm(method: str, has_keeper: bool) -> None:
    async def scenario(world: World) -> None:
        for skip in range(3):
            for is_after in (False, True):
                process = world.process()
                keeper = keeper_of(process) if has_keeper else None
                is_write = method in ("put", "delete")
                error = OutcomeUnknown("lost") if is_write else Unavailable("down")
                process.script.fail(method, error, skip=skip, after=is_after and method != "watch", times=2)
                one = registration(process, keeper=keeper)
                entering = process.start(one.__aenter__())
                await until_done(world, entering)
                for value in (b"x", b"y"):
                    updating = process.start(one.update(value))
                    await settle()
                    assert isinstance(updating.exception(), OutcomeUnknown | None)
                await until_done(world, process.start(one.wait_registered()))
                assert is_there(one)
                if method == "put":
                    process.script.clear()
                await one.update(b"z")
                assert (await members(world.process().store, GROUP))["one"].value == b"z"
                leaving = process.start(one.__aexit__(None, None, None))
                await until_done(world, leaving)
                if keeper is not None:
                    await keeper.close()
                await pass_sessions(world)
                assert await world.keys() == []

    run(scenario)


def test_entering_may_be_cancelled_at_any_moment() -> None:
    async def scenario(world: World) -> None:
        async def stay(process: Process, keeper: SessionKeeper) -> None:
            async with registration(process, keeper=keeper):
                await never()

        for turns in range(60):
            process = world.process()
            keeper = keeper_of(process)
            task = process.start(stay(process, keeper))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await settle()
            assert task.cancelled()
            assert await world.keys() == []

    run(scenario)


def test_what_ends_a_registration_for_good_is_told() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        one = registration(process)
        await one.__aenter__()
        await process.store.close()
        await settle()
        await world.pass_ms(1_000)
        assert not is_there(one)
        with pytest.raises(StoreClosed):
            await one.wait_registered()
        with pytest.raises(StoreClosed):
            await one.__aexit__(None, None, None)

    run(scenario)


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (lambda store: Registration(store, GROUP, "a/b"), InvalidRequest),
        (lambda store: Registration(store, GROUP, ""), InvalidRequest),
        (lambda store: Registration(store, "", "a"), InvalidRequest),
        (lambda store: Registration(store, GROUP + "/", "a"), InvalidRequest),
        (lambda store: Registration(store, GROUP, "a" * 70_000), LimitExceeded),
        (lambda store: watch_members(store, ""), InvalidRequest),
    ],
)
def test_bad_names_are_refused_at_once(act: Callable[[MemoryStore], object], error: type[Exception]) -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(error):
            act(world.process().store)

    run(scenario)
