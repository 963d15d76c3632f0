"""The records of a topic's subscriptions, as operations need them: before the topic is served, and while it is."""

from __future__ import annotations

from collections.abc import Collection

from controller.layout import TopicName
from controller.operations import has_cursors
from controller.subscriptions import DamagedSubscription, SubscriptionKind, Subscriptions
from controller.subscriptions.store import SubscriptionStore
from metastore.coordination import Grant, Pace


class StoredSubscriptions:
    """As they stand in the store; for a leader who serves nobody yet."""

    def __init__(self, grant: Grant, topic: TopicName, pace: Pace) -> None:
        self._store = SubscriptionStore(grant, topic, pace)

    async def names(self) -> Collection[str]:
        """All that are recorded."""
        return (await self._store.restore()).keys()

    async def with_cursors(self) -> Collection[str]:
        """Those that have cursors; also those whose record is damaged, for they may have some."""
        return [
            name
            for name, found in (await self._store.restore()).items()
            if isinstance(found, DamagedSubscription) or has_cursors(found.record.kind.value)
        ]

    async def create(self, name: str, kind: str) -> None:
        """Records one."""
        await self._store.create(name, SubscriptionKind(kind))

    async def delete(self, name: str) -> None:
        """Removes one, with its consumers."""
        await self._store.delete(name)


class ServedSubscriptions:
    """As they are served: whoever consumes is told."""

    def __init__(self, subscriptions: Subscriptions) -> None:
        self._subscriptions = subscriptions

    async def names(self) -> Collection[str]:
        """All that are recorded."""
        return self._subscriptions.names

    async def with_cursors(self) -> Collection[str]:
        """Those that have cursors."""
        kinds = self._subscriptions.kinds
        return [
            name for name in sorted(self._subscriptions.names) if name not in kinds or has_cursors(kinds[name].value)
        ]

    async def create(self, name: str, kind: str) -> None:
        """Records one, and begins to serve it."""
        await self._subscriptions.create(name, SubscriptionKind(kind))

    async def delete(self, name: str) -> None:
        """Removes one, and tells its consumers."""
        await self._subscriptions.delete(name)
