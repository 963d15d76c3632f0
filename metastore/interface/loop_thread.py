"""An event loop in a thread of its own, and calls into it from threads that have none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from typing import Any, Generic, TypeVar

from metastore.interface.errors import InvalidRequest, StoreClosed

THREAD_NAME = "tidemark-blocking-store"

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for any number of threads until it is stopped."""

    def __init__(self) -> None:
        self._is_stopped = False
        self._lock = threading.RLock()  # re-entrant: garbage collection may finish an iterator at any point
        started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        # A daemon, so that a program that forgets to close its store ends all the same.
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(started)), name=THREAD_NAME, daemon=True)
        self._thread.start()
        self._loop, self._stopping = started.result()

    async def _serve(self, started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]) -> None:
        stopping = asyncio.Event()
        started.set_result((asyncio.get_running_loop(), stopping))
        await stopping.wait()
        # What is still under way is cancelled by asyncio.run, and then waited for.

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs it on the loop and waits; if that is interrupted it is cancelled, and its end waited for."""
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise InvalidRequest("a blocking call on the store's own event loop would wait for itself for ever")
        call = _Call(coroutine)
        try:
            if not self._schedule(call.start):
                call.cancel()
            return call.outcome.result()
        except BaseException:
            # Where an interruption strikes is open: cancelling comes behind starting, or instead of it.
            if not call.outcome.done() and self._schedule(call.cancel):
                wait([call.outcome])  # a second interruption ends this one
            raise

    def finish(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Runs a clean-up, which a store that is closed has no need of; on the loop's own thread without waiting."""
        if threading.current_thread() is self._thread:  # garbage collection chose this thread
            call = _Call(coroutine)
            if not self._schedule(call.start):
                call.cancel()
            return
        try:
            self.call(coroutine)
        except StoreClosed:
            return

    def stop(self) -> None:
        """Ends the loop; whatever is under way ends with StoreClosed. Stopping twice does nothing."""
        with self._lock:
            if not self._is_stopped:
                self._is_stopped = True
                self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def _schedule(self, callback: Callable[[], None]) -> bool:
        """Has the loop run it, which ends what it starts; False if the loop is stopped."""
        with self._lock:
            if not self._is_stopped:
                self._loop.call_soon_threadsafe(callback)  # ahead of the end of the loop, which comes under this lock
            return not self._is_stopped


class _Call(Generic[T]):
    """A coroutine on its way to the loop and, as a future that threads can wait for, its outcome."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self.outcome: Future[T] = Future()
        self._coroutine = coroutine
        self._task: asyncio.Task[T] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._coroutine)
        self._task.add_done_callback(self._settle)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
        else:
            self._coroutine.close()
            self.outcome.set_exception(StoreClosed("this store was closed: open another one"))

    def _settle(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.outcome.set_exception(StoreClosed("the store was closed while the call was under way"))
        elif (error := task.exception()) is not None:
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(task.result())
