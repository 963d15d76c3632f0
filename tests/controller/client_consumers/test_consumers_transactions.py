"""Streams in transactions: exactly once from topic to topic, over splits, merges, aborts and consumers that change."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from consumers_stage import PATIENCE_MS, TOPIC, Stage, in_order, merge, nothing_comes, run, send, split, taken

from controller.client import EARLIEST, Client
from controller.client.consumers import StreamConsumer, StreamMessage
from controller.client.consumers.attachments import Attachment
from controller.client.consumers.messages import Origin
from controller.client.errors import AckTooLate
from controller.client.topics.producer import ProducerOptions
from txn.model.errors import TxnConflict, TxnError, TxnHasFailedOperations

OUT = "topic://public/default/out"


async def opened(client: Client, name: str = "one") -> StreamConsumer:
    return await client.stream_consumer(TOPIC, "billing", name=name, start=EARLIEST)


@contextmanager
def held_back(origin: Origin) -> Iterator[None]:
    """What comes again from this segment takes its time."""
    assert isinstance(origin, Attachment)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(origin, "take", lambda messages_max: [])
        yield
    origin._arrived()


async def of_two_segments(client: Client) -> tuple[StreamConsumer, list[StreamMessage]]:
    """A consumer of two segments, and messages that it has received, of both."""
    await client.topics.create(TOPIC, segments=2)
    producer, consumer = await client.producer(TOPIC), await opened(client)
    await send(producer, range(8))
    messages = [await consumer.receive(PATIENCE_MS) for _ in range(8)]
    assert {each.segment_id for each in messages} == {0, 1}
    return consumer, messages


async def all_of_one(consumer: StreamConsumer, messages: Sequence[StreamMessage], segment_id: int) -> StreamMessage:
    """Receives once more all that there was of a segment, and nothing else; returns the last."""
    again = [await consumer.receive(PATIENCE_MS) for each in messages if each.segment_id == segment_id]
    assert {each.segment_id for each in again} == {segment_id}
    return again[-1]


async def all_in(client: Client, count: int) -> list[int]:
    """What is in the other topic, which is not more than that."""
    async with await client.checkpoint_consumer(OUT, start=EARLIEST) as reader:
        numbers = await taken(reader, count)
        assert await nothing_comes(reader)
    return numbers


async def carry(client: Client, name: str, count: int, done: list[int], aborts_every: int = 0) -> None:
    """Carries messages over, some at a time, each in a transaction; sees to it that nothing is lost or doubled."""
    consumer, producer = await opened(client, name), await client.producer(OUT)
    rounds = 0
    while len(done) < count:
        try:
            messages = await consumer.receive_many(7, 100)
        except TimeoutError:
            continue
        rounds += 1
        try:
            async with client.transaction() as txn:
                for each in messages:
                    producer.send(each.payload, key=each.key, txn=txn)
                consumer.acknowledge_cumulative(messages[-1], txn=txn)
                if aborts_every and rounds % aborts_every == 0:
                    await txn.abort()
                    continue
        except TxnError:
            continue  # what it acknowledged comes again
        done += [int(each.payload) for each in messages]
    await consumer.close()


def test_exactly_once_over_splits_merges_and_aborts() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        producer = await client.producer(TOPIC)
        await client.topics.create(OUT, segments=2)
        done: list[int] = []
        carrying = asyncio.create_task(carry(client, "one", 300, done, aborts_every=3))
        await send(producer, range(100))
        await split(client, 0)
        await send(producer, range(100, 200))
        await merge(client, [1, 2])
        await split(client, 0, OUT)
        await send(producer, range(200, 300))
        await carrying
        numbers = await all_in(client, 300)
        assert sorted(numbers) == list(range(300))
        assert in_order(numbers)

    run(scenario)


def test_exactly_once_while_consumers_come_and_go() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        await client.topics.create(TOPIC, segments=4)
        producer = await client.producer(TOPIC, options=ProducerOptions(batch_messages_max=5))
        done: list[int] = []
        carrying = [asyncio.create_task(carry(client, "one", 400, done))]
        await send(producer, range(100), keys=32)
        carrying.append(asyncio.create_task(carry(client, "two", 400, done)))
        await send(producer, range(100, 200), keys=32)
        await split(client, 1)
        carrying.append(asyncio.create_task(carry(client, "three", 400, done)))
        await send(producer, range(200, 400), keys=32)
        await asyncio.gather(*carrying)
        numbers = await all_in(client, 400)
        assert sorted(numbers) == list(range(400))

    run(scenario)


def test_one_transaction_spans_a_split_on_both_sides() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        producer, out = await client.producer(TOPIC), await client.producer(OUT)
        consumer = await opened(client)
        await send(producer, range(10))
        txn = await client.begin()
        first = [await consumer.receive(PATIENCE_MS) for _ in range(10)]
        await out.send(b"1", key="a", txn=txn)
        await consumer.acknowledge_cumulative(first[4], txn=txn)
        await split(client, 0)
        await split(client, 0, OUT)
        await out.send(b"2", key="a", txn=txn)
        await consumer.acknowledge_cumulative(first[-1], txn=txn)
        await send(producer, range(10, 20))
        assert await nothing_comes(consumer), "the parent is drained when the transaction is committed"
        await txn.commit()
        assert sorted(await taken(consumer, 10)) == list(range(10, 20))
        assert await all_in(client, 2) == [1, 2]

    run(scenario)


def test_behind_an_abort_messages_come_again_in_order_and_before_that_nothing_is_acknowledged() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        producer, consumer = await client.producer(TOPIC), await opened(client)
        await send(producer, range(10))
        messages = [await consumer.receive(PATIENCE_MS) for _ in range(6)]
        txn = await client.begin()
        await consumer.acknowledge_cumulative(messages[2], txn=txn)
        await txn.abort()
        with pytest.raises(AckTooLate):
            await consumer.acknowledge_cumulative(messages[-1])
        other = await client.begin()
        consumer.acknowledge_cumulative(messages[-1], txn=other)
        with pytest.raises(TxnHasFailedOperations):
            await other.commit()
        assert await taken(consumer, 10) == list(range(10))

    run(scenario)


def test_what_a_transaction_failed_to_acknowledge_comes_again_when_it_is_aborted() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        producer = await client.producer(TOPIC)
        first = await client.stream_consumer(TOPIC, "billing", name="one", start=EARLIEST)
        await send(producer, range(10))
        messages = [await first.receive(PATIENCE_MS) for _ in range(5)]
        holding = await client.begin()
        await first.acknowledge_cumulative(messages[-1], txn=holding)
        await first.close()
        second = await client.stream_consumer(TOPIC, "billing", name="two", start=EARLIEST)
        rest = [await second.receive(PATIENCE_MS) for _ in range(5)]
        assert [int(each.payload) for each in rest] == [5, 6, 7, 8, 9]
        txn = await client.begin()
        with pytest.raises(TxnConflict):
            await second.acknowledge_cumulative(rest[-1], txn=txn)
        await txn.abort()
        await holding.commit()
        assert await taken(second, 5) == [5, 6, 7, 8, 9]

    run(scenario)


def test_that_acknowledging_is_too_late_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        await client.topics.create(TOPIC, segments=2)
        producer, consumer = await client.producer(TOPIC), await opened(client)
        await send(producer, range(8))
        messages = [await consumer.receive(PATIENCE_MS) for _ in range(8)]
        again = messages[0].segment_id
        other = next(int(each.payload) for each in messages if each.segment_id != again)
        late = next(each for each in messages[0].reached if each.segment == messages[0].in_segment.segment)
        txn = await client.begin()
        await consumer.acknowledge_cumulative(messages[0], txn=txn)
        monkeypatch.setattr(late, "take", lambda messages_max: [])  # what comes again from there takes its time
        await txn.abort()
        with pytest.raises(AckTooLate):
            await consumer.acknowledge_cumulative(messages[-1])
        await send(producer, [other])
        message = await consumer.receive(PATIENCE_MS)
        assert message.segment_id != again
        await consumer.acknowledge_cumulative(message)

    run(scenario)


def test_what_is_received_behind_an_abort_does_not_stand_on_what_is_still_to_come_again() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        consumer, messages = await of_two_segments(client)
        other = next(each for each in messages[-1].reached if each is not messages[-1].origin)
        txn = await client.begin()
        consumer.acknowledge_cumulative(messages[-1], txn=txn)
        with held_back(other):
            await txn.abort()
            last = await all_of_one(consumer, messages, messages[-1].segment_id)
            async with client.transaction() as next_txn:
                consumer.acknowledge_cumulative(last, txn=next_txn)
        again = await all_of_one(consumer, messages, 1 - last.segment_id)
        await consumer.acknowledge_cumulative(again)
        assert await nothing_comes(consumer)

    run(scenario)


def test_segments_that_come_again_do_not_make_each_other_too_late_for_ever() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        consumer, messages = await of_two_segments(client)
        first = messages[0]
        last = [each for each in messages if each.origin is not first.origin][-1]
        txn = await client.begin()
        consumer.acknowledge_cumulative(first, txn=txn)  # and not what was received of its segment behind it
        await txn.abort()
        with pytest.raises(TxnHasFailedOperations):
            async with client.transaction() as failing:
                consumer.acknowledge_cumulative(last, txn=failing)
        with held_back(last.origin):
            again = await all_of_one(consumer, messages, first.segment_id)
            async with client.transaction() as succeeding:
                consumer.acknowledge_cumulative(again, txn=succeeding)
        await consumer.acknowledge_cumulative(await all_of_one(consumer, messages, last.segment_id))
        assert await nothing_comes(consumer)

    run(scenario)


def test_no_failure_in_a_transaction_is_left_that_nobody_has_asked_for() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        left: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: left.append(context))
        consumer, messages = await of_two_segments(client)
        for _ in range(2):
            txn = await client.begin()
            consumer.acknowledge_cumulative(messages[-1], txn=txn)
            await txn.abort()
        with pytest.raises(TxnHasFailedOperations):
            async with client.transaction() as failing:
                consumer.acknowledge_cumulative(messages[-1], txn=failing)
        gc.collect()
        assert left == []

    run(scenario)


def test_what_a_transaction_of_somebody_who_went_lets_go_is_received_and_not_passed_over() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        producer, first = await client.producer(TOPIC), await opened(client)
        await send(producer, range(10))
        messages = [await first.receive(PATIENCE_MS) for _ in range(5)]
        holding = await client.begin()
        await first.acknowledge_cumulative(messages[-1], txn=holding)
        await first.close()
        second = await opened(client, "two")
        rest = [await second.receive(PATIENCE_MS) for _ in range(5)]
        await holding.abort()
        again = [await second.receive(PATIENCE_MS) for _ in range(10)]
        assert [int(each.payload) for each in again] == list(range(10))
        with pytest.raises(AckTooLate):
            await second.acknowledge_cumulative(rest[-1])
        await second.acknowledge_cumulative(again[-1])

    run(scenario)
