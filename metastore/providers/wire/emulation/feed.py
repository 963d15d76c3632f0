"""One shard of an emulated watch: a task that follows it, and what it has for the reader."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass

from metastore.interface.errors import LimitExceeded, Retriable, TokenExpired, Unavailable
from metastore.interface.values import Record
from metastore.providers.wire.emulation.ledger import Ledger
from metastore.providers.wire.emulation.looks import Looks
from metastore.providers.wire.emulation.mirror import BOUNDS, Bounds, Mirror
from metastore.providers.wire.emulation.placing import place_of
from metastore.providers.wire.emulation.scope import Scope
from metastore.providers.wire.emulation.tail import Tail
from metastore.providers.wire.feed import Changes, Mark, News, Records
from metastore.providers.wire.patience import Backoff
from metastore.providers.wire.plain import NotificationBatch, PlainShards

NEWS_WAITING_MAX = 4
"""Portions that wait for the reader. While there are so many nothing more is read."""
PORTION_RECORDS = 500
PORTION_BYTES = 1 << 20
"""Of a snapshot's portion; but for a single larger record."""
ROUND_WRITES_MAX = 256
ROUND_RECORDS_MAX = 1_000
"""Writes, and records changed by them, that are told together."""
ROUNDS_MAX = 8
"""How often to read on before what cannot be told yet is put off."""
AUDITS_MAX = 16
"""How often a range that is read is deleted from meanwhile, before that is an error."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where a watch begins, the same for all its shards."""

    has_snapshot: bool
    offset: int | None = None
    """The first offset wanted of this shard, to resume."""


