"""Between the event loop and the threads of the store: work goes out in portions, answers come back in portions."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, TypeVar

from metastore.engine.errors import ShardStopped

READER_THREADS_MAX = 4

T = TypeVar("T")
Action = Callable[[], None]


class LoopInbox:
    """What other threads have for the event loop: it is woken once for all that comes before it looks."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.wakes = 0
        self._waiting: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._is_rung = False

    def post(self, action: Callable[..., None], *arguments: Any) -> None:
        """Has the loop call something; from any thread. A loop that was closed hears nothing any more."""
        self._waiting.append((action, arguments))
        if not self._is_rung:
            self._is_rung = True
            try:
                self.loop.call_soon_threadsafe(self._deliver)
            except RuntimeError:
                if not self.loop.is_closed():
                    raise

    def _deliver(self) -> None:
        # First this, then the count: what is posted from now on rings again.
        self._is_rung = False
        self.wakes += 1
        for _ in range(len(self._waiting)):
            action, arguments = self._waiting.popleft()
            action(*arguments)


class ReaderPool:
    """The threads on which the store reads what may take a while."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._executor = ThreadPoolExecutor(READER_THREADS_MAX, "tidemark-reader")
        self._is_closed = False

    async def run(self, read: Callable[[], T]) -> T:
        """Its result; ShardStopped if it has not begun when the pool is being closed."""
        self._check_open()
        return await self._loop.run_in_executor(self._executor, self._run, read)

    def _run(self, read: Callable[[], T]) -> T:
        self._check_open()
        return read()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ShardStopped("the store is closed")

    def close(self) -> None:
        """Takes nothing more, from now on: on the loop, before `wait_closed` on a thread."""
        self._is_closed = True

    def wait_closed(self) -> None:
        """Returns when all that was begun is done."""
        self._executor.shutdown()


class Driver:
    """A thread that does what it is given, in order: it drives the rounds of some shards, and waits in their fsyncs."""

    def __init__(self, name: str) -> None:
        self._actions: SimpleQueue[Action | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def do(self, action: Action) -> None:
        """Has it done soon; from any thread."""
        self._actions.put(action)

    def stop(self) -> None:
        """Returns when all that was given is done."""
        self._actions.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (action := self._actions.get()) is not None:
            action()


class Gathering:
    """How the submitters of a shard's writes come to its driver: once for all that the loop submits in one turn."""

    def __init__(self, driver: Driver, loop: asyncio.AbstractEventLoop) -> None:
        self._driver = driver
        self._loop = loop
        self._loop_thread = threading.get_ident()
        self._is_waiting = False

    def schedule(self, drive: Action) -> None:
        """To be the `schedule` of a shard's rounds. Other threads than the loop's wait for their answers: no delay."""
        if threading.get_ident() != self._loop_thread:
            self._driver.do(drive)
        elif not self._is_waiting:
            self._is_waiting = True
            self._loop.call_soon(self._hand_over, drive)

    def _hand_over(self, drive: Action) -> None:
        self._is_waiting = False
        self._driver.do(drive)
