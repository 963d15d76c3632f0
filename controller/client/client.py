"""The client: connected to brokers, and the place where producers, consumers, readers and transactions come from."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self, TypeVar

from controller.client.caller import Caller
from controller.client.connections import Connections
from controller.client.consumers.doors import ConsumerDoors
from controller.client.consumers.surroundings import Surroundings
from controller.client.cursors import Cursors
from controller.client.errors import BrokerFailed, ClientClosed, InvalidRequest
from controller.client.lookout import Lookout
from controller.client.member import Member
from controller.client.names import checked_name, segment_of
from controller.client.protocol import BEGIN, CREATE_SEGMENT, DESCRIBE_TRANSACTION
from controller.client.routes import Routes
from controller.client.scope import Background, TransactionScope
from controller.client.segment.consumer import SegmentConsumer
from controller.client.segment.consuming import SegmentConsumerOptions
from controller.client.segment.producer import SegmentProducer, SegmentProducerOptions
from controller.client.segment.reader import SegmentReader
from controller.client.segments import Segments
from controller.client.settings import Settings, settings_of
from controller.client.topics.admin import Topics
from controller.client.topics.layouts import Layouts
from controller.client.topics.names import topic_of
from controller.client.topics.producer import Producer, ProducerOptions
from controller.client.transaction import Transaction
from controller.client.values import EARLIEST, LATEST, Start, SubscriptionKind
from controller.pb import broker_pb2 as pb
from metastore.coordination import Pace
from txn.hosting.errors import NoSuchSegment
from txn.model.errors import InvalidTimeout
from txn.model.header import TxnState
from txn.model.ids import TxnId

TIMEOUT_MS = 60_000
"""Of a transaction, where nothing else is said."""
MEMBERS_MAX = 10_000
"""Producers, consumers and readers of one client."""

_STATES = {pb.OPEN: TxnState.OPEN, pb.COMMITTED: TxnState.COMMITTED, pb.ABORTED: TxnState.ABORTED}


M = TypeVar("M", bound=Member)


async def connect(url: str, pace: Pace | None = None) -> Client:
    """A client of the brokers at `tidemark://host:port,host:port`: `async with await connect(url) as client`."""
    return await connected(settings_of(url), pace or Pace())


async def connected(settings: Settings, pace: Pace, stack: AsyncExitStack | None = None) -> Client:
    """A client by its settings; what is on the stack ends after it."""
    connections = Connections(settings.security, pace.clock)
    caller = Caller(connections, Routes(settings.addresses), pace, settings.request_timeout_s)
    try:
        told = await caller.describe()
    except BaseException:
        await connections.close()
        raise
    return Client(caller, told.limits, stack or AsyncExitStack())


class Client(ConsumerDoors):
    """Belongs to the event loop on which it was opened. A context manager that closes it, and all that came from it."""

    def __init__(self, caller: Caller, limits: pb.Limits, stack: AsyncExitStack) -> None:
        self._caller = caller
        self._limits = limits
        self._stack = stack
        self._background = Background()
        self._lookout = Lookout(caller)
        self._members: set[Member] = set()
        self._is_closed = False
        self._mark = caller.pace.new_mark()
        self._numbers = itertools.count(1)
        self._layouts = Layouts(caller)
        self.topics = Topics(caller, self._layouts)
        """Creating, describing, splitting, merging, deleting, listing, watching topics; policies."""
        self.segments = Segments(caller)
        """Creating, sealing, trimming, deleting, listing: what is done to segments as wholes."""
        self.cursors = Cursors(caller)
        """Subscriptions of single segments."""

    # -- transactions

    def transaction(self, timeout_ms: int = TIMEOUT_MS) -> TransactionScope:
        """`async with client.transaction() as txn`: commits at the end of the block, and aborts if it fails."""
        return TransactionScope(lambda: self.begin(timeout_ms), self._background)

    async def begin(self, timeout_ms: int = TIMEOUT_MS) -> Transaction:
        """A transaction that its caller ends; what is not ended within its time is aborted."""
        self._check_open()
        if not 1 <= timeout_ms <= self._limits.timeout_ms_max:
            raise InvalidTimeout(
                f"a transaction timeout of {timeout_ms} ms: 1 to {self._limits.timeout_ms_max} ms are allowed "
                "(timeout_ms_max of the broker)"
            )
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        request = pb.BeginTransactionRequest(timeout_ms=timeout_ms)
        begun = await self._caller.call(BEGIN, request, "begin a transaction")
        remaining_s = timeout_ms / 1000 - (loop.time() - began_s)
        return Transaction(self._caller, TxnId.parse(begun.txn_id), begun.deadline_ms, remaining_s)

    async def outcome(self, txn_id: TxnId | str) -> TxnState:
        """What has become of a transaction. TxnNotFound if it ended so long ago that nothing is left of it."""
        parsed = TxnId.parse(txn_id) if isinstance(txn_id, str) else txn_id
        request = pb.DescribeTransactionRequest(txn_id=str(parsed))
        told = await self._caller.call(DESCRIBE_TRANSACTION, request, f"look for transaction {parsed}")
        state = _STATES.get(told.state)
        if state is None:
            raise BrokerFailed(f"transaction {parsed} is in state {told.state}: use a newer version of this library")
        return state

    # -- topics

    async def producer(
        self,
        topic: str,
        *,
        name: str | None = None,
        first_sequence_id: int | None = None,
        create: bool = True,
        options: ProducerOptions | None = None,
    ) -> Producer:
        """A producer of a topic, which is created with one segment if there is none yet.

        A `name` is for applications that go on after a restart where they were: what is stored of the producer of that
        name already is not stored again. They number their messages themselves, at every `send`, or from
        `first_sequence_id` on. Without a name the producer is a new one.
        """
        own, first = self._checked_producer(name, first_sequence_id)
        self._check_open()
        found = topic_of(topic)
        used = options or ProducerOptions()

        def make() -> Producer:
            return Producer(
                self._caller,
                self._limits,
                self._layouts,
                found,
                own,
                used,
                is_new=name is None,
                first_sequence_id=first,
                create=create,
            )

        return await self._admitted(make())

    # -- single segments

    async def segment_producer(
        self,
        topic: str,
        *,
        name: str | None = None,
        first_sequence_id: int | None = None,
        create: bool = True,
        options: SegmentProducerOptions | None = None,
    ) -> SegmentProducer:
        """A producer of a segment by its full name, or of the first one of a topic; it is created if there is none yet.

        A `name` is for applications that go on after a restart where they were: the broker drops what it has from the
        producer of that name already. They number their messages themselves, at every `send`, or from
        `first_sequence_id` on. Without a name the producer is a new one.
        """
        own, first = self._checked_producer(name, first_sequence_id)
        segment = segment_of(topic)

        def make() -> SegmentProducer:
            return SegmentProducer(self._caller, self._limits, segment, own, options or SegmentProducerOptions(), first)

        return await self._opened(make, segment, create)

    async def segment_consumer(
        self,
        topic: str,
        subscription: str,
        *,
        start: Start | None = LATEST,
        kind: SubscriptionKind = SubscriptionKind.EXCLUSIVE,
        name: str = "",
        prefetch: int = 1_000,
        create: bool = True,
    ) -> SegmentConsumer:
        """A consumer of a subscription, which begins at `start` if there is none yet; with None it has to exist."""
        checked_name("the subscription", subscription, self._limits.name_bytes_max)
        segment = segment_of(topic)
        own = name or self._new_name()
        options = SegmentConsumerOptions(kind, start, own, prefetch)

        def make() -> SegmentConsumer:
            return SegmentConsumer(self._caller, self._limits, segment, subscription, options)

        return await self._opened(make, segment, create)

    async def segment_reader(self, topic: str, *, start: Start = EARLIEST, follow: bool = True) -> SegmentReader:
        """A reader. Without `follow` it ends with what can be read now.

        That is all that was committed before, but for what lies behind messages of an open transaction.
        """
        segment = segment_of(topic)
        # Where the end is now does not change with a broken stream.
        first = await self.segments.end(segment) if start is LATEST else start

        def make() -> SegmentReader:
            return SegmentReader(self._caller, segment, first, follow)

        return await self._opened(make, segment, create=False)

    def _checked_producer(self, name: str | None, first_sequence_id: int | None) -> tuple[str, int | None]:
        """A producer's name, and its first number; None if the application gives each message its own."""
        if name is None and first_sequence_id is not None:
            raise InvalidRequest("first_sequence_id is for producers with a name: nobody goes on where a new one was")
        own = self._new_name() if name is None else name
        checked_name("the producer's name", own, self._limits.name_bytes_max)
        return own, 0 if name is None else first_sequence_id

    async def _opened(self, make: Callable[[], M], segment: str, create: bool) -> M:
        """A new member; its segment is created where that is wanted and necessary."""
        self._check_open()
        try:
            return await self._admitted(make())
        except NoSuchSegment:
            if not create:
                raise
        request = pb.CreateSegmentRequest(segment=segment)
        await self._caller.call(CREATE_SEGMENT, request, f"create {segment}")
        return await self._admitted(make())

    def _lend(self) -> Surroundings:
        self._check_open()
        return Surroundings(self._caller, self._limits, self.topics, self._layouts, self.begin, self.producer)

    def _new_name(self) -> str:
        return f"{self._mark}-{next(self._numbers)}"

    async def _admitted(self, member: M) -> M:
        if len(self._members) >= MEMBERS_MAX:
            raise InvalidRequest(f"{len(self._members)} producers, consumers and readers (MEMBERS_MAX): close some")
        self._members.add(member)
        member.running.add_done_callback(lambda _: self._members.discard(member))
        try:
            await member.wait_opened()
        except BaseException:
            await member.close()
            raise
        return member

    # -- the end

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClientClosed("this client was closed: open another one")

    async def close(self) -> None:
        """Closes all that came from it: producers send what waits, acknowledgements are answered, aborts go through."""
        if self._is_closed:
            return
        self._is_closed = True
        async with self._stack:
            try:
                closing: list[Awaitable[None]] = [member.close() for member in self._members]
                await asyncio.gather(*closing, self._background.close(), self._lookout.close())
                await self._layouts.close()
            finally:
                await self._caller.connections.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
