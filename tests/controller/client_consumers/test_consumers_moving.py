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


async def joined(client: Client, name: str, prefetch: int = 1_000) -> SegmentConsumer:
    """One of those who share the segment by keys."""
    options = SegmentConsumerOptions(SubscriptionKind.KEY_SHARED, EARLIEST, name, prefetch, buckets=HALVES)
    consumer = SegmentConsumer(client._caller, client._limits, SEGMENT, "billing", options)
    await consumer.wait_opened()
    return consumer


async def publish(client: Client) -> None:
    """Two entries, each of messages of either half."""
    together = ProducerOptions(batch_messages_max=MESSAGES, linger_ms=LINGER_MS)
    producer = await client.producer(TOPIC, options=together)
    for sent in [producer.send(b"%d" % each, key=f"k{each}") for each in range(2 * MESSAGES)]:
        await sent


async def received(consumer: SegmentConsumer, count: int) -> list[Message]:
    """So many."""
    found: list[Message] = []
    while len(found) < count:
        found += await consumer.receive_many(count - len(found), PATIENCE_MS)
    return found


async def moved_on(one: SegmentConsumer, client: Client) -> SegmentConsumer:
    """Another consumer, who has the first entry by now, or what of it is his where the first one was back sooner: of
    what comes to him when the first one's stream breaks he has room for one."""
    turn = one.turn
    other = await joined(client, "b", prefetch=1)
    one._lane.restart()
    await until(lambda: one.turn > turn and len(other._inbox) == 1)
    return other


async def left(client: Client, count: int) -> list[Message]:
    """What is not acknowledged, when nobody else is there: at least so many."""
    last = await joined(client, "c")
    found = await received(last, count)
    with suppress(TimeoutError):
        while True:
            found += await last.receive_many(MESSAGES, 200)
    return found


def test_what_has_moved_meanwhile_is_left_out_and_the_rest_acknowledged() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        await publish(client)
        one = await joined(client, "a")
        messages = await received(one, 2 * MESSAGES)
        assert len({each.id.position for each in messages}) == 2
        with held_up(one):
            acknowledged = one.acknowledge(*messages)
            other = await moved_on(one, client)
        with pytest.raises(AckTooLate, match="another consumer"):
            await acknowledged
        moved = other.take(MESSAGES)
        await one.close()
        await other.close()
        assert {each.id for each in await left(client, len(moved))} == {each.id for each in moved}

    run(scenario)


def test_in_a_transaction_nothing_is_acknowledged_if_something_has_moved() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        await publish(client)
        one = await joined(client, "a")
        messages = await received(one, 2 * MESSAGES)
        txn = await client.begin()
        with held_up(one):
            acknowledged = one.acknowledge(*messages, txn=txn)
            other = await moved_on(one, client)
        with pytest.raises(AckTooLate, match="another consumer"):
            await acknowledged
        with pytest.raises(TxnAbortable):
            await txn.commit()
        await txn.abort()
        moved = other.take(MESSAGES)
        await other.acknowledge(*moved)
        await one.close()
        await other.close()
        found = {each.id for each in await left(client, 2 * MESSAGES - len(moved))}
        assert found == {each.id for each in messages} - {each.id for each in moved}

    run(scenario)


def test_who_comes_back_acknowledges_what_nobody_else_was_given() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        await publish(client)
        one = await joined(client, "a")
        messages = await received(one, 2 * MESSAGES)
        turn = one.turn
        with held_up(one):
            acknowledged = one.acknowledge(*messages)
            one._lane.restart()
            await until(lambda: one.turn > turn)
        await acknowledged
        await one.close()
        assert await left(client, 0) == []

    run(scenario)
