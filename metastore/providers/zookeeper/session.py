"""A session: a connection of its own, whose ephemeral znode says that its owner is alive.

The records of a session are ordinary znodes, and the session's list names them. When the marker is gone, whoever
notices removes them, like any other write; so their end is in the change log, and no closing session can grow into a
transaction that ZooKeeper cannot carry.

A heartbeat is a write to the marker, because only the answer to a write proves that a majority stood behind the leader
when it was sent. A leader that is elected later gives every session its whole timeout anew. This one counts from when
it last heard of the session; and that may be a while earlier, since the servers between it and the clients tell it whom
they have heard of each half tick only, and one of them may die with the news.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from metastore.clock import Clock
from metastore.interface import Session, StoreError, Unavailable
from metastore.providers.zookeeper.batching import FIRST_PAUSE_S, Cut
from metastore.providers.zookeeper.connection import Conflict, Connection
from metastore.providers.zookeeper.layout import Layout
from metastore.providers.zookeeper.operations import Kind, Operation
from metastore.providers.zookeeper.write import Author

HEARTBEATS_PER_TIMEOUT = 8
PAUSE_S = 0.05
"""Between two attempts at a heartbeat, when the connection is lost."""


def asked_of_zookeeper_ms(timeout_ms: int) -> int:
    """The timeout to ask for, so that a session can be relied upon for this long after each heartbeat."""
    return timeout_ms * 3 // 2 + 1


def relied_upon_ms(granted_ms: int) -> int:
    """How long after a heartbeat a session cannot have expired: two thirds of what ZooKeeper grants.

    What the leader has not heard of is at most half a tick, and the time between two heartbeats: a quarter of the
    timeout, which has two ticks at least, and a twelfth.
    """
    return granted_ms * 2 // 3


class ZookeeperSession(Session):
    """Kept by heartbeats of this event loop, not by kazoo's thread: who is stuck must not seem alive to himself."""

    def __init__(
        self,
        connection: Connection,
        marker: str,
        author: Author,
        timeout_ms: int,
        begun_s: float,
        clock: Clock,
        end_records: Callable[[int], Awaitable[None]],
    ) -> None:
        self.identity = author.identity
        self.author = author
        self.timeout_ms = min(timeout_ms, relied_upon_ms(connection.granted_ms))
        self._connection = connection
        self._marker = marker
        self._clock = clock
        self._end_records = end_records
        self._reliable_until_s = begun_s + self.timeout_ms / 1000
        self._ended = asyncio.Event()
        self._is_dropped = False
        self._keeper = asyncio.create_task(self._keep())

    @property
    def is_lost(self) -> bool:
        if self._clock.monotonic_s() >= self._reliable_until_s:
            self._ended.set()
        return self._ended.is_set()

    @property
    def remaining_s(self) -> float:
        return 0.0 if self.is_lost else max(0.0, self._reliable_until_s - self._clock.monotonic_s())

    async def wait_lost(self) -> None:
        while not self.is_lost:
            await self._pause(self.remaining_s)

    async def close(self) -> None:
        if not self.is_lost:
            self._ended.set()
            await self._end_records(self.author.session_id)

    @property
    def is_over(self) -> bool:
        """Whether nothing of the session is left here."""
        return self._keeper.done()

    async def drop(self) -> None:
        """The store is closed: the session is left to expire, if it has not ended, and nothing is left here."""
        if not self._ended.is_set():
            self._is_dropped = True
            self._ended.set()
        await asyncio.wait([self._keeper])

    async def _keep(self) -> None:
        """Lets the heart beat until the session has ended, in one way or another, and then ends the connection."""
        heart = asyncio.create_task(self._beat())
        await self._ended.wait()
        heart.cancel()
        await asyncio.wait([heart])
        await (self._connection.drop() if self._is_dropped else self._connection.close())

    async def _beat(self) -> None:
        while not self.is_lost:
            begun_s = self._clock.monotonic_s()
            try:
                async with asyncio.timeout(self.remaining_s):
                    await self._connection.touch(self._marker)
            except (Cut, TimeoutError):
                await self._pause(PAUSE_S)
                continue
            except (Conflict, StoreError):
                break
            if not self.is_lost:
                self._reliable_until_s = begun_s + self.timeout_ms / 1000
            next_s = begun_s + self.timeout_ms / 1000 / HEARTBEATS_PER_TIMEOUT
            await self._pause(max(0.0, next_s - self._clock.monotonic_s()))
        self._ended.set()

    async def _pause(self, pause_s: float) -> None:
        """Waits, but not beyond the end of the session."""
        try:
            async with asyncio.timeout(pause_s):
                await self._ended.wait()
        except TimeoutError:
            return


async def open_session(
    servers: Iterable[str],
    layout: Layout,
    timeout_ms: int,
    identity: str,
    patience_s: float,
    clock: Clock,
    end_records: Callable[[int], Awaitable[None]],
) -> ZookeeperSession:
    """Connects, and sets up the marker."""
    connection = Connection(servers, asked_of_zookeeper_ms(timeout_ms), layout.root)
    connection.start()
    try:
        async with asyncio.timeout(patience_s):
            session_id, begun_s = await _mark(connection, layout, clock)
    except TimeoutError:
        await connection.close()
        raise Unavailable(f"ZooKeeper opened no session for {patience_s:g} s") from None
    except BaseException:
        await connection.close()
        raise
    author = Author(session_id, identity)
    marker = layout.session(session_id)
    return ZookeeperSession(connection, marker, author, timeout_ms, begun_s, clock, end_records)


async def _mark(connection: Connection, layout: Layout, clock: Clock) -> tuple[int, float]:
    """Creates the marker; the session's id, and when ZooKeeper had not heard of it yet."""
    while True:
        await connection.until_connected()
        session_id, begun_s = connection.session_id, clock.monotonic_s()
        try:
            if session_id is not None:
                await connection.commit([Operation(Kind.CREATE_EPHEMERAL, layout.session(session_id))])
                return session_id, begun_s
        except Conflict:
            # It was created by an attempt whose answer was lost. Other sessions have other ids.
            assert session_id is not None
            return session_id, begun_s
        except Cut:
            await asyncio.sleep(FIRST_PAUSE_S)
