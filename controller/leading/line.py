"""One after another: what changes a topic stands in line, and once begun goes on whoever waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from controller.topics import NotLeader
from metastore.coordination import Deposed

T = TypeVar("T")


class Line:
    """The works on one topic. Nothing here gets lost: what nobody waits for any more is done all the same."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        """Raises why nothing can be done any more."""
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[object]] = set()
        self._is_closed = False

    @property
    def is_busy(self) -> bool:
        """Whether something is under way, or about to be."""
        return bool(self._tasks)

    async def do(self, work: Callable[[], Awaitable[T]]) -> T:
        """The result of a work, when its turn has come; NotLeader if that is not to be any more."""
        self._check()
        if self._is_closed:
            raise _closed()

        async def wait_and_work() -> T:
            async with self._turn:
                self._check()
                return await work()

        task = asyncio.ensure_future(wait_and_work())
        self._tasks.add(task)
        task.add_done_callback(self._done)
        try:
            return await asyncio.shield(task)
        except Deposed as error:
            raise _closed() from error
        except asyncio.CancelledError:
            if task.cancelled() and self._is_closed:
                raise _closed() from None
            raise

    def _done(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # who waits for it is told, and nobody else wants to know

    async def close(self) -> None:
        """Ends everything, at once. What was begun is written down, and finished by whoever leads next."""
        self._is_closed = True
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def _closed() -> NotLeader:
    return NotLeader("the topic is not led here any more: look who leads it, and what has become of it")
