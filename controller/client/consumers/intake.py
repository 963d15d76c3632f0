"""The intake: where messages of any number of segments wait in one place for whoever receives them.

A source is a segment that something has come from. Sources take turns, one message each: a busy segment does not keep
others from being heard, and the order within each is kept.
"""

from __future__ import annotations

import asyncio
from typing import Generic, Protocol, TypeVar

from controller.client.errors import InvalidRequest
from txn.segment.bell import Bell

M = TypeVar("M")
M_co = TypeVar("M_co", covariant=True)


class Source(Protocol[M_co]):
    """Where messages come from."""

    def take(self) -> M_co | None:
        """The next one that is there; None if nothing is."""


class Intake(Generic[M]):
    """What has come and was not handed out."""

    def __init__(self) -> None:
        self._ready: dict[Source[M], None] = {}
        self._bell = Bell()
        self._ended: BaseException | None = None
        self._is_paused = False

    def pause(self) -> None:
        """Nothing is handed out until `resume`."""
        self._is_paused = True

    def resume(self) -> None:
        """What is there may be handed out."""
        self._is_paused = False
        self._bell.ring()

    def announce(self, source: Source[M]) -> None:
        """There is something to take from it, or there may be."""
        self._ready[source] = None
        self._bell.ring()

    def withdraw(self, source: Source[M]) -> None:
        """Nothing more is taken from it."""
        self._ready.pop(source, None)

    def end(self, error: BaseException) -> None:
        """Nothing more comes: who receives is told why. Only the first reason counts."""
        if self._ended is None:
            self._ended = error
            self._bell.ring()

    @property
    def ended(self) -> BaseException | None:
        """Why nothing more comes."""
        return self._ended

    def take(self) -> M | None:
        """The next message that is there."""
        while self._ready and not self._is_paused:
            source = next(iter(self._ready))
            del self._ready[source]
            message = source.take()
            if message is not None:
                self._ready[source] = None  # behind the others
                return message
        return None

    async def receive(self, timeout_ms: int | None = None) -> M:
        """The next message; TimeoutError if none comes in time."""
        async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
            while True:
                if self._ended is not None:
                    raise self._ended
                message = self.take()
                if message is not None:
                    return message
                await self._bell.wait()

    async def receive_many(self, messages_max: int, timeout_ms: int | None = None) -> list[M]:
        """Waits for one message, and brings what else is there, up to so many."""
        if messages_max < 1:
            raise InvalidRequest(f"{messages_max} messages at most: at least 1 is expected")
        messages = [await self.receive(timeout_ms)]
        while len(messages) < messages_max and self._ended is None and (message := self.take()) is not None:
            messages.append(message)
        return messages
