"""A consumer: what it has asked for, what waits for it, and how many messages it has not acknowledged."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Protocol

from txn.model.errors import TxnError
from txn.model.position import Position
from txn.segment.subscription.errors import ConsumerClosed
from txn.segment.subscription.values import PERMITS_MAX, QUEUE_BYTES_MAX, Delivery, SubscriptionKind


class Source(Protocol):
    """Where a consumer gets what it gets from."""

    @property
    def is_drained(self) -> bool: ...

    def end_of_segment(self) -> TxnError: ...

    def wake(self) -> None: ...

    def current(self, consumer: Consumer, delivery: Delivery) -> Delivery | None: ...

    def negative_acknowledge(self, consumer: Consumer, positions: Iterable[Position]) -> None: ...

    def detach(self, consumer: Consumer) -> None: ...


class Consumer:
    """One of those who take from a subscription. Used by one task at a time."""

    def __init__(self, name: str, kind: SubscriptionKind, source: Source) -> None:
        self.name = name
        self.kind = kind
        self.is_active = False
        """Whether anything is delivered to it; of a failover subscription one consumer is."""
        self.permits = 0
        """Messages that it has asked for and not got."""
        self.unacked = 0
        """Messages that it has and has not acknowledged."""
        self._source = source
        self._queue: deque[Delivery] = deque()
        self._queue_bytes = 0
        self._news = asyncio.Event()
        self._failure: TxnError | None = None

    # -- for its owner

    def permit(self, messages: int) -> None:
        """Asks for so many messages more, up to PERMITS_MAX. A batch is delivered whole, though it may be larger."""
        assert messages > 0, "permits are asked for, and never taken back"
        self._check_running()
        self.permits = min(self.permits + messages, PERMITS_MAX)
        self._source.wake()

    async def receive(self, messages_max: int) -> list[Delivery]:
        """The next entries, with up to so many messages together; at least one, waited for.

        EndOfSegment when nothing will come to anybody any more: the segment is sealed, and this subscription has
        acknowledged everything in it, durably. What was acknowledged while it waited to be taken is left out.
        Cancelling the wait loses nothing.
        """
        assert messages_max > 0, "a call that wants nothing"
        while True:
            self._check_running()
            taken = self._take(messages_max)
            if taken:
                return taken
            if self._source.is_drained:
                raise self._source.end_of_segment()
            self._news.clear()
            await self._news.wait()

    def _take(self, messages_max: int) -> list[Delivery]:
        """What waits, but for what was acknowledged or withdrawn while it waited."""
        is_full = self._queue_bytes >= QUEUE_BYTES_MAX
        taken: list[Delivery] = []
        left, given_back = messages_max, 0
        while self._queue and (not taken or self._queue[0].entry.message_count <= left):
            delivery = self._queue.popleft()
            self._queue_bytes -= len(delivery.entry.payload)
            current = self._source.current(self, delivery)
            if current is None:
                given_back += delivery.entry.message_count
            else:
                taken.append(current)
                left -= delivery.entry.message_count
        self.permits += given_back
        if is_full or given_back:
            self._source.wake()
        return taken

    def negative_acknowledge(self, positions: Iterable[Position]) -> None:
        """These are to be delivered again; what it does not have, or a transaction holds, is left alone.

        In an ordered subscription they come again with everything behind them.
        """
        self._check_running()
        self._source.negative_acknowledge(self, positions)

    async def close(self) -> None:
        """Goes away; what it has not acknowledged is delivered to others, or to whoever comes next."""
        if self._failure is None:
            self.end(ConsumerClosed(f"the consumer {self.name!r} was closed"))
            self._source.detach(self)

    # -- for the dispatcher

    @property
    def has_room(self) -> bool:
        """Whether it has asked for more, and takes what it gets."""
        return self.permits > 0 and self._queue_bytes < QUEUE_BYTES_MAX

    def give(self, delivery: Delivery) -> None:
        """Puts an entry where the consumer takes it from."""
        self.permits -= delivery.entry.message_count
        self._queue.append(delivery)
        self._queue_bytes += len(delivery.entry.payload)
        self._news.set()

    def withdraw(self, position: Position) -> None:
        """What it has not taken yet, from that position on, it does not get."""
        kept: deque[Delivery] = deque()
        for delivery in self._queue:
            if delivery.position < position:
                kept.append(delivery)
            else:
                self.permits += delivery.entry.message_count
                self._queue_bytes -= len(delivery.entry.payload)
        self._queue = kept

    def notice(self) -> None:
        """Something has changed that it may be waiting for."""
        self._news.set()

    def end(self, error: TxnError) -> None:
        """From now on it raises this; the first reason stays."""
        self._failure = self._failure or error
        self._queue.clear()
        self._queue_bytes = 0
        self._news.set()

    def _check_running(self) -> None:
        if self._failure is not None:
            raise self._failure.with_traceback(None)
