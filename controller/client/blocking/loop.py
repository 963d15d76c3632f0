"""The loop that everything of a blocking client runs on, and what all of it has in common."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Generic, Protocol, Self, TypeVar

from controller.client.confirmations import Confirmation
from controller.client.errors import ClientClosed, EndReached
from metastore.interface import StoreClosed
from metastore.interface.loop_thread import LoopThread

T = TypeVar("T")
M = TypeVar("M")
M_co = TypeVar("M_co", covariant=True)


class Loop:
    """Where everything of a blocking client runs."""

    def __init__(self) -> None:
        self._thread = LoopThread()

    def call(self, work: Callable[[], Awaitable[T]]) -> T:
        """Does something on the loop, and waits for it."""
        try:
            return self._thread.call(_awaited(work))
        except StoreClosed:
            raise ClientClosed("this client was closed: open another one") from None

    def run(self, work: Callable[[], T]) -> T:
        """Does something on the loop that needs no waiting."""

        async def done() -> T:
            return work()

        return self.call(done)

    def stop(self) -> None:
        """Ends the loop, and whatever is under way."""
        self._thread.stop()


async def _awaited(work: Callable[[], Awaitable[T]]) -> T:
    return await work()


class BlockingConfirmation(Generic[T]):
    """What will become of something that was sent off."""

    def __init__(self, confirmation: Confirmation[T], loop: Loop) -> None:
        self._confirmation = confirmation
        self._loop = loop

    def wait(self) -> T:
        """Returns when the outcome is known; raises what has failed."""
        return self._loop.call(lambda: _of(self._confirmation))


async def _of(confirmation: Confirmation[T]) -> T:
    return await confirmation


class Closing:
    """What is closed at the end of its block."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Source(Protocol[M_co]):
    """Where messages come from."""

    async def receive(self, timeout_ms: int | None = None) -> M_co: ...

    async def close(self) -> None: ...


class Receiving(Closing, Generic[M]):
    """Where messages come from; an iterator of them."""

    def __init__(self, source: Source[M], loop: Loop) -> None:
        self._source = source
        self._loop = loop
        self._arrived: deque[M] = deque()  # some that arrived while the wait for them was interrupted

    def receive(self, timeout_ms: int | None = None) -> M:
        async def take() -> None:
            self._arrived.append(await self._source.receive(timeout_ms))

        while True:
            try:
                return self._arrived.popleft()
            except IndexError:
                self._loop.call(take)

    def __iter__(self) -> Iterator[M]:
        while True:
            try:
                message = self.receive()
            except EndReached:
                return
            yield message

    def close(self) -> None:
        self._loop.call(self._source.close)
