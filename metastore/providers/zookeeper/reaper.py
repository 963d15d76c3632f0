"""Removes the records of sessions that have ended: at once, whoever's they were.

Every open store does this. Those that are late find nothing left to do.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from metastore.interface import Abortable, Fatal, Retriable
from metastore.providers.zookeeper.batching import Read
from metastore.providers.zookeeper.connection import Connection, teller
from metastore.providers.zookeeper.layout import Layout, session_id_of

logger = logging.getLogger("tidemark.zookeeper")

PAUSE_S = 1.0
"""Before another attempt, when ZooKeeper does not answer."""


class Reaper:
    """Watches the markers of all sessions."""

    def __init__(self, connection: Connection, layout: Layout, end_records: Callable[[int], Awaitable[None]]) -> None:
        self._connection = connection
        self._layout = layout
        self._end_records = end_records
        self._task = asyncio.create_task(self._reap())

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _reap(self) -> None:
        while True:
            changed = asyncio.Event()
            try:
                await self._reap_once(changed)
                await changed.wait()
            except (Retriable, Abortable) as error:
                logger.warning("the records of ended sessions are still there, and will be removed: %s", error)
                await asyncio.sleep(PAUSE_S)
            except Fatal as error:
                logger.error("the records of ended sessions are left to other clients of the store: %s", error)
                return

    async def _reap_once(self, changed: asyncio.Event) -> None:
        """Ends every session that has records and no marker; `changed` is set when there may be more of them."""
        # A session that comes in between is taken for ended here, and not by the write that would end it.
        alive, owners = await self._connection.read(
            [Read(self._layout.sessions, is_list=True, watch=teller(changed)), Read(self._layout.owners, is_list=True)]
        )
        for name in sorted(set(owners) - set(alive)):
            await self._end_records(session_id_of(name))
