"""Consumers of namespaces: topics come and go, one acknowledgement covers all, dead letters find their own topics."""

from __future__ import annotations

import asyncio

import pytest
from consumers_stage import PATIENCE_MS, Stage, in_order, nothing_comes, run, send, split, taken, until

from controller.client import EARLIEST, Client, InvalidRequest, TopicSubscriptionKind
from controller.client.consumers import DeadLetters, NamespaceStreamConsumer, QueueOptions, RedeliveryBackoff
from controller.subscriptions.errors import MemberReplaced

SALES = "acme/sales"
RED = {"colour": "red"}


def topic(name: str) -> str:
    return f"topic://{SALES}/{name}"


async def create(client: Client, name: str, **properties: str) -> None:
    await client.topics.create(topic(name), properties=properties)


async def opened(client: Client, name: str = "one", count: int = 0) -> NamespaceStreamConsumer:
    consumer = await client.namespace_stream_consumer(SALES, "billing", properties=RED, name=name, start=EARLIEST)
    await until(lambda: len(consumer.topics) >= count)
    return consumer


async def send_to(client: Client, name: str, numbers: range) -> None:
    async with await client.producer(topic(name), create=False) as producer:
        await send(producer, numbers)


def test_topics_that_come_and_go_are_consumed_while_they_are_there() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        await create(client, "a", colour="red")
        await create(client, "other", colour="blue")
        consumer = await opened(client, count=1)
        await send_to(client, "a", range(10))
        await send_to(client, "other", range(900, 910))
        assert sorted(await taken(consumer, 10)) == list(range(10))
        await create(client, "b", colour="red")
        await send_to(client, "b", range(10, 20))
        assert sorted(await taken(consumer, 10)) == list(range(10, 20))
        await client.topics.set_properties(topic("a"), {"colour": "blue"})
        await until(lambda: consumer.topics == (topic("b"),))
        await send_to(client, "a", range(900, 910))
        assert await nothing_comes(consumer)
        await client.topics.set_properties(topic("other"), RED)
        assert sorted(await taken(consumer, 10)) == list(range(900, 910))
        await client.topics.delete(topic("b"))
        await until(lambda: consumer.topics == (topic("other"),))

    run(scenario)


def test_a_topic_that_is_deleted_and_made_anew_is_consumed_anew() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        await create(client, "a", colour="red")
        consumer = await opened(client, count=1)
        await send_to(client, "a", range(5))
        assert sorted(await taken(consumer, 5)) == list(range(5))
        await client.topics.delete(topic("a"))
        await create(client, "a", colour="red")
        await send_to(client, "a", range(5, 10))
        assert sorted(await taken(consumer, 5)) == list(range(5, 10))

    run(scenario)


def test_one_acknowledgement_covers_all_topics_and_their_splits() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        for name in ("a", "b", "c"):
            await create(client, name, colour="red")
        async with await opened(client, count=3) as consumer:
            for number, name in enumerate(("a", "b", "c")):
                await send_to(client, name, range(10 * number, 10 * number + 10))
            messages = [await consumer.receive(PATIENCE_MS) for _ in range(30)]
            assert in_order([int(each.payload) for each in messages if each.topic == topic("a")])
            assert len(messages[-1].vector) == 3
            await consumer.acknowledge_cumulative(messages[19])
            await split(client, 0, topic("a"))
            async with client.transaction() as txn:
                consumer.acknowledge_cumulative(messages[24], txn=txn)
        again = await opened(client, count=3)
        assert sorted(await taken(again, 5)) == sorted(int(each.payload) for each in messages[25:])
        assert await nothing_comes(again)

    run(scenario)


def test_two_consumers_of_a_namespace_divide_each_topic() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        await client.topics.create(topic("a"), segments=2, properties=RED)
        await client.topics.create(topic("b"), segments=2, properties=RED)
        one, two = await opened(client, "one", 2), await opened(client, "two", 2)
        await send_to(client, "a", range(40))
        await send_to(client, "b", range(40, 80))
        found: list[int] = []

        async def work(consumer: NamespaceStreamConsumer) -> None:
            while len(found) < 80:
                try:
                    message = await consumer.receive(100)
                except TimeoutError:
                    continue
                found.append(int(message.payload))
                await consumer.acknowledge_cumulative(message)

        await asyncio.gather(work(one), work(two))
        assert sorted(found) == list(range(80))
        third = await opened(await stage.client(), "two")
        with pytest.raises(MemberReplaced):
            await two.receive(PATIENCE_MS)
        await until(lambda: len(third.topics) == 2)

    run(scenario)


def test_a_queue_of_a_namespace_and_its_dead_letters_h18() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        await create(client, "a")
        await create(client, "b")
        letters = DeadLetters(0, subscription="graves")
        options = QueueOptions(RedeliveryBackoff(0, 0), dead_letters=letters)
        consumer = await client.namespace_queue_consumer(SALES, "work", start=EARLIEST, options=options)
        await send_to(client, "a", range(5))
        await send_to(client, "b", range(5, 10))
        for _ in range(10):
            message = await consumer.receive(PATIENCE_MS)
            if int(message.payload) in (2, 7):
                consumer.negative_acknowledge(message)
            else:
                await consumer.acknowledge(message)
        receiving = asyncio.create_task(consumer.receive())
        for name, number in (("a", 2), ("b", 7)):
            graves = await client.queue_consumer(topic(f"{name}-DLQ"), "graves", start=EARLIEST)
            assert await taken(graves, 1) == [number]
        await until(lambda: consumer.topics == (topic("a"), topic("b")))
        assert not receiving.done(), "it does not work off its own dead letters"
        receiving.cancel()

    run(scenario)


def test_h18_what_was_acknowledged_in_a_transaction_that_is_aborted_comes_again() -> None:
    """Pulsar's acknowledgement of several topics passes the transaction over."""

    async def scenario(stage: Stage, client: Client) -> None:
        for name in ("a", "b"):
            await create(client, name, colour="red")
        consumer = await opened(client, count=2)
        await send_to(client, "a", range(5))
        await send_to(client, "b", range(5, 10))
        messages = [await consumer.receive(PATIENCE_MS) for _ in range(10)]
        txn = await client.begin()
        await consumer.acknowledge_cumulative(messages[-1], txn=txn)
        await txn.abort()
        assert sorted(await taken(consumer, 10)) == list(range(10))

    run(scenario)


def test_h18_a_topic_that_cannot_be_consumed_holds_up_no_other_and_is_consumed_when_it_can_be() -> None:
    """Pulsar gives it up without a word."""

    async def scenario(stage: Stage, client: Client) -> None:
        for name in ("a", "b"):
            await create(client, name, colour="red")
        await client.topics.create_subscription(topic("b"), "billing", TopicSubscriptionKind.QUEUE)
        consumer = await opened(client, count=1)
        await send_to(client, "a", range(5))
        await send_to(client, "b", range(5, 10))
        assert sorted(await taken(consumer, 5)) == list(range(5))
        assert consumer.topics == (topic("a"),)
        await client.topics.delete_subscription(topic("b"), "billing")
        assert sorted(await taken(consumer, 5)) == list(range(5, 10))

    run(scenario)


def test_a_namespace_that_cannot_be_is_refused() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        with pytest.raises(InvalidRequest):
            await client.namespace_queue_consumer("no namespace", "work")

    run(scenario)
