"""The intake: where messages of any number of segments wait in one place for whoever receives them.

A source is a segment that something has come from. Sources take turns, one message each, or equal parts of what is
asked for at once: a busy segment does not keep others from being heard, and the order within each is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from controller.client.values import checked_most
from txn.segment.bell import Bell

M = TypeVar("M")
M_co = TypeVar("M_co", covariant=True)


class Source(Protocol[M_co]):
    """Where messages come from."""

    def take(self, messages_max: int) -> Sequence[M_co]:
        """The next ones that are there, up to so many."""


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

    def take(self, messages_max: int) -> list[M]:
        """The next messages that are there, up to so many."""
        taken: list[M] = []
        while self._ready and not self._is_paused and len(taken) < messages_max:
            part = -(-(messages_max - len(taken)) // len(self._ready))
            source = next(iter(self._ready))
            del self._ready[source]
            messages = source.take(part)
            if messages:
                self._ready[source] = None  # behind the others
                taken += messages
        return taken

    async def receive(self, timeout_ms: int | None = None) -> M:
        """The next message; TimeoutError if none comes in time."""
        return (await self.receive_many(1, timeout_ms))[0]

    async def receive_many(self, messages_max: int, timeout_ms: int | None = None) -> list[M]:
        """Waits for one message, and brings what else is there, up to so many."""
        checked_most(messages_max)
        async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
            while True:
                if self._ended is not None:
                    raise self._ended
                if messages := self.take(messages_max):
                    return messages
                await self._bell.wait()
