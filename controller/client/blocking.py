"""The client without `await`: for scripts, notebooks, and threads that have no event loop.

    with BlockingClient.connect("tidemark://127.0.0.1:6650") as client, client.producer("orders") as producer:
        producer.send(b"one")

A blocking client is an ordinary one on an event loop of its own, in a thread of its own. So it works where another
loop is running already, and any number of threads may use it at once. Every method has the name, the arguments, the
result and the errors of its original; what was awaited has happened when the call returns. Interrupting a call (Ctrl-C)
cancels it, and the client goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from controller.client.client import TIMEOUT_MS, Client, connect
from controller.client.confirmations import Confirmation
from controller.client.consumer import Consumer
from controller.client.embedded import embedded
from controller.client.errors import ClientClosed, EndReached
from controller.client.producer import Producer, ProducerOptions
from controller.client.reader import Reader
from controller.client.scope import TransactionScope
from controller.client.segments import SegmentStats
from controller.client.transaction import Transaction, TransactionState
from controller.client.values import EARLIEST, LATEST, Message, MessageId, Sent, Start, SubscriptionKind
from metastore.interface import StoreClosed
from metastore.interface.loop_thread import LoopThread
from txn.model.header import TxnState
from txn.model.ids import TxnId
from txn.model.position import Position

T = TypeVar("T")


class _Loop:
    """Where everything of a blocking client runs."""

    def __init__(self) -> None:
        self._thread = LoopThread()

    def call(self, work: Callable[[], Awaitable[T]]) -> T:
        """Does something on the loop, and waits for it."""
        try:
            return self._thread.call(_awaited(work))
        except StoreClosed:
            raise ClientClosed("this client was closed: open another one") from None

    def run(self, work: Callable[[], T]) -> T:
        """Does something on the loop that needs no waiting."""

        async def done() -> T:
            return work()

        return self.call(done)

    def stop(self) -> None:
        """Ends the loop, and whatever is under way."""
        self._thread.stop()


async def _awaited(work: Callable[[], Awaitable[T]]) -> T:
    return await work()


class BlockingConfirmation(Generic[T]):
    """What will become of something that was sent off."""

    def __init__(self, confirmation: Confirmation[T], loop: _Loop) -> None:
        self._confirmation = confirmation
        self._loop = loop

    def wait(self) -> T:
        """Returns when the outcome is known; raises what has failed."""
        return self._loop.call(lambda: _of(self._confirmation))


async def _of(confirmation: Confirmation[T]) -> T:
    return await confirmation


class BlockingTransaction:
    """A transaction; to be used in `with`, or ended by hand."""

    def __init__(self, txn: Transaction, loop: _Loop) -> None:
        self.txn = txn
        self._loop = loop

    @property
    def id(self) -> TxnId:
        return self.txn.id

    @property
    def deadline_ms(self) -> int:
        return self.txn.deadline_ms

    @property
    def state(self) -> TransactionState:
        return self.txn.state

    def commit(self) -> None:
        self._loop.call(self.txn.commit)

    def abort(self) -> None:
        self._loop.call(self.txn.abort)


class BlockingScope:
    """`with client.transaction() as txn`."""

    def __init__(self, scope: TransactionScope, loop: _Loop) -> None:
        self._scope = scope
        self._loop = loop

    def __enter__(self) -> BlockingTransaction:
        return BlockingTransaction(self._loop.call(self._scope.__aenter__), self._loop)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call(lambda: self._scope.__aexit__(kind, error, trace))


class _Closing:
    """What is closed at the end of its block."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class BlockingProducer(_Closing):
    """Sends to one segment."""

    def __init__(self, producer: Producer, loop: _Loop) -> None:
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
            inner = None if txn is None else txn.txn
            return self._producer.send(payload, properties=properties, txn=inner, sequence_id=sequence_id)

        return BlockingConfirmation(self._loop.call(sent), self._loop)

    def flush(self) -> None:
        self._loop.call(self._producer.flush)

    def close(self) -> None:
        self._loop.call(self._producer.close)


class _Receiving(_Closing):
    """Where messages come from; an iterator of them."""

    def __init__(self, source: Consumer | Reader, loop: _Loop) -> None:
        self._source = source
        self._loop = loop
        self._arrived: deque[Message] = deque()  # some that arrived while the wait for them was interrupted

    def receive(self, timeout_ms: int | None = None) -> Message:
        async def take() -> None:
            self._arrived.append(await self._source.receive(timeout_ms))

        while True:
            try:
                return self._arrived.popleft()
            except IndexError:
                self._loop.call(take)

    def __iter__(self) -> Iterator[Message]:
        while True:
            try:
                message = self.receive()
            except EndReached:
                return
            yield message

    def close(self) -> None:
        self._loop.call(self._source.close)


class BlockingConsumer(_Receiving):
    """Receives from one subscription of one segment; an iterator of messages."""

    def __init__(self, consumer: Consumer, loop: _Loop) -> None:
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
        inner = None if txn is None else txn.txn

        async def acknowledged() -> None:
            await self._consumer.acknowledge(*messages, txn=inner)

        self._loop.call(acknowledged)

    def acknowledge_cumulative(self, message: Message, *, txn: BlockingTransaction | None = None) -> None:
        inner = None if txn is None else txn.txn

        async def acknowledged() -> None:
            await self._consumer.acknowledge_cumulative(message, txn=inner)

        self._loop.call(acknowledged)

    def negative_acknowledge(self, *messages: Message) -> None:
        self._loop.run(lambda: self._consumer.negative_acknowledge(*messages))

    def seek(self, start: Start) -> None:
        self._loop.call(lambda: self._consumer.seek(start))

    def unsubscribe(self) -> None:
        self._loop.call(self._consumer.unsubscribe)


class BlockingReader(_Receiving):
    """Reads one segment; an iterator of messages."""

    @property
    def segment(self) -> str:
        return self._source.segment


class BlockingSegments:
    """What is done to segments as wholes."""

    def __init__(self, client: Client, loop: _Loop) -> None:
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


class BlockingClient(_Closing):
    """A client whose methods block; a context manager that closes it."""

    def __init__(self, opener: Callable[[], Coroutine[Any, Any, Client]]) -> None:
        self._loop = _Loop()
        try:
            self._client = self._loop.call(opener)
        except BaseException:
            self._loop.stop()
            raise
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

    def subscribe(
        self,
        topic: str,
        subscription: str,
        *,
        start: Start | None = LATEST,
        kind: SubscriptionKind = SubscriptionKind.EXCLUSIVE,
        name: str = "",
        prefetch: int = 1_000,
        create: bool = True,
    ) -> BlockingConsumer:
        consumer = self._loop.call(
            lambda: self._client.subscribe(
                topic, subscription, start=start, kind=kind, name=name, prefetch=prefetch, create=create
            )
        )
        return BlockingConsumer(consumer, self._loop)

    def reader(self, topic: str, *, start: Start = EARLIEST, follow: bool = True) -> BlockingReader:
        reader = self._loop.call(lambda: self._client.reader(topic, start=start, follow=follow))
        return BlockingReader(reader, self._loop)

    def close(self) -> None:
        """Closes the client and ends its loop and thread; calls of other threads end with ClientClosed."""
        try:
            self._loop.call(self._client.close)
        except ClientClosed:
            return  # closed already, or at this moment by another thread
        finally:
            self._loop.stop()
