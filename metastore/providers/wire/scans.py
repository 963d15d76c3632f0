"""Streams of keys and records: one from each shard, read a portion ahead of their reader, put into one order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

import grpc.aio
from google.protobuf.message import DecodeError

from metastore.interface.errors import StoreFailed, Unavailable
from metastore.interface.values import Record
from metastore.pb import oxia_pb2, tidemark_pb2
from metastore.providers.merging import Merge, Place
from metastore.providers.wire.answers import OK, record_of, version_of
from metastore.providers.wire.caller import CONNECT_ATTEMPT_S, Caller
from metastore.providers.wire.channels import AnswerCall, ended_by_close
from metastore.providers.wire.failures import failure_of, no_answer
from metastore.providers.wire.protocol import from_wire

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
IndexedKey = tuple[str, str]
"""A secondary key, and the key of a record that has it."""

PULLED_PORTION = 256


class BrokenOff(Unavailable):
    """A stream ended before its end, and not because nobody answered: the server may be there, with the rest of it."""


class Source(Generic[T]):
    """The answers of one shard to one request. Always one portion is read ahead, and never more.

    A stream that fails before its first answer is asked for again. One that breaks off later cannot be: another would
    show another state of the shard. Who reads a state that is kept may ask for the rest of it by another source, which
    `goes_on`: it asks once, so that a server that is gone is found to be so as soon as without it.
    """

    def __init__(
        self,
        caller: Caller,
        shard_id: int,
        path: str,
        request: bytes,
        decode: Callable[[bytes], Sequence[T]],
        what: str,
        *,
        goes_on: bool = False,
    ) -> None:
        self._caller = caller
        self._shard_id = shard_id
        self._path = path
        self._request = request
        self._decode = decode
        self._what = what
        self._goes_on = goes_on
        self._call: AnswerCall | None = None
        self._leader = ""
        self._ahead: asyncio.Task[bytes | None] | None = None

    def start(self) -> None:
        """Asks the shard."""
        first = self._again() if self._goes_on else self._first()
        self._ahead = asyncio.create_task(first, name=f"{self._what} on shard {self._shard_id}")

    async def next(self) -> Sequence[T] | None:
        """The next portion, which may be empty; None at the end."""
        assert self._ahead is not None, "the source was not started"
        message = await asyncio.shield(self._ahead)
        if message is None:
            return None
        self._ahead = asyncio.create_task(self._read(), name=f"{self._what} on shard {self._shard_id}")
        try:
            return self._decode(message)
        except DecodeError:
            raise StoreFailed(f"{self._what} at {self._leader}: the answer cannot be read") from None

    async def close(self) -> None:
        """Ends the stream."""
        assert self._ahead is not None, "the source was not started"
        await _end(self._ahead)
        if self._call is not None:
            self._call.cancel()

    async def _first(self) -> bytes | None:
        deadline, backoff = self._caller.deadline(), self._caller.backoff()
        while True:
            try:
                self._leader = await self._caller.reach(self._shard_id, min(CONNECT_ATTEMPT_S, deadline.remaining_s))
            except Unavailable as error:
                if deadline.has_passed:
                    raise Unavailable(f"{self._what}: no answer in {deadline.timeout_s:g} s: {error}") from None
                continue
            self._call = self._caller.channels.answers(self._leader, self._path, self._request, None)
            try:
                return await self._message(deadline.remaining_s)
            except grpc.aio.AioRpcError as failed:
                failure = failure_of(failed)
            except TimeoutError:
                failure = no_answer(self._leader, deadline.timeout_s)
            what = f"{self._what} at {self._leader}"
            if not failure.is_passing:
                raise failure.refusal(what)
            await self._caller.pause(self._shard_id, failure, deadline, backoff, what)

    async def _again(self) -> bytes | None:
        self._leader = self._caller.topology.leader(self._shard_id)
        if not self._leader:
            raise Unavailable(f"{self._what} broke off, and shard {self._shard_id} has no leader now: begin anew")
        self._call = self._caller.channels.answers(self._leader, self._path, self._request, None)
        return await self._read()

    async def _read(self) -> bytes | None:
        try:
            return await self._message(self._caller.request_timeout_s)
        except grpc.aio.AioRpcError as failed:
            failure = failure_of(failed)
            if failure.is_passing:
                failure = replace(failure, kind=BrokenOff)
        except TimeoutError:
            failure = no_answer(self._leader, self._caller.request_timeout_s)
        raise failure.refusal(f"{self._what} broke off at {self._leader}, begin anew")

    async def _message(self, timeout_s: float) -> bytes | None:
        assert self._call is not None
        with ended_by_close():
            async with asyncio.timeout(timeout_s):
                message = await self._call.read()
        if message is grpc.aio.EOF:
            return None
        assert isinstance(message, bytes)
        return message


class Portions(Protocol[T_co]):
    """Something that is read in portions: a source, or what is made of sources."""

    def start(self) -> None:
        """Begins to read ahead."""

    async def next(self) -> Sequence[T_co] | None:
        """The next portion, which may be empty; None at the end."""

    async def close(self) -> None:
        """Ends it. It was started."""


class Pulled(Generic[T]):
    """Items that come one by one, in portions, one of which is put together ahead."""

    def __init__(self, pulled: AsyncGenerator[T, None]) -> None:
        self._pulled = pulled
        self._ahead: asyncio.Task[list[T]] | None = None

    def start(self) -> None:
        self._ahead = asyncio.create_task(self._pull())

    async def next(self) -> Sequence[T] | None:
        assert self._ahead is not None, "it was not started"
        portion = await asyncio.shield(self._ahead)
        self._ahead = asyncio.create_task(self._pull())
        return portion or None

    async def close(self) -> None:
        assert self._ahead is not None, "it was not started"
        await _end(self._ahead)
        await self._pulled.aclose()

    async def _pull(self) -> list[T]:
        portion: list[T] = []
        async for item in self._pulled:
            portion.append(item)
            if len(portion) == PULLED_PORTION:
                break
        return portion


async def _end(task: asyncio.Task[T]) -> None:
    """Ends a task whose outcome nobody wants to know any more."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()


