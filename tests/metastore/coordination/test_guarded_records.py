"""Records that carry a fence: on stores with `transact` and without it, in the role's partition and in others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
from coordination_world import ROLE, campaign, election_of, pass_sessions

from metastore.coordination import Deposed, ForeignRecord, Grant, GuardedRecord, read_guarded
from metastore.coordination.guarded import TAKEOVER_ATTEMPTS_MAX, GuardedValue
from metastore.interface import OutcomeUnknown, Unavailable, UnexpectedVersion
from metastore.providers.memory import Part
from support.world import Process, World, run, settle

KEY = "/guarded"
ELSEWHERE = "/another/partition"

Scenario = Callable[[World, str], Awaitable[None]]


@pytest.fixture(
    params=[((), ROLE), ((), ELSEWHERE), (("transact", "every_change"), ROLE), (("transact",), ELSEWHERE)],
    ids=["transact here", "transact elsewhere", "no transact here", "no transact elsewhere"],
)
def run_each(request: pytest.FixtureRequest) -> Callable[[Scenario], None]:
    """Runs a scenario for one kind of store, with the partition that the record is in."""
    lacks, partition_key = request.param
    return lambda scenario: run(partial(_swapped, scenario, partition_key), lacks)


async def _swapped(scenario: Scenario, partition_key: str, world: World) -> None:
    await scenario(world, partition_key)


async def read(process: Process, partition_key: str) -> GuardedValue:
    return await read_guarded(process.store, KEY, partition_key=partition_key)


async def succeed_frozen(world: World, frozen: Process, grant: Grant) -> Grant:
    """Another wins while a holder's clock stands still."""
    frozen.store.line.cut(Part.HEARTBEATS, Part.WATCHES)
    await pass_sessions(world, frozen=(frozen,))
    successor = await campaign(world.process())
    assert grant.is_held
    return successor


def guard(grant: Grant, partition_key: str) -> GuardedRecord:
    return grant.guard(KEY, partition_key=partition_key)


def test_a_record_is_written_read_and_deleted(run_each: Callable[[Scenario], None]) -> None:
    async def scenario(world: World, partition_key: str) -> None:
        process = world.process()
        grant = await campaign(process)
        record = guard(grant, partition_key)
        assert await record.read() is None
        await record.write(b"one", indexes=[("by-name", "n")])
        await record.write(b"two", indexes=[("by-name", "n")])
        assert await record.read() == b"two"
        assert await read(process, partition_key) == GuardedValue(b"two", grant.term)
        assert [key async for key in process.store.list(index="by-name")] == [KEY]
        await record.delete()
        await record.delete()
        assert await record.read() is None
        assert (await read(process, partition_key)).value is None
        assert [key async for key in process.store.list(index="by-name")] == []
        await record.write(b"three")
        assert await record.read() == b"three"

    run_each(scenario)


def test_a_successor_finds_it_with_its_index_entries(run_each: Callable[[Scenario], None]) -> None:
    async def scenario(world: World, partition_key: str) -> None:
        first, second = world.process(), world.process()
        async with election_of(first).lead() as leadership:
            await guard(leadership, partition_key).write(b"one", indexes=[("by-name", "n"), ("by-age", "7")])
        leadership = await campaign(second)
        assert await guard(leadership, partition_key).read() == b"one"
        for index in ("by-name", "by-age"):
            assert [key async for key in second.store.list(index=index)] == [KEY]

    run_each(scenario)


@pytest.mark.parametrize("has_value", [False, True], ids=["absent", "present"])
def test_once_a_successor_has_read_it_the_deposed_cannot_write_it(
    run_each: Callable[[Scenario], None], has_value: bool
) -> None:
    async def scenario(world: World, partition_key: str) -> None:
        frozen = world.process()
        grant = await campaign(frozen)
        record = guard(grant, partition_key)
        if has_value:
            await record.write(b"old")
        else:
            await record.read()
        successor = await succeed_frozen(world, frozen, grant)
        value = await guard(successor, partition_key).read()
        assert value == (b"old" if has_value else None)
        with pytest.raises(Deposed):
            await record.write(b"late")
        assert not grant.is_held
        assert (await read(frozen, partition_key)).value == value
        with pytest.raises(Deposed):
            await record.delete()

    run_each(scenario)


def test_the_deposed_cannot_take_back_what_a_successor_has_written(run_each: Callable[[Scenario], None]) -> None:
    async def scenario(world: World, partition_key: str) -> None:
        frozen = world.process()
        grant = await campaign(frozen)
        successor = await succeed_frozen(world, frozen, grant)
        await guard(successor, partition_key).write(b"new")
        with pytest.raises(Deposed, match="was written under term"):
            await guard(grant, partition_key).read()
        assert not grant.is_held
        assert await read(frozen, partition_key) == GuardedValue(b"new", successor.term)

    run_each(scenario)


