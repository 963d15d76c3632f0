"""The live picture that a broker has: which posts there are, who holds them, and which brokers live.

Three watches of the store for the whole broker, however many posts there are. What a record says that cannot be read is
left out and logged: one damaged record does not keep the others from being seen.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from metastore.coordination import ForeignRecord, Pace, View
from metastore.interface import MetadataStore, Record
from txn.model import paths
from txn.model.errors import RecordDamaged
from txn.posts.brokers import GROUP, Broker, Owner, line_up
from txn.segment.bell import Bell

logger = logging.getLogger("tidemark.posts")

T = TypeVar("T")


class News(NamedTuple):
    """What has changed in the chart."""

    posts: frozenset[str]
    """These were created, deleted, taken or let go, or have changed."""
    has_other_brokers: bool
    """Brokers have come or gone: for any post another one may stand first."""


class Chart(ABC):
    """What the watches have told so far. `follow` keeps it up to date. What the posts are its heirs know."""

    def __init__(self, store: MetadataStore, pace: Pace, bell: Bell) -> None:
        self._store = store
        self._pace = pace
        self._bell = bell
        """Rung at every change."""
        self._owners: dict[str, Owner] = {}
        self._brokers: dict[str, Broker] = {}
        self.owners: Mapping[str, Owner] = MappingProxyType(self._owners)
        self.brokers: Mapping[str, Broker] = MappingProxyType(self._brokers)
        self._posts_changed: set[str] = set()
        self._have_brokers_changed = False
        self._views_to_come = 3
        self._news = asyncio.Event()
        self._is_ready = asyncio.Event()

    # -- what the posts are

    @abstractmethod
    def posts(self) -> Iterable[str]:
        """All posts there are."""

    @abstractmethod
    def exists(self, post: str) -> bool:
        """Whether there is such a post."""

    @abstractmethod
    def is_served(self, post: str) -> bool:
        """Whether it is to be served, if it can be: not where it is on its way out."""

    @abstractmethod
    def place(self, post: str) -> str | None:
        """The place that a broker must serve to have it; None if any broker can."""

    @abstractmethod
    def _post_view(self) -> View:
        """What tells which posts there are."""

    @abstractmethod
    def _take_post(self, key: str, record: Record | None) -> str | None:
        """Takes news of a record; the post that it concerns."""

    @abstractmethod
    def _owner_view(self) -> View:
        """What tells who holds them."""

    @abstractmethod
    def _owned(self, key: str) -> str | None:
        """The post of which a grant has this key."""

    # -- questions

    async def ready(self) -> None:
        """Returns when the chart shows what there was at some time since it was made."""
        await self._is_ready.wait()

    async def news(self) -> News:
        """What has changed since the last call, waited for. For the one task that acts on it."""
        await self._is_ready.wait()
        await self._news.wait()
        self._news.clear()
        news = News(frozenset(self._posts_changed), self._have_brokers_changed)
        self._posts_changed, self._have_brokers_changed = set(), False
        return news

    def unowned(self) -> set[str]:
        """The posts that nobody has."""
        return set(self.posts()) - self._owners.keys()

    def standing(self, post: str, broker: str) -> int | None:
        """How many live brokers stand before that one for a post that nobody has; None if it is not to be had."""
        if not self.exists(post) or post in self._owners:
            return None
        line = line_up(post, self._brokers.values(), self.place(post))
        return line.index(broker) if broker in line else None

    # -- following

    async def follow(self) -> None:
        """Follows the store until cancelled."""
        brokers = View(self._store, paths.below(GROUP, self._store.key_sorting), partition_key=GROUP, pace=self._pace)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow(self._post_view(), self._take_post))
            tasks.create_task(self._follow(self._owner_view(), self._take_owner))
            tasks.create_task(self._follow(brokers, self._take_broker))

    async def _follow(self, view: View, take: Callable[[str, Record | None], str | None]) -> None:
        has_told = False
        async with view:
            while True:
                for key in await view.news():
                    post = take(key, view.records.get(key))
                    if post is not None:
                        self._posts_changed.add(post)
                if not has_told:
                    has_told = True
                    self._views_to_come -= 1
                    if not self._views_to_come:
                        self._is_ready.set()
                self._news.set()
                self._bell.ring()

    def _take_owner(self, key: str, record: Record | None) -> str | None:
        post = self._owned(key)
        if post is None:
            return None
        owner = None if record is None else read(record, Owner.of_grant)
        if owner is None:
            self._owners.pop(post, None)
        else:
            self._owners[post] = owner
        return post

    def _take_broker(self, key: str, record: Record | None) -> None:
        if is_child(key, GROUP):
            name = key.removeprefix(f"{GROUP}/")
            broker = None if record is None else read(record, Broker.of_record)
            if broker is None:
                self._brokers.pop(name, None)
            else:
                self._brokers[name] = broker
            self._have_brokers_changed = True


def read(record: Record, decode: Callable[[Record], T]) -> T | None:
    """What a record says; None if that cannot be read."""
    try:
        return decode(record)
    except (RecordDamaged, ForeignRecord) as error:
        logger.error("%s is left out: %s", record.key, error)
        return None


def is_child(key: str, path: str) -> bool:
    """In the natural order a range has the children's children as well."""
    return key.count("/") == path.count("/") + 1
