"""The writes of one shard: one stream of requests, several of them under way, answered in their order."""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import chain

import grpc.aio
from google.protobuf.message import DecodeError

from metastore.dialling import send
from metastore.interface.errors import StoreClosed, StoreError, StoreFailed, Unavailable
from metastore.pb import oxia_pb2 as pb
from metastore.providers.wire.backlog import Batch, Kind
from metastore.providers.wire.caller import CONNECT_ATTEMPT_S, Caller
from metastore.providers.wire.channels import CLOSED, StreamCall
from metastore.providers.wire.failures import (
    Failure,
    Fate,
    broken_protocol,
    connection_ended,
    failure_of,
    no_answer,
)
from metastore.providers.wire.lane import Lane
from metastore.providers.wire.protocol import WRITE_STREAM
from metastore.providers.wire.settings import Settings

REQUESTS_UNDER_WAY_MAX = 16
"""Requests of one stream that are sent and not answered."""


class WriteLane(Lane):
    """One shard's writes.

    What was sent when the stream breaks may or may not have been done: its callers get OutcomeUnknown, and nothing is
    ever sent twice unless the server said that it did nothing. What was not sent yet goes on the next stream.
    """

    def __init__(self, shard_id: int, caller: Caller, settings: Settings) -> None:
        super().__init__(shard_id, caller, settings)
        self._headers = (("namespace", settings.namespace), ("shard-id", str(shard_id)))
        self._sent: deque[Batch] = deque()
        self._has_answered = False
        self._wake = asyncio.Event()
        self._driver: asyncio.Task[None] | None = None
        self._listener: asyncio.Task[Failure] | None = None
        self._is_late = False

    def wake(self) -> None:
        if self._driver is None:
            self._driver = asyncio.create_task(self._drive(), name=f"writes of shard {self.shard_id}")
        self._wake.set()

    async def stop(self) -> None:
        if self._driver is not None:
            self._driver.cancel()
            await asyncio.wait({self._driver})
        for operation in chain.from_iterable(batch.operations for batch in self._sent):
            self.fail(operation, StoreClosed(f"{operation.what}: {CLOSED}: it may or may not have taken effect"))
        self._sent.clear()

    # -- sending

    async def _drive(self) -> None:
        """Keeps a stream as long as there is work, or the server keeps it."""
        while True:
            if not self.backlog:
                self._wake.clear()
                await self._wake.wait()
                continue
            try:
                leader = await self.caller.reach(self.shard_id, CONNECT_ATTEMPT_S)
                failure = await self._converse(leader)
            except Unavailable as error:
                self.in_trouble(str(error))
                continue
            except StoreError as error:
                self.give_up(error)
                continue
            self.in_trouble(failure.text)
            self._conclude(failure, leader)
            if failure.fate is not Fate.REFUSED:
                self.caller.topology.correct(self.shard_id, failure)
                await asyncio.sleep(self.backoff.next_s())

    async def _converse(self, leader: str) -> Failure:
        """One stream from its beginning to its end, which always has a reason."""
        self._has_answered = self._is_late = False
        call = self.caller.channels.stream(leader, WRITE_STREAM, self._headers)
        self._listener = asyncio.create_task(self._listen(call, leader), name=f"answers of shard {self.shard_id}")
        self._listener.add_done_callback(lambda _: self._wake.set())
        try:
            await self._send(call, self._listener)
            await asyncio.wait({self._listener})
        finally:
            self._listener.cancel()
        if self._listener.cancelled():
            return no_answer(leader, self._timeout_s)
        return self._listener.result()

    async def _send(self, call: StreamCall, listener: asyncio.Task[Failure]) -> None:
        while not listener.done():
            self._wake.clear()
            batch = self._next_batch()
            if batch is None:
                await self._wake.wait()
                continue
            self._sent.append(batch)
            if not await send(call, batch.encode()):
                return  # the stream has ended, and its listener learns why

    def _next_batch(self) -> Batch | None:
        """What is to be sent now, if anything is."""
        if not self.backlog or self.may_gather or len(self._sent) >= REQUESTS_UNDER_WAY_MAX:
            return None
        if self._sent and (self._sent[-1].is_exclusive or not self.backlog.fills_a_batch):
            return None
        return self.backlog.take(may_be_exclusive=not self._sent)

    # -- answers

    async def _listen(self, call: StreamCall, leader: str) -> Failure:
        """Hands out the answers; returns why there are no more."""
        try:
            while (message := await call.read()) is not grpc.aio.EOF:
                assert isinstance(message, bytes)
                if not self._sent:
                    return broken_protocol(leader, "answered a write that nobody sent")
                self._has_answered = True
                self.backoff.reset()
                self._answer(self._sent.popleft(), pb.WriteResponse.FromString(message), leader)
                self._wake.set()
        except grpc.aio.AioRpcError as failed:
            return failure_of(failed)
        except DecodeError:
            return broken_protocol(leader, "answered a write with something that cannot be read")
        return connection_ended(leader)

    def _answer(self, batch: Batch, message: pb.WriteResponse, leader: str) -> None:
        answers = {
            Kind.PUT: iter(message.puts),
            Kind.DELETE: iter(message.deletes),
            Kind.DELETE_RANGE: iter(message.delete_ranges),
        }
        for operation in batch.operations:
            answer = next(answers[operation.kind], None)
            if answer is None:
                self.fail(operation, StoreFailed(f"{operation.what} at {leader}: the server left out its answer"))
            else:
                self.settle(operation, answer)

    def _conclude(self, failure: Failure, leader: str) -> None:
        """Decides what becomes of the requests that were sent on a stream that has ended."""
        sent, self._sent = list(self._sent), deque()
        if not sent:
            return
        # A stream that has given answers was let in: its end can no longer mean that nothing was done.
        if failure.fate is Fate.NOT_DONE and not self._has_answered:
            for batch in reversed(sent):
                self.put_back(batch.operations)
        elif failure.fate is Fate.REFUSED:
            # The server refused the first one that it had not answered, and did nothing that came behind it.
            for batch in reversed(sent[1:]):
                self.put_back(batch.operations)
            self.refuse(sent[0], failure, leader)
        else:
            for operation in chain.from_iterable(batch.operations for batch in sent):
                self.fail(operation, failure.lost(f"{operation.what} at {leader}"))

    # -- deadlines

    def oldest_sent_s(self) -> float | None:
        return self._sent[0].operations[0].deadline_s if self._sent else None

    def give_up_sent(self) -> None:
        """An answer is overdue: the stream is given up, since those behind it can only come later still."""
        assert self._listener is not None
        self._listener.cancel()
