"""Sessions: what keeps ephemeral records alive, on every shard that holds some of them."""

from __future__ import annotations

import asyncio

from metastore.interface.errors import SessionLost, StoreClosed, StoreError
from metastore.interface.store import Session
from metastore.pb import oxia_pb2 as pb
from metastore.providers.wire.caller import Caller
from metastore.providers.wire.protocol import CLOSE_SESSION, CREATE_SESSION, KEEP_ALIVE, to_wire

BEATS_PER_TIMEOUT = 5
"""Often enough that two lost heartbeats cost nothing."""
LONGEST_BEAT_S = 10.0
MARGIN_PARTS = 10
"""One part in so many of the timeout is not relied upon: clocks differ, and threads are late."""


class WireSession(Session):
    """A session over all shards. Each keeps a part of its own, made when the first record needs it there.

    The first part is made when the session is opened, so that there is always something to judge it by. The session is
    lost as soon as any part is gone, or may soon be because its server has been out of reach for too long.
    """

    def __init__(self, caller: Caller, timeout_ms: int, identity: str) -> None:
        self.timeout_ms = timeout_ms
        self.identity = identity
        self.caller = caller
        self._parts: dict[int, asyncio.Task[SessionPart]] = {}
        self._ended = asyncio.Event()
        self._loss: str | None = None

    @property
    def is_lost(self) -> bool:
        return self._loss is not None or self._ended.is_set() or self.remaining_s <= 0

    @property
    def remaining_s(self) -> float:
        if self._loss is not None or self._ended.is_set():
            return 0.0
        return min((part.remaining_s for part in self._opened()), default=0.0)

    async def wait_lost(self) -> None:
        await self._ended.wait()

    async def close(self) -> None:
        if self._loss is not None or self._ended.is_set():
            return
        parts = list(self._parts.values())
        self._end()
        outcomes = await asyncio.gather(*[self._close_part(part) for part in parts], return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def id_on(self, shard_id: int) -> int:
        """The session's id on a shard, where it is created if need be; SessionLost if the session has ended."""
        self._check()
        opening = self._parts.get(shard_id)
        if opening is not None and _is_open(opening):
            return opening.result().session_id
        if opening is None or opening.done():
            opening = asyncio.create_task(self._open_part(shard_id), name=f"session on shard {shard_id}")
            self._parts[shard_id] = opening
        try:
            # Several may wait for the same part, and one of them may go.
            part = await asyncio.shield(opening)
        except asyncio.CancelledError:
            if opening.cancelled():
                raise SessionLost("the session was closed: open another one") from None
            raise
        self._check()
        return part.session_id

    def lose(self, why: str) -> None:
        """The session is over: its records are gone, or will be."""
        if self._loss is None and not self._ended.is_set():
            self._loss = why
            self._end()

    def abandon(self) -> None:
        """The store was closed: nobody keeps the session alive any more, and it is left to expire."""
        self.lose("the store object was closed")

    def _check(self) -> None:
        if self._loss is None and not self._ended.is_set() and self._parts and self._opened() and self.remaining_s <= 0:
            self.lose("its server has been out of reach for too long")
        if self._loss is not None:
            raise SessionLost(f"the session is lost ({self._loss}): open another one and put its records again")
        if self._ended.is_set():
            raise SessionLost("the session was closed: open another one")

    def _opened(self) -> list[SessionPart]:
        return [opening.result() for opening in self._parts.values() if _is_open(opening)]

    def _end(self) -> None:
        for part in self._opened():
            part.stop()
        self._ended.set()

    async def _open_part(self, shard_id: int) -> SessionPart:
        request = pb.CreateSessionRequest(
            shard=shard_id, session_timeout_ms=self.timeout_ms, client_identity=to_wire(self.identity)
        )
        what = f"create session on shard {shard_id}"
        # Made twice because an answer was lost, the first one is kept alive by nobody and expires.
        reply = await self.caller.unary(shard_id, CREATE_SESSION, request.SerializeToString(), what, repeatable=True)
        session_id = pb.CreateSessionResponse.FromString(reply.message).session_id
        part = SessionPart(self, self.caller, shard_id, session_id, reply.asked_s)
        if self._ended.is_set():
            part.stop()
        return part

    async def _close_part(self, opening: asyncio.Task[SessionPart]) -> None:
        if not opening.done():
            opening.cancel()
            await asyncio.wait({opening})
        if _is_open(opening):
            await opening.result().close()


def _is_open(opening: asyncio.Task[SessionPart]) -> bool:
    return opening.done() and not opening.cancelled() and opening.exception() is None


class SessionPart:
    """The session on one shard, with heartbeats of its own, so that no shard's trouble is another's."""

    def __init__(self, session: WireSession, caller: Caller, shard_id: int, session_id: int, asked_s: float) -> None:
        self.session_id = session_id
        self._session = session
        self._caller = caller
        self._shard_id = shard_id
        self._timeout_s = session.timeout_ms / 1000
        self._beat_s = min(self._timeout_s / BEATS_PER_TIMEOUT, LONGEST_BEAT_S)
        self._granted_s = asked_s
        self._beats = asyncio.create_task(self._keep_alive(), name=f"session {session_id} on shard {shard_id}")

    @property
    def remaining_s(self) -> float:
        """How long the server keeps the session for sure, less a margin."""
        relied_s = self._timeout_s * (1 - 1 / MARGIN_PARTS)
        return max(0.0, self._granted_s + relied_s - self._caller.clock.monotonic_s())

    def stop(self) -> None:
        """Ends the heartbeats."""
        self._beats.cancel()

    async def close(self) -> None:
        """Ends this part at the server."""
        request = pb.CloseSessionRequest(shard=self._shard_id, session_id=self.session_id)
        what = f"close session {self.session_id} on shard {self._shard_id}"
        try:
            await self._caller.unary(self._shard_id, CLOSE_SESSION, request.SerializeToString(), what, repeatable=True)
        except SessionLost:
            return  # it has expired, or an earlier attempt has ended it: there is nothing left to end

    async def _keep_alive(self) -> None:
        pause_s = self._beat_s
        backoff = self._caller.backoff()
        while True:
            await asyncio.sleep(min(pause_s, self.remaining_s))
            if self.remaining_s <= 0:
                self._session.lose(f"shard {self._shard_id} has been out of reach for too long")
                return
            try:
                await self._beat()
            except SessionLost as error:
                self._session.lose(str(error))
                return
            except StoreClosed:
                return
            except StoreError:
                # There may be time for another heartbeat. If not, the loss is told before the server can end the
                # session: no holder goes on believing in it.
                pause_s = backoff.next_s()
            else:
                pause_s = self._beat_s
                backoff.reset()

    async def _beat(self) -> None:
        """One heartbeat. What it is worth counts from before it was sent."""
        request = pb.SessionHeartbeat(shard=self._shard_id, session_id=self.session_id)
        what = f"keep session {self.session_id} on shard {self._shard_id} alive"
        reply = await self._caller.unary(
            self._shard_id,
            KEEP_ALIVE,
            request.SerializeToString(),
            what,
            repeatable=True,
            timeout_s=min(self._beat_s, self.remaining_s),
        )
        self._granted_s = reply.asked_s
