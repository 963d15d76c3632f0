"""Sessions: kept alive by the store's own thread for as long as this process runs.

A session of the contract is one of the engine on each shard that got a record of it, made when the first one comes.
There is no network between, so nothing is lost on the way: what ends a session of a living process is only that the
process was stopped for too long, or its machine. Whoever holds something by it must notice that before the store
does: the owner relies on less than the full time.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from metastore.clock import Clock
from metastore.engine.errors import EngineError, SessionNotFound
from metastore.interface import Session, SessionLost
from metastore.providers.local.shards import OpenShard
from metastore.providers.local.threads import LoopInbox

LEASE_SHARE = 0.9
"""The part of its timeout that the owner of a session relies on without another heartbeat."""
BEAT_SHARE = 0.3
"""The part of its timeout after which the next heartbeat comes."""

Translate = Callable[[BaseException], BaseException]


class LocalSession(Session):
    """One session. Methods are for the loop; `beat` is for the thread of the housekeeping."""

    def __init__(
        self,
        timeout_ms: int,
        identity: str,
        clock: Clock,
        inbox: LoopInbox,
        translate: Translate,
        on_over: Callable[[LocalSession], None],
    ) -> None:
        self.timeout_ms = timeout_ms
        self.identity = identity
        self._clock = clock
        self.inbox = inbox
        self._translate = translate
        self._on_over = on_over
        self._lock = threading.Lock()
        self._renewed_s = clock.monotonic_s()
        self._is_over = False
        """Lost or closed. It stays so."""
        self._over = asyncio.Event()
        self._ids: dict[OpenShard, asyncio.Task[int]] = {}
        self._alive: dict[OpenShard, int] = {}
        self._closing: asyncio.Task[None] | None = None

    @property
    def is_lost(self) -> bool:
        return self.remaining_s <= 0

    @property
    def remaining_s(self) -> float:
        with self._lock:
            left_s = self._left_s(self._clock.monotonic_s())
        if left_s <= 0:
            self.give_up()
        return left_s

    def _left_s(self, now_s: float) -> float:
        if self._is_over:
            return 0.0
        return max(0.0, self._renewed_s + self.timeout_ms / 1000 * LEASE_SHARE - now_s)

    def give_up(self) -> None:
        """It is lost or closed, and stays so; from any thread."""
        with self._lock:
            if self._is_over:
                return
            self._is_over = True
        self.inbox.post(self._tell_over)

    def _tell_over(self) -> None:
        self._over.set()
        self._on_over(self)

    def beat(self) -> None:
        """A heartbeat, if one is due. One that was lost meanwhile is not brought back."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            is_due = now_s - self._renewed_s >= self.timeout_ms / 1000 * BEAT_SHARE
            is_lost = self._left_s(now_s) <= 0
        if is_lost:
            self.give_up()
        elif is_due:
            try:
                for shard, session_id in tuple(self._alive.items()):
                    shard.shard.keep_alive(session_id)
            except EngineError:  # the shard has stopped, or has ended the session: either way it is lost
                self.give_up()
                return
            with self._lock:
                self._renewed_s = now_s

    def check(self) -> None:
        """Raises SessionLost if it is."""
        if self.is_lost:
            raise SessionLost("the session has expired or was closed, and its records with it: open another one")

    async def id_on(self, shard: OpenShard) -> int:
        """Its id on a shard, where it is begun if it has not been."""
        self.check()
        if shard not in self._ids:
            task = self._ids[shard] = asyncio.ensure_future(self._begin_on(shard))
            task.add_done_callback(lambda done: self._note_begun(shard, done))
        return await asyncio.shield(self._ids[shard])

    async def _begin_on(self, shard: OpenShard) -> int:
        session_id = await shard.create_session(self.timeout_ms, self.identity.encode())
        self._alive[shard] = session_id
        return session_id

    def _note_begun(self, shard: OpenShard, done: asyncio.Task[int]) -> None:
        if done.cancelled() or done.exception() is not None:
            del self._ids[shard]  # those who waited have the error; the next one tries again

    async def wait_lost(self) -> None:
        if not self.is_lost:
            await self._over.wait()

    async def close(self) -> None:
        if self._closing is None:
            if self.is_lost:
                return
            self.give_up()
            self._closing = asyncio.ensure_future(self._end())
        # Who cancels the wait has begun the end all the same.
        await asyncio.shield(self._closing)

    async def _end(self) -> None:
        begun: list[Any] = await asyncio.gather(*self._ids.values(), return_exceptions=True)
        shards = [shard for shard, each in zip(tuple(self._ids), begun, strict=True) if isinstance(each, int)]
        ends = await asyncio.gather(*(self._end_on(shard) for shard in shards), return_exceptions=True)
        for error in ends:
            if error is not None:
                raise self._translate(error) from error

    async def _end_on(self, shard: OpenShard) -> None:
        try:
            await shard.close_session(self._alive[shard])
        except SessionNotFound:
            return  # it has expired by itself, and its records are gone
