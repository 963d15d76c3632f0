"""Lets go of sealed segments that nobody needs any more: when that is looked at, and what is asked before it is done.

It is looked at when something was drained, the layout or a policy has changed, or a segment has become old enough: a
topic with nothing to prune costs nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from controller.layout import Layout, LayoutError
from controller.operations.retention import next_aged_ms
from controller.topics import TopicError
from metastore.coordination import Backoff, Pace
from txn.coordinator.waiting import first_of
from txn.model.errors import TxnError

logger = logging.getLogger("tidemark.leading")


class Pruner:
    """Prunes one topic, again and again. `run` works until cancelled."""

    def __init__(
        self,
        layout: Callable[[], Layout],
        retention_ms: Callable[[], int | None],
        candidates: Callable[[Layout], tuple[int, ...]],
        act: Callable[[], Awaitable[None]],
        pace: Pace,
    ) -> None:
        self._layout = layout
        self._retention_ms = retention_ms
        self._candidates = candidates
        self._act = act
        """Prunes what may really go, by the newest layout and the owners' word."""
        self._pace = pace
        self._is_wanted = asyncio.Event()
        self._is_wanted.set()

    def wake(self) -> None:
        """Something may have become unneeded."""
        self._is_wanted.set()

    async def run(self) -> None:
        """Works until cancelled. What fails is tried again, after a pause."""
        backoff = Backoff(self._pace)
        while True:
            self._is_wanted.clear()
            try:
                if self._candidates(self._layout()):
                    await self._act()
            except (TopicError, LayoutError, TxnError) as error:
                logger.warning("segments were not pruned: %s", error)
                await backoff.pause()
                self._is_wanted.set()
            await self._wait()

    async def _wait(self) -> None:
        now_ms = self._pace.clock.wall_ms()
        due_ms = next_aged_ms(self._layout(), self._retention_ms(), now_ms)
        if due_ms is None:
            await self._is_wanted.wait()
        else:
            await first_of(self._is_wanted.wait(), self._pace.sleep((due_ms - now_ms) / 1000))
