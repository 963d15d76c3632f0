"""Brokers in this process on any store there is, over the wire where it is one; with the time of the wall."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from metastore.coordination import Backoff, Pace, View
from metastore.coordination.view import wait_gone
from metastore.interface import MetadataStore, StoreClosed, open_store
from support.stores import Subject
from txn.coordinator.coordinator import Coordinator
from txn.hosting import STORED, Host, HostOptions, NoSuchSegment, OwnedElsewhere, Segment
from txn.model import paths
from txn.model.errors import SegmentUnavailable, TxnRetriable
from txn.model.ids import TxnId
from txn.segment.buffer import Published
from txn.segment.entry import Entry
from txn.segment.log import StoredLogs
from txn.segment.subscription import Delivery, InitialPosition, Subscription, SubscriptionKind

SESSION_MS = 2_000
"""The least that every store allows: so long a dead broker is missed."""
OPTIONS = HostOptions(session_timeout_ms=SESSION_MS, turn_s=0.1, wait_s=5.0, retention_ms=500)
TIMEOUT_MS = 60_000
ATTEMPTS_MAX = 60
WITHIN_S = 60.0

_numbers = itertools.count()

T = TypeVar("T")


class Broker:
    """A broker with a store object of its own, where the store can have several."""

    def __init__(self, name: str, store: MetadataStore) -> None:
        self.name = name
        self.store = store
        self.host = Host(store, {STORED: StoredLogs(store)}, name, f"{name}:1", options=OPTIONS)
        self._is_up = asyncio.Event()
        self._task = asyncio.create_task(self._serve())

    async def _serve(self) -> None:
        async with self.host:
            self._is_up.set()
            await asyncio.Event().wait()

    async def is_up(self) -> None:
        up = asyncio.ensure_future(self._is_up.wait())
        await asyncio.wait({up, self._task}, return_when=asyncio.FIRST_COMPLETED)
        up.cancel()
        if self._task.done():
            self._task.result()

    async def stop(self) -> None:
        """In good order: it lets go of everything."""
        await self._end()
        await self.store.close()

    async def die(self) -> None:
        """From one moment to the next nothing of it reaches the store; its session is left to end by itself."""
        await self.store.close()
        await self._end()

    async def _end(self) -> None:
        """What has become of it nobody asks: without its store it cannot end well."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


