"""The watch of a namespace's topics, by properties: the set, then how it changes, several changes at a time."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator, Mapping
from types import MappingProxyType, TracebackType
from typing import Self
from weakref import WeakValueDictionary

from controller.layout import NamespaceName
from controller.together import together
from controller.topics import Topics, paths
from controller.topics.records import check_properties
from controller.watches.errors import TooManyWatches
from controller.watches.rolls import Diff, Entry, Roll, SnapshotPage
from controller.watches.sharing import Follower, Lease, Shared
from metastore.coordination import Pace
from metastore.interface import MetadataStore, Record

logger = logging.getLogger("tidemark.watches")

NAMESPACE_SESSIONS_MAX = 20_000
"""Of one broker, of all namespaces together."""
ROLLS_MAX = 1_000
"""Different properties that are asked for in one namespace."""
COALESCING_S = 0.05
"""Changes are told this long after the first of them, all at once."""
NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})

Filters = frozenset[tuple[str, str]]
NamespaceEvent = SnapshotPage | Diff


class NamespaceFollower(Follower):
    """Follows the topics of one namespace for all its sessions here."""

    def __init__(self, store: MetadataStore, namespace: NamespaceName, pace: Pace) -> None:
        super().__init__()
        self._topics = Topics(store, pace)
        self._namespace = namespace
        self._pace = pace
        self._entries: dict[str, Entry] = {}
        self._rolls: WeakValueDictionary[Filters, Roll] = WeakValueDictionary()
        """They go with the last session that reads them."""
        self._changed: set[str] = set()
        self._has_changed = asyncio.Event()
        self.is_ready = False

    def roll(self, filters: Filters) -> Roll:
        """The topics that have all these properties."""
        assert self.is_ready, "what is not known cannot be called"
        roll = self._rolls.get(filters)
        if roll is None:
            if len(self._rolls) >= ROLLS_MAX:
                raise TooManyWatches(
                    f"{self._namespace} is watched by {ROLLS_MAX} different filters here (ROLLS_MAX): ask elsewhere"
                )
            roll = self._rolls[filters] = Roll(dict(filters), self._entries)
        return roll

    def fail(self, failure: BaseException) -> None:
        """All sessions are to raise this."""
        super().fail(failure)
        for roll in list(self._rolls.values()):
            roll.bell.ring()

    async def follow(self) -> None:
        """Follows until cancelled."""
        await together(self._follow_records(), self._tell())

    async def _follow_records(self) -> None:
        async with self._topics.view_namespace(self._namespace) as view:
            while True:
                for key in await view.news():
                    if paths.is_topic_key(key):
                        self._take(key, view.records.get(key))
                if not self.is_ready:
                    self.is_ready = True
                    self.bell.ring()
                if self._changed:
                    self._has_changed.set()

    async def _tell(self) -> None:
        """Brings the rolls up to date, some time after the first change."""
        while True:
            await self._has_changed.wait()
            await self._pace.sleep(COALESCING_S)
            self._has_changed.clear()
            changed, self._changed = self._changed, set()
            for roll in list(self._rolls.values()):
                roll.update(changed, self._entries)

    def _take(self, key: str, record: Record | None) -> None:
        name = str(paths.topic_of_key(key))
        if record is None or not record.value:
            self._entries.pop(name, None)
        else:
            self._entries[name] = Entry(record.version, _properties(record))
        self._changed.add(name)


class NamespaceSession:
    """An iterator of a set of topics: all of it in pages, then how it changes. In `async with`, by one task at a time.

    `known` is the hash of the set that the client has: if it is the same there is no snapshot, only what comes then.
    """

    def __init__(
        self,
        shared: Shared[NamespaceName, NamespaceFollower],
        lease: Lease[NamespaceName, NamespaceFollower],
        filters: Filters,
        known: str | None,
    ) -> None:
        self._shared = shared
        self._lease: Lease[NamespaceName, NamespaceFollower] | None = lease
        self._follower = lease.follower
        self._filters = filters
        self._known = known
        self._roll: Roll | None = None
        self._pages: Iterator[SnapshotPage] = iter(())
        """What is still to come of a snapshot."""
        self._place = 0
        """The number of what is told next in the roll."""

    async def is_known(self) -> bool:
        """Whether the client has the set that there is, so that no snapshot comes. Before anything is told."""
        while self._find_roll() is None and self._lease is not None:
            self._follower.check()
            await self._follower.bell.wait()
        return self._roll is not None and self._known == self._roll.hash

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> NamespaceEvent:
        """What is to be told next, waited for. Cancelling the wait loses nothing."""
        while self._lease is not None:
            self._follower.check()
            event = self._next()
            if event is not None:
                return event
            await (self._follower.bell if self._roll is None else self._roll.bell).wait()
        raise StopAsyncIteration

    def _next(self) -> NamespaceEvent | None:
        roll = self._find_roll()
        if roll is None:
            return None
        page = next(self._pages, None)
        if page is not None:
            return page
        if self._place == roll.next:
            return None
        if not roll.is_kept(self._place):
            self._begin(roll)
            return self._next()
        self._place += 1
        return roll.diff(self._place - 1)

    def _find_roll(self) -> Roll | None:
        """The roll, once it is known; the session's place in it is then where the client is to begin."""
        if self._roll is None and self._follower.is_ready:
            self._roll = self._follower.roll(self._filters)
            if self._known == self._roll.hash:
                self._place = self._roll.next
            else:
                self._begin(self._roll)
        return self._roll

    def _begin(self, roll: Roll) -> None:
        """The whole set is to be told, as it is now."""
        self._pages, self._place = iter(roll.pages), roll.next

    async def close(self) -> None:
        """Ends the session."""
        lease, self._lease = self._lease, None
        if lease is not None:
            self._roll = None
            self._shared.give_back(lease)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class NamespaceWatches:
    """The watches of namespaces of one broker. To be used in `async with`."""

    def __init__(self, store: MetadataStore, pace: Pace, *, sessions_max: int = NAMESPACE_SESSIONS_MAX) -> None:
        self._shared: Shared[NamespaceName, NamespaceFollower] = Shared(
            lambda namespace: NamespaceFollower(store, namespace, pace), sessions_max, "NAMESPACE_SESSIONS_MAX"
        )

    @property
    def sessions(self) -> int:
        """How many sessions there are."""
        return self._shared.sessions

    @property
    def namespaces(self) -> int:
        """How many namespaces are followed for them."""
        return len(self._shared)

    def open(
        self, namespace: NamespaceName, filters: Mapping[str, str] | None = None, *, known: str | None = None
    ) -> NamespaceSession:
        """A session that watches the topics that have all these properties; see `NamespaceSession`."""
        check_properties(filters or {})
        wanted = frozenset((filters or {}).items())
        return NamespaceSession(self._shared, self._shared.take(namespace), wanted, known)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._shared.close()


def _properties(record: Record) -> Mapping[str, str]:
    """The properties that a topic's record says. One that cannot be read has none: it is in the namespace all the same.

    The rest of the record, most of it, is not looked at: a namespace may have very many topics.
    """
    try:
        properties = json.loads(record.value or b"").get("properties") or {}
        return {str(name): str(value) for name, value in properties.items()} or NO_PROPERTIES
    except (ValueError, TypeError, AttributeError) as error:
        logger.error("the properties of %s are left out: %r", record.key, error)
        return NO_PROPERTIES
