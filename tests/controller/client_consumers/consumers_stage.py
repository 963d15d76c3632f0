"""Real brokers on a store in memory, clients of them, and topics that change only when they are told to."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Protocol

import pytest

from controller.broker import Broker, BrokerConfig
from controller.broker.topics.config import TopicsConfig
from controller.client import Client
from controller.client.client import connected
from controller.client.consumers import TopicMessage
from controller.client.segment.acks import Acks
from controller.client.segment.consumer import SegmentConsumer
from controller.client.settings import Settings
from controller.client.topics.producer import Producer
from controller.topics.errors import OperationUnderWay
from metastore.clock import SystemClock
from metastore.coordination import Pace

STILL = TopicsConfig(
    scalable_topic_auto_scale_enabled=False,
    scalable_topic_retention_minutes=-1,
    scalable_topic_consumer_session_grace_period_s=60.0,
)
TOPIC = "topic://public/default/orders"
PATIENCE_MS = 60_000
"""Longer than anything takes; a test that waits for so long has failed."""

_numbers = itertools.count(1)


class Stage:
    """Brokers, and what a test does with them."""

    def __init__(self, store: str, of_brokers: AsyncExitStack, of_clients: AsyncExitStack) -> None:
        self.store = store
        self.brokers: list[Broker] = []
        self._of_brokers = of_brokers
        self._of_clients = of_clients
        self._stops: dict[Broker, AsyncExitStack] = {}

    async def start(self, topics: TopicsConfig = STILL) -> Broker:
        """Another broker."""
        config = BrokerConfig(
            store=self.store,
            listen="127.0.0.1:0",
            metrics_port=None,
            log="metastore",
            session_timeout_ms=2_000,
            topics=topics,
        )
        own = AsyncExitStack()
        broker = await own.enter_async_context(Broker(config))
        self._of_brokers.push_async_callback(own.aclose)
        self._stops[broker] = own
        self.brokers.append(broker)
        return broker

    async def stop(self, broker: Broker) -> None:
        """One broker less."""
        self.brokers.remove(broker)
        await self._stops.pop(broker).aclose()

    async def client(self, pace: Pace | None = None) -> Client:
        """A client of all brokers."""
        addresses = tuple(each.address for each in self.brokers)
        used = pace or Pace(SystemClock(), random.Random(next(_numbers)))
        client = await connected(Settings(addresses), used)
        self._of_clients.push_async_callback(client.close)
        return client

    async def become_known(self, client: Client) -> None:
        """Returns when a client knows all brokers: by itself it asks for others only now and then."""
        caller = client._caller
        while not {each.address for each in self.brokers} <= set(caller.routes.brokers):
            await caller.describe()

    async def leader_of(self, client: Client, topic: str = TOPIC) -> Broker:
        """The broker that leads a topic."""
        while True:
            state = await client.topics.describe(topic)
            for each in self.brokers:
                if state.leader is not None and state.leader.address == each.address:
                    return each
            await asyncio.sleep(0.01)


@asynccontextmanager
async def staged(brokers: int = 1) -> AsyncIterator[Stage]:
    async with AsyncExitStack() as of_brokers, AsyncExitStack() as of_clients:
        stage = Stage(f"memory://consumers-{next(_numbers)}", of_brokers, of_clients)
        for _ in range(brokers):
            await stage.start()
        yield stage


def run(scenario: Callable[[Stage, Client], Awaitable[None]], brokers: int = 1) -> None:
    async def whole() -> None:
        async with staged(brokers) as stage, asyncio.timeout(100):
            await scenario(stage, await stage.client())

    asyncio.run(whole())


async def split(client: Client, segment_id: int, topic: str = TOPIC) -> None:
    """Splits a segment, when nothing else is under way."""
    await _when_quiet(lambda: client.topics.split(topic, segment_id))


async def merge(client: Client, segment_ids: Sequence[int], topic: str = TOPIC) -> None:
    """Merges segments, when nothing else is under way."""
    await _when_quiet(lambda: client.topics.merge(topic, segment_ids))


async def _when_quiet(change: Callable[[], Awaitable[object]]) -> None:
    while True:
        try:
            await change()
            return
        except OperationUnderWay:
            await asyncio.sleep(0.01)


class Receiver(Protocol):
    async def receive(self, timeout_ms: int | None = None) -> TopicMessage: ...


async def send(producer: Producer, numbers: Sequence[int], keys: int = 8) -> None:
    """Numbered messages; message n has key n modulo so many."""
    for sent in [producer.send(b"%d" % each, key=f"k{each % keys}") for each in numbers]:
        await sent


async def taken(consumer: Receiver, count: int) -> list[int]:
    """The numbers of so many messages, as they come."""
    return [int((await consumer.receive(PATIENCE_MS)).payload) for _ in range(count)]


async def nothing_comes(consumer: Receiver, for_ms: int = 100) -> bool:
    """Whether nothing comes for so long."""
    try:
        await consumer.receive(for_ms)
    except TimeoutError:
        return True
    return False


def in_order(numbers: Sequence[int], keys: int = 8) -> bool:
    """Whether each key's numbers only grow."""
    last: dict[int, int] = {}
    for each in numbers:
        if each <= last.get(each % keys, -1):
            return False
        last[each % keys] = each
    return True


async def until(is_so: Callable[[], bool]) -> None:
    """Returns when that is so."""
    async with asyncio.timeout(PATIENCE_MS / 1000):
        while not is_so():
            await asyncio.sleep(0.005)


@contextmanager
def held_up(consumer: SegmentConsumer) -> Iterator[None]:
    """No acknowledgement goes out; what was asked for meanwhile goes after."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Acks, "take", lambda acks, under_way_max: None)
        yield
    consumer._to_say.set()
