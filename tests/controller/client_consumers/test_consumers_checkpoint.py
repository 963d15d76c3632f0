"""Checkpoint consumers: where they begin, what they say, parents before children; groups that hand over."""

from __future__ import annotations

import asyncio

import pytest
from consumers_stage import PATIENCE_MS, TOPIC, Stage, in_order, merge, nothing_comes, run, send, split, taken, until

from controller.client import EARLIEST, LATEST, Client, InvalidRequest
from controller.client.consumers import Checkpoint, CheckpointGroupConsumer
from controller.client.errors import AckTooLate
from controller.client.topics.producer import ProducerOptions
from controller.topics.errors import TopicNotFound


def test_the_whole_topic_is_read_in_each_keys_order_over_splits_and_merges() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        producer = await client.producer(TOPIC)
        await send(producer, range(50))
        await split(client, 0)
        await send(producer, range(50, 100))
        async with await client.checkpoint_consumer(TOPIC, start=EARLIEST) as consumer:
            numbers = await taken(consumer, 70)
            await merge(client, [1, 2])
            await send(producer, range(100, 150))
            numbers += await taken(consumer, 80)
            assert sorted(numbers) == list(range(150))
            assert in_order(numbers)
            assert await nothing_comes(consumer)

    run(scenario)


def test_wherever_it_stops_another_one_goes_on_behind_it() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        producer = await client.producer(TOPIC)
        await send(producer, range(30))
        await split(client, 0)
        await send(producer, range(30, 60))
        for stop in (0, 1, 29, 30, 31, 45, 60):
            async with await client.checkpoint_consumer(TOPIC, start=EARLIEST) as first:
                before = await taken(first, stop)
                kept = str(first.checkpoint())
            async with await client.checkpoint_consumer(TOPIC, start=Checkpoint.parse(kept)) as second:
                after = await taken(second, 60 - stop)
                assert sorted(before + after) == list(range(60))
                assert in_order(before + after)
                assert await nothing_comes(second, 30)

    run(scenario)


def test_h17_from_the_end_on_it_misses_nothing_that_children_get() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        producer = await client.producer(TOPIC)
        await send(producer, range(10))
        async with await client.checkpoint_consumer(TOPIC, start=LATEST) as consumer:
            await split(client, 0)
            await send(producer, range(10, 20))
            assert sorted(await taken(consumer, 10)) == list(range(10, 20))

    run(scenario)


def test_h17_a_segment_that_began_after_a_checkpoint_is_read_from_its_beginning() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        producer = await client.producer(TOPIC)
        await send(producer, range(10))
        async with await client.checkpoint_consumer(TOPIC, start=EARLIEST) as consumer:
            await taken(consumer, 10)
            checkpoint = consumer.checkpoint()
        await split(client, 0)
        await send(producer, range(10, 20))
        async with await client.checkpoint_consumer(TOPIC, start=checkpoint) as consumer:
            assert sorted(await taken(consumer, 10)) == list(range(10, 20))
            assert await nothing_comes(consumer)

    run(scenario)


def test_it_can_be_put_elsewhere() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        producer = await client.producer(TOPIC)
        await send(producer, range(10))
        async with await client.checkpoint_consumer(TOPIC, start=EARLIEST) as consumer:
            await taken(consumer, 4)
            checkpoint = consumer.checkpoint()
            await taken(consumer, 6)
            await consumer.seek(checkpoint)
            assert await taken(consumer, 6) == list(range(4, 10))
            await consumer.seek(EARLIEST)
            assert await taken(consumer, 10) == list(range(10))
            await consumer.seek(LATEST)
            await send(producer, [10])
            assert await taken(consumer, 1) == [10]

    run(scenario)


def test_a_small_buffer_holds_brokers_up_and_loses_nothing() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        await client.topics.create(TOPIC, segments=4)
        producer = await client.producer(TOPIC)
        await send(producer, range(200), keys=40)
        async with await client.checkpoint_consumer(
            TOPIC, start=EARLIEST, buffer_entries=2, buffer_bytes=10
        ) as consumer:
            assert sorted(await taken(consumer, 200)) == list(range(200))

    run(scenario)


def test_without_a_topic_it_is_refused_and_with_its_end_it_ends() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        with pytest.raises(TopicNotFound):
            await client.checkpoint_consumer(TOPIC, create=False)
        consumer = await client.checkpoint_consumer(TOPIC)
        with pytest.raises(InvalidRequest):
            await client.checkpoint_consumer(TOPIC, start="the beginning")  # type: ignore[arg-type]
        await client.topics.delete(TOPIC)
        with pytest.raises(TopicNotFound):
            await consumer.receive(PATIENCE_MS)

    run(scenario)


