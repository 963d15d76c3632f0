"""Acknowledgements that are on their way while what lies before them is let go: nothing is taken along."""

from __future__ import annotations

import pytest
from consumers_stage import PATIENCE_MS, TOPIC, Stage, held_up, nothing_comes, run, send, until

from controller.client import EARLIEST, Client, Transaction, embedded
from controller.client.consumers import StreamConsumer, StreamMessage
from controller.client.consumers.attachments import Attachment
from controller.client.errors import AckTooLate
from controller.client.segment.consumer import SegmentConsumer
from txn.model.errors import TxnHasFailedOperations


async def opened(client: Client, name: str) -> StreamConsumer:
    return await client.stream_consumer(TOPIC, "billing", name=name, start=EARLIEST)


def inner(message: StreamMessage) -> SegmentConsumer:
    """What a message was received by."""
    (attachment,) = message.reached
    assert isinstance(attachment, Attachment)
    assert attachment._consumer is not None
    return attachment._consumer


async def behind_a_gap(client: Client) -> tuple[Transaction, StreamConsumer, StreamMessage]:
    """A consumer that has the last five of ten messages; the others an open transaction of one that has gone holds."""
    producer, first = await client.producer(TOPIC), await opened(client, "one")
    await send(producer, range(10))
    messages = [await first.receive(PATIENCE_MS) for _ in range(5)]
    holding = await client.begin()
    await first.acknowledge_cumulative(messages[-1], txn=holding)
    await first.close()
    second = await opened(client, "two")
    rest = [await second.receive(PATIENCE_MS) for _ in range(5)]
    assert [int(each.payload) for each in rest] == [5, 6, 7, 8, 9]
    return holding, second, rest[-1]


async def all_of_it(client: Client, consumer: StreamConsumer) -> None:
    """Everything comes, in order, and then it can be acknowledged."""
    again = [await consumer.receive(PATIENCE_MS) for _ in range(10)]
    assert [int(each.payload) for each in again] == list(range(10))
    await consumer.acknowledge_cumulative(again[-1])
    await consumer.close()
    async with await opened(client, "three") as last:
        assert await nothing_comes(last)


def test_an_acknowledgement_on_its_way_does_not_take_what_an_abort_has_let_go() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        holding, consumer, last = await behind_a_gap(client)
        turn = inner(last).turn
        with held_up(inner(last)):
            late = consumer.acknowledge_cumulative(last)
            await holding.abort()
            await until(lambda: inner(last).turn > turn)
        with pytest.raises(AckTooLate):
            await late
        await all_of_it(client, consumer)

    run(scenario)


def test_nor_does_one_of_what_comes_behind_it_meanwhile() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        holding, consumer, last = await behind_a_gap(client)
        segment, turn = inner(last), inner(last).turn
        with held_up(segment):
            late = consumer.acknowledge_cumulative(last)
            await holding.abort()
            await until(lambda: segment.turn > turn)
            await send(await client.producer(TOPIC), range(10, 15))
            await until(lambda: len(segment._inbox) > 0)
        with pytest.raises(AckTooLate):
            await late
        again = [await consumer.receive(PATIENCE_MS) for _ in range(15)]
        assert [int(each.payload) for each in again] == list(range(15))

    run(scenario)


def test_nor_does_it_on_another_stream_or_at_another_broker() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        holding, consumer, last = await behind_a_gap(client)
        turn, address = inner(last).turn, inner(last)._lane._way.address
        with held_up(inner(last)):
            late = consumer.acknowledge_cumulative(last)
            await holding.abort()
            await until(lambda: inner(last).turn > turn)
            await stage.stop(next(each for each in stage.brokers if each.address == address))
        with pytest.raises(AckTooLate):
            await late
        await all_of_it(client, consumer)

    run(scenario, brokers=2)


def test_nor_does_a_transaction_which_then_cannot_commit() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        holding, consumer, last = await behind_a_gap(client)
        turn = inner(last).turn
        txn = await client.begin()
        with held_up(inner(last)):
            consumer.acknowledge_cumulative(last, txn=txn)
            await holding.abort()
            await until(lambda: inner(last).turn > turn)
        with pytest.raises(TxnHasFailedOperations):
            await txn.commit()
        await all_of_it(client, consumer)

    run(scenario)


def test_a_seek_of_somebody_else_is_not_undone_by_it() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        producer = await client.producer(TOPIC)
        await send(producer, range(5))
        consumer = await client.stream_consumer(TOPIC, "billing", name="two")  # from the end
        await send(producer, range(5, 10))
        last = [await consumer.receive(PATIENCE_MS) for _ in range(5)][-1]
        turn = inner(last).turn
        with held_up(inner(last)):
            late = consumer.acknowledge_cumulative(last)
            await client.topics.seek(TOPIC, "billing", 0)
            await until(lambda: inner(last).turn > turn)
        with pytest.raises(AckTooLate):
            await late
        await all_of_it(client, consumer)

    run(scenario)


def test_with_a_broker_in_the_same_process_it_is_the_same() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        async with await embedded("memory://consumers-eras") as own:
            first = await own.segment_consumer("orders", "billing", start=EARLIEST)
            await (await own.segment_producer("orders")).send(b"one")
            held = await first.receive(PATIENCE_MS)
            holding = await own.begin()
            await first.acknowledge(held, txn=holding)
            await first.close()
            second = await own.segment_consumer("orders", "billing")
            await (await own.segment_producer("orders")).send(b"two")
            behind = await second.receive(PATIENCE_MS)
            turn = second.turn
            with held_up(second):
                late = second.acknowledge_cumulative(behind)
                await holding.abort()
                await until(lambda: second.turn > turn)
            with pytest.raises(AckTooLate):
                await late
            again = [await second.receive(PATIENCE_MS) for _ in range(2)]
            assert [each.id for each in again] == [held.id, behind.id]

    run(scenario)
