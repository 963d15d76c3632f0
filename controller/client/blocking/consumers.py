"""Consumers of topics and namespaces without `await`."""

from __future__ import annotations

from typing import TypeVar

from controller.client.blocking.loop import BlockingConfirmation, Loop, Receiving
from controller.client.blocking.transactions import BlockingTransaction, inner
from controller.client.confirmations import Confirmation
from controller.client.consumers.base import TopicConsumer
from controller.client.consumers.checkpoint import CheckpointConsumer
from controller.client.consumers.checkpoints import Checkpoint
from controller.client.consumers.group import CheckpointGroupConsumer
from controller.client.consumers.messages import QueueMessage, StreamMessage, TopicMessage
from controller.client.consumers.namespaces import NamespaceQueueConsumer, NamespaceStreamConsumer
from controller.client.consumers.queue import QueueConsumer, QueueReceiving
from controller.client.consumers.stream import CumulativeStream, StreamConsumer
from controller.client.values import Edge

M = TypeVar("M")


class BlockingTopicReceiving(Receiving[M]):
    """What all consumers of topics share."""

    def __init__(self, consumer: TopicConsumer[M], loop: Loop) -> None:
        super().__init__(consumer, loop)
        self._receiving = consumer

    def receive_many(self, messages_max: int, timeout_ms: int | None = None) -> list[M]:
        async def take() -> None:
            self._arrived.extend(await self._receiving.receive_many(messages_max, timeout_ms))

        if not self._arrived:
            self._loop.call(take)
        return [self._arrived.popleft() for _ in range(min(messages_max, len(self._arrived)))]


class BlockingCumulativeStream(BlockingTopicReceiving[StreamMessage]):
    """What acknowledges up to a message."""

    def __init__(self, consumer: CumulativeStream, loop: Loop) -> None:
        super().__init__(consumer, loop)
        self._stream = consumer

    @property
    def subscription(self) -> str:
        return self._stream.subscription

    @property
    def name(self) -> str:
        return self._stream.name

    def acknowledge_cumulative(self, message: StreamMessage, *, txn: BlockingTransaction | None = None) -> None:
        self.begin_acknowledge_cumulative(message, txn=txn).wait()

    def begin_acknowledge_cumulative(
        self, message: StreamMessage, *, txn: BlockingTransaction | None = None
    ) -> BlockingConfirmation[None]:
        """Does not wait for the confirmation."""

        def begun() -> Confirmation[None]:
            return self._stream.acknowledge_cumulative(message, txn=inner(txn))

        return BlockingConfirmation(self._loop.run(begun), self._loop)


class BlockingStreamConsumer(BlockingCumulativeStream):
    """Receives from a topic in a subscription that its consumers divide among themselves."""

    def __init__(self, consumer: StreamConsumer, loop: Loop) -> None:
        super().__init__(consumer, loop)
        self._consumer = consumer

    @property
    def topic(self) -> str:
        return self._consumer.topic

    @property
    def segments(self) -> tuple[str, ...]:
        return self._loop.run(lambda: self._consumer.segments)

    def wait_attached(self) -> None:
        self._loop.call(self._consumer.wait_attached)

    def seek(self, to: Edge | int) -> None:
        self._loop.call(lambda: self._consumer.seek(to))

    def unsubscribe(self) -> None:
        self._loop.call(self._consumer.unsubscribe)

    def close(self, *, leave: bool = True) -> None:
        self._loop.call(lambda: self._consumer.close(leave=leave))


class BlockingNamespaceStreamConsumer(BlockingCumulativeStream):
    """Receives from all topics of a namespace that have certain properties."""

    def __init__(self, consumer: NamespaceStreamConsumer, loop: Loop) -> None:
        super().__init__(consumer, loop)
        self._consumer = consumer

    @property
    def namespace(self) -> str:
        return self._consumer.namespace

    @property
    def topics(self) -> tuple[str, ...]:
        return self._loop.run(lambda: self._consumer.topics)