async def items(portions: AsyncGenerator[Sequence[T], None]) -> AsyncGenerator[T, None]:
    """The items one by one. The portions end with them, however that is."""
    async with aclosing(portions):
        async for portion in portions:
            for item in portion:
                yield item


async def merged(sources: Sequence[Portions[T]], place: Callable[[T], Place]) -> AsyncGenerator[Sequence[T], None]:
    """The portions of all sources in one order. The sources end with it, however it ends."""
    if len(sources) == 1:
        async with aclosing(alone(sources[0])) as portions:
            async for portion in portions:
                yield portion
        return
    for source in sources:
        source.start()
    try:
        merge = Merge(len(sources), place)
        while True:
            while wanted := merge.wanted():
                for number in wanted:  # each was asked long ago: their answers come side by side
                    fed = await sources[number].next()
                    if fed is None:
                        merge.end(number)
                    else:
                        merge.feed(number, fed)
            ready = merge.take()
            if not ready:
                return
            yield ready
    finally:
        for source in sources:
            await source.close()


async def alone(source: Portions[T]) -> AsyncGenerator[Sequence[T], None]:
    """The portions of one source. It ends with them."""
    source.start()
    try:
        while (portion := await source.next()) is not None:
            yield portion
    finally:
        await source.close()


def decode_keys(message: bytes) -> list[str]:
    """A ListResponse."""
    return [from_wire(key) for key in oxia_pb2.ListResponse.FromString(message).keys]


def decode_raw_keys(message: bytes) -> Sequence[bytes]:
    """A ListResponse, of keys that need not be text."""
    return list(oxia_pb2.ListResponse.FromString(message).keys)


def decode_records(message: bytes) -> list[Record]:
    """A RangeScanResponse.

    An Oxia server keeps index entries of ephemeral records that are gone, and sends them as "not found": they are no
    records.
    """
    return [
        record_of(answer) for answer in oxia_pb2.RangeScanResponse.FromString(message).records if answer.status == OK
    ]


def decode_indexed_keys(message: bytes) -> list[IndexedKey]:
    """An IndexScanResponse of keys."""
    return [
        (from_wire(entry.secondary_index_key), from_wire(entry.key))
        for entry in tidemark_pb2.IndexScanResponse.FromString(message).entries
    ]


def decode_indexed_records(message: bytes) -> list[Record]:
    """An IndexScanResponse of records."""
    return [
        Record(from_wire(entry.key), entry.value, version_of(entry.version), from_wire(entry.secondary_index_key))
        for entry in tidemark_pb2.IndexScanResponse.FromString(message).entries
    ]
