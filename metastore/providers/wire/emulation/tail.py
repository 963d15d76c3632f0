"""The notifications of one shard, in order and without a gap, or the word that there is one.

A server keeps notifications for a while only, and skips in silence what a reader comes too late for, be it at the start
of a stream or in the middle of one that was read slowly. What shows that nothing was skipped is a batch that is known:
if it is still there, everything behind it is. So a stream is made anew from before the last known batch; and where a
batch does not follow its predecessor number by number, which may be in order, the server is asked for both of them.

What a server says of its last offset cannot be relied upon either. After it was killed, and until it is written to, it
tells one that is too low, and the batches behind that come at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from metastore.interface.errors import TokenExpired, Unavailable
from metastore.providers.wire.plain import NotificationBatch, PlainShards

WAITING_BATCHES_MAX = 256
"""Batches that wait for the watch. While there are so many the stream is not read on."""
APPLYING_MAX = 64
"""Writes that a server may have numbered and not yet applied: they are waited for, too."""
PATIENCE_S = 2.0
"""How long a batch that a server should have is waited for. Some offsets have none."""
QUIET_S = 0.1
"""How long nothing must come before a server that may not know its last offset is believed to have sent all it has."""


class Skipped(Unavailable):
    """Notifications were lost."""


class Tail:
    """Read by one task."""

    def __init__(
        self, shards: PlainShards, shard: int, *, patience_s: float = PATIENCE_S, quiet_s: float = QUIET_S
    ) -> None:
        self.position = -1
        """The offset of the last batch that was handed out. Everything up to there was, or is before the beginning."""
        self._shards = shards
        self._shard = shard
        self._patience_s = patience_s
        self._quiet_s = quiet_s
        self._has_skipped = False
        self._is_sure = False
        """Whether the server's word for its last offset can be taken. Whoever has seen a write since knows that."""
        self._is_proven = True
        """Whether a batch was seen. If not, the last writes may be ones that the server has not applied by then."""
        self._batchless = -1
        """An offset that was waited for in vain."""
        self._was_held_up = False
        """The stream was not read on for a while."""
        self._waiting: asyncio.Queue[NotificationBatch | Exception] = asyncio.Queue()
        self._reading: asyncio.Task[None] | None = None
        self._ahead: NotificationBatch | None = None

    # -- where to read

    async def begin(self) -> None:
        """Begins now: what is read from the shard from here on is not older than the position."""
        newest = max(await self._newest(), self.position)
        await self._open(newest - 1 - APPLYING_MAX)
        passed = -1
        while (batch := await self._peek_within(self._patience_s if passed < newest else self._quiet_s)) is not None:
            passed, self._ahead = batch.offset, None
            if passed > newest and not self.has_waiting and passed <= await self._newest():
                break
        self._batchless = newest
        self._is_proven = passed >= 0 or newest < 0
        if not self._is_proven:
            # A server that is asked for offsets of which it has no batches never rests.
            await self._open(newest)
        self.position = newest if passed < 0 else passed
        self._has_skipped, self._is_sure = False, True

    async def resume(self, position: int) -> bool:
        """Goes on behind a position that was known once; False if what follows is not all there."""
        self.position = position
        self._has_skipped = False
        return await self.go_on()

    async def go_on(self) -> bool:
        """Goes on where it stands, after a break; False if notifications were skipped, or may have been.

        The server's word that nothing was written is not enough; see above.
        """
        if self._has_skipped or self.position < 0:
            return False
        self._is_sure = False
        await self._open(self.position - 1)
        first = await self._peek_within(self._patience_s)
        self._has_skipped = first is None or first.offset > self.position + 1
        if first is not None and first.offset <= self.position:
            self._ahead = None
        return not self._has_skipped

    async def close(self) -> None:
        """Stops reading."""
        reading, self._reading, self._ahead = self._reading, None, None
        if reading is not None:
            reading.cancel()
            await asyncio.wait({reading})

    # -- reading

    @property
    def has_waiting(self) -> bool:
        """Whether there is a batch by now."""
        return self._ahead is not None or not self._waiting.empty()

    async def next(self) -> NotificationBatch:
        """The next batch. Cancelling the wait loses nothing."""
        if self._was_held_up and not self.has_waiting:
            await self._check_for_silence()
        batch = await self._peek()
        if not await self._follows(batch):
            raise self._skipped()
        self._ahead = None
        self._is_proven = True
        self.position = batch.offset
        return batch

    async def _check_for_silence(self) -> None:
        """After it was held up, a stream may say nothing because everything that it had to say is gone."""
        newest = await self._newest()
        if not self._misses(newest):
            self._was_held_up = False
        elif await self._peek_within(self._patience_s) is None:
            raise self._skipped()

    def _skipped(self) -> Skipped:
        self._has_skipped = True
        return Skipped(
            f"notifications of shard {self._shard} behind offset {self.position} are gone: "
            "the records themselves must be read"
        )

    async def up_to_newest(self) -> AsyncGenerator[NotificationBatch, None]:
        """The batches of everything that has been written by now."""
        for _ in range(self._waiting.qsize()):
            yield await self.next()
        newest = await self._newest()
        while self._misses(newest) or not self._is_sure or not self.is_open:
            batch = await self._next_within(self._patience_s if self._misses(newest) else self._quiet_s)
            if batch is None:
                self._is_sure, self._batchless = True, newest
                return
            yield batch
            if self.position > newest:
                newest = await self._newest()
                self._is_sure = self.position <= newest

    def _misses(self, newest: int) -> bool:
        """Whether there are batches to wait for."""
        return self.position < newest != self._batchless

    async def _next_within(self, timeout_s: float) -> NotificationBatch | None:
        try:
            async with asyncio.timeout(timeout_s):
                return await self.next()
        except TimeoutError:
            return None

    async def _newest(self) -> int:
        """The offset of the last write; -1 if there was none."""
        async with aclosing(self._shards.notifications(self._shard, None)) as batches:
            newest = (await anext(batches)).offset
        if newest < self.position and not await self._is_there(self.position):
            raise TokenExpired(
                f"shard {self._shard} was written up to offset {self.position}, and has only {newest} now: "
                "it is another one, or has lost data: begin with a snapshot"
            )
        return newest

    async def _is_there(self, offset: int) -> bool:
        """Whether the server has a batch with this offset, or a later one."""
        try:
            async with asyncio.timeout(self._patience_s):
                await self._first_from(offset, offset)
        except TimeoutError:
            return False
        return True

    async def _follows(self, batch: NotificationBatch) -> bool:
        """Whether there is nothing between the position and a batch that has come."""
        if not self._is_proven:
            # Batches of writes are there in the order of the writes: if one was late, it is there by now.
            return await self._first_from(self.position - APPLYING_MAX, batch.offset) == [batch.offset]
        if batch.offset == self.position + 1:
            return True
        if batch.offset <= self.position:
            return False  # it was given up before it came
        return await self._first_from(self.position, batch.offset) == [self.position, batch.offset]

    async def _first_from(self, offset: int, last_offset: int) -> list[int]:
        """The offsets of the first two batches from one on, or of the first if it is the last that is wanted."""
        found: list[int] = []
        async with aclosing(self._shards.notifications(self._shard, max(offset - 1, -1))) as batches:
            async for batch in batches:
                found.append(batch.offset)
                if len(found) == 2 or batch.offset >= last_offset:
                    break
        return found

    # -- the stream

    async def _peek_within(self, timeout_s: float) -> NotificationBatch | None:
        try:
            async with asyncio.timeout(timeout_s):
                return await self._peek()
        except TimeoutError:
            return None

    async def _peek(self) -> NotificationBatch:
        if self._ahead is None:
            arrived = await self._waiting.get()
            if isinstance(arrived, Exception):
                await self.close()
                raise arrived
            self._ahead = arrived
        return self._ahead

    async def _open(self, after_offset: int) -> None:
        await self.close()
        self._waiting = asyncio.Queue(WAITING_BATCHES_MAX)
        self._was_held_up = False
        self._reading = asyncio.create_task(
            self._read(self._waiting, max(after_offset, -1)), name=f"notifications of shard {self._shard}"
        )

    @property
    def is_open(self) -> bool:
        """Whether it is being read: the connection has not broken."""
        return self._reading is not None and not self._reading.done()

    async def _read(self, waiting: asyncio.Queue[NotificationBatch | Exception], after_offset: int) -> None:
        try:
            async with aclosing(self._shards.notifications(self._shard, after_offset)) as batches:
                async for batch in batches:
                    self._was_held_up = self._was_held_up or waiting.full()
                    await waiting.put(batch)
        except Exception as error:
            await waiting.put(error)  # raised where the batches are taken
