"""Calls about topics as the wire has them, to any number of brokers; nothing is followed unless a test says so."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from google.protobuf.message import Message

from controller.broker import Broker, BrokerLimits
from controller.broker.topics.config import TopicsConfig
from controller.pb import topics_pb2 as pb
from metastore.interface import MetadataStore, open_store
from support.broker_helpers import Refused, WireClient, WireStream, config, serving
from txn.hosting import HostOptions

TOPIC = "topic://public/default/orders"
SERVICES = {
    method.name: (service.full_name, getattr(pb, method.input_type.name), getattr(pb, method.output_type.name))
    for service in pb.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
STILL = TopicsConfig(scalable_topic_auto_scale_enabled=False, scalable_topic_retention_minutes=-1)
"""Topics that change only when they are told to."""


class TopicWire:
    """One broker, and how it is asked."""

    def __init__(self, broker: Broker | None, client: WireClient) -> None:
        self._broker = broker
        self.client = client

    @property
    def broker(self) -> Broker:
        """The broker, where it is in this process."""
        assert self._broker is not None
        return self._broker

    async def call(self, method: str, **fields: Any) -> Any:
        """Asks; Refused if it fails."""
        service, request, answer = SERVICES[method]
        found = await self.client.call_raw(f"/{service}/{method}", request(**fields).SerializeToString())
        return answer.FromString(found)

    def watch(self, method: str, **fields: Any) -> WireStream:
        """A stream with one request."""
        service, request, answer = SERVICES[method]
        call: Any = self.client.channel.unary_stream(f"/{service}/{method}")
        return WireStream(call(request(**fields).SerializeToString()), answer)

    async def member(
        self, consumer: str, subscription: str = "sub", start: Any = pb.EARLIEST, topic: str = TOPIC, **fields: Any
    ) -> WireStream:
        """A consumer's stream that was told to open."""
        service, _, answer = SERVICES["Subscribe"]
        stream = WireStream(self.client.channel.stream_stream(f"/{service}/Subscribe")(), answer)
        opening = pb.OpenMember(topic=topic, subscription=subscription, consumer=consumer, start=start, **fields)
        await stream.say(pb.SubscribeRequest(open=opening))
        return stream


class Wires:
    """Several brokers on one store."""

    def __init__(self, wires: Sequence[TopicWire]) -> None:
        self.all = tuple(wires)

    async def leader(self, topic: str = TOPIC) -> TopicWire:
        """The one that leads a topic, as soon as that is decided."""
        while True:
            told = await self.all[0].call("DescribeTopic", topic=topic)
            for each in self.all:
                if told.leader.address == each.broker.address and topic_led(each, topic):
                    return each
            await asyncio.sleep(0)

    async def other(self, topic: str = TOPIC) -> TopicWire:
        """One that does not, and knows who does."""
        leader = await self.leader(topic)
        (other, *_) = (each for each in self.all if each is not leader)
        while (await other.call("DescribeTopic", topic=topic)).leader.address != leader.broker.address:
            await asyncio.sleep(0)
        return other

    async def created(self, topic: str = TOPIC, **fields: Any) -> TopicWire:
        """The leader of a topic that is new."""
        await self.all[0].call("CreateTopic", topic=topic, **fields)
        return await self.leader(topic)


def topic_led(wire: TopicWire, topic: str) -> bool:
    return wire.broker.topics is not None and any(str(each.topic) == topic for each in wire.broker.topics.led.values())


@asynccontextmanager
async def brokers(
    count: int = 2,
    *,
    topics: TopicsConfig = STILL,
    store: MetadataStore | None = None,
    limits: BrokerLimits | None = None,
    **settings: Any,
) -> AsyncIterator[Wires]:
    """So many brokers on one store."""
    async with AsyncExitStack() as stack:
        shared = store or await stack.enter_async_context(await open_store("memory://"))
        wires = []
        for number in range(count):
            made = config(name=f"broker-{number}", topics=topics, **settings)
            broker, client = await stack.enter_async_context(
                serving(made, store=shared, limits=limits, options=HostOptions(turn_s=0.2))
            )
            wires.append(TopicWire(broker, client))
        yield Wires(wires)


def run_brokers(scenario: Callable[[Wires], Awaitable[None]], count: int = 2, **settings: Any) -> None:
    """Runs a scenario with brokers of its own."""

    async def whole() -> None:
        async with brokers(count, **settings) as wires:
            await scenario(wires)

    asyncio.run(whole())


async def refusal(call: Awaitable[Any]) -> Refused:
    """How a call fails, which it has to."""
    try:
        await call
    except Refused as refused:
        return refused
    raise AssertionError("the call did not fail")


def layout_of(told: Message) -> dict[int, dict[str, Any]]:
    """The segments that a description of a topic says, by their ids."""
    found: Any = told
    return {int(key): each for key, each in json.loads(found.record)["segments"].items()}


def active(told: Message) -> list[int]:
    return [segment_id for segment_id, each in layout_of(told).items() if each["active"]]


def segment_ids(assignment: pb.Assignment) -> list[int]:
    return sorted(each.segment_id for each in assignment.segments)
