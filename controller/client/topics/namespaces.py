"""The topics of a namespace that have certain properties, as brokers tell it. What is known outlasts a broken stream:
with the hash of it a broker tells whether anything is different."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from controller.client.caller import Caller
from controller.client.protocol import WATCH_NAMESPACE
from controller.client.topics.following import Following
from controller.layout import NamespaceName
from controller.pb import topics_pb2 as pb
from controller.watches import hash_of
from txn.segment.bell import Bell


@dataclass(frozen=True, slots=True)
class TopicSetChange:
    """How the set is different from what was told before."""

    removed: frozenset[str]
    """To be taken out first: a name that is in both is of another topic now."""
    added: frozenset[str]


class TopicSet:
    """The topics there are. `run`, or `changes`, keeps it up to date."""

    def __init__(self, caller: Caller, namespace: NamespaceName, properties: Mapping[str, str]) -> None:
        self.names: frozenset[str] = frozenset()
        self.is_known = False
        self.generations: dict[str, int] = {}
        """How often a name has been of another topic."""
        self.news = 0
        """How often something was told."""
        self._namespace = namespace
        self._properties = dict(properties)
        self._page: set[str] = set()
        self._following = Following(caller, f"watch the topics of {namespace}")
        self._bell = Bell()

    async def run(self) -> None:
        """Follows until cancelled, or refused for good."""
        await self._following.run(WATCH_NAMESPACE, self._opening, self.hear)

    async def wait_news(self, known: int) -> None:
        """Returns when more than that was told."""
        await self._bell.until(lambda: self.news != known)

    async def changes(self) -> AsyncIterator[TopicSetChange]:
        """Follows, and tells what is different each time somebody asks."""
        running = asyncio.create_task(self.run())
        try:
            told: dict[str, int] | None = None
            while True:
                news = asyncio.create_task(self.wait_news(self.news))
                try:
                    if self.is_known:
                        now = {name: self.generations.get(name, 0) for name in self.names}
                        change = _change(told or {}, now)
                        if told is None or change.removed or change.added:
                            told = now
                            yield change
                    await asyncio.wait([news, running], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    news.cancel()
                if running.done():
                    running.result()
        finally:
            running.cancel()
            await asyncio.wait([running])

    def _opening(self) -> pb.WatchNamespaceRequest:
        known = hash_of(self.names) if self.is_known else ""
        return pb.WatchNamespaceRequest(namespace=str(self._namespace), properties=self._properties, known_hash=known)

    async def hear(self, update: pb.NamespaceUpdate) -> None:
        """What a broker tells."""
        match update.WhichOneof("update"):
            case "page":
                self._page = set() if update.page.is_first else self._page
                self._page.update(update.page.topics)
                if not update.page.is_last:
                    return
                self.names, self.is_known = frozenset(self._page), True
            case "diff":
                self.names = (self.names - set(update.diff.removed)) | set(update.diff.added)
                for name in set(update.diff.removed) & set(update.diff.added):
                    self.generations[name] = self.generations.get(name, 0) + 1
            case "unchanged":
                pass
            case _:
                return  # something that a newer broker says
        self.generations = {name: number for name, number in self.generations.items() if name in self.names}
        self.news += 1
        self._bell.ring()


def _change(before: Mapping[str, int], now: Mapping[str, int]) -> TopicSetChange:
    removed = frozenset(name for name, generation in before.items() if now.get(name) != generation)
    added = frozenset(name for name, generation in now.items() if before.get(name) != generation)
    return TopicSetChange(removed, added)
