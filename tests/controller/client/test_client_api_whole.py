"""The client against real brokers, on a store in memory: everything that applications do, with cuts and takeovers."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from controller.broker import Broker, BrokerConfig
from controller.client import (
    EARLIEST,
    LATEST,
    Client,
    ClientClosed,
    EndReached,
    MessageId,
    SegmentConsumer,
    SegmentProducerOptions,
    SubscriptionKind,
    TransactionState,
    connect,
    embedded,
)
from controller.errors import Unauthenticated
from support.ports import LOOPBACK, free_port
from support.proxy import Fault, Plan, Proxy, Way
from txn.hosting.errors import NoSuchSegment
from txn.model.errors import NotTheOwner, TxnConflict, TxnHasFailedOperations, TxnNotFound
from txn.model.header import TxnState
from txn.segment.errors import SegmentSealed
from txn.segment.subscription.errors import ConsumerBusy

_numbers = itertools.count(1)


def new_store() -> str:
    return f"memory://client-api-{next(_numbers)}"


def run(scenario: Callable[[Client], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with await embedded(new_store()) as client:
            await scenario(client)

    asyncio.run(whole())


async def taken(consumer: SegmentConsumer, count: int) -> list[bytes]:
    return [(await consumer.receive(10_000)).payload for _ in range(count)]


async def read(client: Client, topic: str) -> list[bytes]:
    async with await client.segment_reader(topic, follow=False) as reader:
        return [message.payload async for message in reader]


@asynccontextmanager
async def broker(store: str, listen: str = "127.0.0.1:0", advertise: str | None = None) -> AsyncIterator[Broker]:
    config = BrokerConfig(
        store=store,
        listen=listen,
        advertise=advertise,
        metrics_port=None,
        log="metastore",
        session_timeout_ms=2_000,
    )
    async with Broker(config) as running:
        yield running


def test_two_topics_change_together_or_not_at_all() -> None:
    async def scenario(client: Client) -> None:
        left, right = await client.segment_producer("left"), await client.segment_producer("tenant/space/right")
        txn = await client.begin()
        await asyncio.gather(left.send(b"no", txn=txn), right.send(b"no", txn=txn))
        await txn.abort()
        async with client.transaction() as txn:
            await asyncio.gather(left.send(b"yes", txn=txn), right.send(b"yes", txn=txn))
            assert await read(client, "left") == []
        assert await client.outcome(txn.id) is TxnState.COMMITTED
        for topic in ("left", "tenant/space/right"):
            async with await client.segment_consumer(topic, "s", start=EARLIEST) as consumer:
                message = await consumer.receive(10_000)
                assert (message.payload, message.txn_id) == (b"yes", txn.id)

    run(scenario)


@pytest.mark.parametrize("is_cumulative", [False, True], ids=["one by one", "cumulative"])
def test_an_abort_gives_back_and_leaves_nothing_behind(is_cumulative: bool) -> None:
    async def scenario(client: Client) -> None:
        producer = await client.segment_producer("orders")
        consumer = await client.segment_consumer("orders", "s", start=EARLIEST)
        await asyncio.gather(*(producer.send(b"%d" % number) for number in range(5)))
        for attempt in range(3):
            messages = sorted([await consumer.receive(10_000) for _ in range(5)], key=lambda message: message.id)
            assert [message.payload for message in messages] == [b"%d" % number for number in range(5)]
            txn = await client.begin()
            if is_cumulative:
                await consumer.acknowledge_cumulative(messages[-1 - attempt], txn=txn)
                if attempt:
                    consumer.negative_acknowledge(*messages[5 - attempt :])
            else:
                await consumer.acknowledge(*messages, txn=txn)
            await txn.abort()
        messages = sorted([await consumer.receive(10_000) for _ in range(5)], key=lambda message: message.id)
        await consumer.acknowledge_cumulative(messages[2])
        async with client.transaction() as txn:
            await consumer.acknowledge(*messages[3:], txn=txn)
        await consumer.close()
        stats = await client.segments.stats("orders")
        assert stats.subscriptions["s"].backlog_entries == 0

    run(scenario)


def test_two_transactions_never_both_get_one_message() -> None:
    async def scenario(client: Client) -> None:
        await (await client.segment_producer("orders")).send(b"x")
        consumer = await client.segment_consumer("orders", "s", start=EARLIEST)
        message = await consumer.receive(10_000)
        first, second = await client.begin(), await client.begin()
        await consumer.acknowledge(message, txn=first)
        await consumer.acknowledge(message, txn=first)
        with pytest.raises(TxnConflict, match=str(first.id)):
            await consumer.acknowledge(message, txn=second)
        with pytest.raises(TxnHasFailedOperations):
            await second.commit()
        await first.commit()
        assert (first.state, second.state) == (TransactionState.COMMITTED, TransactionState.ABORTED)

    run(scenario)


def test_messages_of_batches_are_acknowledged_one_by_one() -> None:
    async def scenario(client: Client) -> None:
        options = SegmentProducerOptions(batch_messages_max=4, linger_ms=1)
        async with await client.segment_producer("orders", options=options) as producer:
            sent = await asyncio.gather(*(producer.send(b"%d" % number) for number in range(4)))
        assert len({each.id.position for each in sent if each.id is not None}) == 1
        async with await client.segment_consumer("orders", "s", start=EARLIEST) as consumer:
            messages = [await consumer.receive(10_000) for _ in range(4)]
            await consumer.acknowledge(messages[1])
            async with client.transaction() as txn:
                await consumer.acknowledge(messages[3], txn=txn)
            await consumer.acknowledge_cumulative(messages[0])
        async with await client.segment_consumer("orders", "s") as consumer:
            assert await taken(consumer, 1) == [b"2"]

    run(scenario)


def test_seek_seal_trim_and_the_end() -> None:
    async def scenario(client: Client) -> None:
        producer = await client.segment_producer("orders")
        sent = [await producer.send(b"%d" % number) for number in range(4)]
        assert sent[2].id is not None
        place = MessageId.parse(str(sent[2].id))
        async with await client.segment_consumer("orders", "s", start=LATEST) as consumer:
            await consumer.seek(place)
            assert await taken(consumer, 2) == [b"2", b"3"]
            await consumer.seek(EARLIEST)
            messages = [await consumer.receive(10_000) for _ in range(4)]
            assert [message.payload for message in messages] == [b"0", b"1", b"2", b"3"]
            await client.segments.seal("orders")
            with pytest.raises(SegmentSealed):
                await producer.send(b"late")
            await consumer.acknowledge(*messages)
            with pytest.raises(EndReached):
                await consumer.receive(10_000)
            await consumer.unsubscribe()
        with pytest.raises(EndReached):
            await (await client.segment_reader("orders", start=LATEST)).receive(10_000)
        await client.segments.trim("orders", place)
        stats = await client.segments.stats("orders")
        assert stats.is_sealed
        assert stats.subscriptions == {}
        assert [each async for each in client.segments.list()] == [producer.segment]
        await client.segments.delete("orders")
        with pytest.raises(NoSuchSegment):
            await client.segment_reader("orders")

    run(scenario)


@pytest.mark.parametrize("logs", ["in the store", "local"])
def test_what_was_written_is_there_when_it_is_opened_again(logs: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        data_dir = tmp_path / "segments" if logs == "local" else None
        for number in range(3):
            async with await embedded(f"lmdb://{tmp_path}/store", data_dir=data_dir) as client:
                async with await client.segment_producer("orders") as producer, client.transaction() as txn:
                    producer.send(b"%d" % number, txn=txn)
                async with await client.segment_consumer("orders", "s", start=EARLIEST) as consumer:
                    message = await consumer.receive(10_000)
                    assert message.payload == b"%d" % number
                    await consumer.acknowledge(message)
                assert await read(client, "orders") == [b"%d" % each for each in range(number + 1)]

    asyncio.run(scenario())


def test_a_broker_that_wants_tokens_lets_in_who_has_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        (tmp_path / "tokens").write_text("ann secret\nbob other\n")
        (tmp_path / "ann").write_text("secret")
        (tmp_path / "bob").write_text("other")
        config = BrokerConfig(
            store=new_store(),
            listen=f"{LOOPBACK}:0",
            metrics_port=None,
            log="metastore",
            tokens_file=tmp_path / "tokens",
        )
        async with Broker(config) as running:
            url = f"tidemark://{running.address}"
            with pytest.raises(Unauthenticated):
                await connect(url)
            async with (
                await connect(f"{url}?token_file={tmp_path}/ann") as ann,
                await connect(f"{url}?token_file={tmp_path}/bob") as bob,
            ):
                theirs = await ann.begin()
                producer = await bob.segment_producer("orders")
                with pytest.raises(NotTheOwner, match=str(theirs.id)):
                    await producer.send(b"x", txn=theirs)
                await theirs.abort()

    asyncio.run(scenario())


def test_kinds_of_subscriptions() -> None:
    async def scenario(client: Client) -> None:
        producer = await client.segment_producer("orders")
        first = await client.segment_consumer("orders", "one", start=EARLIEST)
        with pytest.raises(ConsumerBusy):
            await client.segment_consumer("orders", "one")
        await first.close()
        shared = [
            await client.segment_consumer("orders", "many", start=EARLIEST, kind=SubscriptionKind.SHARED, prefetch=1)
            for _ in range(2)
        ]
        await asyncio.gather(*(producer.send(b"%d" % number) for number in range(2)))
        both = [await taken(consumer, 1) for consumer in shared]
        assert sorted(both) == [[b"0"], [b"1"]]

    run(scenario)


def test_outcomes_of_what_is_not_there_and_a_client_that_is_closed() -> None:
    async def whole() -> None:
        async with await embedded(new_store()) as client:
            with pytest.raises(TxnNotFound, match="md_0_7"):
                await client.outcome("md_0_7")
            producer = await client.segment_producer("orders")
            consumer = await client.segment_consumer("orders", "s")
            waiting = asyncio.create_task(consumer.receive())
            await asyncio.sleep(0)
        with pytest.raises(ClientClosed):
            await waiting
        with pytest.raises(ClientClosed):
            producer.send(b"x")
        with pytest.raises(ClientClosed):
            await client.begin()

    asyncio.run(whole())


@pytest.mark.parametrize("seed", range(3))
def test_connections_that_break_anywhere_double_nothing_and_lose_nothing(seed: int) -> None:
    """Receive, transform, send, over a proxy that cuts; counted past it."""

    async def scenario() -> None:
        choice = random.Random(seed)
        kinds = [Fault.CUT, Fault.RESET, Fault.HALF_CLOSE, Fault.REFUSE]
        listen = f"{LOOPBACK}:{free_port()}"
        async with (
            Proxy(listen) as proxy,
            broker(new_store(), listen, proxy.address),
            await connect(f"tidemark://{listen}") as direct,
        ):
            source = await direct.segment_producer("in")
            await asyncio.gather(*(source.send(b"%d" % number) for number in range(60)))
            for _ in range(8):
                way, count = choice.choice(list(Way)), choice.randrange(300, 3_000)
                proxy.script.append(Plan(choice.choice(kinds), way, count))
            async with await connect(f"tidemark://{proxy.address}") as client:
                await _transform(client, 60)
            assert proxy.connections > 4
            assert sorted(await read(direct, "out"), key=int) == [b"%d" % number for number in range(60)]
            assert (await direct.segments.stats("in")).subscriptions["s"].backlog_entries == 0

    asyncio.run(scenario())


def test_another_broker_takes_over_and_the_client_goes_on() -> None:
    async def scenario() -> None:
        store = new_store()
        async with broker(store) as second:
            async with broker(store) as first:
                client = await connect(f"tidemark://{first.address},{second.address}")
                producer = await client.segment_producer("orders")
                consumer = await client.segment_consumer("orders", "s", start=EARLIEST)
                txn = await client.begin()
                await producer.send(b"before", txn=txn)
            await producer.send(b"behind", txn=txn)
            await txn.commit()
            assert await taken(consumer, 2) == [b"before", b"behind"]
            await client.close()

    asyncio.run(scenario())


async def _transform(client: Client, count: int) -> None:
    consumer = await client.segment_consumer("in", "s", start=EARLIEST)
    producer = await client.segment_producer("out")
    done = 0
    while done < count:
        try:
            async with client.transaction() as txn:
                message = await consumer.receive(10_000)
                await producer.send(message.payload, txn=txn)
                await consumer.acknowledge(message, txn=txn)
        except TxnConflict:
            continue
        except TxnHasFailedOperations:
            continue
        done += 1
