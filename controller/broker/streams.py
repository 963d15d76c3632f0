"""The streams of a broker: how many there may be, who they are, and how they are ended from elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from controller.errors import InvalidRequest, ProducerReplaced, TooManyStreams
from txn.model.errors import TxnError

M = TypeVar("M", bound=Message)

Context: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"


def parsed(kind: type[M], data: bytes) -> M:
    """A request; InvalidRequest if these bytes are none."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise InvalidRequest(f"{len(data)} bytes that are no {kind.DESCRIPTOR.name}: {error}") from None


class Stream:
    """One stream: requests come, responses go one at a time, and it may be ended from elsewhere."""

    def __init__(self, context: Context, request: bytes | None = None) -> None:
        self.context = context
        self.principal: str | None = None
        """Who has opened it, where there are principals."""
        self._request = request
        """The only one, where requests are no stream."""
        self._writing = asyncio.Lock()
        self._ending: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def accept(self) -> None:
        """Sends the headers, before anything can end the stream: gRPC ends none whose headers are under way, and with
        the first response they would be until the client has room for that."""
        await self.context.send_initial_metadata(())

    async def requests(self, kind: type[M]) -> AsyncIterator[M]:
        """The requests, until the client half-closes the stream."""
        while True:
            data: object = await self.context.read()
            if not isinstance(data, bytes):
                return  # the end
            yield parsed(kind, data)

    async def first(self, kind: type[M]) -> M:
        """The first request; without any the stream makes no sense."""
        if self._request is not None:
            return parsed(kind, self._request)
        async for request in self.requests(kind):
            return request
        raise InvalidRequest(f"a stream without any {kind.DESCRIPTOR.name}: the first one opens it")

    async def send(self, response: Message) -> None:
        """Sends a response; returns when the transport has taken it, which is when the client keeps up."""
        await self.send_together([response])

    async def send_together(self, responses: Iterable[Message]) -> None:
        """Sends responses that belong together: no other one comes between them."""
        async with self._writing:
            for each in responses:
                await self.context.write(each.SerializeToString())

    def end(self, error: Exception) -> None:
        """Ends the stream with this error, wherever it is."""
        if not self._ending.done():
            self._ending.set_exception(error)
            self._ending.exception()  # whether anybody is told depends on who is faster

    async def ended(self) -> None:
        """Raises the error with which the stream is ended from elsewhere."""
        await asyncio.shield(self._ending)


class Streams:
    """The streams of a broker that one limit is on."""

    def __init__(self, most: int, limit: str) -> None:
        self._most = most
        self._limit = limit
        """The name of the limit."""
        self._streams: set[Stream] = set()
        self._producers: dict[tuple[str, str], Stream] = {}
        self._refusal: TxnError | None = None
        self._none_left = asyncio.Event()
        self._none_left.set()

    def __len__(self) -> int:
        return len(self._streams)

    def add(self, stream: Stream) -> None:
        """Takes a stream in; TooManyStreams, or what the broker ends with."""
        if self._refusal is not None:
            raise self._refusal
        if len(self._streams) >= self._most:
            raise TooManyStreams(
                f"the broker has {len(self._streams)} streams, as many as it may have ({self._limit}): "
                "close some, or use another broker"
            )
        self._streams.add(stream)
        self._none_left.clear()

    def remove(self, stream: Stream) -> None:
        """A stream has ended."""
        self._streams.discard(stream)
        if not self._streams:
            self._none_left.set()

    @contextmanager
    def claimed(self, segment: str, producer: str, stream: Stream) -> Iterator[None]:
        """Within the block the producer of that name is on this stream; an earlier one, maybe long dead, is ended."""
        if not producer:
            yield
            return
        before = self._producers.get((segment, producer))
        self._producers[segment, producer] = stream
        if before is not None:
            before.end(ProducerReplaced(f"producer {producer!r} of {segment!r} has come on another stream"))
        try:
            yield
        finally:
            if self._producers.get((segment, producer)) is stream:
                del self._producers[segment, producer]

    async def end_all(self, error: TxnError) -> None:
        """Ends all streams, lets no other in, and returns when none is left."""
        self._refusal = error
        for stream in self._streams:
            stream.end(error)
        await self._none_left.wait()
