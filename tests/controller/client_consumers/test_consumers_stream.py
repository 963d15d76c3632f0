"""Stream consumers: order over splits and merges, who joins and leaves, one acknowledgement for all segments."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from consumers_stage import PATIENCE_MS, TOPIC, Stage, in_order, merge, nothing_comes, run, send, split, taken, until

from controller.client import EARLIEST, LATEST, Client, ClientClosed, InvalidRequest
from controller.client.consumers import StreamConsumer
from controller.subscriptions.errors import MemberReplaced, WrongKind
from controller.topics.errors import SubscriptionNotFound, TopicNotFound


async def opened(client: Client, name: str, **more: object) -> StreamConsumer:
    consumer = await client.stream_consumer(TOPIC, "billing", name=name, start=EARLIEST)
    await consumer.wait_attached()
    return consumer


def test_order_of_each_key_is_kept_over_a_split_and_a_merge() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        consumer, producer = await opened(client, "one"), await client.producer(TOPIC)
        await send(producer, range(100))
        await split(client, 0)
        await send(producer, range(100, 200))
        await merge(client, [1, 2])
        await send(producer, range(200, 300))
        numbers: list[int] = []
        while len(numbers) < 300:
            message = await consumer.receive(PATIENCE_MS)
            numbers.append(int(message.payload))
            await consumer.acknowledge_cumulative(message)
        assert sorted(numbers) == list(range(300))
        assert in_order(numbers)
        await until(lambda: consumer.segments == ("segment://public/default/orders/0000-ffff-3",))

    run(scenario)


def test_children_wait_until_their_parents_are_acknowledged() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        consumer, producer = await opened(client, "one"), await client.producer(TOPIC)
        await send(producer, range(10))
        await split(client, 0)
        await send(producer, range(10, 20))
        parents = [await consumer.receive(PATIENCE_MS) for _ in range(10)]
        assert await nothing_comes(consumer)
        await consumer.acknowledge_cumulative(parents[-1])
        assert sorted(await taken(consumer, 10)) == list(range(10, 20))

    run(scenario)


def test_one_acknowledgement_covers_what_was_received_of_all_segments() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        await client.topics.create(TOPIC, segments=4)
        producer = await client.producer(TOPIC)
        async with await opened(client, "one") as consumer:
            await send(producer, range(40), keys=40)
            messages = [await consumer.receive(PATIENCE_MS) for _ in range(40)]
            assert len(messages[-1].vector) == 4
            middle = messages[19]
            assert all(each.in_segment.id <= middle.vector[each.in_segment.segment] for each in messages[:20])
            await consumer.acknowledge_cumulative(middle)
        again = await opened(client, "one")
        assert sorted(await taken(again, 20)) == sorted(int(each.payload) for each in messages[20:])
        assert await nothing_comes(again)

    run(scenario)


def test_consumers_that_come_in_turn_share_one_segment_at_once() -> None:
    """Who has what he had is told of no newer division: he is in nobody's way all the same."""

    async def scenario(stage: Stage, client: Client) -> None:
        await client.topics.create(TOPIC)
        await client.topics.set_policy(TOPIC, auto_scale={"enabled": False})
        consumers = [await opened(client, f"number {number}") for number in range(4)]
        assert {each.segments for each in consumers} == {("segment://public/default/orders/0000-ffff-0",)}
        await send(await client.producer(TOPIC), range(40), keys=40)
        received: list[int] = []

        async def receive(consumer: StreamConsumer) -> None:
            async for message in consumer:
                received.append(int(message.payload))

        tasks = [asyncio.ensure_future(receive(each)) for each in consumers]
        await until(lambda: len(received) == 40)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert sorted(received) == list(range(40))

    run(scenario)


def test_two_consumers_divide_the_segments_and_the_second_one_takes_over() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        await client.topics.create(TOPIC, segments=4)
        producer = await client.producer(TOPIC)
        one = await opened(client, "one")
        assert len(one.segments) == 4
        two = await opened(client, "two")
        await until(lambda: len(one.segments) == 2 and len(two.segments) == 2)
        assert not set(one.segments) & set(two.segments)
        await send(producer, range(80))
        received: dict[str, list[int]] = {"one": [], "two": []}

        async def work(consumer: StreamConsumer) -> None:
            while sum(map(len, received.values())) < 80:
                try:
                    message = await consumer.receive(200)
                except TimeoutError:
                    continue
                received[consumer.name].append(int(message.payload))
                await consumer.acknowledge_cumulative(message)

        await asyncio.gather(work(one), work(two))
        assert sorted(received["one"] + received["two"]) == list(range(80))
        assert in_order(received["one"])
        assert in_order(received["two"])

    run(scenario)


def test_h10_a_consumer_that_is_closed_leaves_and_others_get_its_segments_at_once() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        await client.topics.create(TOPIC, segments=2)
        one, two = await opened(client, "one"), await opened(client, "two")
        await until(lambda: len(one.segments) == len(two.segments) == 1)
        await two.close()
        await until(lambda: len(one.segments) == 2)
        with pytest.raises(ClientClosed):
            await two.receive()

    run(scenario)


def test_h10_without_leaving_its_segments_wait_for_it_and_it_comes_back_by_its_name() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        await client.topics.create(TOPIC, segments=2)
        one, two = await opened(client, "one"), await opened(client, "two")
        await until(lambda: len(one.segments) == len(two.segments) == 1)
        before = two.segments
        await two.close(leave=False)
        again = await opened(client, "two")
        assert again.segments == before
        assert len(one.segments) == 1

    run(scenario)


