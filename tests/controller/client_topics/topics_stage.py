"""Topics at real brokers, on a store in memory: short words for what tests do with them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

from controller.broker import Broker, BrokerConfig
from controller.client import EARLIEST, Client, Message, TopicSubscriptionKind, connect, embedded
from controller.client.topics.layouts import TopicState
from controller.topics.errors import OperationUnderWay

TOPIC = "topic://public/default/orders"
WITHIN_S = 60.0

_numbers = itertools.count(1)


def new_store() -> str:
    return f"memory://client-topics-{next(_numbers)}"


def run(scenario: Callable[[Client], Awaitable[None]]) -> None:
    """A scenario with a client that has a broker of its own."""

    async def whole() -> None:
        async with asyncio.timeout(WITHIN_S), await embedded(new_store()) as client:
            await scenario(client)

    asyncio.run(whole())


def run_with_brokers(count: int, scenario: Callable[[str, list[Broker]], Awaitable[None]]) -> None:
    """A scenario with so many brokers, which are told by one URL."""

    async def whole() -> None:
        store = new_store()
        async with asyncio.timeout(WITHIN_S):
            brokers = [Broker(_config(store)) for _ in range(count)]
            try:
                for broker in brokers:
                    await broker.__aenter__()
                await scenario("tidemark://" + ",".join(broker.address for broker in brokers), brokers)
            finally:
                for broker in brokers:
                    await broker.__aexit__(None, None, None)

    asyncio.run(whole())


def _config(store: str) -> BrokerConfig:
    return BrokerConfig(store=store, listen="127.0.0.1:0", metrics_port=None, log="metastore", session_timeout_ms=2_000)


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Client]:
    async with await connect(url) as client:
        yield client


async def contents(client: Client, state: TopicState) -> dict[int, list[Message]]:
    """Everything that the segments of a topic have, by segment."""
    found = {}
    for segment in state.layout.segments.values():
        async with await client.segment_reader(state.name_of(segment), follow=False) as reader:
            found[segment.segment_id] = [message async for message in reader]
    return found


async def by_key(client: Client, topic: str = TOPIC) -> dict[str | None, list[bytes]]:
    """What the topic has of each key, ancestors first, as it would be read in order."""
    found: dict[str | None, list[bytes]] = {}
    for _, messages in sorted((await contents(client, await client.topics.describe(topic))).items()):
        for message in messages:
            found.setdefault(message.key, []).append(message.payload)
    return found


async def keep(client: Client, topic: str = TOPIC) -> None:
    """Lets nothing be forgotten: a subscription that nobody reads."""
    await client.topics.create_subscription(topic, "keeper", TopicSubscriptionKind.STREAM, EARLIEST)


async def patiently(change: Callable[[], Awaitable[TopicState]]) -> TopicState:
    """Changes a layout once nothing else does: what is pruned by itself is in the way for a moment."""
    while True:
        try:
            return await change()
        except OperationUnderWay:
            continue


def numbers(payloads: Iterable[bytes]) -> list[int]:
    return [int(payload) for payload in payloads]
