"""How a client opens consumers: what is asked for is checked, the topic looked for, the consumer waited for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TypeVar

from controller.client.consumers.assignments import Books
from controller.client.consumers.checkpoint import CheckpointConsumer
from controller.client.consumers.checkpoints import Checkpoint
from controller.client.consumers.group import CheckpointGroupConsumer
from controller.client.consumers.namespaces import NamespaceQueueConsumer, NamespaceStreamConsumer
from controller.client.consumers.queue import QueueConsumer, QueueOptions
from controller.client.consumers.stream import StreamConsumer
from controller.client.consumers.surroundings import Surroundings
from controller.client.errors import InvalidRequest
from controller.client.member import Member
from controller.client.names import checked_name
from controller.client.segment.credits import BYTES_MAX, ENTRIES_MAX, Budget
from controller.client.topics.names import namespace_of, topic_of
from controller.client.values import LATEST, Edge
from controller.layout import TopicName
from controller.pb import topics_pb2 as pb

M = TypeVar("M", bound=Member)


class ConsumerDoors(ABC):
    """The part of a client that opens consumers of topics.

    `buffer_entries` and `buffer_bytes` bound what comes ahead of being asked for, over all segments and topics of one
    consumer. A consumer's `name` is by what it comes back to what it had; without one it is a new one.
    """

    async def stream_consumer(
        self,
        topic: str,
        subscription: str,
        *,
        name: str | None = None,
        start: Edge | None = LATEST,
        create: bool = True,
        buffer_entries: int = ENTRIES_MAX,
        buffer_bytes: int = BYTES_MAX,
    ) -> StreamConsumer:
        """Receives each key's messages in order; a subscription's consumers divide the segments among themselves.

        The subscription begins at `start` if there is none yet; with None it has to exist.
        """
        around, parsed, own = self._lend(), topic_of(topic), self._consumer_name(subscription, name)
        budget = _budget(around, buffer_entries, buffer_bytes)
        await self._made_sure(around, parsed, create)
        books = Books(parsed, subscription, own, pb.STREAM, start)
        return await self._admitted(StreamConsumer(around, books, budget))

    async def queue_consumer(
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
    ) -> QueueConsumer:
        """Receives messages one by one, in no order, shared with all other consumers of the subscription.

        The subscription begins at `start` if there is none yet; with None it has to exist.
        """
        around, parsed, own = self._lend(), topic_of(topic), self._consumer_name(subscription, name)
        budget = _budget(around, buffer_entries, buffer_bytes)
        chosen = options or QueueOptions()
        return await self._admitted(QueueConsumer(around, parsed, subscription, own, budget, chosen, start, create))

    async def checkpoint_consumer(
        self,
        topic: str,
        *,
        start: Checkpoint | Edge = LATEST,
        create: bool = True,
        buffer_entries: int = ENTRIES_MAX,
        buffer_bytes: int = BYTES_MAX,
    ) -> CheckpointConsumer:
        """Reads a topic from somewhere on, without a subscription; keep its `checkpoint()` to go on there."""
        around, parsed = self._lend(), topic_of(topic)
        budget = _budget(around, buffer_entries, buffer_bytes)
        return await self._admitted(CheckpointConsumer(around, parsed, start, budget, create))

    async def checkpoint_group_consumer(
        self,
        topic: str,
        group: str,
        *,
        name: str | None = None,
        start: Checkpoint | Edge = LATEST,
        create: bool = True,
        buffer_entries: int = ENTRIES_MAX,
        buffer_bytes: int = BYTES_MAX,
    ) -> CheckpointGroupConsumer:
        """Reads its part of a topic together with the others of the group, and commits where it is.

        The group begins at `start` if there is none yet.
        """
        around, parsed, own = self._lend(), topic_of(topic), self._consumer_name(group, name)
        budget = _budget(around, buffer_entries, buffer_bytes)
        await self._made_sure(around, parsed, create)
        return await self._admitted(CheckpointGroupConsumer(around, parsed, group, own, start, budget))

    async def namespace_stream_consumer(
        self,
        namespace: str,
        subscription: str,
        *,
        properties: Mapping[str, str] | None = None,
        name: str | None = None,
        start: Edge | None = LATEST,
        buffer_entries: int = ENTRIES_MAX,
        buffer_bytes: int = BYTES_MAX,
    ) -> NamespaceStreamConsumer:
        """As `stream_consumer`, of all topics of a namespace that have these properties, whenever they come and go."""
        around, parsed, own = self._lend(), namespace_of(namespace), self._consumer_name(subscription, name)
        budget = _budget(around, buffer_entries, buffer_bytes)
        return await self._admitted(
            NamespaceStreamConsumer(around, parsed, properties or {}, subscription, own, budget, start)
        )

    async def namespace_queue_consumer(
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
    ) -> NamespaceQueueConsumer:
        """As `queue_consumer`, of all topics of a namespace that have these properties, whenever they come and go."""
        around, parsed, own = self._lend(), namespace_of(namespace), self._consumer_name(subscription, name)
        budget = _budget(around, buffer_entries, buffer_bytes)
        chosen = options or QueueOptions()
        return await self._admitted(
            NamespaceQueueConsumer(around, parsed, properties or {}, subscription, own, budget, chosen, start)
        )

    def _consumer_name(self, subscription: str, name: str | None) -> str:
        limits = self._lend().limits
        checked_name("the subscription", subscription, limits.name_bytes_max)
        own = self._new_name() if name is None else name
        return checked_name("the consumer's name", own, limits.name_bytes_max)

    async def _made_sure(self, around: Surroundings, topic: TopicName, creates: bool) -> None:
        """Returns when there is such a topic; TopicNotFound if there is none, and none is to be created."""
        view = around.layouts.take(topic)
        try:
            await view.found(creates, around.caller.request_timeout_s)
        finally:
            await around.layouts.give_back(view)

    @abstractmethod
    def _lend(self) -> Surroundings:
        """What consumers need of the client; ClientClosed if it is closed."""

    @abstractmethod
    def _new_name(self) -> str:
        """A name that nobody else has."""

    @abstractmethod
    async def _admitted(self, member: M) -> M:
        """One of the client's, from when it is open until it is closed."""


def _budget(around: Surroundings, entries: int, size: int) -> Budget:
    most = around.limits.permits_max
    if entries > most:
        raise InvalidRequest(f"buffer_entries={entries}: 1 to {most} (permits_max of the broker)")
    return Budget(entries, size)
