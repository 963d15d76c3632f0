"""What has gone to another consumer meanwhile is his: acknowledging it is too late, once, and nothing gets stuck."""

from __future__ import annotations

import asyncio

import pytest
from consumers_stage import PATIENCE_MS, TOPIC, Stage, nothing_comes, run, send, until

from controller.client import EARLIEST, Client
from controller.client.consumers import QueueConsumer, QueueOptions, RedeliveryBackoff, StreamConsumer, StreamMessage
from controller.client.consumers.attachments import Attachment
from controller.client.consumers.queues import QueueSource
from controller.client.errors import AckTooLate
from controller.client.segment.consumer import SegmentConsumer
from txn.model.errors import TxnAbortable

MESSAGES = 6
AT_ONCE = RedeliveryBackoff(0, 0)


async def queue(client: Client) -> QueueConsumer:
    consumer = await client.queue_consumer(TOPIC, "work", start=EARLIEST, options=QueueOptions(AT_ONCE))
    await consumer.wait_attached()
    return consumer


async def broken(source: SegmentConsumer) -> None:
    """Its stream breaks, and it has another one."""
    turn = source.turn
    source._lane.restart()
    await until(lambda: source.turn > turn)


async def nothing_is_left(client: Client) -> None:
    stats = await client.topics.stats(TOPIC)
    assert stats.subscriptions["work"].backlog_entries == 0


def test_of_a_queue_others_acknowledge_what_they_have_been_given() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        one, producer = await queue(client), await client.producer(TOPIC)
        await send(producer, range(MESSAGES))
        messages = [await one.receive(PATIENCE_MS) for _ in range(MESSAGES)]
        other = await queue(client)
        source = messages[0].source
        assert isinstance(source, QueueSource)
        assert source._consumer is not None
        await broken(source._consumer)
        moved = [await other.receive(PATIENCE_MS) for _ in range(MESSAGES)]
        txn = await client.begin()
        with pytest.raises(AckTooLate):
            await one.acknowledge(*messages, txn=txn)
        with pytest.raises(TxnAbortable):
            await txn.commit()
        await txn.abort()
        with pytest.raises(AckTooLate, match="another consumer"):
            await one.acknowledge(*messages)
        assert not len(one._works), "it is nobody's business here any more"
        await other.acknowledge(*moved[:3])
        other.negative_acknowledge(*moved[3:])
        again = [await other.receive(PATIENCE_MS) for _ in moved[3:]]
        assert {each.id for each in again} == {each.id for each in moved[3:]}
        await other.close()
        left = [await one.receive(PATIENCE_MS) for _ in again]
        await one.acknowledge(*left)
        await nothing_is_left(client)

    run(scenario)


def test_what_was_given_back_before_a_stream_broke_is_not_given_back_twice() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        options = QueueOptions(RedeliveryBackoff(300, 300))
        one = await client.queue_consumer(TOPIC, "work", start=EARLIEST, options=options)
        await one.wait_attached()
        await send(await client.producer(TOPIC), range(2))
        messages = [await one.receive(PATIENCE_MS) for _ in range(2)]
        one.negative_acknowledge(messages[0])
        source = messages[0].source
        assert isinstance(source, QueueSource)
        assert source._consumer is not None
        await broken(source._consumer)
        again = await one.receive(PATIENCE_MS)
        assert again.id == messages[0].id
        await one.acknowledge(again, messages[1])
        assert await nothing_comes(one)
        await nothing_is_left(client)

    run(scenario)


async def shared(client: Client, name: str) -> StreamConsumer:
    return await client.stream_consumer(TOPIC, "work", name=name, start=EARLIEST)


def attachments(consumer: StreamConsumer) -> list[Attachment]:
    return list(consumer._stream._attachments.values())


def test_of_a_segment_shared_by_keys_others_acknowledge_what_they_have_been_given() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        one, other = await shared(client, "a"), await shared(client, "b")
        await until(lambda: all(any(a.share.buckets and a.is_attached for a in attachments(c)) for c in (one, other)))
        producer = await client.producer(TOPIC)
        await send(producer, range(4 * MESSAGES))
        mine, others = await one.receive_many(100, PATIENCE_MS), await other.receive_many(100, PATIENCE_MS)
        while len(mine) + len(others) < 4 * MESSAGES:
            mine += one._intake.take(100)
            others += other._intake.take(100)
            await asyncio.sleep(0)
        source = attachments(one)[0]._consumer
        assert source is not None
        await broken(source)
        moved: list[StreamMessage] = []
        while len(moved) < len(mine):
            moved += await other.receive_many(100, PATIENCE_MS)
        with pytest.raises(AckTooLate, match="another consumer"):
            await one.acknowledge_cumulative(mine[-1])
        await one.acknowledge_cumulative(mine[-1])  # it was told once
        await other.acknowledge_cumulative(moved[-1])
        await nothing_is_left(client)
        await send(producer, range(4 * MESSAGES))
        more = await one.receive_many(100, PATIENCE_MS)
        await one.acknowledge_cumulative(more[-1])

    run(scenario)