def test_h10_a_second_consumer_of_the_same_name_replaces_the_first_which_is_told() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        first = await opened(client, "one")
        await opened(await stage.client(), "one")
        with pytest.raises(MemberReplaced):
            await first.receive(PATIENCE_MS)

    run(scenario)


def test_more_consumers_than_segments_share_one_and_keep_each_keys_order() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        producer = await client.producer(TOPIC)
        one, two = await opened(client, "one"), await opened(client, "two")
        await until(lambda: len(one.segments) == len(two.segments) == 1)
        assert one.segments == two.segments
        await send(producer, range(200), keys=16)
        received: dict[str, list[int]] = {"one": [], "two": []}

        async def work(consumer: StreamConsumer) -> None:
            while sum(map(len, received.values())) < 200:
                try:
                    message = await consumer.receive(100)
                except TimeoutError:
                    continue
                received[consumer.name].append(int(message.payload))
                await consumer.acknowledge_cumulative(message)

        await asyncio.gather(work(one), work(two))
        assert sorted(received["one"] + received["two"]) == list(range(200))
        assert all(received.values()), "both had a part"
        assert in_order(received["one"], 16)
        assert in_order(received["two"], 16)
        assert not {each % 16 for each in received["one"]} & {each % 16 for each in received["two"]}

    run(scenario)


def test_a_consumer_that_joins_waits_until_what_was_received_is_acknowledged() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        await client.topics.create(TOPIC, segments=2)
        producer = await client.producer(TOPIC)
        one = await opened(client, "one")
        await send(producer, range(20))
        messages = [await one.receive(PATIENCE_MS) for _ in range(20)]
        two = await client.stream_consumer(TOPIC, "billing", name="two")
        assert await nothing_comes(two), "one has not acknowledged yet"
        assert two.segments == ()
        await one.acknowledge_cumulative(messages[-1])
        await two.wait_attached()
        assert await nothing_comes(two), "all of it is acknowledged"
        await send(producer, range(20, 40))
        await until(lambda: len(two.segments) == 1)
        found: list[int] = []
        await asyncio.gather(*(receive_until(each, found, 20) for each in (one, two)))
        assert sorted(found) == list(range(20, 40))

    run(scenario)


async def receive_until(consumer: StreamConsumer, found: list[int], count: int) -> None:
    """One of those who receive so many together."""
    while len(found) < count:
        with suppress(TimeoutError):
            found.append(int((await consumer.receive(100)).payload))


def test_h5_drained_segments_are_nobodys_and_children_are_divided() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        producer = await client.producer(TOPIC)
        one = await opened(client, "one")
        two = await client.stream_consumer(TOPIC, "billing", name="two")
        await send(producer, range(10))
        await split(client, 0)
        await until(lambda: len(one.segments) == len(two.segments) == 1)
        got = 0
        while got < 10:
            for each in (one, two):
                try:
                    message = await each.receive(50)
                except TimeoutError:
                    continue
                await each.acknowledge_cumulative(message)
                got += 1
        children = {"segment://public/default/orders/0000-7fff-1", "segment://public/default/orders/8000-ffff-2"}
        await until(lambda: len(one.segments) == len(two.segments) == 1 and {*one.segments, *two.segments} == children)

    run(scenario)


def test_seek_to_the_beginning_and_to_the_end() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        consumer, producer = await opened(client, "one"), await client.producer(TOPIC)
        await send(producer, range(10))
        last = [await consumer.receive(PATIENCE_MS) for _ in range(10)][-1]
        await consumer.acknowledge_cumulative(last)
        await consumer.seek(EARLIEST)
        assert await taken(consumer, 5) == list(range(5))
        await consumer.seek(LATEST)
        await send(producer, [10])
        assert await taken(consumer, 1) == [10]

    run(scenario)


def test_what_cannot_be_is_refused_by_name() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        with pytest.raises(TopicNotFound):
            await client.stream_consumer(TOPIC, "billing", create=False)
        consumer, producer = await opened(client, "one"), await client.producer(TOPIC)
        with pytest.raises(SubscriptionNotFound):
            await client.stream_consumer(TOPIC, "other", start=None)
        with pytest.raises(WrongKind):
            await client.queue_consumer(TOPIC, "billing")
        with pytest.raises(InvalidRequest, match="buffer_entries"):
            await client.stream_consumer(TOPIC, "billing", buffer_entries=10_000_000)
        await send(producer, [0])
        message = await consumer.receive(PATIENCE_MS)
        other = await client.stream_consumer(TOPIC, "shipping", start=EARLIEST)
        with pytest.raises(InvalidRequest, match="another consumer"):
            other.acknowledge_cumulative(message)

    run(scenario)


def test_a_deleted_subscription_ends_its_consumers() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        consumer = await opened(client, "one")
        await client.topics.delete_subscription(TOPIC, "billing")
        with pytest.raises(SubscriptionNotFound):
            await consumer.receive(PATIENCE_MS)

    run(scenario)


def test_a_small_buffer_is_enough_for_many_segments() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        await client.topics.create(TOPIC, segments=8)
        producer = await client.producer(TOPIC)
        await send(producer, range(400), keys=64)
        consumer = await client.stream_consumer(TOPIC, "billing", start=EARLIEST, buffer_entries=4, buffer_bytes=16)
        numbers = await taken(consumer, 400)
        assert sorted(numbers) == list(range(400))
        assert in_order(numbers, 64)

    run(scenario)
