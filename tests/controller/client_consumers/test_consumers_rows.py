"""The rows of V16 that no other test has, one by one: whole stories of consumers, at real brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import pytest
from consumers_stage import (
    PATIENCE_MS,
    STILL,
    TOPIC,
    Stage,
    in_order,
    merge,
    nothing_comes,
    run,
    send,
    split,
    staged,
    taken,
    until,
)

from controller.client import EARLIEST, LATEST, Client, TopicSubscriptionKind
from controller.client.consumers import NamespaceStreamConsumer, StreamConsumer
from controller.client.topics.producer import ProducerOptions
from controller.topics.errors import TopicNotFound
from metastore.clock import SystemClock

Story = Callable[[Stage, Client], Awaitable[None]]
GRACE_S = 1.0
"""Of consumers, in the stories about it."""


async def stream(client: Client, name: str = "one") -> StreamConsumer:
    return await client.stream_consumer(TOPIC, "billing", name=name, start=EARLIEST)


async def acked(consumer: StreamConsumer, count: int) -> list[int]:
    """So many messages, each acknowledged as it comes."""
    found: list[int] = []
    for _ in range(count):
        message = await consumer.receive(PATIENCE_MS)
        found.append(int(message.payload))
        await consumer.acknowledge_cumulative(message)
    return found


async def shared(consumers: Sequence[StreamConsumer], count: int) -> list[list[int]]:
    """So many messages, of whoever has them, each acknowledged as it comes."""
    found: list[list[int]] = [[] for _ in consumers]

    async def work(consumer: StreamConsumer, own: list[int]) -> None:
        while sum(map(len, found)) < count:
            try:
                message = await consumer.receive(100)
            except TimeoutError:
                continue
            own.append(int(message.payload))
            await consumer.acknowledge_cumulative(message)

    await asyncio.gather(*map(work, consumers, found))
    return found


async def who_comes_after_a_split_gets_all(stage: Stage, client: Client) -> None:
    producer = await client.producer(TOPIC)
    await client.topics.create_subscription(TOPIC, "billing", TopicSubscriptionKind.STREAM, EARLIEST)
    await send(producer, range(50))
    await split(client, 0)
    await send(producer, range(50, 100))
    numbers = await acked(await stream(client), 100)
    assert sorted(numbers) == list(range(100))
    assert in_order(numbers)


async def two_generations(stage: Stage, client: Client) -> None:
    producer = await client.producer(TOPIC)
    for generation in range(3):
        if generation:
            await split(client, generation - 1)
        await send(producer, range(30 * generation, 30 * generation + 30))
    numbers = await acked(await stream(client), 90)
    assert sorted(numbers) == list(range(90))
    assert in_order(numbers)


async def who_joins_gets_nothing_again(stage: Stage, client: Client) -> None:
    producer, one = await client.producer(TOPIC), await stream(client)
    await send(producer, range(30))
    await acked(one, 30)
    two = await stream(client, "two")
    await two.wait_attached()
    assert await nothing_comes(two)
    assert await nothing_comes(one, 1)


async def what_was_acknowledged_over_a_split_stays_so(stage: Stage, client: Client) -> None:
    producer = await client.producer(TOPIC)
    async with await stream(client) as consumer:
        await send(producer, range(30))
        await acked(consumer, 30)
        await split(client, 0)
        await send(producer, range(30, 60))
        assert sorted(await acked(consumer, 30)) == list(range(30, 60))
    again = await stream(client)
    await again.wait_attached()
    assert await nothing_comes(again)


async def no_send_fails_behind_a_split(stage: Stage, client: Client) -> None:
    producer = await client.producer(TOPIC, options=ProducerOptions(batch_messages_max=1))
    await send(producer, range(20))
    splitting = asyncio.create_task(split(client, 0))
    await send(producer, range(20, 30))
    await splitting
    await send(producer, range(30, 40))
    assert sorted(await acked(await stream(client), 40)) == list(range(40))


async def _from_a_checkpoint(client: Client, change: Callable[[], Awaitable[None]]) -> None:
    producer = await client.producer(TOPIC)
    await send(producer, range(10))
    async with await client.checkpoint_consumer(TOPIC, start=EARLIEST) as consumer:
        before = await taken(consumer, 5)
        checkpoint = consumer.checkpoint()
    await change()
    await send(producer, range(10, 30))
    async with await client.checkpoint_consumer(TOPIC, start=checkpoint) as consumer:
        after = await taken(consumer, 25)
        assert sorted(before + after) == list(range(30))
        assert await nothing_comes(consumer, 30)


async def a_checkpoint_and_a_split(stage: Stage, client: Client) -> None:
    await _from_a_checkpoint(client, lambda: split(client, 0))


async def a_checkpoint_and_a_merge(stage: Stage, client: Client) -> None:
    await client.topics.create(TOPIC, segments=2)
    await _from_a_checkpoint(client, lambda: merge(client, [0, 1]))


async def a_segment_is_taken_away_by_force(stage: Stage, client: Client) -> None:
    state = await client.topics.create(TOPIC, segments=2)
    producer = await client.producer(TOPIC)
    await send(producer, range(40), keys=40)
    kept, lost = (state.name_of(each) for each in state.layout.active)
    async with await client.segment_reader(kept, follow=False) as reader:
        survivors = [int(message.payload) async for message in reader]
    await client.segments.delete(lost)
    async with await client.checkpoint_consumer(TOPIC, start=EARLIEST) as consumer:
        assert await taken(consumer, len(survivors)) == survivors
        assert await nothing_comes(consumer)


async def through_brokers_that_do_not_lead(stage: Stage, client: Client) -> None:
    await client.topics.create(TOPIC, segments=4)
    leader = await stage.leader_of(client)
    stage.brokers.sort(key=lambda each: each is leader)  # a client asks them in this order
    others = [await stage.client() for _ in range(2)]
    consumers = [await stream(each, name) for each, name in zip(others, ("one", "two"), strict=True)]
    await until(lambda: all(len(each.segments) == 2 for each in consumers))
    producer = await others[0].producer(TOPIC)
    await send(producer, range(100), keys=100)
    one, two = await shared(consumers, 100)
    assert sorted(one + two) == list(range(100))
    assert one
    assert two


async def a_seek_goes_to_the_mark(stage: Stage, client: Client) -> None:
    producer, consumer = await client.producer(TOPIC), await stream(client)
    await send(producer, range(5))
    last = [await consumer.receive(PATIENCE_MS) for _ in range(5)][-1]
    mark_ms = last.published_ms + 1
    await until(lambda: SystemClock().wall_ms() > mark_ms)
    await send(producer, range(5, 10))
    await acked(consumer, 5)
    await split(client, 0)
    await client.topics.seek(TOPIC, "billing", mark_ms)
    assert sorted(await acked(consumer, 5)) == list(range(5, 10))
    assert await nothing_comes(consumer)
    await client.topics.seek(TOPIC, "billing", mark_ms)
    await client.topics.skip_all(TOPIC, "billing")
    again = await stream(client, "two")
    await consumer.close()
    assert await nothing_comes(again)


async def a_subscription_that_was_there_before_keeps_its_beginning(stage: Stage, client: Client) -> None:
    await client.topics.create(TOPIC, segments=2, subscriptions={"billing": TopicSubscriptionKind.STREAM})
    producer = await client.producer(TOPIC)
    await send(producer, range(30))
    consumer = await client.stream_consumer(TOPIC, "billing", start=LATEST)
    assert sorted(await taken(consumer, 30)) == list(range(30))


async def who_joins_with_slow_acknowledgements_leaves_and_rejoins(stage: Stage, client: Client) -> None:
    await client.topics.create(TOPIC)
    producer, one = await client.producer(TOPIC), await stream(client)
    order: list[int] = []

    async def work(consumer: StreamConsumer, count: int) -> None:
        while len(order) < count:
            try:
                message = await consumer.receive(50)
            except TimeoutError:
                continue
            order.append(int(message.payload))
            await asyncio.sleep(0.001)
            await consumer.acknowledge_cumulative(message)

    await send(producer, range(80), keys=16)
    first = asyncio.create_task(work(one, 240))
    for number, part in enumerate((range(80, 160), range(160, 240))):
        two = await stream(client, "two")
        await send(producer, part, keys=16)
        await work(two, 80 * (number + 1))
        await two.close()
    await first
    assert sorted(order) == list(range(240))
    assert in_order(order, 16)


V16: dict[str, tuple[Story, int]] = {
    "50 before a split and 50 after it": (who_comes_after_a_split_gets_all, 1),
    "two generations": (two_generations, 1),
    "drained by the first, joined by the second": (who_joins_gets_nothing_again, 1),
    "acknowledged over a split, opened again": (what_was_acknowledged_over_a_split_stays_so, 1),
    "sent at once behind a split": (no_send_fails_behind_a_split, 1),
    "a checkpoint and a split": (a_checkpoint_and_a_split, 1),
    "a checkpoint and a merge": (a_checkpoint_and_a_merge, 1),
    "a segment is deleted by force": (a_segment_is_taken_away_by_force, 1),
    "through brokers that do not lead": (through_brokers_that_do_not_lead, 3),
    "a seek to the mark": (a_seek_goes_to_the_mark, 1),
    "a subscription that was there before": (a_subscription_that_was_there_before_keeps_its_beginning, 1),
    "slow acknowledgements": (who_joins_with_slow_acknowledgements_leaves_and_rejoins, 1),
}


@pytest.mark.parametrize("row", V16)
def test_v16(row: str) -> None:
    story, brokers = V16[row]
    run(story, brokers)


# ---- graces


def run_with_grace(story: Story) -> None:
    async def whole() -> None:
        async with staged(0) as stage, asyncio.timeout(100):
            await stage.start(replace(STILL, scalable_topic_consumer_session_grace_period_s=GRACE_S))
            await story(stage, await stage.client())

    asyncio.run(whole())


def test_v16_a_client_that_does_not_come_back_leaves_its_segments_to_the_others() -> None:
    async def story(stage: Stage, client: Client) -> None:
        await client.topics.create(TOPIC, segments=2)
        bob, other = await stream(client, "bob"), await stage.client()
        alice = await stream(other, "alice")
        await until(lambda: len(alice.segments) == len(bob.segments) == 1)
        await alice.close(leave=False)
        await until(lambda: len(bob.segments) == 2)
        await send(await client.producer(TOPIC), range(40), keys=40)
        assert sorted(await taken(bob, 40)) == list(range(40))

    run_with_grace(story)


def test_v16_when_all_clients_of_a_group_are_closed_it_has_no_consumers() -> None:
    async def story(stage: Stage, client: Client) -> None:
        await client.topics.create(TOPIC, segments=2)
        for name in ("alice", "bob"):
            member = await stream(client, name)
            await member.close(leave=False)
        while (await client.topics.stats(TOPIC)).subscriptions["billing"].consumers:
            await asyncio.sleep(0.01)

    run_with_grace(story)


# ---- namespaces


async def of_namespace(client: Client) -> NamespaceStreamConsumer:
    consumer = await client.namespace_stream_consumer("acme/sales", "billing", name="one", start=EARLIEST)
    await until(lambda: len(consumer.topics) == 2)
    return consumer


def test_v16_the_last_acknowledgement_of_a_namespace_covers_all_before_it() -> None:
    async def story(stage: Stage, client: Client) -> None:
        producers = [await client.producer(f"topic://acme/sales/{name}") for name in "ab"]
        async with await of_namespace(client) as consumer:
            for number in range(10):
                await send(producers[number % 2], [number])
            assert sorted(await taken(consumer, 10)) == list(range(10)), "none of them acknowledged"
        async with await of_namespace(client) as consumer:
            messages = [await consumer.receive(PATIENCE_MS) for _ in range(10)]
            assert sorted(int(each.payload) for each in messages) == list(range(10))
            await consumer.acknowledge_cumulative(messages[-1])
        async with await of_namespace(client) as consumer:
            assert await nothing_comes(consumer)

    run(story)


def test_v16_who_consumes_a_namespace_creates_no_topic_that_was_deleted() -> None:
    async def story(stage: Stage, client: Client) -> None:
        for name in ("a", "b"):
            await client.topics.create(f"topic://acme/sales/{name}")
        consumer = await of_namespace(client)
        queue = await client.namespace_queue_consumer("acme/sales", "work", start=EARLIEST)
        await until(lambda: len(queue.topics) == 2)
        await client.topics.delete("topic://acme/sales/a")
        await until(lambda: len(consumer.topics) == len(queue.topics) == 1)
        assert await nothing_comes(consumer, 300)
        with pytest.raises(TopicNotFound):
            await client.topics.describe("topic://acme/sales/a")

    run(story)
