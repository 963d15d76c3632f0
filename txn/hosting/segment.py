"""A segment as its owner serves it: the door through which everything goes, and which closes at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from metastore.coordination import Grant
from txn.hosting.descriptor import Descriptor, SegmentState
from txn.hosting.descriptors import Descriptors
from txn.hosting.errors import TooManySubscriptions
from txn.hosting.times import position_of_time
from txn.model.errors import SegmentUnavailable, TxnError
from txn.model.position import Position
from txn.segment.buffer import BufferStats, Published, TransactionBuffer
from txn.segment.claim import Claim, ClaimRecord
from txn.segment.entry import Entry
from txn.segment.subscription import InitialPosition, Reader, Subscription, SubscriptionDeleted, Surroundings

logger = logging.getLogger("tidemark.hosting")

SUBSCRIPTIONS_MAX = 1_000
"""Of one segment."""


class Segment:
    """An owned segment, all of it recovered. When the owner is deposed, everything raises SegmentUnavailable at once.

    Its subscriptions are used directly; they end with it.
    """

    def __init__(
        self,
        descriptor: Descriptor,
        grant: Grant,
        buffer: TransactionBuffer,
        around: Surroundings,
        subscriptions: Iterable[Subscription],
        claim: ClaimRecord,
        descriptors: Descriptors,
        *,
        subscriptions_max: int = SUBSCRIPTIONS_MAX,
    ) -> None:
        self.name = descriptor.segment
        self.term = grant.term
        self._grant = grant
        self._buffer = buffer
        self._around = around
        self._log = around.log
        self._claim = claim
        self._descriptors = descriptors
        self._subscriptions_max = subscriptions_max
        self._subscriptions: dict[str, Subscription] = {}
        self.subscriptions: Mapping[str, Subscription] = MappingProxyType(self._subscriptions)
        """By name."""
        self._changing = asyncio.Lock()
        """Held while a subscription is created or deleted."""
        self._failure: SegmentUnavailable | None = None
        self._has_ended = asyncio.Event()
        self._watchers: dict[str, asyncio.Task[None]] = {}
        """Of the subscriptions: one that ends by itself ends the segment."""
        self._buffer_watcher = asyncio.ensure_future(self._watch_buffer())
        self._closing: asyncio.Task[None] | None = None
        for each in subscriptions:
            self._add(each)

    # -- whether it is served

    def check(self) -> None:
        """SegmentUnavailable unless this is the owner, by this process's clock and without asking anybody."""
        if self._failure is None and not self._grant.is_held:
            self._end(f"this broker has lost it: {self._grant.loss()}", self._grant.loss())
        if self._failure is not None:
            raise self._failure.with_traceback(None)

    @property
    def has_ended(self) -> bool:
        """Whether it is known to be served here no longer."""
        return self._has_ended.is_set()

    async def wait_ended(self) -> None:
        """Returns when it is served here no longer; `check` then says why."""
        await self._has_ended.wait()

    def _end(self, why: str, cause: BaseException | None = None) -> None:
        """From now on everything raises; the first reason stays."""
        if self._failure is None:
            self._failure = SegmentUnavailable(f"{self.name!r} is not served here under term {self.term}: {why}")
            self._failure.__cause__ = cause
            self._has_ended.set()

    async def _watch_buffer(self) -> None:
        await self._buffer.wait_ended()
        self._end("its log or its transaction buffer has stopped")

    async def _watch(self, subscription: Subscription) -> None:
        failure = await subscription.wait_failed()
        self._end(f"its subscription {subscription.name!r} has stopped: {failure}", failure)

    # -- entries

    def publish(self, entry: Entry) -> asyncio.Future[Published]:
        """Appends a message; see `TransactionBuffer.publish`. It takes its place in the call."""
        self.check()
        return self._buffer.publish(entry)

    def last_sequence_id(self, producer: str) -> int | None:
        """The greatest number of a producer that is stored; None if there is none, or it is not known any more.

        What open transactions have written counts, and what is on its way does not. It is told of a sealed segment too.
        """
        self.check()
        return self._buffer.last_sequence_id(producer)

    def is_undecided(self, producer: str) -> bool:
        """Whether messages of a producer are on their way, or in transactions that are not decided."""
        self.check()
        return self._buffer.is_undecided(producer)

    async def set_claim(self, claim: int, is_released: bool) -> None:
        """Somebody has the exclusive right to produce, or has given it back; durable, and in force, when this returns.

        What is older than what was heard before changes nothing.
        """
        self.check()
        await self._claim.note(Claim(claim, is_released))

    def check_claim(self, claim: int) -> None:
        """ProducerFenced unless somebody who says this claim, or 0 for none, may produce."""
        self._claim.check(claim)

    async def wait_fenced(self, claim: int) -> None:
        """Raises ProducerFenced as soon as somebody who says this claim may produce no longer."""
        await self._claim.wait_fenced(claim)

    def reader(self, start: Position | InitialPosition, *, is_following: bool = True) -> Reader:
        """Reads from somewhere on, without a subscription. Unless it is following, it ends with what there is."""
        self.check()
        log = self._log
        if isinstance(start, InitialPosition):
            start = log.lengths.oldest if start is InitialPosition.EARLIEST else log.lengths.end
        return Reader(log, self._buffer.visibility, start, is_following=is_following)

    async def catch_up(self) -> None:
        """Returns when a reader would see all that was committed by now, but for what an open transaction holds up."""
        self.check()
        await self._buffer.catch_up()

    async def position_of_time(self, time_ms: int) -> Position:
        """A bound behind all that was published before that time."""
        self.check()
        return await position_of_time(self._log, time_ms)

    async def seal(self) -> None:
        """The segment takes no more entries; open transactions go on to their end."""
        self.check()
        await self._buffer.seal()
        await self._descriptors.advance(self.name, SegmentState.SEALED)

    async def trim(self, before: Position) -> None:
        """Gives up entries before a position, whether they are acknowledged or not."""
        self.check()
        await self._buffer.trim(before)
        for subscription in self._subscriptions.values():
            subscription.notice_trimmed()

    # -- subscriptions

    def subscription(self, name: str) -> Subscription:
        """The subscription of that name; SubscriptionDeleted if there is none."""
        self.check()
        found = self._subscriptions.get(name)
        if found is None:
            raise SubscriptionDeleted(f"{self.name!r} has no subscription {name!r}: it was deleted, or never created")
        return found

    async def subscribe(self, name: str, start: Position | InitialPosition = InitialPosition.LATEST) -> Subscription:
        """The subscription of that name; if there is none it is created, and begins there."""
        self.check()
        async with self._changing:
            self.check()
            found = self._subscriptions.get(name)
            if found is not None:
                return found
            if len(self._subscriptions) >= self._subscriptions_max:
                raise TooManySubscriptions(
                    f"{self.name!r} has {len(self._subscriptions)} subscriptions: at most {self._subscriptions_max} "
                    "(SUBSCRIPTIONS_MAX); delete one that is not needed"
                )
            created = await Subscription.create(name, start, self._around)
            if self._failure is not None:
                await created.close()
                self.check()
            self._add(created)
            return created

    async def unsubscribe(self, name: str) -> None:
        """Deletes a subscription, with what open transactions have acknowledged in it. One that is gone stays gone."""
        self.check()
        async with self._changing:
            self.check()
            found = self._subscriptions.get(name)
            if found is not None:
                watcher = self._watchers.pop(name, None)
                if watcher is not None:  # there is none if whoever asked before was cancelled in the middle
                    watcher.cancel()
                try:
                    await found.delete()
                except TxnError as error:
                    self._end(f"its subscription {name!r} is half deleted: {error}", error)
                    raise
                del self._subscriptions[name]

    def _add(self, subscription: Subscription) -> None:
        self._subscriptions[subscription.name] = subscription
        self._watchers[subscription.name] = asyncio.ensure_future(self._watch(subscription))

    # -- how it is doing

    @property
    def is_sealed(self) -> bool:
        """Whether it takes no more entries, durably."""
        return self._log.is_sealed

    @property
    def first(self) -> Position | None:
        """The oldest entry that is kept."""
        return self._log.first

    @property
    def last_confirmed(self) -> Position | None:
        """The newest entry."""
        return self._log.last_confirmed

    @property
    def stats(self) -> BufferStats:
        """Of the write side; each subscription has its own."""
        return self._buffer.stats

    @property
    def horizon_lag(self) -> int:
        """Entries that nobody may read yet, because a transaction is open."""
        bound = self._buffer.visibility.bound
        lengths = {ledger: length for ledger, length in self._log.lengths.ledgers if ledger >= bound.ledger}
        return max(0, sum(lengths.values()) - (bound.entry if bound.ledger in lengths else 0))

    # -- the end

    async def close(self) -> None:
        """Ends everything here, at once; then frees it. It is safe to cancel: the rest is done all the same."""
        self._end("it was closed by its owner")
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        for watcher in [*self._watchers.values(), self._buffer_watcher]:
            watcher.cancel()
        closings = [each.close() for each in self._subscriptions.values()]
        failures = [*await asyncio.gather(*closings, return_exceptions=True)]
        failures += await asyncio.gather(self._buffer.close(), return_exceptions=True)
        for failure in failures:
            if failure is not None:
                logger.warning("while closing %s: %r", self.name, failure)
