"""A client whose methods block."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from controller.client.blocking.consumer_doors import BlockingConsumerDoors
from controller.client.blocking.loop import Closing, Loop
from controller.client.blocking.segments import (
    BlockingSegmentConsumer,
    BlockingSegmentProducer,
    BlockingSegmentReader,
    BlockingSegments,
)
from controller.client.blocking.topics import BlockingProducer, BlockingTopics
from controller.client.blocking.transactions import BlockingScope, BlockingTransaction
from controller.client.client import TIMEOUT_MS, Client, connect
from controller.client.embedded import embedded
from controller.client.errors import ClientClosed
from controller.client.segment.producer import SegmentProducerOptions
from controller.client.topics.producer import ProducerOptions
from controller.client.values import EARLIEST, LATEST, Start, SubscriptionKind
from txn.model.header import TxnState
from txn.model.ids import TxnId


class BlockingClient(BlockingConsumerDoors, Closing):
    """A client whose methods block; a context manager that closes it."""

    def __init__(self, opener: Callable[[], Coroutine[Any, Any, Client]]) -> None:
        self._loop = Loop()
        try:
            self._client = self._loop.call(opener)
        except BaseException:
            self._loop.stop()
            raise
        self.topics = BlockingTopics(self._client, self._loop)
        self.segments = BlockingSegments(self._client, self._loop)

    @classmethod
    def connect(cls, url: str) -> BlockingClient:
        """A client of the brokers at `tidemark://host:port,host:port`."""
        return cls(lambda: connect(url))

    @classmethod
    def embedded(cls, store: str, *, data_dir: str | Path | None = None) -> BlockingClient:
        """A client of a broker in this process, on the metadata store at this URL."""
        return cls(lambda: embedded(store, data_dir=data_dir))

    def transaction(self, timeout_ms: int = TIMEOUT_MS) -> BlockingScope:
        return BlockingScope(self._client.transaction(timeout_ms), self._loop)

    def begin(self, timeout_ms: int = TIMEOUT_MS) -> BlockingTransaction:
        return BlockingTransaction(self._loop.call(lambda: self._client.begin(timeout_ms)), self._loop)

    def outcome(self, txn_id: TxnId | str) -> TxnState:
        return self._loop.call(lambda: self._client.outcome(txn_id))

    def producer(
        self,
        topic: str,
        *,
        name: str | None = None,
        first_sequence_id: int | None = None,
        create: bool = True,
        options: ProducerOptions | None = None,
    ) -> BlockingProducer:
        producer = self._loop.call(
            lambda: self._client.producer(
                topic, name=name, first_sequence_id=first_sequence_id, create=create, options=options
            )
        )
        return BlockingProducer(producer, self._loop)

    def segment_producer(
        self,
        topic: str,
        *,
        name: str | None = None,
        first_sequence_id: int | None = None,
        create: bool = True,
        options: SegmentProducerOptions | None = None,
    ) -> BlockingSegmentProducer:
        producer = self._loop.call(
            lambda: self._client.segment_producer(
                topic, name=name, first_sequence_id=first_sequence_id, create=create, options=options
            )
        )
        return BlockingSegmentProducer(producer, self._loop)

    def segment_consumer(
        self,
        topic: str,
        subscription: str,
        *,
        start: Start | None = LATEST,
        kind: SubscriptionKind = SubscriptionKind.EXCLUSIVE,
        name: str = "",
        prefetch: int = 1_000,
        create: bool = True,
    ) -> BlockingSegmentConsumer:
        consumer = self._loop.call(
            lambda: self._client.segment_consumer(
                topic, subscription, start=start, kind=kind, name=name, prefetch=prefetch, create=create
            )
        )
        return BlockingSegmentConsumer(consumer, self._loop)

    def segment_reader(self, topic: str, *, start: Start = EARLIEST, follow: bool = True) -> BlockingSegmentReader:
        reader = self._loop.call(lambda: self._client.segment_reader(topic, start=start, follow=follow))
        return BlockingSegmentReader(reader, self._loop)

    def close(self) -> None:
        """Closes the client and ends its loop and thread; calls of other threads end with ClientClosed."""
        try:
            self._loop.call(self._client.close)
        except ClientClosed:
            return  # closed already, or at this moment by another thread
        finally:
            self._loop.stop()
