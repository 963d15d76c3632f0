"""Applications with brokers on every kind of store: receive, transform, send, while brokers change."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import AsyncExitStack

import pytest
from stores_stage import SESSION_MS, WITHIN_S

from controller.broker import Broker, BrokerConfig
from controller.client import EARLIEST, Client, connect
from support.ports import LOOPBACK, free_port
from support.stores import Subject
from txn.model.errors import TxnAbortable, TxnRetriable

MESSAGES = 12
CHANGE_AT = 5

_numbers = itertools.count()


class Brokers:
    """Two that share the store, or one after the other at the same address where only one can have it."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._stacks: list[AsyncExitStack] = []
        self.has_changed = False
        self.ports = [free_port() for _ in range(2 if subject.is_shared else 1)]

    async def start(self, port: int) -> None:
        config = BrokerConfig(
            store=self._subject.url,
            listen=f"{LOOPBACK}:{port}",
            metrics_port=None,
            log="metastore",
            session_timeout_ms=SESSION_MS,
        )
        stack = AsyncExitStack()
        await stack.enter_async_context(Broker(config))
        self._stacks.append(stack)

    async def change(self) -> None:
        """The one that was started first ends."""
        self.has_changed = True
        await self._stacks.pop(0).aclose()
        if not self._stacks:
            await self.start(self.ports[0])

    async def close(self) -> None:
        for stack in self._stacks:
            await stack.aclose()


async def transform(client: Client, brokers: Brokers, source: str, target: str) -> None:
    """Each message once, however many attempts it takes."""
    consumer = await client.segment_consumer(source, "s", start=EARLIEST)
    producer = await client.segment_producer(target)
    done = 0
    while done < MESSAGES:
        try:
            async with client.transaction() as txn:
                message = await consumer.receive(10_000)
                await producer.send(message.payload.upper(), txn=txn)
                await consumer.acknowledge(message, txn=txn)
                if done == CHANGE_AT and not brokers.has_changed:
                    await brokers.change()
        except (TxnAbortable, TxnRetriable):
            continue
        done += 1


@pytest.mark.timeout(WITHIN_S + 30)
def test_each_message_is_transformed_once_though_its_broker_goes(subject: Subject) -> None:
    async def scenario(client: Client, brokers: Brokers) -> None:
        number = next(_numbers)
        source, target = f"fleet/clients/in-{number}", f"fleet/clients/out-{number}"
        producer = await client.segment_producer(source)
        await asyncio.gather(*(producer.send(b"message %d" % each) for each in range(MESSAGES)))
        txn = await client.begin()
        await (await client.segment_producer(target)).send(b"never", txn=txn)
        await txn.abort()
        await transform(client, brokers, source, target)
        async with await client.segment_reader(target, follow=False) as reader:
            found = [message.payload async for message in reader]
        assert sorted(found) == sorted(b"MESSAGE %d" % each for each in range(MESSAGES))
        while (await client.segments.stats(source)).subscriptions["s"].backlog_entries:
            await asyncio.sleep(0)  # the owner learns of the commit a moment after the client
        await client.segments.delete(source)
        await client.segments.delete(target)

    async def whole() -> None:
        async with asyncio.timeout(WITHIN_S):
            brokers = Brokers(subject)
            try:
                for port in brokers.ports:
                    await brokers.start(port)
                addresses = ",".join(f"{LOOPBACK}:{port}" for port in brokers.ports)
                async with await connect(f"tidemark://{addresses}") as client:
                    await scenario(client, brokers)
            finally:
                await brokers.close()

    asyncio.run(whole())
