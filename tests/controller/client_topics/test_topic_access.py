"""The exclusive right to produce: had, waited for, taken away, given back, and kept while leaders change."""

from __future__ import annotations

import asyncio

import pytest
from topics_stage import TOPIC, connected, run, run_with_brokers

from controller.broker import Broker
from controller.client import Access, Client, Producer, ProducerOptions
from controller.client.protocol import RELEASE_CLAIM
from controller.leading.errors import ProducerBusy
from controller.pb import topics_pb2 as pb
from txn.segment.errors import ProducerFenced

EXCLUSIVE = ProducerOptions(access=Access.EXCLUSIVE)
FENCING = ProducerOptions(access=Access.FENCING)
WAIT = ProducerOptions(access=Access.WAIT)


async def fenced(producer: Producer) -> None:
    """Returns when a producer has lost its right, and knows it."""
    await asyncio.wait([producer.running])
    with pytest.raises(ProducerFenced):
        producer.send(b"x")


def test_one_at_a_time() -> None:
    async def scenario(client: Client) -> None:
        first = await client.producer(TOPIC, options=EXCLUSIVE)
        await first.send(b"1", key="k")
        with pytest.raises(ProducerBusy):
            await client.producer(TOPIC, options=EXCLUSIVE)
        shared = await client.producer(TOPIC)
        refused = shared.send(b"no", key="k")
        await fenced(shared)
        with pytest.raises(ProducerFenced):
            await refused
        waiting = asyncio.create_task(client.producer(TOPIC, options=WAIT))
        await client.topics.split(TOPIC, 0)
        await first.send(b"2", key="k")
        assert not waiting.done()
        await first.close()
        second = await waiting
        await second.send(b"3", key="k")
        await second.close()
        async with await client.producer(TOPIC) as shared:
            await shared.send(b"4", key="k")

    run(scenario)


def test_the_right_is_taken_away() -> None:
    async def scenario(client: Client) -> None:
        await client.topics.create(TOPIC, segments=2)
        first = await client.producer(TOPIC, options=EXCLUSIVE)
        await asyncio.gather(*(first.send(b"x") for _ in range(4)))
        second = await client.producer(TOPIC, options=FENCING)
        await fenced(first)
        await asyncio.gather(*(second.send(b"x") for _ in range(4)))

    run(scenario)


def test_a_name_comes_back_to_its_right() -> None:
    async def scenario(client: Client) -> None:
        async with await client.producer(TOPIC, name="importer", first_sequence_id=0, options=EXCLUSIVE) as producer:
            await producer.send(b"x")
        async with await client.producer(TOPIC, name="importer", first_sequence_id=1, options=EXCLUSIVE) as producer:
            assert producer.last_sequence_id == 0
            await producer.send(b"y")

    run(scenario)


def test_the_right_outlives_its_leader() -> None:
    async def scenario(url: str, brokers: list[Broker]) -> None:
        async with connected(url) as client:
            state = await client.topics.create(TOPIC, segments=2)
            assert state.leader is not None
            producer = await client.producer(TOPIC, options=EXCLUSIVE)
            await producer.send(b"1")
            leader = next(each for each in brokers if each.address == state.leader.address)
            brokers.remove(leader)
            await leader.__aexit__(None, None, None)
            for number in range(10):
                await producer.send(b"%d" % number)
            with pytest.raises(ProducerBusy):
                await client.producer(TOPIC, options=EXCLUSIVE)
            await producer.close()
            async with await client.producer(TOPIC, options=EXCLUSIVE) as other:
                await other.send(b"x")

    run_with_brokers(2, scenario)


def test_who_has_lost_the_right_unnoticed_is_told() -> None:
    async def scenario(client: Client) -> None:
        first = await client.producer(TOPIC, name="first", first_sequence_id=0, options=EXCLUSIVE)
        await first.send(b"1", key="k")
        request = pb.ReleaseClaimRequest(topic=TOPIC, producer="first", claim=1)
        await client.topics._caller.call(RELEASE_CLAIM, request, "its grace is over", segment=TOPIC)
        await fenced(first)

    run(scenario)