class Fleet:
    """The brokers of a test, and a client that finds its way and repeats what may be repeated."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.brokers: list[Broker] = []
        self.prefix = f"segment://fleet/{next(_numbers):03}"
        """Names that no other test uses."""
        self.segments: list[str] = []
        self._sequences: dict[str, int] = {}

    # -- brokers

    async def start(self) -> Broker:
        broker = Broker(f"broker-{next(_numbers)}", await open_store(self.subject.url))
        self.brokers.append(broker)
        await broker.is_up()
        return broker

    async def replace(self, how: str) -> None:
        """The first broker ends, and another one takes over: `stop`, `die`, or nothing of that."""
        if how == "stay":
            return
        broker = self.brokers.pop(0)
        await (broker.stop() if how == "stop" else broker.die())
        if not self.brokers:
            await self.start()

    @property
    def store(self) -> MetadataStore:
        return self.brokers[0].store

    @property
    def coordinator(self) -> Coordinator:
        return self.brokers[0].host.coordinator

    async def clear(self) -> None:
        """Leaves nothing in the store."""
        await asyncio.gather(*(self.delete(segment) for segment in self.segments))

    async def close(self) -> None:
        for broker in self.brokers:
            await broker.stop()

    # -- segments

    async def create(self, name: str) -> str:
        """A segment of that name, which is completed."""
        segment = f"{self.prefix}/{name}"
        await self.brokers[0].host.create(segment)
        self.segments.append(segment)
        return segment

    async def delete(self, segment: str) -> None:
        async def delete() -> None:
            with suppress(NoSuchSegment):  # an attempt before has come to its end
                await self.brokers[0].host.delete(segment)

        await self.repeated(delete)

    async def find(self, segment: str) -> Segment:
        """The segment, wherever it is served."""
        return await self.repeated(lambda: self._find(segment))

    async def _find(self, segment: str) -> Segment:
        try:
            return await self.brokers[0].host.get(segment)
        except OwnedElsewhere as error:
            for each in self.brokers:
                if each.name == error.broker:
                    return await each.host.get(segment)
            raise SegmentUnavailable("its owner is gone") from error

    async def repeated(self, call: Callable[[], Awaitable[T]]) -> T:
        """The result of something, however often it takes."""
        backoff = Backoff(Pace())
        for _ in range(ATTEMPTS_MAX):
            try:
                return await call()
            except (TxnRetriable, StoreClosed):
                await backoff.pause()
        raise AssertionError("it is refused for ever")

    # -- messages

    async def send(self, segment: str, text: str, txn_id: TxnId | None = None) -> Published:
        """Publishes a message, once."""
        sequence = self._sequences[segment] = self._sequences.get(segment, -1) + 1
        return await self.send_again(segment, text, sequence, txn_id)

    async def send_again(self, segment: str, text: str, sequence: int, txn_id: TxnId | None = None) -> Published:
        entry = Entry(text.encode(), "producer", sequence, txn_id)

        async def publish() -> Published:
            return await (await self._find(segment)).publish(entry)

        return await self.repeated(publish)

    async def read(self, segment: str) -> list[str]:
        """What a reader sees that comes now and waits for nothing."""

        async def read() -> list[str]:
            reader = (await self._find(segment)).reader(InitialPosition.EARLIEST, is_following=False)
            found: list[str] = []
            while entries := await reader.read():
                found += [each.entry.payload.decode() for each in entries]
            return found

        return await self.repeated(read)

    async def read_until(self, segment: str, last: str) -> list[str]:
        """What a reader sees that waits for a certain message."""

        async def read() -> list[str]:
            reader = (await self._find(segment)).reader(InitialPosition.EARLIEST)
            found: list[str] = []
            while not found or found[-1] != last:
                found += [each.entry.payload.decode() for each in await reader.read()]
            return found

        return await self.repeated(read)

    async def subscription(self, segment: str, name: str = "sub") -> Subscription:
        async def subscribe() -> Subscription:
            return await (await self._find(segment)).subscribe(name, InitialPosition.EARLIEST)

        return await self.repeated(subscribe)

    async def receive(self, segment: str, last: str, name: str = "sub") -> list[Delivery]:
        """What a consumer gets that attaches now, up to a certain message."""
        consumer = (await self.subscription(segment, name)).attach("consumer", SubscriptionKind.EXCLUSIVE)
        try:
            consumer.permit(1_000)
            found: list[Delivery] = []
            while not found or found[-1].entry.payload.decode() != last:
                found += await consumer.receive(100)
            return found
        finally:
            await consumer.close()

    # -- transactions

    async def begin(self, timeout_ms: int = TIMEOUT_MS) -> TxnId:
        return await self.repeated(lambda: self.coordinator.begin(timeout_ms))

    async def end(self, txn_id: TxnId, *, is_committed: bool) -> None:
        async def end() -> None:
            await (self.coordinator.commit(txn_id) if is_committed else self.coordinator.abort(txn_id))

        await self.repeated(end)

    async def settled(self, *txn_ids: TxnId) -> None:
        """Waits until every participant has carried the outcomes out, and no operation is left."""
        for txn_id in txn_ids:
            operations = paths.below(paths.operations_path(txn_id), self.store.key_sorting)
            async with View(self.store, operations, partition_key=paths.partition(txn_id), pace=Pace()) as view:
                await view.news()
                while view.records:
                    await view.news()

    async def collected(self, *txn_ids: TxnId) -> None:
        """Waits until headers are gone, which go last; asserts that nothing is left of their transactions."""
        for txn_id in txn_ids:
            partition = paths.partition(txn_id)
            await wait_gone(self.store, paths.header_key(txn_id), partition_key=partition, pace=Pace())
            for path in (paths.operations_path(txn_id), paths.applied_path(txn_id)):
                below = paths.below(path, self.store.key_sorting)
                assert [key async for key in self.store.list(below, partition_key=partition)] == []


def texts(deliveries: Sequence[Delivery]) -> list[str]:
    return [each.entry.payload.decode() for each in deliveries]


@asynccontextmanager
async def fleet(subject: Subject, brokers: int = 1) -> AsyncIterator[Fleet]:
    """So many brokers; one where the store belongs to one process."""
    async with asyncio.timeout(WITHIN_S):
        made = Fleet(subject)
        try:
            for _ in range(brokers if subject.is_shared else 1):
                await made.start()
            yield made
            await made.clear()
        finally:
            await made.close()


def run(subject: Subject, scenario: Callable[[Fleet], Awaitable[None]], brokers: int = 1) -> None:
    """Runs a scenario with brokers of its own."""

    async def whole() -> None:
        async with fleet(subject, brokers) as made:
            await scenario(made)

    asyncio.run(whole())
