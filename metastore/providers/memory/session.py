"""A session as its owner holds it."""

from __future__ import annotations

from metastore.interface import Session
from metastore.providers.memory.bells import wait_until
from metastore.providers.memory.connection import Connection
from metastore.providers.memory.line import Lease


class MemorySession(Session):
    """A lease, and the connection over which it is kept."""

    def __init__(self, lease: Lease, connection: Connection) -> None:
        self.identity = lease.identity
        self.timeout_ms = lease.timeout_ms
        self.lease = lease
        self.connection = connection

    @property
    def session_id(self) -> int:
        """What `Version.session_id` says of its records."""
        return self.lease.session_id

    @property
    def is_lost(self) -> bool:
        return self.connection.line.is_lost(self.lease)

    @property
    def remaining_s(self) -> float:
        return self.connection.line.remaining_s(self.lease)

    async def wait_lost(self) -> None:
        await wait_until(lambda: self.is_lost, self.connection.line.news)

    async def close(self) -> None:
        # Whatever comes of the call, nobody relies on the session any more, and so it ends in its time at the latest.
        self.lease.is_given_up = True
        self.connection.line.news.ring()
        if self.lease.is_ended or self.connection.line.is_closed:
            return
        end = self.connection.data.end_session
        await self.connection.call("close_session", (self.identity,), lambda: end(self.session_id))
