"""A consumer: what it has asked for, what waits for it, and how many messages it has not acknowledged.

It asks for messages, and if it likes for bytes as well. Of bytes it is not sent more than it has asked for; only when
nothing is under way to it one entry goes all the same, be it as large as it may. Nothing is under way when it has asked
again for all that it ever got, or has acknowledged all of it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Protocol

from txn.model.errors import TxnError
from txn.model.position import Position
from txn.segment.cursor import BatchBits
from txn.segment.subscription.errors import ConsumerClosed
from txn.segment.subscription.values import PERMITS_MAX, QUEUE_BYTES_MAX, Asking, Delivery, Nack


class Source(Protocol):
    """Where a consumer gets what it gets from."""

    @property
    def is_drained(self) -> bool: ...

    def end_of_segment(self) -> TxnError: ...

    def wake(self) -> None: ...

    def current(self, consumer: Consumer, delivery: Delivery) -> Delivery | None: ...

    def negative_acknowledge(self, consumer: Consumer, nacks: Iterable[Nack]) -> None: ...

    def detach(self, consumer: Consumer) -> None: ...


class Consumer:
    """One of those who take from a subscription. Used by one task at a time."""

    def __init__(self, asking: Asking, number: int, source: Source) -> None:
        self.name = asking.name
        self.kind = asking.kind
        self.asking = asking
        """What it has said when it came."""
        self.number = number
        """Those that come later have greater ones."""
        self.is_active = False
        """Whether anything is delivered to it; of a failover subscription one consumer is."""
        self.permits = 0
        """Messages that it has asked for and not got."""
        self.unacked = 0
        """Messages that it has and has not acknowledged."""
        self.short_of = 0
        """Bytes of the entry that waits until it has asked for so many; 0: none does."""
        self._credit: int | None = None
        """Bytes that it has asked for and not got; None: it does not count bytes."""
        self._credit_most = 0
        """The greatest that this ever was: then nothing is under way."""
        self._source = source
        self._queue: deque[Delivery] = deque()
        self._queue_bytes = 0
        self._news = asyncio.Event()
        self._failure: TxnError | None = None
        self._has_ended = asyncio.Event()

    def is_same(self, other: Consumer) -> bool:
        """Whether they are one and the same, be it on two streams."""
        return self is other or None is not self.asking.identity == other.asking.identity

    # -- for its owner

    def permit(self, messages: int, payload_bytes: int = 0) -> None:
        """Asks for so many messages more, up to PERMITS_MAX. A batch is delivered whole, though it may be larger.

        Who ever asks for bytes as well has to go on doing so.
        """
        assert min(messages, payload_bytes) >= 0 < messages + payload_bytes, "permits are never taken back"
        self._check_running()
        self.permits = min(self.permits + messages, PERMITS_MAX)
        if payload_bytes:
            self._credit = (self._credit or 0) + payload_bytes
            self._credit_most = max(self._credit_most, self._credit)
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
        left, has_given_back = messages_max, False
        while self._queue and (not taken or self._queue[0].entry.message_count <= left):
            delivery = self._queue.popleft()
            self._queue_bytes -= len(delivery.entry.payload)
            current = self._source.current(self, delivery)
            if current is None:
                self._give_back(delivery)
                has_given_back = True
            else:
                taken.append(current)
                left -= delivery.entry.message_count
        if is_full or has_given_back:
            self._source.wake()
        return taken

    def _give_back(self, delivery: Delivery) -> None:
        """It has asked for this and does not get it: so it has asked for more."""
        self.permits += delivery.entry.message_count
        if self._credit is not None:
            self._credit += len(delivery.entry.payload)

    def negative_acknowledge(self, positions: Iterable[Position]) -> None:
        """These are to be delivered again; what it does not have, or a transaction holds, is left alone.

        In an ordered subscription they come again with everything behind them.
        """
        self.give_back(Nack(position) for position in positions)

    def give_back(self, nacks: Iterable[Nack]) -> None:
        """The same of single messages, by the deliveries by which they came."""
        self._check_running()
        self._source.negative_acknowledge(self, nacks)

    async def close(self) -> None:
        """Goes away; what it has not acknowledged is delivered to others, or to whoever comes next."""
        if self._failure is None:
            self.end(ConsumerClosed(f"the consumer {self.name!r} was closed"))
            self._source.detach(self)

    # -- for the dispatcher

    @property
    def has_room(self) -> bool:
        """Whether it has asked for more, and takes what it gets."""
        is_waiting = self.short_of and not self._may_have(self.short_of)
        return self.permits > 0 and self._queue_bytes < QUEUE_BYTES_MAX and not is_waiting

    def fits(self, size: int) -> bool:
        """Whether it may be given an entry of so many bytes; if not, it has no room until it may."""
        if self._credit is None:
            return True
        self.short_of = 0 if self._may_have(size) else size
        return not self.short_of

    def _may_have(self, size: int) -> bool:
        credit = self._credit
        return credit is None or size <= credit or self.unacked == 0 or credit == self._credit_most

    def give(self, delivery: Delivery) -> None:
        """Puts an entry where the consumer takes it from."""
        self.permits -= delivery.entry.message_count
        self._queue.append(delivery)
        size = len(delivery.entry.payload)
        self._queue_bytes += size
        if self._credit is not None:
            self._credit -= size
        self._news.set()

    def withdraw(self, position: Position) -> None:
        """What it has not taken yet, from that position on, it does not get."""
        kept: deque[Delivery] = deque()
        for delivery in self._queue:
            if delivery.position < position:
                kept.append(delivery)
            else:
                self._give_back(delivery)
                self._queue_bytes -= len(delivery.entry.payload)
        self._queue = kept

    def withdraw_messages(self, lost: Mapping[Position, int]) -> None:
        """Of entries that it has not taken yet it does not get these messages (bit 0 is the first)."""
        kept: deque[Delivery] = deque()
        for delivery in self._queue:
            bits = lost.get(delivery.position, 0)
            left = without(delivery, bits) if bits else delivery
            if left is None:
                self._give_back(delivery)
                self._queue_bytes -= len(delivery.entry.payload)
            else:
                kept.append(left)
        self._queue = kept

    @property
    def has_ended(self) -> bool:
        """Whether it gets nothing any more."""
        return self._failure is not None

    def notice(self) -> None:
        """Something has changed that it may be waiting for."""
        self._news.set()

    def end(self, error: TxnError) -> None:
        """From now on it raises this; the first reason stays."""
        self._failure = self._failure or error
        self._queue.clear()
        self._queue_bytes = 0
        self._news.set()
        self._has_ended.set()

    async def wait_ended(self) -> None:
        """Raises why it has ended, as soon as it has."""
        await self._has_ended.wait()
        self._check_running()

    def _check_running(self) -> None:
        if self._failure is not None:
            raise self._failure.with_traceback(None)


def given_bits(delivery: Delivery) -> int:
    """Which messages of its entry a delivery is of."""
    everything, mask = (1 << delivery.entry.message_count) - 1, delivery.acknowledged
    return everything if mask is None else everything & ~mask.bits


def without(delivery: Delivery, bits: int) -> Delivery | None:
    """What of an entry is left without these messages; None if nothing is."""
    size = delivery.entry.message_count
    everything = (1 << size) - 1
    share = delivery.acknowledged
    gone = (bits if share is None else bits | share.bits) & everything
    if gone == everything:
        return None
    return delivery._replace(acknowledged=BatchBits(size, gone)) if gone else delivery
