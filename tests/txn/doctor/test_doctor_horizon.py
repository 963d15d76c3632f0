"""Why a segment does not go on: who holds its horizon, since when, and what would free it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from doctor_stage import BILLS, BROKER, ORDERS, TIMEOUT_MS, Stage

from support.world import World, run
from txn.doctor.horizon import Horizon, Verdict, explanation, look
from txn.doctor.layout import LAYOUTS, RecordsKind
from txn.doctor.reading import Records
from txn.model import paths
from txn.model.ids import TxnId
from txn.model.position import Position

Scenario = Callable[[World, Stage, Records], Coroutine[Any, Any, None]]


def staged(scenario: Scenario) -> None:
    async def whole(world: World) -> None:
        process = world.process()
        stage = Stage(process.store, process.pace)
        await scenario(world, stage, Records(process.store, LAYOUTS[RecordsKind.TIDEMARK]))

    run(whole)


def explained(world: World, found: Horizon) -> str:
    return explanation(found, world.clock.wall_ms(), knows_owners=True)


def test_a_segment_without_transactions_is_free() -> None:
    async def scenario(world: World, stage: Stage, records: Records) -> None:
        assert not (await look(records, ORDERS)).segment.is_known
        await stage.create()
        found = await look(records, ORDERS)
        assert (found.verdict, found.holder, found.segment.state) == (Verdict.FREE, None, "OPEN")
        assert found.segment.is_known
        assert "no transaction holds it" in explained(world, found)

    staged(scenario)


def test_the_oldest_open_transaction_holds_the_horizon() -> None:
    async def scenario(world: World, stage: Stage, records: Records) -> None:
        committed, first, second, elsewhere = [await stage.begin() for _ in range(4)]
        await stage.write(committed, entries=2)
        await world.pass_ms(100)
        await stage.write(second, BILLS)
        await stage.write(first, entries=3)
        since_ms = world.clock.wall_ms()
        await world.pass_ms(400)
        await stage.write(second, entries=4)
        await stage.write(first)
        await stage.acknowledge(elsewhere)
        await stage.coordinator.commit(committed, principal="ann")
        found = await look(records, ORDERS)
        assert found.verdict is Verdict.HELD
        assert found.holder is not None
        assert (found.holder.txn_id, found.holder.writes.first) == (str(first), Position(3, 2))
        assert found.holder.writes.first_ms == since_ms
        assert [writer.txn_id for writer in found.behind] == [str(committed), str(second)]
        # What is committed lies before it, and is not held up.
        assert (found.transactions_behind, found.entries_behind) == (1, 4)
        text = explained(world, found)
        assert "its owner ann" in text
        assert "in 59.5s" in text
        assert f"abort {first}" in text

    staged(scenario)


def test_an_open_transaction_past_its_deadline_lacks_a_sweep() -> None:
    async def scenario(world: World, stage: Stage, records: Records) -> None:
        await stage.write(await stage.begin(owner=None))
        await world.pass_ms(TIMEOUT_MS + 5_000)
        text = explained(world, await look(records, ORDERS))
        assert "passed 5.0s ago, and no sweep" in text

    staged(scenario)


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_decided_transaction_waits_for_an_owner(is_committed: bool) -> None:
    async def scenario(world: World, stage: Stage, records: Records) -> None:
        txn_id = await stage.begin()
        await stage.write(txn_id)
        end = stage.coordinator.commit if is_committed else stage.coordinator.abort
        await end(txn_id, principal="ann")
        found = await look(records, ORDERS)
        assert found.verdict is Verdict.UNAPPLIED
        outcome = "COMMITTED" if is_committed else "ABORTED"
        assert f"{txn_id} is {outcome}; nobody owns the segment" in explained(world, found)
        async with stage.owned() as term:
            owned = await look(records, ORDERS)
            assert (owned.segment.owner, owned.segment.term) == (f"{BROKER} at 127.0.0.1:6650", term)
            assert f"owns the segment under term {term}" in explained(world, owned)
        await stage.apply(txn_id)
        assert (await look(records, ORDERS)).verdict is Verdict.FREE

    staged(scenario)


def test_an_operation_without_a_header_is_one_of_an_aborted_transaction() -> None:
    async def scenario(world: World, stage: Stage, records: Records) -> None:
        await stage.write(TxnId(0, 77))
        found = await look(records, ORDERS)
        assert found.verdict is Verdict.UNAPPLIED
        assert "md_0_77 is ABORTED (its header is gone)" in explained(world, found)

    staged(scenario)


@pytest.mark.parametrize("grant", [b"not of coordination", b'{"holder":"x"}\nnot of an owner'])
def test_an_owners_grant_that_makes_no_sense_is_odd(grant: bytes) -> None:
    async def scenario(world: World, stage: Stage, records: Records) -> None:
        await stage.create()
        await stage.store.put(paths.owner_key(ORDERS), grant, partition_key=ORDERS)
        found = await look(records, ORDERS)
        assert found.segment.owner is None
        assert [odd.key for odd in records.odd] == [paths.owner_key(ORDERS)]

    staged(scenario)


def test_a_segment_of_which_only_acknowledgements_tell_is_known() -> None:
    async def scenario(world: World, stage: Stage, records: Records) -> None:
        await stage.acknowledge(await stage.begin())
        found = await look(records, ORDERS)
        assert found.verdict is Verdict.FREE
        assert found.segment.is_known
        assert not (await look(records, BILLS)).segment.is_known

    staged(scenario)
