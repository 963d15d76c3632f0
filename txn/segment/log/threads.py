"""Work that blocks, in threads of a pool that many logs share, so that the event loop never waits for a disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

T = TypeVar("T")


class WorkInTurn:
    """What has to be done one after another, in the order of the calls. Cancelling a wait cancels none of it."""

    def __init__(self, pool: Executor) -> None:
        self._pool = pool
        self._last: asyncio.Task[object] | None = None

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Runs it in a thread when all before it is done."""
        task = asyncio.ensure_future(self._run(work, self._last))
        self._last = task
        return asyncio.shield(task)

    async def _run(self, work: Callable[[], T], before: asyncio.Task[object] | None) -> T:
        if before is not None and not before.done():
            await asyncio.wait({before})
        del before
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)
