"""How a blocking client opens consumers."""

from __future__ import annotations

from collections.abc import Mapping

from controller.client.blocking.consumers import (
    BlockingCheckpointConsumer,
    BlockingCheckpointGroupConsumer,
    BlockingNamespaceQueueConsumer,
    BlockingNamespaceStreamConsumer,
    BlockingQueueConsumer,
    BlockingStreamConsumer,
)
from controller.client.blocking.loop import Loop
from controller.client.client import Client
from controller.client.consumers.checkpoints import Checkpoint
from controller.client.consumers.queue import QueueOptions
from controller.client.segment.credits import BYTES_MAX, ENTRIES_MAX
from controller.client.values import LATEST, Edge


class BlockingConsumerDoors:
    """The part of a blocking client that opens consumers of topics."""

    _client: Client
    _loop: Loop

    def stream_consumer(
        self,
        topic: str,
        subscription: str,
        *,
        name: str | None = None,
        start: Edge | None = LATEST,
        create: bool = True,
        buffer_entries: int = ENTRIES_MAX,
        buffer_bytes: int = BYTES_MAX,
    ) -> BlockingStreamConsumer:
        consumer = self._loop.call(
            lambda: self._client.stream_consumer(
                topic,
                subscription,
                name=name,
                start=start,
                create=create,
                buffer_entries=buffer_entries,
                buffer_bytes=buffer_bytes,
            )
        )
        return BlockingStreamConsumer(consumer, self._loop)

    def queue_consumer(
        self,
        topic: str,
        subscription: str,
        *,
        name: str | None = None,
        start: Edge | None = LATEST,
        create: bool = True,
        options: QueueOptions | None = None,
        buffer_entries: int = ENTRIES_MAX,
        buffer_bytes: int = BYTES_MAX,
    ) -> BlockingQueueConsumer:
        consumer = self._loop.call(
            lambda: self._client.queue_consumer(
                topic,
                subscription,
                name=name,
                start=start,
                create=create,
                options=options,
                buffer_entries=buffer_entries,
                buffer_bytes=buffer_bytes,
            )
        )
        return BlockingQueueConsumer(consumer, self._loop)

    def checkpoint_consumer(
        self,
        topic: str,
        *,
        start: Checkpoint | Edge = LATEST,
        create: bool = True,
        buffer_entries: int = ENTRIES_MAX,
        buffer_bytes: int = BYTES_MAX,
    ) -> BlockingCheckpointConsumer:
        consumer = self._loop.call(
            lambda: self._client.checkpoint_consumer(
                topic, start=start, create=create, buffer_entries=buffer_entries, buffer_bytes=buffer_bytes
            )
        )
        return BlockingCheckpointConsumer(consumer, self._loop)

    def checkpoint_group_consumer(
        self,
        topic: str,
        group: str,
        *,
        name: str | None = None,
        start: Checkpoint | Edge = LATEST,
        create: bool = True,
        buffer_entries: int = ENTRIES_MAX,
        buffer_bytes: int = BYTES_MAX,
    ) -> BlockingCheckpointGroupConsumer:
        consumer = self._loop.call(
            lambda: self._client.checkpoint_group_consumer(
                topic,
                group,
                name=name,
                start=start,
                create=create,
                buffer_entries=buffer_entries,
                buffer_bytes=buffer_bytes,
            )
        )
        return BlockingCheckpointGroupConsumer(consumer, self._loop)

    def namespace_stream_consumer(
        self,
        namespace: str,
        subscription: str,
        *,
        properties: Mapping[str, str] | None = None,
        name: str | None = None,
        start: Edge | None = LATEST,
        buffer_entries: int = ENTRIES_MAX,
        buffer_bytes: int = BYTES_MAX,
    ) -> BlockingNamespaceStreamConsumer:
        consumer = self._loop.call(
            lambda: self._client.namespace_stream_consumer(
                namespace,
                subscription,
                properties=properties,
                name=name,
                start=start,
                buffer_entries=buffer_entries,
                buffer_bytes=buffer_bytes,
            )
        )
        return BlockingNamespaceStreamConsumer(consumer, self._loop)

    def namespace_queue_consumer(
        self,
        namespace: str,
        subscription: str,
        *,
        properties: Mapping[str, str] | None = None,
        name: str | None = None,
        start: Edge | None = LATEST,
        options: QueueOptions | None = None,
        buffer_entries: int = ENTRIES_MAX,
        buffer_bytes: int = BYTES_MAX,
    ) -> BlockingNamespaceQueueConsumer:
        consumer = self._loop.call(
            lambda: self._client.namespace_queue_consumer(
                namespace,
                subscription,
                properties=properties,
                name=name,
                start=start,
                options=options,
                buffer_entries=buffer_entries,
                buffer_bytes=buffer_bytes,
            )
        )
        return BlockingNamespaceQueueConsumer(consumer, self._loop)
