"""Room for writers that are always too late.

Who is far from ZooKeeper needs more time between reading the head and comparing it than somebody near leaves, who
writes all the time. After a number of conflicts a writer says so, by an ephemeral znode, until its write is done; and
all others, who see that when they read the head, pause for a moment between two writes. It is no lock: who asks and
dies slows the others down until its session with ZooKeeper has expired, and stops nobody.
"""

from __future__ import annotations

from metastore.interface import StoreError
from metastore.providers.zookeeper.batching import Cut
from metastore.providers.zookeeper.connection import Conflict, Connection
from metastore.providers.zookeeper.layout import Layout
from metastore.providers.zookeeper.operations import Kind, Operation


class Courtesy:
    """What one writer asks of the others, and they of it."""

    def __init__(self, connection: Connection, layout: Layout, identity: str) -> None:
        self._connection = connection
        self._path = layout.asking(identity)
        self._is_asking = False

    async def ask(self) -> None:
        """Asks the others for room, once."""
        if not self._is_asking:
            self._is_asking = True
            await self._attempt(Operation(Kind.CREATE_EPHEMERAL, self._path))

    async def thank(self) -> None:
        """Needs no more room. If that does not get through, the next time does."""
        if self._is_asking and await self._attempt(Operation(Kind.DELETE, self._path)):
            self._is_asking = False

    def is_asked(self, asking: int) -> bool:
        """Whether to make room, when so many ask for it."""
        return asking > 0 and not self._is_asking

    async def _attempt(self, operation: Operation) -> bool:
        """Whether it is as it should be now."""
        try:
            await self._connection.commit([operation])
        except Conflict:
            return True
        except (Cut, StoreError):
            # Whatever it is, the writes that this is about meet it as well, and their callers are told.
            return False
        return True
