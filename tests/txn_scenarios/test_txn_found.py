"""What simulations have found, each as the shortest story that shows it."""

from __future__ import annotations

import asyncio

import pytest

from metastore.interface import Unavailable
from metastore.providers.memory import Part
from txn.model import paths
from txn.model.errors import SegmentUnavailable
from txn.segment.cursor import Ack
from txn.segment.subscription import Delivery
from txn_histories.notes import Fate
from txn_scenarios.scene import EVERYWHERE, LACKING, OPTIONS, Scene, names_of, play

IN = "segment://public/default/in/0000-7fff-0"


@EVERYWHERE
@pytest.mark.parametrize("is_transactional", [True, False])
def test_what_is_acknowledged_while_it_waits_to_be_delivered_again_is_not_delivered(
    shards: int, lacks: tuple[str, ...], is_transactional: bool
) -> None:
    """An ordered subscription goes back over all that a consumer has; and then the consumer acknowledges some of it."""

    async def scenario(scene: Scene) -> None:
        await scene.create(IN)
        names = await scene.send(IN, 4)
        taking = await scene.attach(IN, "sub")
        deliveries: list[Delivery] = []
        while len(deliveries) < len(names):
            deliveries += await taking.receive()  # and no more: nobody is waiting when it comes again
        txn = await scene.begin()
        assert (await scene.acknowledge(taking, deliveries[:1], txn)).is_done
        await scene.abort(txn)
        await scene.pause(0.5)
        done = await scene.begin() if is_transactional else None
        assert (await scene.acknowledge(taking, deliveries[1:3], done)).is_done
        if done is not None:
            await scene.commit(done)
        assert names_of(await scene.take(taking)) == [names[0], names[3]]

    play(scenario, shards, lacks)


@EVERYWHERE
def test_an_acknowledgement_that_is_being_written_when_its_owner_closes_is_answered(
    shards: int, lacks: tuple[str, ...]
) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.create(IN)
        await scene.send(IN, 1)
        taking = await scene.attach(IN, "sub")
        deliveries = await scene.take(taking)
        script = scene.broker.process.script
        gates = [script.hold(method, prefix=paths.segment_path(IN)) for method in ("put", "transact")]
        acking = asyncio.ensure_future(taking.subscription.acknowledge([Ack(deliveries[0].position)]))
        await scene.pause(0.5)
        assert sum(len(gate.held) for gate in gates) == 1
        await taking.subscription.close()
        with pytest.raises(SegmentUnavailable):
            await acking
        for gate in gates:
            gate.release()
        await scene.restart()

    play(scenario, shards, lacks)


@EVERYWHERE
def test_an_acknowledgement_that_waits_for_a_look_at_its_transaction_is_answered_when_its_owner_closes(
    shards: int, lacks: tuple[str, ...]
) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.create(IN)
        await scene.send(IN, 1)
        taking = await scene.attach(IN, "sub")
        deliveries = await scene.take(taking)
        line = scene.broker.process.store.line
        line.cut(Part.WATCHES)
        txn = await scene.begin()
        gate = scene.broker.process.script.hold("get", prefix=paths.header_key(txn.txn_id))
        acking = asyncio.ensure_future(taking.subscription.acknowledge([Ack(deliveries[0].position)], txn.txn_id))
        await scene.pause(0.5)
        assert not acking.done()
        await taking.subscription.close()
        with pytest.raises(SegmentUnavailable):
            await acking
        gate.release()
        line.mend()
        await scene.restart()
        await scene.abort(txn)

    play(scenario, shards, lacks)


@pytest.mark.parametrize("together", [True, False])
def test_records_whose_answers_were_lost_are_removed_when_they_come_however_many_they_are(together: bool) -> None:
    """A plain store: nothing keeps a put that was held up from taking effect when all is settled."""

    async def scenario(scene: Scene) -> None:
        await scene.create(IN)
        names = await scene.send(IN, 2)
        taking = await scene.attach(IN, "sub")
        deliveries = await scene.take(taking)
        txn = await scene.begin()
        script = scene.broker.process.script
        lost = [script.lose("put", prefix=paths.operations_path(txn.txn_id)) for _ in deliveries]
        assert (await scene.acknowledge(taking, deliveries, txn)).fate is Fate.UNKNOWN
        await scene.abort(txn)
        await scene.pause(8.0)
        assert await scene.keys(f"{paths.HEADERS}/") == []
        for each in lost:
            each.arrive()
            if not together:
                await scene.pause(1.0)
        await scene.pause(1.0)
        assert await scene.keys(f"{paths.OPERATIONS}/") == []
        await taking.aclose()
        assert await scene.consume(IN, "sub") == names

    play(scenario, 4, LACKING)


@EVERYWHERE
def test_a_question_that_the_store_cannot_answer_is_told_as_such(shards: int, lacks: tuple[str, ...]) -> None:
    async def scenario(scene: Scene) -> None:
        txn = await scene.begin()
        scene.broker.process.script.fail("get", Unavailable("no leader"), prefix=f"{paths.HEADERS}/")
        await scene.client.look(txn)
        await scene.abort(txn)

    play(scenario, shards, lacks)


@EVERYWHERE
def test_a_transaction_that_is_begun_and_decided_while_nothing_is_told_holds_nothing_up(
    shards: int, lacks: tuple[str, ...]
) -> None:
    """A watch that tells only what has come of records in the end says nothing of one that was open in between."""

    async def scenario(scene: Scene) -> None:
        await scene.create(IN)
        before = await scene.begin()
        known = await scene.send(IN, 1, before)
        await scene.commit(before)
        await scene.pause(0.5)
        line = scene.broker.process.store.line
        line.cut(Part.WATCHES)
        txn = await scene.begin()
        sending = asyncio.ensure_future(scene.send(IN, 1, txn))
        await scene.pause(1.0)
        await scene.commit(txn)
        line.mend()
        sent = await sending
        plain = await scene.send(IN, 1)
        await scene.pause(1.0)
        assert await scene.read(IN) == known + sent * (not txn.has_failed) + plain

    play(scenario, shards, lacks)


@EVERYWHERE
def test_a_deadline_is_kept_though_the_sweeper_was_deposed_while_it_kept_it(
    shards: int, lacks: tuple[str, ...]
) -> None:
    async def scenario(scene: Scene) -> None:
        txn = await scene.begin(1_000)
        gate = scene.broker.process.script.hold("put", prefix=paths.header_key(txn.txn_id))
        await gate.arrived()
        for session_id in sorted(scene.world.data.sessions):
            scene.world.data.expire(session_id)
        await scene.pause(2.0)
        gate.release()
        await scene.pause(OPTIONS.retention_ms / 1000 + 3.0)
        assert await scene.keys(paths.header_key(txn.txn_id)) == [], "it was aborted, and collected"

    play(scenario, shards, lacks)
