"""Sessions: what keeps ephemeral records alive, on every shard that holds some of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from metastore.client import wire
from metastore.client.channel import Connection
from metastore.client.errors import ClientError, InvalidRequest, SessionLost
from metastore.client.failures import Action
from metastore.pb import oxia_pb2 as pb

DEFAULT_TIMEOUT_MS = 15_000
LONGEST_BEAT_S = 10.0
BEATS_PER_TIMEOUT = 4
"""Often enough that two lost heartbeats cost nothing."""


class Session:
    """A session of the client. Each shard keeps a part of its own, made when the first record needs it there.

    `lost` is set as soon as any part is gone, or may soon be, because its server has been out of reach for
    too long. That is before the server ends it, so whoever heeds it stops in time.
    """

    def __init__(self, connection: Connection, timeout_ms: int, identity: str) -> None:
        self.timeout_ms = wire.within("session timeout in ms", timeout_ms, 1, wire.UINT32_MAX)
        self.identity = identity
        self.lost = threading.Event()
        self._connection = connection
        self._lock = threading.Lock()
        self._parts: dict[int, SessionPart] = {}
        self.ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except ClientError as failure:
            if error is None:
                raise
            error.add_note(str(failure))

    @property
    def ids(self) -> dict[int, int]:
        """The session ids by shard, as far as there are any yet."""
        with self._lock:
            return {shard_id: part.session_id for shard_id, part in self._parts.items()}

    def open_on(self, shard_id: int) -> int:
        """The session's id on a shard, where it is created if need be."""
        with self._lock:
            if self.ended:
                raise InvalidRequest("the session was closed: open a new one")
            part = self._parts.get(shard_id)
            if part is None:
                part = self._parts[shard_id] = SessionPart(
                    self._connection, shard_id, self.timeout_ms, self.identity, self.lost.set
                )
        part.check()
        return part.session_id

    def open_everywhere(self) -> None:
        """Creates the session on every shard now."""
        for shard in self._connection.shards():
            self.open_on(shard.shard_id)

    def check(self) -> None:
        """Raises if the session is lost."""
        with self._lock:
            parts = list(self._parts.values())
        for part in parts:
            part.check()

    def close(self) -> None:
        """Ends the session: when this returns its ephemeral records are gone. A lost one has ended."""
        failures = []
        for part in self._end():
            try:
                part.close()
            except ClientError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def abandon(self) -> None:
        """Stops keeping the session alive, and leaves it to expire."""
        self._end()

    def _end(self) -> list[SessionPart]:
        with self._lock:
            self.ended = True
            parts = list(self._parts.values())
            self._parts.clear()
        for part in parts:
            part.stop()
        return parts


class SessionPart:
    """The session on one shard, with a thread of its own, so that no shard's trouble is another's."""

    def __init__(
        self,
        connection: Connection,
        shard_id: int,
        timeout_ms: int,
        identity: str,
        on_loss: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._shard_id = shard_id
        self._timeout_s = timeout_ms / 1000
        self._beat_s = min(self._timeout_s / BEATS_PER_TIMEOUT, LONGEST_BEAT_S)
        self._on_loss = on_loss
        self._loss: ClientError | None = None
        self._stopped = threading.Event()
        request = pb.CreateSessionRequest(
            shard=shard_id, session_timeout_ms=timeout_ms, client_identity=wire.to_wire(identity)
        )
        self._last_beat_s = connection.clock.monotonic_s()
        action = Action(f"create session on shard {shard_id}", writes=True)
        self.session_id = connection.unary(shard_id, wire.CREATE_SESSION, request, action).session_id
        self._thread = threading.Thread(
            target=self._keep_alive, name=f"session {self.session_id} on shard {shard_id}", daemon=True
        )
        self._thread.start()

    def check(self) -> None:
        """Raises if the session is lost."""
        if self._loss is not None:
            raise SessionLost(
                f"session {self.session_id} on shard {self._shard_id} is lost: "
                f"open a new one and put its records again ({self._loss})"
            )

    def stop(self) -> None:
        """Ends the heartbeats."""
        self._stopped.set()

    def close(self) -> None:
        """Closes the session on the server, after its last heartbeat."""
        self._thread.join()
        if self._loss is not None:
            return
        request = pb.CloseSessionRequest(shard=self._shard_id, session_id=self.session_id)
        action = Action(f"close session {self.session_id} on shard {self._shard_id}", writes=True)
        try:
            self._connection.unary(self._shard_id, wire.CLOSE_SESSION, request, action)
        except SessionLost:
            return  # it has expired in the meantime: there is nothing left to end

    def _keep_alive(self) -> None:
        while not self._stopped.wait(self._beat_s):
            try:
                self.beat()
            except ClientError as error:
                self._loss = error
                self._on_loss()
                return

    def beat(self) -> None:
        """One heartbeat; raises if the session is lost, or must be taken for lost."""
        request = pb.SessionHeartbeat(shard=self._shard_id, session_id=self.session_id)
        action = Action(f"keep session {self.session_id} on shard {self._shard_id} alive")
        sent_s = self._connection.clock.monotonic_s()
        try:
            self._connection.unary(self._shard_id, wire.KEEP_ALIVE, request, action, timeout_s=self._beat_s)
        except SessionLost:
            raise
        except ClientError:
            # There may be time for another heartbeat. If not, the loss is told before the server can end the
            # session: no holder goes on believing in it.
            silent_s = self._connection.clock.monotonic_s() - self._last_beat_s
            if silent_s > self._timeout_s - 2 * self._beat_s:
                raise
        else:
            self._last_beat_s = sent_s
