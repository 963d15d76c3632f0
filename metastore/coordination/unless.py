"""A block of code that an event cuts short: the end of a session, of a grant, of the time there is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self


class Unless:
    """`async with Unless(event, error)`: the block runs, unless the event comes first; then it is cancelled.

    Inside, the block sees an ordinary cancellation and can clean up; outside, `error()` is raised in its place, or what
    the event itself failed with. A cancellation from elsewhere stays one. The block is never taken to another task, so
    that nothing it has obtained is lost between two tasks, as it could be with a race of one against the other.
    """

    def __init__(self, event: Coroutine[Any, Any, object], error: Callable[[], Exception]) -> None:
        self._event = event
        self._error = error
        self._has_struck = False
        self._is_over = False

    async def __aenter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancellations_before = task.cancelling()
        self._watcher = asyncio.ensure_future(self._event)
        self._watcher.add_done_callback(self._strike)
        return self

    def _strike(self, watcher: asyncio.Future[object]) -> None:
        # Runs between two steps of the block, which is waiting: the cancellation meets it where it waits.
        if not self._is_over and not watcher.cancelled():
            self._has_struck = True
            self._task.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over = True
        is_ours = self._has_struck and self._task.uncancel() <= self._cancellations_before
        if not self._watcher.done():
            self._watcher.cancel()
            await asyncio.wait({self._watcher})
        failure = None if self._watcher.cancelled() else self._watcher.exception()
        if is_ours and isinstance(error, asyncio.CancelledError):
            raise failure or self._error()
