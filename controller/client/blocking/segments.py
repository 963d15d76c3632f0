"""Producers, consumers and readers of single segments, and segments as wholes, without `await`."""

from __future__ import annotations

from collections.abc import Mapping

from controller.client.blocking.loop import BlockingConfirmation, Closing, Loop, Receiving
from controller.client.blocking.transactions import BlockingTransaction, inner
from controller.client.client import Client
from controller.client.confirmations import Confirmation
from controller.client.segment.consumer import SegmentConsumer
from controller.client.segment.producer import SegmentProducer
from controller.client.segment.reader import SegmentReader
from controller.client.segments import SegmentStats
from controller.client.values import Message, MessageId, Sent, Start
from txn.model.position import Position


class BlockingSegmentProducer(Closing):
    """Sends to one segment."""

    def __init__(self, producer: SegmentProducer, loop: Loop) -> None:
        self._producer = producer
        self._loop = loop

    @property
    def segment(self) -> str:
        return self._producer.segment

    @property
    def name(self) -> str:
        return self._producer.name

    def send(
        self,
        payload: bytes,
        *,
        properties: Mapping[str, str] | None = None,
        txn: BlockingTransaction | None = None,
        sequence_id: int | None = None,
    ) -> Sent:
        """Sends a message, and waits for its confirmation."""
        return self.begin_send(payload, properties=properties, txn=txn, sequence_id=sequence_id).wait()

    def begin_send(
        self,
        payload: bytes,
        *,
        properties: Mapping[str, str] | None = None,
        txn: BlockingTransaction | None = None,
        sequence_id: int | None = None,
    ) -> BlockingConfirmation[Sent]:
        """Sends a message as soon as there is room, and does not wait for its confirmation."""

        async def sent() -> Confirmation[Sent]:
            await self._producer.wait_room()
            return self._producer.send(payload, properties=properties, txn=inner(txn), sequence_id=sequence_id)

        return BlockingConfirmation(self._loop.call(sent), self._loop)

    def flush(self) -> None:
        self._loop.call(self._producer.flush)

    def close(self) -> None:
        self._loop.call(self._producer.close)


class BlockingSegmentConsumer(Receiving[Message]):
    """Receives from one subscription of one segment; an iterator of messages."""

    def __init__(self, consumer: SegmentConsumer, loop: Loop) -> None:
        super().__init__(consumer, loop)
        self._consumer = consumer

    @property
    def segment(self) -> str:
        return self._consumer.segment

    @property
    def subscription(self) -> str:
        return self._consumer.subscription

    def receive_many(self, messages_max: int, timeout_ms: int | None = None) -> list[Message]:
        async def take() -> None:
            self._arrived.extend(await self._consumer.receive_many(messages_max, timeout_ms))

        if not self._arrived:
            self._loop.call(take)
        return [self._arrived.popleft() for _ in range(min(messages_max, len(self._arrived)))]

    def acknowledge(self, *messages: Message, txn: BlockingTransaction | None = None) -> None:
        async def acknowledged() -> None:
            await self._consumer.acknowledge(*messages, txn=inner(txn))

        self._loop.call(acknowledged)

    def acknowledge_cumulative(self, message: Message, *, txn: BlockingTransaction | None = None) -> None:
        async def acknowledged() -> None:
            await self._consumer.acknowledge_cumulative(message, txn=inner(txn))

        self._loop.call(acknowledged)

    def negative_acknowledge(self, *messages: Message) -> None:
        self._loop.run(lambda: self._consumer.negative_acknowledge(*messages))

    def seek(self, start: Start) -> None:
        self._loop.call(lambda: self._consumer.seek(start))

    def unsubscribe(self) -> None:
        self._loop.call(self._consumer.unsubscribe)


class BlockingSegmentReader(Receiving[Message]):
    """Reads one segment; an iterator of messages."""

    def __init__(self, reader: SegmentReader, loop: Loop) -> None:
        super().__init__(reader, loop)
        self._reader = reader

    @property
    def segment(self) -> str:
        return self._reader.segment


class BlockingSegments:
    """What is done to segments as wholes."""

    def __init__(self, client: Client, loop: Loop) -> None:
        self._segments = client.segments
        self._loop = loop

    def create(self, topic: str) -> None:
        self._loop.call(lambda: self._segments.create(topic))

    def delete(self, topic: str) -> None:
        self._loop.call(lambda: self._segments.delete(topic))

    def seal(self, topic: str) -> None:
        self._loop.call(lambda: self._segments.seal(topic))

    def trim(self, topic: str, before: Position | MessageId | Message) -> None:
        self._loop.call(lambda: self._segments.trim(topic, before))

    def stats(self, topic: str) -> SegmentStats:
        return self._loop.call(lambda: self._segments.stats(topic))

    def list(self, prefix: str = "") -> list[str]:
        async def listed() -> list[str]:
            return [segment async for segment in self._segments.list(prefix)]

        return self._loop.call(listed)
