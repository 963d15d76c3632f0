"""Writes on the strength of a grant, where its record can be a condition: the role's partition, with `transact`."""

from __future__ import annotations

import asyncio

import pytest
from coordination_world import ROLE, campaign, election_of, pass_sessions

from metastore.coordination import Deposed, Grant
from metastore.coordination.grant import FENCE_ATTEMPTS_MAX
from metastore.interface import (
    ABSENT,
    Condition,
    ConditionFailed,
    Delete,
    InvalidRequest,
    OutcomeUnknown,
    Put,
    Unavailable,
    UnexpectedVersion,
    Unsupported,
)
from metastore.providers.memory import Part
from support.world import Process, World, run, settle

KEY = ROLE + "/state"


async def value_of(process: Process, key: str = KEY) -> bytes | None:
    record = await process.store.get(key, partition_key=ROLE)
    return None if record is None else record.value


async def succeed_frozen(world: World, frozen: Process, grant: Grant) -> Grant:
    """Another wins while a holder's clock stands still, as it does in a machine that is suspended."""
    frozen.store.line.cut(Part.HEARTBEATS, Part.WATCHES)
    await pass_sessions(world, frozen=(frozen,))
    successor = await campaign(world.process())
    assert grant.is_held, "no clock has told the frozen one"
    assert successor.term > grant.term
    return successor


def test_a_leader_writes_and_deletes() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        grant = await campaign(process)
        result = await grant.put(KEY, b"one", expected=ABSENT, indexes=[("by-name", "n")])
        assert [key async for key in process.store.list(index="by-name")] == [KEY]
        with pytest.raises(UnexpectedVersion):
            await grant.put(KEY, b"two", expected=ABSENT)
        await grant.put(KEY, b"two", expected=result.version.version_id)
        assert await value_of(process) == b"two"
        with pytest.raises(UnexpectedVersion):
            await grant.delete(KEY, expected=result.version.version_id)
        await grant.delete(KEY)
        assert await value_of(process) is None
        assert grant.is_held

    run(scenario)


def test_a_transaction_is_the_store_s_with_one_condition_more() -> None:
    async def scenario(world: World) -> None:
        grant = await campaign(world.process())
        put, deleted = await grant.transact([Put(KEY, b"one"), Delete(KEY + "2")], conditions=[Condition(KEY, ABSENT)])
        assert put is not None
        assert deleted is None
        with pytest.raises(ConditionFailed) as caught:
            await grant.transact(
                [Put(KEY, b"two", expected=ABSENT), Put(KEY + "2", b"", expected=7)],
                conditions=[Condition(KEY, ABSENT), Condition(KEY + "3", ABSENT)],
            )
        # The places are the caller's: the grant's own condition is not counted.
        assert [(failed.place, failed.key) for failed in caught.value.failed] == [(0, KEY), (2, KEY), (3, KEY + "2")]

    run(scenario)


def test_puts_to_sequences_are_numbered_under_the_grant() -> None:
    async def scenario(world: World) -> None:
        frozen = world.process()
        grant = await campaign(frozen)
        # A sequence may have the grant's own key for its prefix: what it generates is another key.
        for prefix in (KEY, ROLE):
            put = Put(prefix, b"", sequence_deltas=(1,))
            first, second = await grant.transact([put, put])
            assert [result.key for result in (first, second) if result] == [f"{prefix}-{n:020d}" for n in (1, 2)]
        assert grant.is_held
        await succeed_frozen(world, frozen, grant)
        with pytest.raises(Deposed):
            await grant.transact([Put(KEY, b"late", sequence_deltas=(1,))])
        assert await value_of(frozen, f"{KEY}-{3:020d}") is None

    run(scenario)


def test_ephemeral_puts_go_with_the_leader() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        async with election_of(process).lead() as leadership:
            result = await leadership.put(KEY, b"", is_ephemeral=True)
            assert result.version.is_ephemeral
        assert await world.keys() == []

    run(scenario)


def test_a_deposed_leader_s_writes_fail_although_its_clock_stood_still() -> None:
    async def scenario(world: World) -> None:
        frozen = world.process()
        grant = await campaign(frozen)
        await grant.put(KEY, b"old")
        successor = await succeed_frozen(world, frozen, grant)
        await successor.put(KEY, b"new")
        with pytest.raises(Deposed):
            await grant.put(KEY, b"late")
        assert not grant.is_held
        with pytest.raises(Deposed):
            await grant.delete(KEY)
        with pytest.raises(Deposed):
            await grant.transact([Put(KEY, b"late")])
        assert await value_of(frozen) == b"new"

    run(scenario)


