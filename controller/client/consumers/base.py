"""What all consumers of topics share: messages come in at one door, until somebody closes it."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Generic, TypeVar

from controller.client.consumers.intake import Intake
from controller.client.errors import ClientClosed, EndReached
from controller.client.member import Member

M = TypeVar("M")


class TopicConsumer(Member, Generic[M]):
    """Receives. A context manager that closes it; an iterator of messages."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._intake: Intake[M] = Intake()
        self._closing: asyncio.Task[None] | None = None
        self._closed = asyncio.Event()
        self._running = asyncio.create_task(self._wait_closed(), name=what)

    def __repr__(self) -> str:
        return f"<{self._what}>"

    @property
    def running(self) -> asyncio.Task[None]:
        return self._running

    async def receive(self, timeout_ms: int | None = None) -> M:
        """The next message; TimeoutError if none comes in time."""
        return await self._intake.receive(timeout_ms)

    async def receive_many(self, messages_max: int, timeout_ms: int | None = None) -> list[M]:
        """Waits for one message, and brings what else is there, up to so many."""
        return await self._intake.receive_many(messages_max, timeout_ms)

    async def __aiter__(self) -> AsyncIterator[M]:
        while True:
            try:
                message = await self.receive()
            except EndReached:
                return
            yield message

    def _fail(self, error: BaseException) -> None:
        """Nothing more comes: whoever receives is told why."""
        self._intake.end(error)

    def _check_open(self) -> None:
        if self._closing is not None:
            raise ClientClosed(f"{self._what} is closed")

    async def _close_once(self, work: Callable[[], Awaitable[None]]) -> None:
        """Closes; whoever closes while that goes on waits for it."""
        if self._closing is None:
            self._intake.end(ClientClosed(f"{self._what} is closed"))
            self._closing = asyncio.create_task(self._close_with(work), name=f"close {self._what}")
        await asyncio.shield(self._closing)

    async def _close_with(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        finally:
            self._closed.set()
            await asyncio.wait([self._running])

    async def _wait_closed(self) -> None:
        await self._closed.wait()

    @abstractmethod
    async def close(self) -> None:
        """Ends it in good order. May be called more than once."""
