"""Topics: producing and consuming, while segments stay as they are, and while they split and merge."""

from __future__ import annotations

import asyncio

from controller.client import (
    EARLIEST,
    AckTooLate,
    Client,
    Producer,
    QueueConsumer,
    StreamConsumer,
    StreamMessage,
)
from loadtest.arrivals.pump import Arrival
from loadtest.scenarios.scenario import Scenario, Stage
from txn.model.errors import TxnRetriable

SEGMENTS = 2
KEYS = 1_000
STREAM_CONSUMERS = 2
ACKNOWLEDGED_TOGETHER = 50
"""Messages that a stream consumer acknowledges at once."""
RESHAPED_EVERY_S = 3.0
SEGMENTS_MAX = 6
"""With so many the next change is a merge."""
STILL = {"enabled": False}
"""A topic that does not scale by itself."""


class Topics(Scenario):
    """Messages with keys, received by stream consumers that share a subscription, and by a queue consumer."""

    name = "topics"
    said = f"messages with keys to a topic of {SEGMENTS} segments; stream and queue consumers have each of them"
    uses = "brokers"
    rate = 100.0

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.topic = f"load-{self.name}-{stage.settings.mark}"
        self.client: Client
        self._producer: Producer
        self._consumers: list[StreamConsumer | QueueConsumer] = []

    async def prepare(self) -> None:
        self.client = await self.stage.client()
        await self.client.topics.create(self.topic, segments=SEGMENTS)
        await self.client.topics.set_policy(self.topic, STILL)
        self._producer = await self.client.producer(self.topic, create=False)
        for _ in range(STREAM_CONSUMERS):
            stream = await self.client.stream_consumer(self.topic, "stream", start=EARLIEST, create=False)
            self._consumers.append(stream)
            self.begin_beside(self._follow(stream))
        queue = await self.client.queue_consumer(self.topic, "queue", start=EARLIEST, create=False)
        self._consumers.append(queue)
        self.begin_beside(self._work_off(queue))

    async def serve(self, arrival: Arrival) -> None:
        arrival.operation = "send"
        key = f"key-{arrival.draw.randrange(KEYS)}"
        await self._producer.send(self.stamped(arrival), key=key)

    async def clear(self) -> None:
        await self._producer.close()
        for consumer in self._consumers:
            await consumer.close()
        await self.client.topics.delete(self.topic)

    async def _follow(self, consumer: StreamConsumer) -> None:
        while True:
            messages = await consumer.receive_many(ACKNOWLEDGED_TOGETHER)
            for message in messages:
                self._time("delivered to a stream", message.payload)
            await self._acknowledge(consumer, messages[-1])

    async def _acknowledge(self, consumer: StreamConsumer, last: StreamMessage) -> None:
        """Whoever has a segment next, while it is reshaped, has its messages again: that is no failure of the run."""
        began_s = asyncio.get_running_loop().time()
        try:
            await consumer.acknowledge_cumulative(last)
        except AckTooLate as error:
            self.event("acknowledged", began_s, error=type(error).__name__)
        else:
            self.event("acknowledged", began_s)

    async def _work_off(self, consumer: QueueConsumer) -> None:
        while True:
            for message in await consumer.receive_many(ACKNOWLEDGED_TOGETHER):
                self._time("delivered to a queue", message.payload)
                consumer.acknowledge(message)

    def _time(self, operation: str, payload: bytes) -> None:
        intended_s = self.stamp_of(payload)
        if intended_s is not None:
            self.event(operation, intended_s, len(payload))


class TopicsReshaping(Topics):
    """The same, while segments are split and merged all the time."""

    name = "topics-reshaping"
    said = f"the same, while a segment is split, or two are merged, every {RESHAPED_EVERY_S:g} s"

    async def prepare(self) -> None:
        await super().prepare()
        self.begin_beside(self._reshape())

    async def _reshape(self) -> None:
        grows = True
        while True:
            await asyncio.sleep(RESHAPED_EVERY_S)
            began_s = asyncio.get_running_loop().time()
            operation = "split" if grows else "merge"
            try:
                grows = await self._change(grows)
            except TxnRetriable as error:  # the layout is just being changed, or its leader is another one now
                self.event(operation, began_s, error=type(error).__name__)
            else:
                self.event(operation, began_s)
                self.stage.note(self.name, operation)

    async def _change(self, grows: bool) -> bool:
        """Splits or merges; whether the next change is a split again."""
        active = (await self.client.topics.describe(self.topic)).layout.active
        if grows:
            await self.client.topics.split(self.topic, self.draw.choice(active).segment_id)
            return len(active) + 1 < SEGMENTS_MAX
        place = self.draw.randrange(len(active) - 1)
        neighbours = [each.segment_id for each in active[place : place + 2]]
        await self.client.topics.merge(self.topic, neighbours)
        return len(active) - 1 <= SEGMENTS
