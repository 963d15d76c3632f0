"""Producers that are started again, and brokers that go: each message is stored once, in its order."""

from __future__ import annotations

import asyncio

import pytest
from topics_stage import TOPIC, by_key, connected, keep, numbers, run, run_with_brokers

from controller.broker import Broker
from controller.client import Client, InvalidRequest, ProducerOptions, connect
from controller.client.topics.producer.hashing import hash_of_number
from controller.layout import segment_hash

KEYS = [f"key-{number}" for number in range(6)]


@pytest.mark.parametrize("batch", [1, 7])
def test_a_restart_across_splits_and_merges_stores_nothing_twice(batch: int) -> None:
    async def scenario(client: Client) -> None:
        await client.topics.create(TOPIC)
        await keep(client)
        options = ProducerOptions(batch_messages_max=batch)

        async def import_all(first: int, last: int) -> int:
            async with await client.producer(TOPIC, name="importer", options=options) as producer:
                sent = [
                    producer.send(b"%d" % number, key=KEYS[number % 6] if number % 4 else None, sequence_id=number)
                    for number in range(first, last)
                ]
                return sum([(await each).is_duplicate for each in sent])

        assert await import_all(0, 40) == 0
        await client.topics.split(TOPIC, 0)
        assert await import_all(20, 60) == 20
        await client.topics.split(TOPIC, 1)
        await client.topics.merge(TOPIC, [4, 2])
        assert await import_all(0, 80) == 60
        assert await import_all(0, 80) == 80
        async with await client.producer(TOPIC, name="importer", first_sequence_id=80) as producer:
            assert producer.last_sequence_id == 79
            await producer.send(b"80")
        read = await by_key(client)
        assert sorted(number for payloads in read.values() for number in numbers(payloads)) == list(range(81))
        for key in KEYS:
            assert numbers(read[key]) == sorted(numbers(read[key]))

    run(scenario)


@pytest.mark.parametrize("is_committed", [True, False])
def test_what_was_in_an_open_transaction_is_waited_for(is_committed: bool) -> None:
    async def scenario(client: Client) -> None:
        await client.topics.create(TOPIC)
        await keep(client)
        txn = await client.begin()
        async with await client.producer(TOPIC, name="importer", first_sequence_id=0) as producer:
            for number in range(10):
                producer.send(b"%d" % number, key=KEYS[number % 6], txn=txn)
        await client.topics.split(TOPIC, 0)
        opening = asyncio.create_task(client.producer(TOPIC, name="importer", first_sequence_id=0))
        async with await client.producer(TOPIC) as other:
            await other.send(b"100")
        assert not opening.done()
        await (txn.commit() if is_committed else txn.abort())
        async with await opening as producer:
            sent = [producer.send(b"%d" % number, key=KEYS[number % 6]) for number in range(10)]
            assert {(await each).is_duplicate for each in sent} == {is_committed}
        read = await by_key(client)
        assert sorted(number for payloads in read.values() for number in numbers(payloads)) == [*range(10), 100]

    run(scenario)


def test_numbers_are_the_applications_own() -> None:
    async def scenario(client: Client) -> None:
        async with await client.producer(TOPIC, name="importer") as producer:
            assert producer.last_sequence_id is None
            with pytest.raises(InvalidRequest, match="sequence_id"):
                producer.send(b"x")
            await producer.send(b"x", sequence_id=7)
            with pytest.raises(InvalidRequest, match="from 8 on"):
                producer.send(b"x", sequence_id=7)

    run(scenario)


def test_numbers_without_keys_are_spread_evenly() -> None:
    for count in (2, 4, 8):
        found = [0] * count
        for number in range(800):
            found[segment_hash(hash_of_number(number)) * count >> 16] += 1
        assert max(found) - min(found) <= 1
    assert len({hash_of_number(number) & 0xFFFF for number in range(1_000)}) > 990


def test_an_owner_that_goes_holds_nobody_up_for_long() -> None:
    async def scenario(url: str, brokers: list[Broker]) -> None:
        async with connected(url) as client:
            await client.topics.create(TOPIC, segments=3)
            await keep(client)
            async with await client.producer(TOPIC, options=ProducerOptions(batch_messages_max=5)) as producer:
                sent = []
                for number in range(300):
                    sent.append(producer.send(b"%d" % number, key=KEYS[number % 6]))
                    if number == 100:
                        await sent[-1]
                        await brokers.pop(0).__aexit__(None, None, None)
                    if number % 10 == 0:
                        await asyncio.sleep(0)
                for each in sent:
                    await each
            read = await by_key(client)
            for place, key in enumerate(KEYS):
                assert numbers(read[key]) == list(range(place, 300, 6))

    run_with_brokers(2, scenario)


def test_a_client_may_ask_whom_it_likes() -> None:
    async def scenario(url: str, brokers: list[Broker]) -> None:
        for broker in brokers:
            async with await connect(f"tidemark://{broker.address}") as client:
                topic = f"topic-of-{broker.address.replace(':', '.')}"
                await client.topics.create(topic)
                for other in brokers:
                    async with await connect(f"tidemark://{other.address}") as elsewhere:
                        state = await elsewhere.topics.describe(topic)
                        hottest = state.layout.active[-1].segment_id
                        state = await elsewhere.topics.split(topic, hottest)
                        assert state.layout.segment(hottest).children if hottest in state.layout.segments else True
                        async with await elsewhere.producer(topic) as producer:
                            assert (await producer.send(b"x")).id is not None

    run_with_brokers(2, scenario)
