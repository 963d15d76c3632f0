"""Giving up and taking over: who does not acknowledge in time is told; who does not go is made to."""

from __future__ import annotations

import pytest
from consumers_stage import PATIENCE_MS, TOPIC, Stage, nothing_comes, run, send, taken, until

from controller.client import EARLIEST, Client
from controller.client.consumers import StreamConsumer
from controller.client.consumers.assignments import Books
from controller.client.errors import AckTooLate
from controller.client.segment.credits import Budget
from controller.layout import TopicName
from controller.pb import topics_pb2 as pb
from txn.model.errors import TxnHasFailedOperations


async def hurried(client: Client, name: str, release_s: float = 0.2, takeover_s: float = 60.0) -> StreamConsumer:
    """A consumer with little patience."""
    books = Books(TopicName.parse(TOPIC), "billing", name, pb.STREAM, EARLIEST)
    made = StreamConsumer(client._lend(), books, Budget(), takeover_s=takeover_s, release_s=release_s)
    return await client._admitted(made)


def test_who_does_not_acknowledge_in_time_loses_the_segment_and_is_told_once() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        await client.topics.create(TOPIC, segments=2)
        producer = await client.producer(TOPIC)
        one = await hurried(client, "one")
        await one.wait_attached()
        await send(producer, range(40))
        messages = [await one.receive(PATIENCE_MS) for _ in range(40)]
        two = await hurried(client, "two")
        await two.wait_attached()
        lost = [int(each.payload) for each in messages if each.in_segment.segment in two.segments]
        assert sorted(await taken(two, len(lost))) == sorted(lost)
        with pytest.raises(AckTooLate, match="given up"):
            await one.acknowledge_cumulative(messages[-1])
        await one.acknowledge_cumulative(messages[-1])  # the rest is acknowledged
        await one.close()
        await two.close()
        three = await client.stream_consumer(TOPIC, "billing", name="three")
        assert sorted(await taken(three, len(lost))) == sorted(lost), "two has not acknowledged them either"
        assert await nothing_comes(three)

    run(scenario)


def test_who_has_a_segment_and_does_not_go_is_made_to() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        await client.topics.create(TOPIC, segments=2)
        producer = await client.producer(TOPIC)
        stubborn = await hurried(client, "stubborn", release_s=3_600.0)
        await stubborn.wait_attached()
        await send(producer, range(40))
        messages = [await stubborn.receive(PATIENCE_MS) for _ in range(40)]
        two = await hurried(client, "two", takeover_s=0.3)
        await two.wait_attached()
        lost = [int(each.payload) for each in messages if each.in_segment.segment in two.segments]
        assert sorted(await taken(two, len(lost))) == sorted(lost)
        async with client.transaction() as txn:
            with pytest.raises(AckTooLate):
                await stubborn.acknowledge_cumulative(messages[-1], txn=txn)
            with pytest.raises(TxnHasFailedOperations):
                await txn.commit()
        await until(lambda: len(stubborn.segments) == 1)

    run(scenario)