# -- groups


async def member(client: Client, name: str, start: Checkpoint | None = None) -> CheckpointGroupConsumer:
    consumer = await client.checkpoint_group_consumer(TOPIC, "group", name=name, start=start or Checkpoint.at(EARLIEST))
    await consumer.wait_attached()
    return consumer


async def all_of(consumers: list[CheckpointGroupConsumer], count: int) -> list[int]:
    """So many messages from whoever has them, each committed."""
    found: list[int] = []

    async def work(consumer: CheckpointGroupConsumer) -> None:
        while len(found) < count:
            try:
                message = await consumer.receive(100)
            except TimeoutError:
                continue
            found.append(int(message.payload))
            await consumer.commit()

    await asyncio.gather(*map(work, consumers))
    return found


def test_a_group_divides_a_topic_and_reads_parents_before_children_h18() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        await client.topics.create(TOPIC, segments=2)
        producer = await client.producer(TOPIC)
        members = [await member(client, name) for name in ("one", "two")]
        await until(lambda: all(len(each.segments) == 1 for each in members))
        await send(producer, range(50))
        await split(client, 0)
        await send(producer, range(50, 100))
        numbers = await all_of(members, 100)
        assert sorted(numbers) == list(range(100))
        assert in_order(numbers)
        await until(lambda: sum(len(each.segments) for each in members) == 3)

    run(scenario)


def test_h17_a_member_that_leaves_hands_over_what_it_has_committed() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        producer = await client.producer(TOPIC)
        await send(producer, range(10))
        one = await member(client, "one")
        assert await taken(one, 4) == list(range(4))
        await one.commit()
        assert await taken(one, 3) == [4, 5, 6], "not committed"
        await one.close()
        two = await member(client, "two")
        assert await taken(two, 6) == list(range(4, 10))
        await two.commit()
        await split(client, 0)
        await send(producer, range(10, 20))
        assert sorted(await taken(two, 10)) == list(range(10, 20)), "its sealed parent was committed to the end"

    run(scenario)


def test_a_group_that_begins_at_the_end_begins_later_segments_at_their_beginning_h17() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        producer = await client.producer(TOPIC)
        await send(producer, range(10))
        one = await member(client, "one", Checkpoint.at(LATEST))
        await split(client, 0)
        await send(producer, range(10, 20))
        two = await client.checkpoint_group_consumer(TOPIC, "group", name="two", start=LATEST)
        assert sorted(await all_of([one, two], 10)) == list(range(10, 20))

    run(scenario)


def test_h17_a_group_that_begins_at_a_checkpoint_reads_what_came_after_it_from_its_beginning() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        producer = await client.producer(TOPIC)
        await send(producer, range(10))
        async with await client.checkpoint_consumer(TOPIC, start=EARLIEST) as reader:
            await taken(reader, 10)
            checkpoint = reader.checkpoint()
        await split(client, 0)
        await send(producer, range(10, 20))
        one = await member(client, "one", checkpoint)
        assert sorted(await all_of([one], 10)) == list(range(10, 20))
        assert await nothing_comes(one)

    run(scenario)


def test_a_group_commits_in_a_transaction_or_not_at_all() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        producer = await client.producer(TOPIC)
        await send(producer, range(4))
        one = await member(client, "one")
        assert await taken(one, 2) == [0, 1]
        txn = await client.begin()
        await one.commit(txn=txn)
        await txn.abort()
        with pytest.raises(AckTooLate):
            await one.commit()
        assert await taken(one, 4) == [0, 1, 2, 3]
        async with client.transaction() as txn:
            one.commit(txn=txn)
        await one.close()
        assert await nothing_comes(await member(client, "two"))

    run(scenario)


def test_a_group_goes_on_from_a_checkpoint_and_is_put_elsewhere() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        await client.topics.create(TOPIC, segments=2)
        producer = await client.producer(TOPIC, options=ProducerOptions(batch_messages_max=1))
        await send(producer, range(20))
        async with await client.checkpoint_consumer(TOPIC, start=EARLIEST) as reader:
            before = await taken(reader, 8)
            checkpoint = reader.checkpoint()
        members = [await member(client, "one", checkpoint), await member(client, "two", checkpoint)]
        after = await all_of(members, 12)
        assert sorted(before + after) == list(range(20))
        for each in members:
            assert await nothing_comes(each)
        await members[0].seek(checkpoint)
        assert sorted(await all_of(members, 12)) == sorted(after)
        await members[0].unsubscribe()
        assert "group" not in (await client.topics.stats(TOPIC)).subscriptions

    run(scenario)
