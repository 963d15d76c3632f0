"""An operator's abort: what it says before, what it does, what it refuses."""

from __future__ import annotations

import pytest
from doctor_stage import BILLS, ORDERS, TIMEOUT_MS, Stage

from support.world import World, run
from txn.doctor import aborting
from txn.doctor.layout import LAYOUTS, RecordsKind
from txn.doctor.portrait import Portrait, read
from txn.doctor.reading import Records
from txn.model.errors import TxnAlreadyAborted, TxnAlreadyCommitted, TxnNotFound
from txn.model.header import Cause, TxnState
from txn.model.ids import TxnId


async def portrait_of(stage: Stage, txn_id: TxnId) -> Portrait:
    found = await read(Records(stage.store, LAYOUTS[RecordsKind.TIDEMARK]), str(txn_id))
    assert found is not None
    return found


def staged(world: World) -> Stage:
    process = world.process()
    return Stage(process.store, process.pace)


def test_what_an_abort_does_is_told_by_participant() -> None:
    async def scenario(world: World) -> None:
        stage = staged(world)
        txn_id = await stage.begin()
        await stage.write(txn_id, entries=3)
        await stage.write(txn_id, entries=2)
        await stage.acknowledge(txn_id, BILLS, entry=7)
        await stage.acknowledge(txn_id, BILLS, entry=9)
        portrait = await portrait_of(stage, txn_id)
        assert aborting.effects(portrait) == [
            {
                "segment": BILLS,
                "subscription": "billing",
                "operations": 2,
                "entries_never_seen": 0,
                "acknowledgements_undone": 2,
                "from": "3:7",
                "to": "3:9",
            },
            {
                "segment": ORDERS,
                "subscription": None,
                "operations": 2,
                "entries_never_seen": 5,
                "acknowledgements_undone": 0,
                "from": "3:0",
                "to": "3:4",
            },
        ]
        text = aborting.summary(portrait)
        assert "undoes 4 operations" in text
        assert "never be seen: 5" in text
        assert "delivered again: 2" in text

    run(scenario)


def test_an_operator_aborts_what_belongs_to_another() -> None:
    async def scenario(world: World) -> None:
        stage = staged(world)
        txn_id = await stage.begin(owner="ann")
        aborting.check_open((await portrait_of(stage, txn_id)).header)
        await aborting.abort(stage.store, str(txn_id), stage.pace)
        header = await stage.coordinator.describe(txn_id)
        assert (header.state, header.cause) == (TxnState.ABORTED, Cause.OPERATOR)
        with pytest.raises(TxnAlreadyAborted, match="by an operator at "):
            aborting.check_open((await portrait_of(stage, txn_id)).header)

    run(scenario)


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_decided_transaction_is_refused_by_its_outcome(is_committed: bool) -> None:
    async def scenario(world: World) -> None:
        stage = staged(world)
        txn_id = await stage.begin()
        end = stage.coordinator.commit if is_committed else stage.coordinator.abort
        before = await end(txn_id, principal="ann")
        error, word = (TxnAlreadyCommitted, "committed") if is_committed else (TxnAlreadyAborted, "aborted")
        with pytest.raises(error, match=f"{txn_id} was {word} by its client at 20"):
            aborting.check_open((await portrait_of(stage, txn_id)).header)
        with pytest.raises(error, match=str(txn_id)):
            await aborting.abort(stage.store, str(txn_id), stage.pace)
        assert await stage.coordinator.describe(txn_id) == before

    run(scenario)


def test_a_commit_that_comes_between_wins() -> None:
    async def scenario(world: World) -> None:
        stage, process = staged(world), world.process()
        txn_id = await stage.begin()
        gate = process.script.hold("put", prefix="/txn/")
        aborted = process.start(aborting.abort(process.store, str(txn_id), process.pace))
        await gate.arrived()
        await stage.coordinator.commit(txn_id, principal="ann")
        gate.release()
        with pytest.raises(TxnAlreadyCommitted):
            await aborted
        assert (await stage.coordinator.describe(txn_id)).state is TxnState.COMMITTED

    run(scenario)


def test_a_deadline_that_comes_between_is_not_claimed_as_ones_own() -> None:
    async def scenario(world: World) -> None:
        stage, process = staged(world), world.process()
        txn_id = await stage.begin()
        gate = process.script.hold("put", prefix="/txn/")
        aborted = process.start(aborting.abort(process.store, str(txn_id), process.pace))
        await gate.arrived()
        await world.pass_ms(TIMEOUT_MS)
        await stage.coordinator.expire(txn_id)
        gate.release()
        with pytest.raises(TxnAlreadyAborted, match="meanwhile by its deadline"):
            await aborted

    run(scenario)


def test_there_must_be_such_a_transaction() -> None:
    async def scenario(world: World) -> None:
        stage = staged(world)
        with pytest.raises(TxnNotFound, match="md_0_9"):
            await aborting.abort(stage.store, "md_0_9", stage.pace)

    run(scenario)
