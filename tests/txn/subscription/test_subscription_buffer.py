"""Over a real transaction buffer: what a transaction takes and what it gives appear together, or not at all."""

from __future__ import annotations

from dataclasses import replace

import pytest
from subscription_world import EXCLUSIVE, Owner, abort, begin, commit, every_store, records, run_owned, taken, whole

from support.world import World
from txn.segment.buffer import TransactionBuffer
from txn.segment.entry import Entry
from txn.segment.subscription import EndOfSegment, InitialPosition, Reader, Subscription


@every_store
@pytest.mark.parametrize("is_committed", [True, False])
def test_what_is_taken_and_what_is_given_share_one_outcome(lacks: tuple[str, ...], is_committed: bool) -> None:
    async def scenario(world: World, owner: Owner) -> None:
        buffer = await TransactionBuffer.recover(
            owner.log, owner.grant, owner.outcomes, owner.operations, pace=owner.process.pace
        )
        async with buffer:
            around = replace(owner.around, readable=buffer.visibility)
            subscription = await Subscription.create("one", InitialPosition.EARLIEST, around)
            consumer = subscription.attach("one", EXCLUSIVE)
            taken_in = (await buffer.publish(Entry(b"in"))).position
            assert taken_in is not None
            assert await taken(consumer) == [taken_in]
            txn_id = await begin(world, 1)
            given = (await buffer.publish(Entry(b"out", txn_id=txn_id))).position
            behind = (await buffer.publish(Entry(b"plain"))).position
            await subscription.acknowledge(whole([taken_in]), txn_id)
            assert await taken(consumer) == []
            await (commit if is_committed else abort)(world, txn_id)
            assert await records(world) == []
            expected = [given, behind] if is_committed else [taken_in, behind]
            assert sorted(await taken(consumer)) == expected
            await subscription.acknowledge(whole(each for each in expected if each is not None))
            await buffer.seal()
            with pytest.raises(EndOfSegment):
                await consumer.receive(1)
            assert subscription.mark == owner.log.lengths.end
            reader = Reader(owner.log, buffer.visibility, taken_in)
            found = [each.entry.payload for each in await reader.read()]
            assert found == [b"in", b"out", b"plain"] if is_committed else [b"in", b"plain"]
            await subscription.close()

    run_owned(scenario, lacks)
