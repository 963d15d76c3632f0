"""Who keeps a client's list of brokers young: while it talks to one, all others that it knows may be replaced."""

from __future__ import annotations

import asyncio
import logging

from controller.client.caller import Caller
from txn.model.errors import TxnError

LIST_AGE_MAX_S = 30.0
"""Brokers are asked again which ones there are when between half of this and all of it has passed."""

logger = logging.getLogger("tidemark.client")


class Lookout:
    """Asks from time to time. A client that no broker fails has no other reason to."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._task = asyncio.create_task(self._run(), name="look for brokers")
        self._task.add_done_callback(_note_end)

    async def _run(self) -> None:
        pace = self._caller.pace
        while True:
            await pace.sleep(LIST_AGE_MAX_S * (1 + pace.random.random()) / 2)
            try:
                await self._caller.describe()
            except TxnError as error:
                logger.warning("the list of brokers remains as it is for now: %s", error)

    async def close(self) -> None:
        """Asks no more."""
        self._task.cancel()
        await asyncio.wait({self._task})


def _note_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        logger.error("brokers are looked for no more", exc_info=task.exception())
