"""Queue consumers: to whoever has time, given back, overdue, dead letters, over splits and merges."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from consumers_stage import PATIENCE_MS, TOPIC, Stage, merge, nothing_comes, run, send, split, taken, until

from controller.client import EARLIEST, LATEST, BrokersUnavailable, Client, InvalidRequest, Topics
from controller.client.consumers import DeadLetters, QueueConsumer, QueueMessage, QueueOptions, RedeliveryBackoff
from controller.client.consumers.deadletters import Undertaker
from controller.client.topics.producer import Producer, ProducerOptions
from controller.subscriptions.errors import WrongKind
from controller.topics.errors import TopicNotFound
from txn.model.errors import TxnConflict

AT_ONCE = RedeliveryBackoff(0, 0)
SOON = RedeliveryBackoff(10, 10)
ONE_BY_ONE = ProducerOptions(batch_messages_max=1)


async def opened(client: Client, options: QueueOptions | None = None, subscription: str = "work") -> QueueConsumer:
    consumer = await client.queue_consumer(TOPIC, subscription, start=EARLIEST, options=options)
    await consumer.wait_attached()
    return consumer


async def received(consumer: QueueConsumer, count: int) -> list[QueueMessage]:
    return [await consumer.receive(PATIENCE_MS) for _ in range(count)]


def test_everything_is_received_once_over_splits_and_merges_by_any_number_of_consumers() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        producer = await client.producer(TOPIC)
        consumers = [await opened(client) for _ in range(3)]
        done: list[int] = []

        async def work(consumer: QueueConsumer) -> None:
            while len(done) < 600:
                try:
                    message = await consumer.receive(100)
                except TimeoutError:
                    continue
                await consumer.acknowledge(message)
                done.append(int(message.payload))

        working = [asyncio.create_task(work(each)) for each in consumers]
        await send(producer, range(200))
        await split(client, 0)
        await send(producer, range(200, 400))
        await merge(client, [1, 2])
        await send(producer, range(400, 600))
        await asyncio.gather(*working)
        assert sorted(done) == list(range(600))

    run(scenario)


def test_children_are_received_from_while_parents_are_not_drained() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        producer, consumer = await client.producer(TOPIC), await opened(client)
        await send(producer, range(5))
        await split(client, 0)
        await send(producer, range(5, 10))
        assert sorted(await taken(consumer, 10)) == list(range(10)), "nothing was acknowledged"
        assert len(consumer.segments) == 3

    run(scenario)


def test_what_was_acknowledged_never_comes_again_and_the_rest_does() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        producer = await client.producer(TOPIC)
        async with await opened(client) as consumer:
            await send(producer, range(20))
            messages = await received(consumer, 20)
            await consumer.acknowledge(*messages[::2])
            with pytest.raises(InvalidRequest, match="nothing"):
                consumer.acknowledge()
        again = await opened(client)
        assert sorted(await taken(again, 10)) == sorted(int(each.payload) for each in messages[1::2])
        assert await nothing_comes(again)

    run(scenario)


def test_a_queue_begins_at_the_end_and_gets_what_children_get_h4() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        producer = await client.producer(TOPIC)
        await send(producer, range(5))
        async with await client.queue_consumer(TOPIC, "work", start=LATEST) as consumer:
            assert await nothing_comes(consumer, 50)
        await split(client, 0)
        await send(producer, range(5, 10))  # while nobody is there
        again = await client.queue_consumer(TOPIC, "work", start=LATEST)
        assert sorted(await taken(again, 5)) == list(range(5, 10))

    run(scenario)


def test_what_is_given_back_comes_again_and_counts() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        producer = await client.producer(TOPIC, options=ONE_BY_ONE)
        consumer = await opened(client, QueueOptions(refusal=SOON))
        await send(producer, range(2))
        first, second = await received(consumer, 2)
        await consumer.acknowledge(second)
        for times in range(3):
            assert first.redeliveries == times
            consumer.negative_acknowledge(first)
            (first,) = await received(consumer, 1)
        await consumer.acknowledge(first)
        assert await nothing_comes(consumer)

    run(scenario)


def test_of_a_batch_only_what_was_given_back_comes_again() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        producer = await client.producer(TOPIC)
        consumer = await opened(client, QueueOptions(refusal=SOON))
        await send(producer, range(5))
        messages = await received(consumer, 5)
        assert messages[0].in_segment.batch_size == 5
        consumer.negative_acknowledge(messages[2])
        (again,) = await received(consumer, 1)
        assert again.payload == messages[2].payload
        assert await nothing_comes(consumer), "the application has the others"
        await consumer.acknowledge(again, messages[0], messages[1], messages[3], messages[4])

    run(scenario)


def test_what_is_not_settled_in_time_comes_again() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        producer = await client.producer(TOPIC, options=ONE_BY_ONE)
        consumer = await opened(client, QueueOptions(processing_timeout_ms=300))
        await send(producer, range(2))
        slow, quick = await received(consumer, 2)
        await consumer.acknowledge(quick)
        (again,) = await received(consumer, 1)
        assert again.payload == slow.payload
        assert again.redeliveries == 1
        await consumer.acknowledge(again)
        assert await nothing_comes(consumer, 500)

    run(scenario)


def test_no_more_is_received_than_may_be_in_work() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        producer = await client.producer(TOPIC)
        consumer = await opened(client, QueueOptions(in_work_max=3))
        await send(producer, range(10))
        messages = await received(consumer, 3)
        assert await nothing_comes(consumer)
        for _ in range(7):
            await consumer.acknowledge(messages.pop(0))
            messages += await received(consumer, 1)
        assert sorted(int(each.payload) for each in messages) == [7, 8, 9]

    run(scenario)


def test_dead_letters_are_moved_with_all_that_they_say() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        producer = await client.producer(TOPIC, options=ONE_BY_ONE)
        options = QueueOptions(AT_ONCE, dead_letters=DeadLetters(2, subscription="graves"))
        consumer = await opened(client, options)
        await producer.send(b"poison", key="k", properties={"colour": "red"}, event_ms=77)
        first = None
        for times in range(3):
            (message,) = await received(consumer, 1)
            assert message.redeliveries == times
            first = first or message
            consumer.negative_acknowledge(message)
        assert first is not None
        assert await nothing_comes(consumer), "it is moved while somebody receives"
        graves = await client.queue_consumer(TOPIC + "-DLQ", "graves", start=EARLIEST)
        (buried,) = await received(graves, 1)
        assert (buried.payload, buried.key, buried.event_ms) == (b"poison", "k", 77)
        assert buried.properties == {
            "colour": "red",
            "REAL_TOPIC": TOPIC,
            "REAL_SUBSCRIPTION": "work",
            "ORIGIN_MESSAGE_ID": str(first.id),
        }
        assert buried.txn_id is not None, "moved in a transaction"
        assert await nothing_comes(graves)

    run(scenario)


def test_many_dead_letters_are_moved_once_each_while_others_go_on() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        producer = await client.producer(TOPIC, options=ONE_BY_ONE)
        consumer = await opened(client, QueueOptions(AT_ONCE, dead_letters=DeadLetters(0, subscription="graves")))
        await send(producer, range(40))
        done = []
        for message in await received(consumer, 40):
            if int(message.payload) % 2:
                consumer.negative_acknowledge(message)
            else:
                await consumer.acknowledge(message)
                done.append(int(message.payload))
        receiving = asyncio.create_task(consumer.receive())
        graves = await client.queue_consumer(TOPIC + "-DLQ", "graves", start=EARLIEST)
        assert sorted(await taken(graves, 20)) == list(range(1, 40, 2))
        assert await nothing_comes(graves)
        assert not receiving.done(), "nothing else came"
        receiving.cancel()

    run(scenario)


def test_a_dead_letter_that_a_transaction_has_is_moved_if_that_is_aborted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    may_move, producer_of = asyncio.Event(), Undertaker._producer

    async def slow(undertaker: Undertaker, topic: str) -> Producer:
        await may_move.wait()
        return await producer_of(undertaker, topic)

    monkeypatch.setattr(Undertaker, "_producer", slow)

    async def scenario(stage: Stage, client: Client) -> None:
        await (await client.producer(TOPIC)).send(b"1")
        consumer = await opened(client, QueueOptions(AT_ONCE, dead_letters=DeadLetters(0, subscription="graves")))
        (message,) = await received(consumer, 1)
        consumer.negative_acknowledge(message)
        receiving = asyncio.create_task(consumer.receive())
        undertaker = consumer._undertaker
        assert undertaker is not None
        await until(lambda: len(undertaker._tasks) == 1)
        txn = await client.begin()
        await consumer.acknowledge(message, txn=txn)  # all the same, and late
        may_move.set()
        await until(lambda: not undertaker._tasks)
        await txn.abort()
        graves = await client.queue_consumer(TOPIC + "-DLQ", "graves", start=EARLIEST)
        assert await taken(graves, 1) == [1]
        receiving.cancel()

    run(scenario)


def test_dead_letters_go_nowhere_before_they_are_subscribed_to(monkeypatch: pytest.MonkeyPatch) -> None:
    create, failures = Topics.create_subscription, [BrokersUnavailable("just now")]

    async def fails_first(topics: Topics, topic: str, subscription: str, *rest: Any) -> None:
        if subscription == "graves" and failures:
            raise failures.pop()
        await create(topics, topic, subscription, *rest)

    monkeypatch.setattr(Topics, "create_subscription", fails_first)

    async def scenario(stage: Stage, client: Client) -> None:
        await (await client.producer(TOPIC)).send(b"1")
        consumer = await opened(client, QueueOptions(AT_ONCE, dead_letters=DeadLetters(0, subscription="graves")))
        consumer.negative_acknowledge(*await received(consumer, 1))
        receiving = asyncio.create_task(consumer.receive())
        async with await client.checkpoint_consumer(TOPIC + "-DLQ", start=EARLIEST) as graves:
            assert await taken(graves, 1) == [1]
        assert not failures
        assert "graves" in (await client.topics.stats(TOPIC + "-DLQ")).subscriptions
        receiving.cancel()

    run(scenario)


def test_an_acknowledgement_in_a_transaction_that_spans_a_split() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        producer = await client.producer(TOPIC)
        consumer = await opened(client)
        await send(producer, range(10))
        messages = await received(consumer, 10)
        txn = await client.begin()
        await consumer.acknowledge(*messages[:5], txn=txn)
        await split(client, 0)
        await send(producer, range(10, 20))
        messages += await received(consumer, 10)
        await consumer.acknowledge(*messages[10:15], txn=txn)
        other = await client.begin()
        with pytest.raises(TxnConflict):
            await consumer.acknowledge(messages[0], txn=other)
        await other.abort()
        await txn.commit()
        await consumer.close()
        again = await opened(client)
        left = sorted(int(each.payload) for each in (*messages[5:10], *messages[15:]))
        assert sorted(await taken(again, 10)) == left

    run(scenario)


def test_what_an_aborted_transaction_acknowledged_comes_again() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        producer, consumer = await client.producer(TOPIC), await opened(client)
        await send(producer, range(3))
        messages = await received(consumer, 3)
        txn = await client.begin()
        await consumer.acknowledge(*messages, txn=txn)
        await txn.abort()
        assert sorted(await taken(consumer, 3)) == [0, 1, 2]

    run(scenario)


def test_seeks_and_the_end_of_a_subscription() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        producer, consumer = await client.producer(TOPIC), await opened(client)
        await send(producer, range(5))
        await consumer.acknowledge(*await received(consumer, 5))
        await split(client, 0)
        await consumer.seek(EARLIEST)
        assert sorted(await taken(consumer, 5)) == list(range(5)), "of a segment that was read to its end"
        await consumer.seek(LATEST)
        assert await nothing_comes(consumer)
        await consumer.unsubscribe()
        assert "work" not in (await client.topics.stats(TOPIC)).subscriptions

    run(scenario)


def test_what_cannot_be_is_refused_by_name() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        with pytest.raises(TopicNotFound):
            await client.queue_consumer(TOPIC, "work", create=False)
        producer, consumer = await client.producer(TOPIC), await opened(client)
        other = await opened(client, subscription="other")
        await send(producer, [0])
        (message,) = await received(consumer, 1)
        with pytest.raises(InvalidRequest, match="another consumer"):
            other.acknowledge(message)
        with pytest.raises(WrongKind):
            await client.stream_consumer(TOPIC, "work")
        await client.topics.delete(TOPIC)
        with pytest.raises(TopicNotFound):
            await consumer.receive(PATIENCE_MS)

    run(scenario)


@pytest.mark.parametrize("options", [{"processing_timeout_ms": 0}, {"in_work_max": 0}, {"in_work_max": 1_000_000_000}])
def test_options_that_cannot_be_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(InvalidRequest):
        QueueOptions(**options)  # type: ignore[arg-type]
