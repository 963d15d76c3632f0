"""The parts that coordination is made of, each by itself: interruptions, pauses, stamps, views, lines, limits."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest
from coordination_world import ROLE, campaign, never
from hypothesis import given
from hypothesis import strategies as st

from metastore.clock import ManualClock
from metastore.coordination import Deposed, ForeignRecord, Lock, Pace
from metastore.coordination.line import LINE_LENGTH_MAX
from metastore.coordination.pace import PAUSE_FIRST_S, PAUSE_MAX_S, QUIET_S, Backoff
from metastore.coordination.role import Role
from metastore.coordination.stamps import FenceStamp, HolderStamp, read_fence, read_holder
from metastore.coordination.unless import Unless
from metastore.coordination.view import View
from metastore.interface import ALL, LimitExceeded, Record, Unavailable, Version, exactly
from metastore.providers.memory import MemoryStore
from support.world import World, run, settle


class Struck(Exception):
    """The event came first."""


def record_of(value: bytes) -> Record:
    return Record("/key", value, Version(1, 0, 0, 0))


# -- interruptions


def test_a_block_that_ends_first_is_not_interrupted() -> None:
    async def scenario() -> None:
        async with Unless(never(), Struck):
            await asyncio.sleep(0)
        outcomes = []
        for turns in range(5):
            is_over = asyncio.Event()
            try:
                async with Unless(is_over.wait(), Struck):
                    await settle()
                    is_over.set()
                    for _ in range(turns):
                        await asyncio.sleep(0)
                outcomes.append("ended")
            except Struck:
                outcomes.append("struck")
            await settle()  # nothing of the event comes later
        assert outcomes == sorted(outcomes)
        assert set(outcomes) == {"ended", "struck"}

    asyncio.run(scenario())


@pytest.mark.parametrize("turns", range(4))
def test_an_event_interrupts_a_block_wherever_it_waits(turns: int) -> None:
    async def scenario() -> None:
        is_over = asyncio.Event()

        async def work() -> None:
            async with Unless(is_over.wait(), Struck):
                for _ in range(turns):
                    await asyncio.sleep(0)
                is_over.set()
                await never()

        with pytest.raises(Struck):
            await work()
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    asyncio.run(scenario())


def test_a_failure_of_the_event_itself_is_not_hidden() -> None:
    async def fail() -> None:
        raise ZeroDivisionError

    async def scenario() -> None:
        with pytest.raises(ZeroDivisionError):
            async with Unless(fail(), Struck):
                await never()

    asyncio.run(scenario())


def test_a_cancellation_from_elsewhere_stays_one() -> None:
    async def scenario() -> None:
        is_over = asyncio.Event()

        async def work() -> None:
            async with Unless(is_over.wait(), Struck):
                await never()

        for is_both in (False, True):
            task = asyncio.ensure_future(work())
            await settle()
            if is_both:
                is_over.set()
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()

    asyncio.run(scenario())


def test_the_inner_of_two_interruptions_is_told_apart_from_the_outer() -> None:
    async def scenario() -> None:
        inner, outer = asyncio.Event(), asyncio.Event()

        async def work() -> str:
            try:
                async with Unless(outer.wait(), lambda: Struck("outer")):
                    with pytest.raises(Struck, match="inner"):
                        async with Unless(inner.wait(), lambda: Struck("inner")):
                            await never()
                    await never()
            except Struck as error:
                return str(error)
            return "nothing"

        task = asyncio.ensure_future(work())
        await settle()
        inner.set()
        await settle()
        assert not task.done()
        outer.set()
        assert await task == "outer"

    asyncio.run(scenario())


def test_what_a_block_raises_by_itself_wins() -> None:
    async def scenario() -> None:
        is_over = asyncio.Event()

        async def work() -> None:
            async with Unless(is_over.wait(), Struck):
                try:
                    is_over.set()
                    await never()
                finally:
                    raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await work()
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    asyncio.run(scenario())


# -- pauses


def test_pauses_grow_to_a_bound_and_begin_anew_after_a_quiet_time() -> None:
    clock = ManualClock()
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def scenario() -> None:
        backoff = Backoff(Pace(clock, random.Random(7), sleep))
        for _ in range(12):
            await backoff.pause()
        assert PAUSE_FIRST_S / 2 <= slept[0] <= PAUSE_FIRST_S
        assert all(PAUSE_MAX_S / 2 <= seconds <= PAUSE_MAX_S for seconds in slept[-4:])
        assert len(set(slept)) == len(slept)
        clock.advance_ms(int(QUIET_S * 1_000) - 1)
        await backoff.pause()
        assert slept[-1] >= PAUSE_MAX_S / 2
        clock.advance_ms(int(QUIET_S * 1_000))
        await backoff.pause()
        assert slept[-1] <= PAUSE_FIRST_S

    asyncio.run(scenario())


# -- stamps


@given(st.text(), st.none() | st.integers(), st.binary())
def test_the_stamp_of_a_holder_is_read_as_it_was_written(holder: str, term: int | None, value: bytes) -> None:
    stamp = HolderStamp(holder, term)
    assert read_holder(record_of(stamp.on(value))) == (stamp, value)


@given(st.integers(), st.booleans(), st.lists(st.tuples(st.text(), st.text())), st.binary())
def test_the_stamp_of_a_fence_is_read_as_it_was_written(
    term: int, is_deleted: bool, indexes: list[tuple[str, str]], value: bytes
) -> None:
    stamp = FenceStamp(term, is_deleted, tuple(indexes))
    assert read_fence(record_of(stamp.on(value))) == (stamp, value)


@pytest.mark.parametrize("reader", [read_holder, read_fence])
@given(value=st.binary() | st.sampled_from([b"{}\n", b"{\n", b"null\n", b'{"holder":1}\n', b'{"fence":"x"}\n']))
def test_other_values_are_foreign(reader: Callable[[Record], object], value: bytes) -> None:
    with pytest.raises(ForeignRecord):
        reader(record_of(value))


def test_one_kind_of_stamp_is_foreign_to_the_other() -> None:
    with pytest.raises(ForeignRecord):
        read_fence(record_of(HolderStamp("mark", 7).on(b"")))
    with pytest.raises(ForeignRecord):
        read_holder(record_of(FenceStamp(7).on(b"")))
    with pytest.raises(ForeignRecord):
        read_holder(record_of(b'{"holder":"mark","term":"7"}\n'))


# -- views


def test_a_view_tells_which_records_changed() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        store = process.store
        await store.put("/a", b"1", partition_key=ROLE)
        async with View(store, ALL, partition_key=ROLE, pace=process.pace) as view:
            assert await view.news() == {"/a"}
            await store.put("/b", b"1", partition_key=ROLE)
            await store.delete("/a", partition_key=ROLE)
            changed = await view.news()
            while "/a" in view.records:
                changed |= await view.news()
            assert changed == {"/a", "/b"}
            assert sorted(view.records) == ["/b"]
            process.script.fail("watch", Unavailable("down"))
            news = asyncio.ensure_future(view.news())
            await settle()
            await store.put("/c", b"1", partition_key=ROLE)
            await world.pass_ms(100)
            assert await news == {"/c"}

    run(scenario)


def test_a_view_of_an_index_forgets_what_leaves_it() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        store = process.store
        await store.put("/a", b"", indexes=[("by-state", "open")])
        async with View(store, exactly("open"), index="by-state", pace=process.pace) as view:
            assert await view.news() == {"/a"}
            await store.put("/a", b"", indexes=[("by-state", "closed")])
            assert await view.news() == {"/a"}
            assert view.records == {}

    run(scenario)


def test_a_snapshot_that_begins_anew_forgets_what_it_had_said() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        store = process.store
        for number in range(300):
            await store.put(f"/{number}", b"", partition_key=ROLE)
        async with View(store, ALL, partition_key=ROLE, pace=process.pace) as view:
            gate = process.script.hold("watch")
            news = asyncio.ensure_future(view.news())
            await gate.arrived()
            gate.release(1)
            await gate.arrived(2)
            gate.release(1)
            await gate.arrived(3)  # behind the first portion
            process.store.line.cut()
            process.store.line.mend()
            await store.delete("/0", partition_key=ROLE)
            gate.release()
            assert len(await news) == 299
            assert "/0" not in view.records

    run(scenario)


# -- lines


def test_what_is_a_place_in_a_line() -> None:
    role = Role.named("/role", None)
    assert role.is_place("/role/line-00000000000000000001")
    assert role.place_number("/role/line-00000000000000000017") == 17
    for key in ("/role/line-1", "/role/line-0000000000000000000x", "/role/line", "/other/line-00000000000000000001"):
        assert not role.is_place(key)


async def fill_line(store: MemoryStore, count: int) -> None:
    for _ in range(count):
        await store.put(ROLE + "/line", b"", partition_key=ROLE, sequence_deltas=[1])


def test_a_line_has_an_end() -> None:
    async def scenario(world: World) -> None:
        process, last = world.process(), world.process()
        await campaign(process)
        await fill_line(process.store, LINE_LENGTH_MAX - 1)
        waiting = process.start(campaign(process))
        await settle()
        assert not waiting.done()
        before = await world.keys()
        with pytest.raises(LimitExceeded, match="LINE_LENGTH_MAX"):
            await campaign(last)
        assert await world.keys() == before

    run(scenario)


def test_those_who_left_a_line_do_not_count() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        await campaign(process)
        await fill_line(process.store, LINE_LENGTH_MAX + 5)
        for number in range(2, 10):
            await process.store.delete(f"{ROLE}/line-{number:020d}", partition_key=ROLE)
        waiting = process.start(campaign(process))
        await settle()
        assert not waiting.done()

    run(scenario)


def test_grants_of_many_roles_are_found_by_one_index_and_stay_there_when_they_change() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        by_index = [("holders", "all")]
        locks = [Lock(process.store, f"/role-{number}", pace=process.pace, indexes=by_index) for number in range(3)]
        grants = [await lock.acquire() for lock in locks]

        async def held() -> list[str]:
            return [record.key async for record in process.store.scan(exactly("all"), index="holders")]

        assert sorted(await held()) == ["/role-0", "/role-1", "/role-2"]
        await grants[0].update(b"b")
        await grants[1].release()
        assert sorted(await held()) == ["/role-0", "/role-2"]
        await grants[0].confirm()
        with pytest.raises(Deposed):
            await grants[1].confirm()
        await process.store.delete("/role-2", partition_key="/role-2")
        with pytest.raises(Deposed):
            await grants[2].confirm()
        for grant in grants:
            await grant.release()

    run(scenario)