class EmulatedFeed:
    """The task goes on until it is cancelled, or cannot."""

    def __init__(
        self,
        shards: PlainShards,
        scope: Scope,
        beginning: Beginning,
        backoff: Backoff,
        chances: Iterator[int],
        wake: Callable[[], None],
        bounds: Bounds = BOUNDS,
    ) -> None:
        self.shard_id = scope.shard
        self.is_torn = False
        """The snapshot broke off: what has come of it is worth nothing."""
        self._shards = shards
        self._scope = scope
        self._beginning = beginning
        self._backoff = backoff
        self._chances = chances
        """One is taken when a snapshot has to be given up although the connection holds."""
        self._wake = wake
        self._bounds = bounds
        self._tail = Tail(shards, scope.shard)
        self._looks = Looks(shards, scope, bounds)
        self._ledger: Ledger | None = None
        self._marked = -1
        """The last offset that the reader is told of."""
        self._inbox: deque[News] = deque()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._has_told_records = False
        self._error: Exception | None = None
        self._following = asyncio.create_task(self._follow(), name=f"emulated watch of shard {scope.shard}")

    # -- for the reader

    def take(self) -> News | None:
        """The next news, if there is any; raises why there will be none."""
        if not self._inbox:
            if self._error is not None:
                raise self._error
            return None
        news = self._inbox.popleft()
        self._has_room.set()
        return news

    def stop(self) -> None:
        """Ends the task, soon."""
        self._following.cancel()

    @property
    def is_stopped(self) -> bool:
        """Whether the task has ended."""
        return self._following.done()

    async def stopped(self) -> None:
        """Waits for its end."""
        await asyncio.wait({self._following})

    # -- the task

    async def _follow(self) -> None:
        try:
            while not self.is_torn:
                try:
                    await self._go_on()
                except Retriable:
                    await self._tail.close()
                    if self._ledger is None and self._has_told_records:
                        self.is_torn = True
                        self._wake()
                    else:
                        await asyncio.sleep(self._backoff.next_s())
        except Exception as error:
            self._error = error  # raised where the news are taken
            self._wake()
        finally:
            await self._tail.close()

    async def _go_on(self) -> None:
        if self._ledger is None:
            self._ledger = await self._begin()
        elif not await self._tail.go_on():
            await self._jump(self._ledger)
        ledger = self._ledger
        while True:
            if ledger.needs_audit:
                await self._audit(ledger)
            await self._make_ready(ledger)
            if not ledger.needs_audit:
                self._tell(ledger)
                self._backoff.reset()
                await self._has_room.wait()
                await self._take_some(ledger)

    async def _jump(self, ledger: Ledger) -> None:
        """Notifications were lost: what has happened shows in the records."""
        await self._tail.begin()
        ledger.jump(self._tail.position)

    async def _take_some(self, ledger: Ledger) -> None:
        """Waits for a write, and takes those that have come by then."""
        ledger.take(await self._tail.next())
        for _ in range(ROUND_WRITES_MAX):
            if not self._tail.has_waiting or ledger.pending_count >= ROUND_RECORDS_MAX:
                return
            ledger.take(await self._tail.next())

    async def _make_ready(self, ledger: Ledger) -> None:
        """Looks at what has changed, and at what has changed again meanwhile; with patience, but not for ever."""
        for attempt in range(ROUNDS_MAX):
            if attempt:
                # What was not seen as it was notified has changed since: there is another notification.
                await self._take_some(ledger)
            await self._looks.look(ledger)
            if ledger.is_ready or ledger.needs_audit:
                return

    async def _audit(self, ledger: Ledger) -> None:
        """Compares everything that was told with everything that there is."""
        for _ in range(AUDITS_MAX):
            ledger.begin_audit()
            await self._looks.survey(ledger)
            async with aclosing(self._tail.up_to_newest()) as batches:
                async for batch in batches:
                    ledger.take(batch)
            if ledger.end_audit():
                return
        raise self._too_many_range_deletes()

    def _too_many_range_deletes(self) -> LimitExceeded:
        return LimitExceeded(
            f"{self._scope}: while the range was read, ranges of keys were deleted on its shard, {AUDITS_MAX} times in "
            "a row (AUDITS_MAX), and a plain Oxia does not tell which keys those were: watch a smaller range"
        )

    # -- how it begins

    async def _begin(self) -> Ledger:
        if self._beginning.offset is not None:
            return await self._resume(self._beginning.offset - 1)
        await self._tail.begin()
        if self._scope.index is not None:
            return await self._begin_with_index()
        return await self._begin_with_keys()

    async def _resume(self, position: int) -> Ledger:
        self._marked = position
        if position < 0:
            # Before the first write there was nothing: whatever is there has been created since.
            ledger = Ledger(self._scope, position, bounds=self._bounds)
            await self._jump(ledger)
            return ledger
        if not await self._tail.resume(position):
            raise TokenExpired(
                f"{self._scope}: the notifications behind offset {position}, where the token is, are no longer kept: "
                "begin with a snapshot"
            )
        ledger = Ledger(self._scope, position, is_complete=False, bounds=self._bounds)
        await self._audit(ledger)
        return ledger

    async def _begin_with_keys(self) -> Ledger:
        """A scan is one state, and is told while it is read. Then it is found out which state it was."""
        begun = self._tail.position
        told = Mirror(str(self._scope), self._scope.has_previous_values, self._bounds)
        portion: list[Record] = []
        async with aclosing(self._shards.scan_shard(self._scope.shard, self._scope.range, None)) as records:
            async for record in records:
                told.put(record.key, record, True)
                portion = await self._put_record(record, portion)
        self._put_records(portion)
        held = await self._written_meanwhile()
        place = place_of(told, begun, held, self._tail.position)
        if place is None:
            if next(self._chances, None) is None:
                raise self._too_many_range_deletes()
            raise Unavailable(f"{self._scope}: a range of keys was deleted while the snapshot was read")
        ledger = Ledger(self._scope, place, told, bounds=self._bounds)
        for batch in held:
            if batch.offset > place:
                ledger.take(batch)
        ledger.advance(self._tail.position)
        self._mark_beginning(place, has_records=bool(told.keys()))
        return ledger

    async def _written_meanwhile(self) -> list[NotificationBatch]:
        held: list[NotificationBatch] = []
        changes = 0
        async with aclosing(self._tail.up_to_newest()) as batches:
            async for batch in batches:
                of_concern = self._scope.of_concern(batch)
                if of_concern.notifications:
                    held.append(of_concern)
                    changes += len(of_concern.notifications)
                    self._bounds.check_records(changes, f"{self._scope}, while its snapshot was read")
        return held

    async def _begin_with_index(self) -> Ledger:
        """The entries of an index and the records are not read from one state; the ledger finds one for them."""
        ledger = Ledger(self._scope, self._tail.position, bounds=self._bounds)
        while True:
            await self._audit(ledger)
            await self._make_ready(ledger)
            if not ledger.needs_audit:
                break
        position = ledger.position
        portion: list[Record] = []
        changes = ledger.settle()
        for change in changes:
            assert change.record is not None, "nothing was told before"
            portion = await self._put_record(change.record, portion)
        self._put_records(portion)
        self._mark_beginning(position, has_records=bool(changes))
        return ledger

    # -- what the reader gets

    def _tell(self, ledger: Ledger) -> None:
        changes = ledger.settle()
        if changes:
            self._marked = ledger.position
            self._put(Changes(changes, ledger.position + 1))
        elif ledger.position > self._marked and not ledger.pending_count:
            if self._inbox and isinstance(self._inbox[-1], Mark):
                self._inbox.pop()  # the new mark says all that it said
            self._mark(ledger.position)

    def _mark_beginning(self, position: int, has_records: bool) -> None:
        """Where there are records there was a write, even if the server knows of none any more: see Tail."""
        self._mark(max(position, 0) if has_records else position)

    def _mark(self, position: int) -> None:
        self._marked = position
        self._put(Mark(position + 1))

    async def _put_record(self, record: Record, portion: list[Record]) -> list[Record]:
        """A record of the snapshot; when its portion is full that is told, and a new one begins."""
        if not self._beginning.has_snapshot:
            return portion
        portion.append(record)
        if len(portion) < PORTION_RECORDS and sum(len(each.value or b"") for each in portion) < PORTION_BYTES:
            return portion
        self._put_records(portion)
        await self._has_room.wait()
        return []

    def _put_records(self, portion: list[Record]) -> None:
        if portion:
            self._has_told_records = True
            self._put(Records(tuple(portion)))

    def _put(self, news: News) -> None:
        self._inbox.append(news)
        if len(self._inbox) >= NEWS_WAITING_MAX:
            self._has_room.clear()
        self._wake()
