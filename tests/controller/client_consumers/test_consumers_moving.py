"""An acknowledgement is on its way while some of what it is about comes to others: it means the rest."""

from __future__ import annotations

from contextlib import suppress

import pytest
from consumers_stage import PATIENCE_MS, TOPIC, Stage, held_up, run, until

from controller.client import EARLIEST, Client, Message, ProducerOptions, SubscriptionKind
from controller.client.errors import AckTooLate
from controller.client.segment.consumer import SegmentConsumer
from controller.client.segment.consuming import SegmentConsumerOptions
from controller.layout import HashRange
from txn.model.errors import TxnAbortable

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


async def batch(client: Client) -> None:
    """One entry of messages of either half."""
    together = ProducerOptions(batch_messages_max=MESSAGES, linger_ms=LINGER_MS)
    producer = await client.producer(TOPIC, options=together)
    for sent in [producer.send(b"%d" % each, key=f"k{each}") for each in range(MESSAGES)]:
        await sent


async def moved_on(one: SegmentConsumer, client: Client) -> tuple[SegmentConsumer, list[Message]]:
    """Another consumer, and what that one has by now. All comes to him when the first one's stream is renewed; he gives
    it back, and of that he gets his half."""
    turn = one.turn
    other = await joined(client, "b")
    one._lane.restart()
    moved = await other.receive_many(MESSAGES, PATIENCE_MS)
    await until(lambda: one.turn > turn)
    other.negative_acknowledge(*moved)
    moved = await other.receive_many(MESSAGES, PATIENCE_MS)
    assert 0 < len(moved) < MESSAGES
    return other, moved


async def left(client: Client) -> list[Message]:
    """What is not acknowledged, when nobody else is there."""
    last = await joined(client, "c")
    found: list[Message] = []
    with suppress(TimeoutError):
        while True:
            found += await last.receive_many(MESSAGES, 200)
    return found


def test_what_has_moved_meanwhile_is_left_out_and_the_rest_of_its_entry_acknowledged() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        await batch(client)
        one = await joined(client, "a")
        messages = await one.receive_many(MESSAGES, PATIENCE_MS)
        assert len({each.id.position for each in messages}) == 1
        assert len(messages) == MESSAGES
        with held_up(one):
            acknowledged = one.acknowledge(*messages)
            other, moved = await moved_on(one, client)
        with pytest.raises(AckTooLate, match="another consumer"):
            await acknowledged
        await one.close()
        await other.close()
        assert {each.id for each in await left(client)} == {each.id for each in moved}

    run(scenario)


def test_in_a_transaction_nothing_is_acknowledged_if_something_has_moved() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        await batch(client)
        one = await joined(client, "a")
        messages = await one.receive_many(MESSAGES, PATIENCE_MS)
        txn = await client.begin()
        with held_up(one):
            acknowledged = one.acknowledge(*messages, txn=txn)
            other, moved = await moved_on(one, client)
        with pytest.raises(AckTooLate, match="another consumer"):
            await acknowledged
        with pytest.raises(TxnAbortable):
            await txn.commit()
        await txn.abort()
        await other.acknowledge(*moved)
        await one.close()
        await other.close()
        found = {each.id for each in await left(client)}
        assert found == {each.id for each in messages} - {each.id for each in moved}

    run(scenario)


def test_who_comes_back_acknowledges_what_nobody_else_was_given() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        await batch(client)
        one = await joined(client, "a")
        messages = await one.receive_many(MESSAGES, PATIENCE_MS)
        turn = one.turn
        with held_up(one):
            acknowledged = one.acknowledge(*messages)
            one._lane.restart()
            await until(lambda: one.turn > turn)
        await acknowledged
        await one.close()
        assert await left(client) == []

    run(scenario)
