"""A stream to the owner of a segment that lasts: when it breaks, or the owner changes, there is another one.

What is said on it is the business of a *party*: a producer, a consumer, a reader. It begins anew on every stream, and
knows itself what has to be said again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import grpc.aio
from google.protobuf.message import Message

from controller.client.caller import PASSING, Caller, failures_told
from controller.client.errors import BrokersUnavailable, ClientClosed
from metastore.dialling import AnswerCall, Method, StreamCall, is_cancelled, send
from txn.model.errors import SegmentUnavailable, TxnError, TxnRetriable

Q = TypeVar("Q", bound=Message)
A = TypeVar("A", bound=Message)
Q_co = TypeVar("Q_co", bound=Message, covariant=True)
A_contra = TypeVar("A_contra", bound=Message, contravariant=True)


class Party(Protocol[Q_co, A_contra]):
    """What goes over a lane."""

    def opening(self) -> Q_co:
        """The first request of a stream."""

    def begin(self, answer: A_contra) -> int:
        """Takes the first answer; returns the owner's term. BrokerFailed if it is none."""

    async def next_request(self) -> Q_co | None:
        """Waits for something to say; None when nothing more will be said."""

    async def hear(self, answer: A_contra) -> None:
        """Takes what comes; may take its time, which holds the broker up."""

    def interrupt(self) -> None:
        """The stream is gone, and nothing more comes from it."""

    def is_at_end(self) -> bool:
        """Whether a stream that the broker ends without an error has ended for good."""


class Lane(Generic[Q, A]):
    """One stream after the other, until the party is done or the broker refuses it for good."""

    def __init__(
        self,
        caller: Caller,
        segment: str,
        method: Method[Q, A],
        party: Party[Q, A],
        what: str,
        outlives: Callable[[TxnError], bool] = lambda _: False,
    ) -> None:
        self._caller = caller
        self._segment = segment
        self._method = method
        self._party = party
        self._what = what
        self._outlives = outlives
        """Whether another stream is worth trying after an error that does not pass by itself."""
        self._term = 0
        self._way = caller.way(segment)
        self._call: StreamCall[Q, A] | AnswerCall[Q, A] | None = None
        self._is_restarting = False
        """Whether the present stream was let go."""
        self._is_stopping = False
        self._opened = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name=what)

    @property
    def trouble(self) -> TxnError:
        """Why there is no stream."""
        return self._way.trouble

    @property
    def task(self) -> asyncio.Task[None]:
        """Ends when the lane does, with what the broker refuses it for."""
        return self._task

    async def wait_opened(self, timeout_s: float) -> None:
        """Returns when there was a stream; raises what refuses it, or what has been in the way for so long."""
        opened = asyncio.create_task(self._opened.wait())
        try:
            await asyncio.wait([opened, self._task], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            opened.cancel()
        if self._opened.is_set():
            return  # whatever has come of it since
        if self._task.done():
            raise as_error(self._task, self._what)
        raise self._caller.out_of_time(self._what, timeout_s, self.trouble)

    def restart(self) -> None:
        """Lets the present stream go for a new one."""
        if self._call is not None:
            self._is_restarting = True
            self._call.cancel()

    async def stop(self, timeout_s: float) -> None:
        """Returns when it has ended; it is cut off if it does not end by itself in time, or has nothing left to say."""
        self._is_stopping = True
        is_idle = self._call is None and self._party.is_at_end()
        if self._opened.is_set() and not is_idle:
            await asyncio.wait([self._task], timeout=timeout_s)
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        while not (self._is_stopping and self._party.is_at_end()):
            address = self._way.address
            try:
                await self._converse(address)
                return
            except TxnError as error:
                if not (self._is_passing(error) or self._outlives(error)):
                    raise
                self._party.interrupt()
                is_wanted, self._is_restarting = self._is_restarting, False
                if not is_wanted:
                    await self._way.turn(address, error)

    def _is_passing(self, error: TxnError) -> bool:
        """Whoever opens it is told of what may take long; what has been open waits for its place."""
        return isinstance(error, PASSING) or (isinstance(error, TxnRetriable) and self._opened.is_set())

    async def _converse(self, address: str) -> None:
        """One stream, from its beginning to its end. Returns when the party is done."""
        await self._caller.reach(address)
        self._call = call = self._open(address)
        try:
            with failures_told(f"{self._what} at {address}"):
                await self._begin(address, call)
                await self._exchange(call)
        except ClientClosed:
            if not self._is_restarting:
                raise
            raise BrokersUnavailable(f"{self._what}: the stream was let go before it was open") from None
        finally:
            self._call = None
            call.cancel()
        if not self._party.is_at_end():
            raise BrokersUnavailable(f"{self._what}: {address} ended the stream")

    def _open(self, address: str) -> StreamCall[Q, A] | AnswerCall[Q, A]:
        if self._method.is_two_way:
            return self._caller.connections.stream(address, self._method)
        return self._caller.connections.answers(address, self._method, self._party.opening())

    async def _begin(self, address: str, call: StreamCall[Q, A] | AnswerCall[Q, A]) -> None:
        """Takes the first answer. An owner of an earlier term than the last one's has been deposed."""
        try:
            async with asyncio.timeout(self._caller.request_timeout_s):
                if isinstance(call, grpc.aio.StreamStreamCall):
                    await send(call, self._party.opening())
                answer = await call.read()
        except TimeoutError:
            raise BrokersUnavailable(f"{self._what}: no answer from {address}") from None
        if not isinstance(answer, self._method.answer):
            raise BrokersUnavailable(f"{self._what}: {address} ended the stream")
        term = self._party.begin(answer)
        if term < self._term:
            raise SegmentUnavailable(
                f"{self._what}: {address} owned the segment under term {term}, and {self._term} has begun"
            )
        self._term = term
        self._caller.routes.learn_owner(self._segment, address, term)
        self._way = self._caller.way(self._segment)
        self._opened.set()

    async def _exchange(self, call: StreamCall[Q, A] | AnswerCall[Q, A]) -> None:
        """Says and hears, until the stream ends."""
        speaker: asyncio.Task[None] | None = None
        if isinstance(call, grpc.aio.StreamStreamCall):
            speaker = asyncio.create_task(self._speak(call), name=f"{self._what}: speak")
        try:
            await self._listen(call)
        finally:
            if speaker is not None:
                speaker.cancel()
                await asyncio.wait([speaker])
        if speaker is not None and not speaker.cancelled():
            speaker.result()

    async def _listen(self, call: StreamCall[Q, A] | AnswerCall[Q, A]) -> None:
        while True:
            try:
                answer = await call.read()
            except asyncio.CancelledError:
                if is_cancelled():
                    raise
                return  # the call was cancelled, not who listens
            if self._is_restarting or not isinstance(answer, self._method.answer):
                return  # what had come when the stream was let go is not of the new one; or this is its end
            await self._party.hear(answer)

    async def _speak(self, call: StreamCall[Q, A]) -> None:
        try:
            while (request := await self._party.next_request()) is not None:
                if not await send(call, request):
                    return  # the stream has ended, and the listener learns why
            if not call.done():
                await call.done_writing()
        except BaseException:
            call.cancel()  # or the listener would wait for ever for somebody who says no more
            raise


def as_error(task: asyncio.Task[None], what: str) -> BaseException:
    """Why a lane has ended."""
    if task.cancelled() or (error := task.exception()) is None:
        return ClientClosed(f"{what} is closed")
    return error
