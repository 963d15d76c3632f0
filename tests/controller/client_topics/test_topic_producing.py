"""Producers of topics at real brokers: keys keep their order whatever becomes of the segments."""

from __future__ import annotations

import asyncio
import random

import pytest
from topics_stage import TOPIC, by_key, contents, keep, numbers, run

from controller.client import (
    Client,
    ClientBusy,
    ClientClosed,
    Compression,
    Confirmation,
    InvalidRequest,
    Producer,
    ProducerOptions,
    TopicMessageId,
    TopicSent,
    TransactionState,
)
from controller.layout import key_hash, segment_hash
from controller.topics.errors import OperationUnderWay, TopicNotFound

KEYS = [f"key-{number}" for number in range(8)]


async def change(client: Client, chance: random.Random) -> None:
    """Splits or merges something."""
    active = (await client.topics.describe(TOPIC)).layout.active
    try:
        if len(active) > 1 and (len(active) > 4 or chance.random() < 0.5):
            first = chance.randrange(len(active) - 1)
            await client.topics.merge(TOPIC, [active[first].segment_id, active[first + 1].segment_id])
        else:
            await client.topics.split(TOPIC, chance.choice(active).segment_id)
    except OperationUnderWay:
        return  # by itself


async def load(producer: Producer, is_enough: asyncio.Event, key_of: random.Random) -> list[TopicSent]:
    confirmations: list[Confirmation[TopicSent]] = []
    while not is_enough.is_set():
        await producer.wait_room()
        confirmations.append(producer.send(b"%d" % len(confirmations), key=key_of.choice(KEYS)))
        if not len(confirmations) % 20:
            await asyncio.sleep(0)
    return [await each for each in confirmations]


@pytest.mark.parametrize("batch", [1, 100])
def test_h16_the_order_of_a_key_outlives_splits_and_merges(batch: int) -> None:
    """H16: what is on its way to a sealed segment goes to its children in its order, before anything newer."""

    async def scenario(client: Client) -> None:
        await client.topics.create(TOPIC)
        await keep(client)
        chance, is_enough = random.Random(batch), asyncio.Event()
        options = ProducerOptions(batch_messages_max=batch, pending_messages_max=100)
        async with await client.producer(TOPIC, options=options) as producer:
            loading = asyncio.create_task(load(producer, is_enough, random.Random(7)))
            for _ in range(8):
                await change(client, chance)
            is_enough.set()
            sent = await loading
        state = await client.topics.describe(TOPIC)
        assert state.layout.epoch >= 6
        assert len({each.id.segment_id for each in sent if each.id is not None}) > 6
        read = await by_key(client)
        assert sum(map(len, read.values())) == len(sent)
        for payloads in read.values():
            assert numbers(payloads) == sorted(set(numbers(payloads)))
        found = {
            TopicMessageId(segment_id, message.id.position, message.id.batch_index): int(message.payload)
            for segment_id, messages in (await contents(client, state)).items()
            for message in messages
        }
        assert [found[each.id] for each in sent if each.id is not None] == list(range(len(sent)))

    run(scenario)


def test_messages_are_where_their_keys_lead() -> None:
    async def scenario(client: Client) -> None:
        state = await client.topics.create(TOPIC, segments=4)
        async with await client.producer("orders") as producer:
            sent = [await producer.send(b"x", key=key, properties={"a": "b"}, event_ms=7) for key in KEYS]
            free = [await producer.send(b"y") for _ in range(8)]
        for key, each in zip(KEYS, sent, strict=True):
            assert each.id is not None
            assert segment_hash(key_hash(key)) in state.layout.segment(each.id.segment_id).range
        assert [each.id.segment_id for each in free if each.id is not None] == [0, 1, 2, 3, 0, 1, 2, 3]
        messages = [message for some in (await contents(client, state)).values() for message in some]
        assert {message.key for message in messages} == {None, *KEYS}
        assert {(m.event_ms, m.properties.get("a")) for m in messages if m.key} == {(7, "b")}
        assert sorted(message.sequence_id for message in messages) == list(range(16))

    run(scenario)


def test_a_transaction_goes_on_in_the_children() -> None:
    async def scenario(client: Client) -> None:
        await client.topics.create(TOPIC)
        await keep(client)
        async with await client.producer(TOPIC) as producer:
            async with client.transaction() as txn:
                for number in range(50):
                    producer.send(b"%d" % number, key=KEYS[number % 8], txn=txn)
                await client.topics.split(TOPIC, 0)
                for number in range(50, 100):
                    producer.send(b"%d" % number, key=KEYS[number % 8], txn=txn)
            assert txn.state is TransactionState.COMMITTED
            aborted = await client.begin()
            await producer.send(b"1000", key="key-1", txn=aborted)
            await client.topics.merge(TOPIC, [1, 2])
            await producer.send(b"1001", key="key-1", txn=aborted)
            await aborted.abort()
            await producer.send(b"2000", key="key-1")
        read = await by_key(client)
        for place, key in enumerate(KEYS):
            assert [each for each in numbers(read[key]) if each < 1_000] == list(range(place, 100, 8))
        assert numbers(read["key-1"])[-1] == 2_000
        assert not {b"1000", b"1001"} & set(read["key-1"])

    run(scenario)


