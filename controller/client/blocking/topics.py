"""Producers of topics, and what is done to topics as wholes, without `await`."""

from __future__ import annotations

import builtins
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from typing import Any, TypeVar

from controller.client.blocking.loop import BlockingConfirmation, Closing, Loop
from controller.client.blocking.transactions import BlockingTransaction, inner
from controller.client.client import Client
from controller.client.confirmations import Confirmation
from controller.client.topics.descriptions import Explanation, Policy, TopicStats, TopicSubscriptionKind
from controller.client.topics.ids import TopicSent
from controller.client.topics.layouts import TopicState
from controller.client.topics.namespaces import TopicSetChange
from controller.client.topics.producer import Producer
from controller.client.values import LATEST, Edge

T = TypeVar("T")


class BlockingProducer(Closing):
    """Sends to a topic."""

    def __init__(self, producer: Producer, loop: Loop) -> None:
        self._producer = producer
        self._loop = loop

    @property
    def topic(self) -> str:
        return self._producer.topic

    @property
    def name(self) -> str:
        return self._producer.name

    @property
    def last_sequence_id(self) -> int | None:
        return self._producer.last_sequence_id

    def send(
        self,
        payload: bytes,
        *,
        key: str | None = None,
        properties: Mapping[str, str] | None = None,
        event_ms: int = 0,
        deliver_at_ms: int = 0,
        deliver_after_ms: int | None = None,
        sequence_id: int | None = None,
        txn: BlockingTransaction | None = None,
    ) -> TopicSent:
        """Sends a message, and waits for its confirmation."""
        return self.begin_send(
            payload,
            key=key,
            properties=properties,
            event_ms=event_ms,
            deliver_at_ms=deliver_at_ms,
            deliver_after_ms=deliver_after_ms,
            sequence_id=sequence_id,
            txn=txn,
        ).wait()

    def begin_send(
        self,
        payload: bytes,
        *,
        key: str | None = None,
        properties: Mapping[str, str] | None = None,
        event_ms: int = 0,
        deliver_at_ms: int = 0,
        deliver_after_ms: int | None = None,
        sequence_id: int | None = None,
        txn: BlockingTransaction | None = None,
    ) -> BlockingConfirmation[TopicSent]:
        """Sends a message as soon as there is room, and does not wait for its confirmation."""

        async def sent() -> Confirmation[TopicSent]:
            await self._producer.wait_room()
            return self._producer.send(
                payload,
                key=key,
                properties=properties,
                event_ms=event_ms,
                deliver_at_ms=deliver_at_ms,
                deliver_after_ms=deliver_after_ms,
                sequence_id=sequence_id,
                txn=inner(txn),
            )

        return BlockingConfirmation(self._loop.call(sent), self._loop)

    def flush(self) -> None:
        self._loop.call(self._producer.flush)

    def close(self) -> None:
        self._loop.call(self._producer.close)


class BlockingTopics:
    """What is done to topics as wholes."""

    def __init__(self, client: Client, loop: Loop) -> None:
        self._topics = client.topics
        self._loop = loop

    def create(
        self,
        topic: str,
        *,
        segments: int = 1,
        properties: Mapping[str, str] | None = None,
        subscriptions: Mapping[str, TopicSubscriptionKind] | None = None,
    ) -> TopicState:
        return self._loop.call(
            lambda: self._topics.create(topic, segments=segments, properties=properties, subscriptions=subscriptions)
        )

    def describe(self, topic: str) -> TopicState:
        return self._loop.call(lambda: self._topics.describe(topic))

    def list(self, namespace: str, properties: Mapping[str, str] | None = None) -> builtins.list[str]:
        async def listed() -> builtins.list[str]:
            return [topic async for topic in self._topics.list(namespace, properties)]

        return self._loop.call(listed)

    def delete(self, topic: str) -> None:
        self._loop.call(lambda: self._topics.delete(topic))

    def set_properties(self, topic: str, properties: Mapping[str, str]) -> TopicState:
        return self._loop.call(lambda: self._topics.set_properties(topic, properties))

    def split(self, topic: str, segment_id: int) -> TopicState:
        return self._loop.call(lambda: self._topics.split(topic, segment_id))

    def merge(self, topic: str, segment_ids: Sequence[int]) -> TopicState:
        return self._loop.call(lambda: self._topics.merge(topic, segment_ids))

    def policy(self, topic: str) -> Policy:
        return self._loop.call(lambda: self._topics.policy(topic))

    def set_policy(self, topic: str, auto_scale: Mapping[str, Any] | None) -> Policy:
        return self._loop.call(lambda: self._topics.set_policy(topic, auto_scale))

    def namespace_policy(self, namespace: str) -> Policy:
        return self._loop.call(lambda: self._topics.namespace_policy(namespace))

    def set_namespace_policy(self, namespace: str, auto_scale: Mapping[str, Any] | None) -> Policy:
        return self._loop.call(lambda: self._topics.set_namespace_policy(namespace, auto_scale))

    def set_retention(self, namespace: str, minutes: int | None) -> Policy:
        return self._loop.call(lambda: self._topics.set_retention(namespace, minutes))

    def create_subscription(
        self, topic: str, subscription: str, kind: TopicSubscriptionKind, start: Edge = LATEST
    ) -> None:
        self._loop.call(lambda: self._topics.create_subscription(topic, subscription, kind, start))

    def delete_subscription(self, topic: str, subscription: str) -> None:
        self._loop.call(lambda: self._topics.delete_subscription(topic, subscription))

    def seek(self, topic: str, subscription: str, time_ms: int) -> None:
        self._loop.call(lambda: self._topics.seek(topic, subscription, time_ms))

    def skip_all(self, topic: str, subscription: str) -> None:
        self._loop.call(lambda: self._topics.skip_all(topic, subscription))

    def stats(self, topic: str) -> TopicStats:
        return self._loop.call(lambda: self._topics.stats(topic))

    def explain(self, topic: str) -> Explanation:
        return self._loop.call(lambda: self._topics.explain(topic))

    def watch(self, topic: str) -> Generator[TopicState | None, None, None]:
        return self._each(lambda: self._topics.watch(topic))

    def watch_namespace(
        self, namespace: str, properties: Mapping[str, str] | None = None
    ) -> Generator[TopicSetChange, None, None]:
        return self._each(lambda: self._topics.watch_namespace(namespace, properties))

    def _each(self, begin: Callable[[], AsyncGenerator[T, None]]) -> Generator[T, None, None]:
        """What comes, one by one; whoever stops asking ends it."""
        source = self._loop.run(begin)
        try:
            while True:
                try:
                    yield self._loop.call(source.__anext__)
                except StopAsyncIteration:
                    return
        finally:
            self._loop.call(source.aclose)
