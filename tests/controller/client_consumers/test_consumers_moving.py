"""An acknowledgement is on its way while what it is about comes to others: it means what the application had."""

from __future__ import annotations

import pytest
from consumers_stage import PATIENCE_MS, TOPIC, Stage, held_up, run, until

from controller.client import EARLIEST, Client, ProducerOptions, SubscriptionKind
from controller.client.segment.consumer import SegmentConsumer
from controller.client.segment.consuming import SegmentConsumerOptions
from controller.layout import HashRange
from txn.model.errors import TxnConflict

MESSAGES = 8
LINGER_MS = 1_000
"""They wait for each other no longer than for the last of them."""
SEGMENT = "segment://public/default/orders/0000-ffff-0"
HALVES = (HashRange(0, 0x7FFF), HashRange(0x8000, 0xFFFF))


async def joined(client: Client, name: str) -> SegmentConsumer:
    """One of those who share the segment by keys."""
    options = SegmentConsumerOptions(SubscriptionKind.KEY_SHARED, EARLIEST, name, buckets=HALVES)
    consumer = SegmentConsumer(client._caller, client._limits, SEGMENT, "billing", options)
    await consumer.wait_opened()
    return consumer


def test_what_has_moved_meanwhile_is_acknowledged_with_the_rest_of_its_entry() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        together = ProducerOptions(batch_messages_max=MESSAGES, linger_ms=LINGER_MS)
        producer = await client.producer(TOPIC, options=together)
        for sent in [producer.send(b"%d" % each, key=f"k{each}") for each in range(MESSAGES)]:
            await sent
        one = await joined(client, "a")
        messages = await one.receive_many(MESSAGES, PATIENCE_MS)
        assert len({each.id.position for each in messages}) == 1
        assert len(messages) == MESSAGES
        txn, turn = await client.begin(), one.turn
        with held_up(one):
            acknowledged = one.acknowledge(*messages, txn=txn)
            other = await joined(client, "b")
            one._lane.restart()
            moved = await other.receive_many(MESSAGES, PATIENCE_MS)
            await until(lambda: one.turn > turn)
            other.negative_acknowledge(*moved)  # so each has its own half of them
            moved = await other.receive_many(MESSAGES, PATIENCE_MS)
            assert 0 < len(moved) < MESSAGES
        await acknowledged
        await txn.commit()
        with pytest.raises(TxnConflict, match="acknowledged already"):
            await other.acknowledge(*moved, txn=await client.begin())
        await one.close()
        await other.close()
        last = await joined(client, "c")
        with pytest.raises(TimeoutError):
            await last.receive(100)

    run(scenario)
