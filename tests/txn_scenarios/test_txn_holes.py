"""Holes of the recorded design that concern the whole, and the proof that each of them has a test with its number.

Those that one part can have are tested beside that part, in tests/txn.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from metastore.interface import OutcomeUnknown, Put
from txn.model import paths
from txn.model.errors import InvalidTxnId, TxnAlreadyAborted, TxnAlreadyCommitted, TxnTimedOut
from txn.model.header import TxnState
from txn.model.ids import TxnId
from txn.segment.entry import Entry
from txn.segment.log import START
from txn_scenarios.scene import EVERYWHERE, Scene, play

HOLES = range(1, 23)
TESTS = Path(__file__).resolve().parents[1]
PLACES = ("txn", "txn_histories", "txn_scenarios", "faults", "controller/broker", "controller/client")
OUT, IN = "segment://public/default/out/0000-7fff-0", "segment://public/default/in/0000-7fff-0"


def test_every_hole_has_a_test_with_its_number() -> None:
    found: set[int] = set()
    for path in (path for place in PLACES for path in (TESTS / place).rglob("test_*.py")):
        found |= {int(number) for number in re.findall(r"def test_h(\d+)_", path.read_text(encoding="utf-8"))}
    assert [number for number in HOLES if number not in found] == []


@EVERYWHERE
def test_h7_a_sequence_is_found_beside_another_whose_name_begins_with_its_own(
    shards: int, lacks: tuple[str, ...]
) -> None:
    """Recorded: with the stream `s-1` on its shard, `s` could not be read, and a commit was told as an error."""

    async def scenario(scene: Scene) -> None:
        store = scene.broker.process.store
        one, other = TxnId(0, 1), TxnId(0, 10)
        for txn_id in (one, other, one):
            sequence, partition = paths.operation_sequence(txn_id), paths.partition(txn_id)
            if store.capabilities.transact:
                await store.transact(partition, [Put(sequence, b"{}", sequence_deltas=(1,))])
            else:
                await store.put(sequence, b"{}", partition_key=partition, sequence_deltas=(1,))
        keys = await scene.keys(f"{paths.OPERATIONS}/")
        below = {txn_id: [key for key in keys if paths.txn_id_of_key(key) == txn_id] for txn_id in (one, other)}
        assert [len(found) for found in below.values()] == [2, 1]
        for txn_id, found in below.items():
            for key in found:
                await store.delete(key, partition_key=paths.partition(txn_id))

    play(scenario, shards, lacks)


@EVERYWHERE
@pytest.mark.parametrize("was_applied", [True, False])
def test_h13_a_decision_whose_answer_was_lost_is_told_truly(
    shards: int, lacks: tuple[str, ...], was_applied: bool
) -> None:
    async def scenario(scene: Scene) -> None:
        host = scene.broker.host
        assert host is not None
        for wanted in (TxnState.COMMITTED, TxnState.ABORTED):
            txn = await scene.begin()
            error = OutcomeUnknown("cut off")
            scene.broker.process.script.fail("put", error, prefix=f"{paths.HEADERS}/", after=was_applied)
            await scene.client.end(txn, wanted, attempts_max=1)
            assert txn.state is wanted
            assert await scene.state_of(txn.txn_id) is wanted

    play(scenario, shards, lacks)


@EVERYWHERE
def test_h13_whoever_loses_the_race_for_a_decision_hears_who_won_it(shards: int, lacks: tuple[str, ...]) -> None:
    """One compare-and-set of a header wins; nobody is told of a version that was not expected."""

    async def scenario(scene: Scene) -> None:
        await scene.start(1)
        first, second = scene.stage.brokers
        assert first.host is not None
        assert second.host is not None
        for winner, loser in ((TxnState.COMMITTED, TxnState.ABORTED), (TxnState.ABORTED, TxnState.COMMITTED)):
            txn = await scene.begin()
            gate = second.process.script.hold("put", prefix=f"{paths.HEADERS}/")
            late = second.host.coordinator.abort if loser is TxnState.ABORTED else second.host.coordinator.commit
            losing = asyncio.ensure_future(late(txn.txn_id))
            await gate.arrived()
            early = first.host.coordinator.commit if winner is TxnState.COMMITTED else first.host.coordinator.abort
            assert (await early(txn.txn_id)).state is winner
            gate.release()
            with pytest.raises((TxnAlreadyCommitted, TxnAlreadyAborted), match=str(txn.txn_id)) as told:
                await losing
            won = TxnAlreadyCommitted if winner is TxnState.COMMITTED else TxnAlreadyAborted
            assert told.type is won
            assert await scene.state_of(txn.txn_id) is winner

    play(scenario, shards, lacks)


@EVERYWHERE
def test_h13_a_deadline_that_was_faster_is_named(shards: int, lacks: tuple[str, ...]) -> None:
    async def scenario(scene: Scene) -> None:
        assert scene.broker.host is not None
        txn = await scene.begin(1_000)
        gate = scene.broker.process.script.hold("put", prefix=f"{paths.HEADERS}/")
        committing = asyncio.ensure_future(scene.broker.host.coordinator.commit(txn.txn_id))
        await gate.arrived()
        await scene.pause(2.0)
        gate.release(len(gate.held))
        gate.release()
        outcome = (await asyncio.gather(committing, return_exceptions=True))[0]
        state = await scene.state_of(txn.txn_id)
        assert (state is TxnState.COMMITTED) == (not isinstance(outcome, TxnTimedOut))
        assert isinstance(outcome, TxnTimedOut) or not isinstance(outcome, Exception)

    play(scenario, shards, lacks)


@EVERYWHERE
def test_h15_what_there_is_to_read_is_known_exactly_at_every_moment(shards: int, lacks: tuple[str, ...]) -> None:
    """A reader that does not wait ends just where what may be read ends, before and after each end of a transaction."""

    async def read_now(scene: Scene) -> list[str]:
        reached = await scene.reach(OUT)
        reader = reached.segment.reader(START, is_following=False)
        found: list[str] = []
        while entries := await reader.read():
            found += [each.entry.payload.decode() for each in entries]
        return found

    async def scenario(scene: Scene) -> None:
        await scene.create(OUT)
        expected: list[str] = []
        for commits in (True, False, True):
            expected += await scene.send(OUT, 1)
            txn = await scene.begin()
            sent = await scene.send(OUT, 2, txn)
            behind = await scene.send(OUT, 1)
            assert await read_now(scene) == expected
            await (scene.commit if commits else scene.abort)(txn)
            await scene.pause(0.2)
            expected += sent * commits + behind
            assert await read_now(scene) == expected
            stats = (await scene.reach(OUT)).segment.stats
            assert stats.bound == stats.end

    play(scenario, shards, lacks)


def test_h18_an_id_of_another_kind_is_refused_by_name_wherever_ids_come_in() -> None:
    """A legacy transaction's outcome never reaches these segments; so nothing of it gets there."""
    ours = TxnId(1, 17)
    assert TxnId.parse(str(ours)) == TxnId.of_halves(*ours.halves) == ours
    for legacy in ("1_17", "0_0", "-1_-1"):
        with pytest.raises(InvalidTxnId, match="legacy"):
            TxnId.parse(legacy)
    with pytest.raises(InvalidTxnId, match="legacy"):
        TxnId.of_halves(1, 17)
    data = Entry(b"m", "p", 1, ours).encode()
    assert Entry.decode(data).txn_id == ours


@EVERYWHERE
def test_h18_a_transaction_that_was_never_begun_is_given_nothing(shards: int, lacks: tuple[str, ...]) -> None:
    """An id of the right kind that nobody was given: no entry, no acknowledgement, no record."""

    async def scenario(scene: Scene) -> None:
        await scene.create(OUT, IN)
        names = await scene.send(IN, 1)
        taking = await scene.attach(IN, "sub")
        deliveries = await scene.take(taking)
        txn = await scene.begin()
        await scene.abort(txn)
        never = type(txn)(TxnId(7, 1 << 40))
        await scene.send(OUT, 1, never)
        assert never.has_failed
        assert not (await scene.acknowledge(taking, deliveries, never)).is_done
        assert await scene.keys(f"{paths.OPERATIONS}/") == []
        await taking.aclose()
        assert await scene.read(OUT) == []
        assert await scene.consume(IN, "sub") == names

    play(scenario, shards, lacks)