@pytest.mark.parametrize("arrives_before_the_read", [False, True])
def test_a_write_under_way_is_either_seen_by_the_successor_or_fails(
    run_each: Callable[[Scenario], None], arrives_before_the_read: bool
) -> None:
    async def scenario(world: World, partition_key: str) -> None:
        frozen = world.process()
        grant = await campaign(frozen)
        record = guard(grant, partition_key)
        await record.write(b"old")
        gates = [frozen.script.hold(method) for method in ("put", "transact")]
        writing = frozen.start(record.write(b"late"))
        await settle()
        successor = await succeed_frozen(world, frozen, grant)
        if arrives_before_the_read:
            for gate in gates:
                gate.release()
            await settle()
        value = await guard(successor, partition_key).read()
        for gate in gates:
            gate.release()
        await asyncio.wait([writing])
        if isinstance(writing.exception(), Deposed):
            assert value == b"old"
        else:
            writing.result()
            assert value == b"late"
            assert arrives_before_the_read
        assert (await read(frozen, partition_key)).value == value

    run_each(scenario)


def test_a_lost_answer_leaves_the_record_to_be_read_again(run_each: Callable[[Scenario], None]) -> None:
    async def scenario(world: World, partition_key: str) -> None:
        for is_after in (False, True):
            process = world.process()
            async with election_of(process).lead() as leadership:
                record = guard(leadership, partition_key)
                await record.write(b"one")
                for method in ("put", "transact"):
                    process.script.fail(method, OutcomeUnknown("lost"), after=is_after)
                with pytest.raises(OutcomeUnknown):
                    await record.write(b"two")
                process.script.clear()
                assert await record.read() == (b"two" if is_after else b"one")
                await record.write(b"three")

    run_each(scenario)


def test_who_writes_it_without_a_grant_is_noticed(run_each: Callable[[Scenario], None]) -> None:
    async def scenario(world: World, partition_key: str) -> None:
        process = world.process()
        grant = await campaign(process)
        record = guard(grant, partition_key)
        await record.write(b"one")
        other = guard(grant, partition_key)
        await other.write(b"two")
        with pytest.raises(UnexpectedVersion):
            await record.write(b"three")
        assert await record.read() == b"two"
        assert grant.is_held
        deep = b'{"a":' * 100_000 + b"\n"
        for foreign in (b"", b"text", b"{\n", deep, b'{"fence":"x"}\n', b'{"fence":1,"indexes":7}\n'):
            await process.store.put(KEY, foreign, partition_key=partition_key)
            with pytest.raises(ForeignRecord, match="delete the record"):
                await record.read()

    run_each(scenario)


def test_the_fence_is_raised_though_the_answer_is_lost() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        async with election_of(process).lead() as leadership:
            await leadership.guard(KEY).write(b"one")
        async with election_of(process).lead() as leadership:
            process.script.fail("put", OutcomeUnknown("lost"), prefix=KEY)
            process.script.fail("put", OutcomeUnknown("lost"), prefix=KEY, after=True)
            record = leadership.guard(KEY)
            assert await record.read() == b"one"
            await record.write(b"two")

    run(scenario, lacks=("transact",))


def test_raising_a_fence_has_an_end() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        grant = await campaign(process)
        process.script.fail("put", OutcomeUnknown("lost"), prefix=KEY, times=TAKEOVER_ATTEMPTS_MAX - 1)
        assert await grant.guard(KEY).read() is None
        process.script.fail("put", OutcomeUnknown("lost"), prefix=KEY + "2", times=TAKEOVER_ATTEMPTS_MAX)
        with pytest.raises(Unavailable, match="TAKEOVER_ATTEMPTS_MAX"):
            await grant.guard(KEY + "2").read()

    run(scenario, lacks=("transact",))


def test_the_fence_outlives_a_deletion_where_only_the_record_holds_it() -> None:
    async def scenario(world: World) -> None:
        frozen = world.process()
        grant = await campaign(frozen)
        stale = grant.guard(KEY)
        await stale.read()
        successor = await succeed_frozen(world, frozen, grant)
        record = successor.guard(KEY)
        await record.write(b"new")
        await record.delete()
        with pytest.raises(Deposed):
            await stale.write(b"late")
        assert await read_guarded(frozen.store, KEY, partition_key=ROLE) == GuardedValue(None, successor.term)

    run(scenario, lacks=("transact",))


def test_nothing_is_left_of_a_deletion_where_the_grant_is_the_fence() -> None:
    async def scenario(world: World) -> None:
        async with election_of(world.process()).lead() as leadership:
            record = leadership.guard(KEY)
            await record.write(b"one")
            await record.delete()
            assert KEY not in await world.keys()

    run(scenario)


def test_a_lost_grant_does_not_even_read() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        grant = await campaign(process)
        record = grant.guard(KEY)
        await grant.release()
        with pytest.raises(Deposed):
            await record.read()
        with pytest.raises(Deposed):
            await record.write(b"late")

    run(scenario)