def test_a_write_that_was_under_way_when_the_leader_was_deposed_fails() -> None:
    async def scenario(world: World) -> None:
        frozen = world.process()
        grant = await campaign(frozen)
        gate = frozen.script.hold("transact")
        writing = frozen.start(grant.put(KEY, b"late"))
        await gate.arrived()
        successor = await succeed_frozen(world, frozen, grant)
        await successor.put(KEY, b"new")
        gate.release()
        await settle()
        with pytest.raises(Deposed):
            writing.result()
        assert await value_of(frozen) == b"new"

    run(scenario)


def test_nothing_is_sent_once_the_clock_says_that_it_is_over() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        grant = await campaign(process)
        process.store.line.cut(Part.HEARTBEATS)
        await world.pass_ms(9_000)
        with pytest.raises(Deposed):
            await grant.put(KEY, b"late")
        with pytest.raises(Deposed):
            await grant.update(b"late")
        assert process.script.arrivals["memory.transact.before"] == 0

    run(scenario)


def test_a_leader_that_has_resigned_writes_no_more() -> None:
    async def scenario(world: World) -> None:
        grant = await campaign(world.process())
        await grant.release()
        with pytest.raises(Deposed, match="it was released"):
            await grant.put(KEY, b"late")

    run(scenario)


def test_an_update_changes_the_value_and_not_the_term() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        grant = await campaign(process)
        await grant.update(b"moved")
        await grant.put(KEY, b"one")
        leader = await election_of(process).leader()
        assert leader is not None
        assert (leader.value, leader.term) == (b"moved", grant.term)
        assert grant.value == b"moved"
        await grant.release()
        assert (await campaign(process)).term > grant.term

    run(scenario)


def test_updates_and_writes_at_the_same_time_do_not_depose_a_leader() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        grant = await campaign(process)
        gate = process.script.hold("put", prefix=ROLE, after=True)
        updating = process.start(grant.update(b"moved"))
        await gate.arrived()  # the store has the new version, and the leader does not know it
        await grant.put(KEY, b"one")
        gate.release()
        await updating
        await asyncio.gather(*(grant.update(f"{number}".encode()) for number in range(4)), grant.put(KEY, b"two"))
        assert await value_of(process) == b"two"
        grant.check()

    run(scenario)


def test_an_update_whose_answer_is_lost_does_not_depose_a_leader() -> None:
    async def scenario(world: World) -> None:
        for is_after in (False, True):
            process = world.process()
            async with election_of(process).lead() as grant:
                process.script.fail("put", OutcomeUnknown("lost"), after=is_after)
                with pytest.raises(OutcomeUnknown):
                    await grant.update(b"moved")
                await grant.put(KEY, b"one")
                await grant.update(b"moved")

    run(scenario)


def test_a_leader_that_changes_itself_too_often_is_told() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        grant = await campaign(process)
        gate = process.script.hold("transact")
        for attempt in range(1, FENCE_ATTEMPTS_MAX + 1):
            if attempt == 1:
                writing = process.start(grant.put(KEY, b"one"))
            await gate.arrived(attempt)
            await grant.update(f"{attempt}".encode())
            gate.release(1)
        await settle()
        with pytest.raises(Unavailable, match="FENCE_ATTEMPTS_MAX"):
            writing.result()
        assert grant.is_held

    run(scenario)


def test_updates_are_given_up_likewise() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        grant = await campaign(process)
        error = UnexpectedVersion("never mind", ROLE, 0)
        process.script.fail("put", error, prefix=ROLE, times=FENCE_ATTEMPTS_MAX - 1)
        await grant.update(b"at last")
        process.script.fail("put", error, prefix=ROLE, times=FENCE_ATTEMPTS_MAX)
        with pytest.raises(Unavailable, match="FENCE_ATTEMPTS_MAX"):
            await grant.update(b"never")

    run(scenario)


def test_the_grant_s_own_record_is_not_written_as_if_it_were_any_other() -> None:
    async def scenario(world: World) -> None:
        grant = await campaign(world.process())
        with pytest.raises(InvalidRequest, match=r"Grant\.update"):
            await grant.put(ROLE, b"")

    run(scenario)


def test_without_transact_a_grant_cannot_be_a_condition() -> None:
    async def scenario(world: World) -> None:
        grant = await campaign(world.process())
        with pytest.raises(Unsupported, match=r"Grant\.guard"):
            await grant.put(KEY, b"")

    run(scenario, lacks=("transact",))


def test_a_session_that_ends_at_the_store_deposes_who_writes_ephemerals() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        grant = await campaign(process)
        (session_id,) = world.data.sessions
        world.data.expire(session_id)
        # Nobody has told the leader yet, and the condition on its record fails first.
        with pytest.raises(Deposed):
            await grant.put(KEY, b"", is_ephemeral=True)
        assert not grant.is_held

    run(scenario)