def test_a_transaction_may_be_large_over_many_segments() -> None:
    async def scenario(client: Client) -> None:
        await client.topics.create(TOPIC, segments=2)
        async with await client.producer(TOPIC, options=ProducerOptions(batch_messages_max=1)) as producer:
            async with client.transaction() as txn:
                for number in range(4_000):
                    await producer.wait_room()
                    producer.send(b"x", key=KEYS[number % 8], txn=txn)
            assert txn.state is TransactionState.COMMITTED

    run(scenario)


@pytest.mark.parametrize("compression", [Compression.ZLIB, Compression.ZSTD])
def test_compressed_entries(compression: Compression) -> None:
    async def scenario(client: Client) -> None:
        options = ProducerOptions(compression=compression, linger_ms=20)
        async with await client.producer(TOPIC, options=options) as producer:
            payloads = [b"%d" % number * 500 for number in range(10)]
            await asyncio.gather(*(producer.send(each, key="k") for each in payloads))
            await producer.send(b"!")
        (messages,) = (await contents(client, await client.topics.describe(TOPIC))).values()
        assert [message.payload for message in messages] == [*payloads, b"!"]
        assert messages[0].batch_size == 10
        (segment,) = (await client.topics.describe(TOPIC)).layout.active
        stats = await client.segments.stats((await client.topics.describe(TOPIC)).name_of(segment))
        assert stats.last_confirmed is not None

    run(scenario)


def test_the_budget_is_one_for_all_segments() -> None:
    async def scenario(client: Client) -> None:
        await client.topics.create(TOPIC, segments=4)
        options = ProducerOptions(pending_messages_max=10)
        async with await client.producer(TOPIC, options=options) as producer:
            sent = [producer.send(b"x") for _ in range(10)]
            with pytest.raises(ClientBusy, match="pending_messages_max"):
                producer.send(b"x")
            await producer.wait_room()
            producer.send(b"x")
            await producer.flush()
            assert all(each.is_done for each in sent)
        options = ProducerOptions(pending_bytes_max=1_000)
        async with await client.producer(TOPIC, options=options) as producer:
            producer.send(b"x" * 960)
            with pytest.raises(ClientBusy, match="pending_bytes_max"):
                producer.send(b"x")
        with pytest.raises(ClientClosed):
            producer.send(b"x")

    run(scenario)


def test_delayed_messages_go_alone() -> None:
    async def scenario(client: Client) -> None:
        async with await client.producer(TOPIC, options=ProducerOptions(linger_ms=20)) as producer:
            first, later, last = producer.send(b"1"), producer.send(b"2", deliver_at_ms=5_000), producer.send(b"3")
            ids = [(await each).id for each in (first, later, last)]
            assert len({each.position for each in ids if each is not None}) == 3
            with pytest.raises(InvalidRequest):
                producer.send(b"4", deliver_at_ms=1, deliver_after_ms=1)
            await producer.send(b"5", deliver_after_ms=60_000)
        (messages,) = (await contents(client, await client.topics.describe(TOPIC))).values()
        assert [message.deliver_at_ms for message in messages][:3] == [0, 5_000, 0]
        assert messages[3].deliver_at_ms >= messages[3].published_ms + 50_000

    run(scenario)


def test_a_topic_that_is_not_there() -> None:
    async def scenario(client: Client) -> None:
        with pytest.raises(TopicNotFound):
            await client.producer("nothing", create=False)
        for wrong in ("", "a/b", "segment://a/b/c/0000-ffff-0", "non-persistent://a/b/c", "orders-partition-1"):
            with pytest.raises(InvalidRequest):
                await client.producer(wrong)
        with pytest.raises(InvalidRequest, match="first_sequence_id"):
            await client.producer("orders", first_sequence_id=3)
        producer = await client.producer("orders")
        await producer.send(b"x")
        await client.topics.delete("orders")
        await asyncio.wait([producer.running])
        with pytest.raises(TopicNotFound):
            producer.send(b"y")
        async with await client.producer("orders") as again:
            sent = await again.send(b"z")
            assert sent.id is not None
            assert TopicMessageId.parse(str(sent.id)) == sent.id

    run(scenario)


def test_messages_without_a_key_that_can_share_an_entry_take_one_turn_together() -> None:
    async def scenario(client: Client) -> None:
        await client.topics.create(TOPIC, segments=2)
        producer = await client.producer(TOPIC, options=ProducerOptions(batch_messages_max=4))
        places = []
        for count in (3, 3, 6):
            sent = [await each for each in [producer.send(b"x") for _ in range(count)]]
            places.append([each.id.segment_id for each in sent if each.id is not None])
        first, second, third = places
        assert first == 3 * first[:1]
        assert second == 3 * second[:1]
        assert first[0] != second[0], "the next ones are the other segment's turn"
        assert third == 4 * first[:1] + 2 * second[:1], "an entry was full"

    run(scenario)