class BlockingQueueReceiving(BlockingTopicReceiving[QueueMessage]):
    """What acknowledges message by message."""

    def __init__(self, consumer: QueueReceiving, loop: Loop) -> None:
        super().__init__(consumer, loop)
        self._queue = consumer

    @property
    def subscription(self) -> str:
        return self._queue.subscription

    @property
    def name(self) -> str:
        return self._queue.name

    def acknowledge(self, *messages: QueueMessage, txn: BlockingTransaction | None = None) -> None:
        self.begin_acknowledge(*messages, txn=txn).wait()

    def begin_acknowledge(
        self, *messages: QueueMessage, txn: BlockingTransaction | None = None
    ) -> BlockingConfirmation[None]:
        """Does not wait for the confirmation."""

        def begun() -> Confirmation[None]:
            return self._queue.acknowledge(*messages, txn=inner(txn))

        return BlockingConfirmation(self._loop.run(begun), self._loop)

    def negative_acknowledge(self, *messages: QueueMessage) -> None:
        self._loop.run(lambda: self._queue.negative_acknowledge(*messages))


class BlockingQueueConsumer(BlockingQueueReceiving):
    """Receives from a topic in a subscription that all its consumers share, message by message."""

    def __init__(self, consumer: QueueConsumer, loop: Loop) -> None:
        super().__init__(consumer, loop)
        self._consumer = consumer

    @property
    def topic(self) -> str:
        return self._consumer.topic

    @property
    def segments(self) -> tuple[str, ...]:
        return self._loop.run(lambda: self._consumer.segments)

    def wait_attached(self) -> None:
        self._loop.call(self._consumer.wait_attached)

    def seek(self, to: Edge | int) -> None:
        self._loop.call(lambda: self._consumer.seek(to))

    def unsubscribe(self) -> None:
        self._loop.call(self._consumer.unsubscribe)


class BlockingNamespaceQueueConsumer(BlockingQueueReceiving):
    """Receives from all topics of a namespace that have certain properties, message by message."""

    def __init__(self, consumer: NamespaceQueueConsumer, loop: Loop) -> None:
        super().__init__(consumer, loop)
        self._consumer = consumer

    @property
    def namespace(self) -> str:
        return self._consumer.namespace

    @property
    def topics(self) -> tuple[str, ...]:
        return self._loop.run(lambda: self._consumer.topics)


class BlockingCheckpointConsumer(BlockingTopicReceiving[TopicMessage]):
    """Reads a topic from a checkpoint on."""

    def __init__(self, consumer: CheckpointConsumer, loop: Loop) -> None:
        super().__init__(consumer, loop)
        self._consumer = consumer

    @property
    def topic(self) -> str:
        return self._consumer.topic

    def checkpoint(self) -> Checkpoint:
        return self._loop.run(self._consumer.checkpoint)

    def seek(self, to: Checkpoint | Edge) -> None:
        self._loop.call(lambda: self._consumer.seek(to))


class BlockingCheckpointGroupConsumer(BlockingTopicReceiving[StreamMessage]):
    """Reads its part of a topic, and commits where it is."""

    def __init__(self, consumer: CheckpointGroupConsumer, loop: Loop) -> None:
        super().__init__(consumer, loop)
        self._consumer = consumer

    @property
    def topic(self) -> str:
        return self._consumer.topic

    @property
    def subscription(self) -> str:
        return self._consumer.subscription

    @property
    def name(self) -> str:
        return self._consumer.name

    @property
    def segments(self) -> tuple[str, ...]:
        return self._loop.run(lambda: self._consumer.segments)

    def wait_attached(self) -> None:
        self._loop.call(self._consumer.wait_attached)

    def commit(self, *, txn: BlockingTransaction | None = None) -> None:
        async def committed() -> None:
            await self._consumer.commit(txn=inner(txn))

        self._loop.call(committed)

    def checkpoint(self) -> Checkpoint:
        return self._loop.run(self._consumer.checkpoint)

    def seek(self, to: Checkpoint | Edge) -> None:
        self._loop.call(lambda: self._consumer.seek(to))

    def unsubscribe(self) -> None:
        self._loop.call(self._consumer.unsubscribe)

    def close(self, *, leave: bool = True) -> None:
        self._loop.call(lambda: self._consumer.close(leave=leave))
