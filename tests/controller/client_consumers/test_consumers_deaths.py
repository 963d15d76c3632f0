"""Brokers that go: leaders, owners, both; consumers notice nothing but a pause."""

from __future__ import annotations

import asyncio
import random

from consumers_stage import PATIENCE_MS, TOPIC, Stage, in_order, run, send, split, until

from controller.client import EARLIEST, Client
from controller.client.consumers import StreamConsumer
from metastore.clock import SystemClock
from metastore.coordination import Pace
from support.alarm import Alarm


async def consume(consumer: StreamConsumer, count: int, found: list[int]) -> None:
    """Receives and acknowledges until there are so many different ones."""
    while len(set(found)) < count:
        try:
            message = await consumer.receive(200)
        except TimeoutError:
            continue
        found.append(int(message.payload))
        await consumer.acknowledge_cumulative(message)


def test_the_leader_goes_and_the_stream_goes_on() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        await client.topics.create(TOPIC, segments=2)
        producer = await client.producer(TOPIC)
        consumer = await client.stream_consumer(TOPIC, "billing", name="one", start=EARLIEST)
        found: list[int] = []
        consuming = asyncio.create_task(consume(consumer, 300, found))
        await send(producer, range(100))
        await stage.stop(await stage.leader_of(client))
        await send(producer, range(100, 200))
        await split(client, 0)
        await send(producer, range(200, 300))
        await consuming
        assert sorted(set(found)) == list(range(300))
        assert in_order(_firsts(found))

    run(scenario, brokers=2)


def test_broker_after_broker_is_replaced_under_load() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        await client.topics.create(TOPIC, segments=3)
        producer = await client.producer(TOPIC)
        consumers = [
            await client.stream_consumer(TOPIC, "billing", name=name, start=EARLIEST) for name in ("one", "two")
        ]
        found: list[list[int]] = [[], []]
        both: list[int] = []

        async def work(consumer: StreamConsumer, mine: list[int]) -> None:
            while len(set(both)) < 300:
                try:
                    message = await consumer.receive(200)
                except TimeoutError:
                    continue
                mine.append(int(message.payload))
                both.append(int(message.payload))
                await consumer.acknowledge_cumulative(message)

        working = [asyncio.create_task(work(*pair)) for pair in zip(consumers, found, strict=True)]
        await send(producer, range(100))
        for first in (100, 200):
            await stage.start()
            await stage.become_known(client)
            await stage.stop(stage.brokers[0])
            await send(producer, range(first, first + 100))
        await asyncio.gather(*working)
        assert sorted(set(both)) == list(range(300))
        await until(lambda: sum(len(each.segments) for each in consumers) == 3)

    run(scenario, brokers=2)


def test_a_queue_and_a_reader_go_on_without_a_broker() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        await client.topics.create(TOPIC, segments=2)
        producer = await client.producer(TOPIC)
        queue = await client.queue_consumer(TOPIC, "work", start=EARLIEST)
        reader = await client.checkpoint_consumer(TOPIC, start=EARLIEST)
        await send(producer, range(50))
        first = {int((await queue.receive(PATIENCE_MS)).payload) for _ in range(50)}
        await stage.stop(stage.brokers[0])
        await send(producer, range(50, 100))
        worked = set(first)
        while len(worked) < 100:
            message = await queue.receive(PATIENCE_MS)
            worked.add(int(message.payload))
            await queue.acknowledge(message)
        read = [int((await reader.receive(PATIENCE_MS)).payload) for _ in range(100)]
        assert sorted(read) == list(range(100))
        assert in_order(read)

    run(scenario, brokers=2)


def test_all_brokers_but_an_idle_one_that_came_later_go() -> None:
    async def scenario(stage: Stage, _: Client) -> None:
        alarm = Alarm()
        client = await stage.client(Pace(SystemClock(), random.Random(1), alarm.sleep))
        await client.topics.create(TOPIC, segments=1)
        producer = await client.producer(TOPIC)
        await send(producer, range(10))
        first = stage.brokers[0]
        last = await stage.start()
        while last.address not in client._caller.routes.brokers:
            await alarm.ring()
        await stage.stop(first)
        await send(producer, range(10, 20))
        consumer = await client.stream_consumer(TOPIC, "billing", name="one", start=EARLIEST)
        assert [int((await consumer.receive(PATIENCE_MS)).payload) for _ in range(20)] == list(range(20))

    run(scenario)


def _firsts(numbers: list[int]) -> list[int]:
    """Each number where it came first."""
    return list(dict.fromkeys(numbers))
