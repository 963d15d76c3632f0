"""The way of operations to one shard: let in, gathered, answered one by one, and never waited for without end."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from metastore.interface.errors import StoreClosed, StoreError, Unavailable
from metastore.providers.wire.backlog import Backlog, Batch, Operation
from metastore.providers.wire.caller import Caller
from metastore.providers.wire.channels import CLOSED
from metastore.providers.wire.failures import Failure
from metastore.providers.wire.settings import Settings
from metastore.providers.wire.window import Window

EXPIRY_CHECK_S_MIN = 0.01


class Lane(ABC):
    """What writes and reads have in common.

    While nothing is under way an operation is sent at once; while something is, those that come are gathered and go
    together in the next request. So one caller alone waits for nobody, and a thousand share the price of a message.
    """

    def __init__(self, shard_id: int, caller: Caller, settings: Settings) -> None:
        self.shard_id = shard_id
        self.caller = caller
        self.backoff = caller.backoff()
        self.backlog = Backlog(settings.batch_operations_max, settings.batch_bytes_max, self._forget)
        self._window = Window()
        self._linger_s = settings.linger_s
        self._timeout_s = settings.request_timeout_s
        self._expiry: asyncio.TimerHandle | None = None
        self._lingering: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._trouble = ""

    # -- for callers

    async def perform(self, operation: Operation) -> Any:
        """Does an operation; the answer is a message of the protocol."""
        size = len(operation.encoded)
        if not self._window.try_enter(size):
            await self._window.enter(size, self._timeout_s, operation.what)
        if self._is_closed:
            self._window.leave(size)
            raise StoreClosed(CLOSED)
        operation.deadline_s = self.caller.clock.monotonic_s() + self._timeout_s
        self.backlog.append(operation)
        if self._expiry is None:
            self._watch_deadlines()
        if not self._linger_s or self.backlog.fills_a_batch:
            self.wake()
        elif self._lingering is None:
            self._lingering = operation.future.get_loop().call_later(self._linger_s, self._end_lingering)
        return await operation.future

    def _end_lingering(self) -> None:
        self._lingering = None
        self.wake()

    @property
    def may_gather(self) -> bool:
        """Whether what waits is better sent later, with more company."""
        return self._lingering is not None and not self.backlog.fills_a_batch

    # -- for those who send

    @abstractmethod
    def wake(self) -> None:
        """There may be something to send."""

    @abstractmethod
    def oldest_sent_s(self) -> float | None:
        """The deadline of the oldest operation that was sent and is not answered, if the lane watches it."""

    @abstractmethod
    def give_up_sent(self) -> None:
        """That deadline has passed."""

    @abstractmethod
    async def stop(self) -> None:
        """Ends what is under way."""

    def settle(self, operation: Operation, answer: object) -> None:
        """An operation was answered."""
        self._window.leave(len(operation.encoded))
        if not operation.future.done():
            operation.future.set_result(answer)

    def fail(self, operation: Operation, error: StoreError) -> None:
        """An operation failed for good."""
        self._window.leave(len(operation.encoded))
        if not operation.future.done():
            operation.future.set_exception(error)

    def put_back(self, operations: Sequence[Operation]) -> None:
        """They were taken, and nothing was done: they come first with the next request."""
        self.backlog.put_back(operations)
        if self._expiry is None:
            self._watch_deadlines()

    def refuse(self, batch: Batch, failure: Failure, where: str) -> None:
        """The server refused a request: it is made again in parts, so that only the one who is wrong hears of it."""
        if len(batch.operations) == 1 or failure.concerns_everybody:
            for operation in batch.operations:
                self.fail(operation, failure.refusal(f"{operation.what} at {where}"))
            return
        for operation in batch.operations:
            operation.is_alone = True
        self.put_back(batch.operations)

    def give_up(self, error: StoreError) -> None:
        """Nothing can be sent, and that will not pass: everybody who waits hears of it."""
        for operation in self.backlog.empty():
            self.fail(operation, error)

    def in_trouble(self, why: str) -> None:
        """Remembers why nothing goes on, for those whose time runs out."""
        self._trouble = why

    async def close(self) -> None:
        """Ends everything; nothing more is let in."""
        self._is_closed = True
        for timer in (self._expiry, self._lingering):
            if timer is not None:
                timer.cancel()
        self._window.refuse_waiters(CLOSED)
        self.give_up(StoreClosed(CLOSED))
        await self.stop()

    # -- deadlines

    def _expire(self) -> None:
        """One timer for all: looks at the oldest ones, and comes again when the next are due."""
        self._expiry = None
        now_s = self.caller.clock.monotonic_s()
        for operation in self.backlog.expired(now_s):
            why = f" ({self._trouble})" if self._trouble else ""
            text = f"{operation.what}: nothing was done within {self._timeout_s:g} s{why}: try again later"
            self.fail(operation, Unavailable(text))
        oldest_sent_s = self.oldest_sent_s()
        if oldest_sent_s is not None and oldest_sent_s <= now_s:
            self.give_up_sent()
        self._watch_deadlines()

    def _watch_deadlines(self) -> None:
        deadlines = [each for each in (self.backlog.oldest_deadline_s, self.oldest_sent_s()) if each is not None]
        if deadlines and not self._is_closed:
            pause_s = max(min(deadlines) - self.caller.clock.monotonic_s(), EXPIRY_CHECK_S_MIN)
            self._expiry = asyncio.get_running_loop().call_later(pause_s, self._expire)

    def _forget(self, operation: Operation) -> None:
        """The caller has gone before anything was sent."""
        self._window.leave(len(operation.encoded))
