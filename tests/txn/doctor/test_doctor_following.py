"""A transaction is followed: what happens to it is told once, when it happens, until its records are gone."""

from __future__ import annotations

import asyncio
import json

from doctor_stage import ORDERS, Stage
from doctor_vectors import load

from support.world import Process, World, run, settle
from txn.doctor.following import Follower
from txn.doctor.layout import LAYOUTS, RecordsKind
from txn.doctor.participation import Participant
from txn.doctor.portrait import Event, EventKind, read
from txn.doctor.reading import Records

WRITES, BILLING = Participant(ORDERS), Participant(ORDERS, "billing")


async def following(process: Process, txn_id: str, kind: RecordsKind) -> tuple[list[Event], asyncio.Task[None]]:
    """What is told, and the follower."""
    records = Records(process.store, LAYOUTS[kind])
    portrait = await read(records, txn_id)
    assert portrait is not None
    events: list[Event] = []
    follower = Follower(records, process.pace, portrait.events(), events.append)
    task = process.start(follower.follow(txn_id))
    await settle()
    return events, task


def test_a_transaction_is_followed_to_its_end() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        stage = Stage(process.store, process.pace)
        begun_ms = world.clock.wall_ms()
        txn_id = await stage.begin()
        events, task = await following(process, str(txn_id), RecordsKind.TIDEMARK)
        assert events == []
        await world.pass_ms(100)
        await stage.write(txn_id)
        await stage.write(txn_id)
        await stage.acknowledge(txn_id)
        await world.pass_ms(100)
        await stage.coordinator.commit(txn_id, principal="ann")
        await world.pass_ms(100)
        await stage.apply(txn_id)
        await stage.apply(txn_id, subscription="billing")
        await world.pass_ms(100)
        assert not task.done()
        await stage.collect(txn_id)
        await settle()
        assert task.done()
        assert [(event.at_ms - begun_ms, event.kind, event.participant) for event in events] == [
            (100, EventKind.FIRST_OPERATION, WRITES),
            (100, EventKind.FIRST_OPERATION, BILLING),
            (200, EventKind.DECIDED, None),
            (300, EventKind.APPLIED, WRITES),
            (300, EventKind.APPLIED, BILLING),
            (400, EventKind.COLLECTED, None),
        ]

    run(scenario)


def test_what_was_shown_before_is_not_told_again() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        stage = Stage(process.store, process.pace)
        txn_id = await stage.begin()
        await stage.write(txn_id)
        await stage.coordinator.abort(txn_id, principal="ann")
        events, _ = await following(process, str(txn_id), RecordsKind.TIDEMARK)
        await stage.apply(txn_id)
        await settle()
        assert [event.kind for event in events] == [EventKind.APPLIED]

    run(scenario)


def test_participants_of_pulsar_have_applied_when_their_operation_records_are_gone() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        await load(process.store, "03-a-open")
        events, task = await following(process, "1_0", RecordsKind.PULSAR)
        records = Records(process.store, LAYOUTS[RecordsKind.PULSAR])
        operations = [row async for row in records.operations_of("1_0")]
        participants = {Participant(row.segment, row.subscription) for row in operations}
        header = {"state": "COMMITTED", "timeout": 3600, "createdAt": 1795003807.879, "finalizedAt": 1795003811.5}
        await process.store.put("/txn/id/1_0", json.dumps(header).encode(), partition_key="1_0")
        await settle()
        assert [event.kind for event in events] == [EventKind.DECIDED]
        for row in operations[:-1]:
            await process.store.delete(row.key, partition_key="1_0")
        await settle()
        assert len(events) == len(participants)
        await process.store.delete(operations[-1].key, partition_key="1_0")
        await settle()
        assert {event.participant for event in events[1:]} == participants
        assert {event.kind for event in events[1:]} == {EventKind.APPLIED}
        await process.store.delete("/txn/id/1_0", partition_key="1_0")
        await settle()
        assert task.done()
        assert events[-1].kind is EventKind.COLLECTED

    run(scenario)


def test_following_goes_on_when_the_store_was_away() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        stage = Stage(world.process().store, process.pace)
        txn_id = await stage.begin()
        events, task = await following(process, str(txn_id), RecordsKind.TIDEMARK)
        process.store.line.cut()
        await stage.write(txn_id)
        await stage.coordinator.commit(txn_id, principal="ann")
        await settle()
        assert events == []
        process.store.line.mend()
        for _ in range(5):
            await world.pass_ms(5_000)
        assert [event.kind for event in events] == [EventKind.FIRST_OPERATION, EventKind.DECIDED]
        assert not task.done()

    run(scenario)
