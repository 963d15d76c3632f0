"""The headers of all open transactions: one watch of the index of deadlines, for all in a process who follow it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from metastore.coordination import Pace, View
from metastore.interface import ALL, MetadataStore
from txn.model import paths

Told = Callable[[View, frozenset[str]], None]
"""Takes the keys of the headers that are not as they were; at first, of all that there are."""


@dataclass(eq=False, slots=True)
class _Follower:
    """Somebody who wants to know."""

    told: Told
    ended: asyncio.Future[None]

    def tell(self, view: View, news: frozenset[str]) -> None:
        """A follower that fails is the only one to learn of that."""
        try:
            self.told(view, news)
        except Exception as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """It is told nothing any more."""
        if not self.ended.done():
            self.ended.set_exception(error)


class OpenHeaders:
    """The watch, for as long as somebody follows it."""

    def __init__(self, store: MetadataStore, pace: Pace) -> None:
        self._store = store
        self._pace = pace
        self._followers: list[_Follower] = []
        self._view: View | None = None
        self._watching: asyncio.Task[None] | None = None

    async def follow(self, told: Told) -> None:
        """Tells of the headers until cancelled. Raises what `told` raises, and what ends the watch for good."""
        follower = _Follower(told, asyncio.get_running_loop().create_future())
        self._followers.append(follower)
        try:
            if self._view is None:
                self._view = View(self._store, ALL, index=paths.BY_DEADLINE, pace=self._pace)
                self._watching = asyncio.create_task(self._watch(self._view), name="open transactions")
            elif self._view.snapshots:
                follower.tell(self._view, frozenset(self._view.records))
            await follower.ended
        finally:
            self._followers.remove(follower)
            if not self._followers:
                await self._stop()

    async def _watch(self, view: View) -> None:
        try:
            async with view:
                while True:
                    news = await view.news()
                    for follower in list(self._followers):
                        follower.tell(view, news)
        except Exception as error:
            self._view = None  # the next who follows begins anew
            for follower in self._followers:
                follower.fail(error)

    async def _stop(self) -> None:
        watching, self._watching, self._view = self._watching, None, None
        if watching is not None:
            watching.cancel()
            await asyncio.wait([watching])
