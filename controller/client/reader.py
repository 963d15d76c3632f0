"""A reader: goes through a segment from some place on, without a subscription; where it is, only it knows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from controller.client.batches import unpack
from controller.client.caller import Caller
from controller.client.errors import BrokerFailed, EndReached
from controller.client.inbox import Inbox
from controller.client.lane import Lane, as_error
from controller.client.protocol import READ
from controller.client.values import Message, Start, bound_of, position_of
from controller.pb import broker_pb2 as pb
from txn.model.position import Position

READ_AHEAD_MAX = 1_000
"""Entries that wait to be taken; then the broker is held up."""


class Reader:
    """Reads one segment. A context manager that closes it; an iterator of messages."""

    def __init__(self, caller: Caller, segment: str, start: Start, is_following: bool) -> None:
        self.segment = segment
        self._caller = caller
        self._next_bound = bound_of(start)
        self._is_following = is_following
        self._inbox = Inbox()
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._has_ended = False
        self._ended: BaseException | None = None
        self._lane = Lane(caller, segment, READ, self, f"reader of {segment}")
        self._lane.task.add_done_callback(self._end)

    @property
    def running(self) -> asyncio.Task[None]:
        """Ends with it."""
        return self._lane.task

    async def wait_opened(self) -> None:
        """Returns when a broker has accepted it."""
        await self._lane.wait_opened(self._caller.request_timeout_s)

    async def receive(self, timeout_ms: int | None = None) -> Message:
        """The next message; TimeoutError if none comes in time, EndReached behind the last one."""
        async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
            while (taken := self._inbox.take()) is None:
                if self._has_ended:
                    raise EndReached(f"everything in {self.segment} that can be read has been read")
                if self._ended is not None:
                    raise self._ended
                self._arrived.clear()
                await self._arrived.wait()
        self._room.set()
        return taken[0]

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

    async def __aenter__(self) -> Reader:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

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
            while len(self._inbox) >= READ_AHEAD_MAX:
                self._room.clear()
                await self._room.wait()
            position = position_of(delivery.position)
            self._inbox.add(position, unpack(self.segment, delivery))
            # Where to go on, on another stream: what has come is kept.
            self._next_bound = bound_of(Position(position.ledger, position.entry + 1))
            self._arrived.set()
        if answer.HasField("end"):
            self._has_ended = True

    def interrupt(self) -> None:
        """What has come stays."""

    def is_at_end(self) -> bool:
        return self._has_ended or not self._is_following

    def _end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is None:
            self._has_ended = True
        self._ended = as_error(task, f"reader of {self.segment}")
        self._arrived.set()
