"""A reader: goes through a segment from some place on, without a subscription; where it is, only it knows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from controller.client.caller import Caller
from controller.client.errors import BrokerFailed, EndReached
from controller.client.protocol import READ
from controller.client.segment.credits import Budget
from controller.client.segment.inbox import Inbox
from controller.client.segment.member import SegmentMember
from controller.client.values import Message, Start, bound_of, checked_most
from controller.pb import broker_pb2 as pb
from txn.model.position import Position


def _nothing() -> None:
    return


class SegmentReader(SegmentMember):
    """Reads one segment. An iterator of messages."""

    def __init__(
        self,
        caller: Caller,
        segment: str,
        start: Start,
        is_following: bool,
        *,
        budget: Budget | None = None,
        arrived: Callable[[], None] = _nothing,
    ) -> None:
        """With a `budget` it is one of several that share it. `arrived` is called when there is something to take."""
        super().__init__(caller, segment, f"reader of {segment}")
        self._next_bound = bound_of(start)
        self._is_following = is_following
        self._inbox = Inbox(segment)
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._allowance = (budget or Budget()).join(self._room.set)
        self._tell_arrived = arrived
        self._has_ended = False
        self._start(READ, self)

    async def receive(self, timeout_ms: int | None = None) -> Message:
        """The next message; TimeoutError if none comes in time, EndReached behind the last one."""
        return (await self.receive_many(1, timeout_ms))[0]

    async def receive_many(self, messages_max: int, timeout_ms: int | None = None) -> list[Message]:
        """Waits for one message, and brings what else is there, up to so many."""
        checked_most(messages_max)
        async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
            while not (messages := self.take(messages_max)):
                if self._has_ended:
                    raise EndReached(f"everything in {self.segment} that can be read has been read")
                if self._ended is not None:
                    raise self._ended
                self._arrived.clear()
                await self._arrived.wait()
        return messages

    def take(self, messages_max: int) -> list[Message]:
        """The next messages that are there, up to so many."""
        entries, size_bytes = len(self._inbox), self._inbox.size_bytes
        messages = self._inbox.take(messages_max)
        if gone := entries - len(self._inbox):
            self._allowance.taken(gone, size_bytes - self._inbox.size_bytes)
            self._room.set()
        return messages

    @property
    def is_through(self) -> bool:
        """Whether everything in the segment, which is sealed, was taken."""
        return self._has_ended and not len(self._inbox)

    async def __aiter__(self) -> AsyncIterator[Message]:
        while True:
            try:
                message = await self.receive()
            except EndReached:
                return
            yield message

    async def close(self) -> None:
        """Ends."""
        await self._lane.stop(0.0)
        self._inbox.clear()
        self._allowance.leave()

    # -- what goes over the lane

    def opening(self) -> pb.ReadRequest:
        return pb.ReadRequest(segment=self.segment, start=self._next_bound, is_following=self._is_following)

    def begin(self, answer: pb.ReadResponse) -> int:
        if not answer.HasField("opened"):
            raise BrokerFailed(f"reader of {self.segment}: the broker answers before it has opened the stream")
        return answer.opened.term

    async def next_request(self) -> pb.ReadRequest | None:
        return None  # one request opens the stream, and there is no other

    async def hear(self, answer: pb.ReadResponse) -> None:
        for delivery in answer.deliveries.deliveries:
            while self._allowance.is_full:
                self._room.clear()
                await self._room.wait()
            size_bytes = len(delivery.payload)
            self._allowance.brought(size_bytes)
            position = self._inbox.add(delivery, size_bytes)
            # Where to go on, on another stream: what has come is kept.
            self._next_bound = bound_of(Position(position.ledger, position.entry + 1))
            self._arrived.set()
            self._tell_arrived()
        if answer.HasField("end"):
            self._has_ended = True
            self._arrived.set()
            self._tell_arrived()

    def interrupt(self) -> None:
        """What has come stays."""

    def is_at_end(self) -> bool:
        return self._has_ended or not self._is_following

    def _end(self, error: BaseException) -> None:
        if not self.running.cancelled() and self.running.exception() is None:
            self._has_ended = True
        self._allowance.rest()
        self._arrived.set()
        self._tell_arrived()
