"""Topics' records in the store: created once, changed by compare-and-set, found by namespace and properties."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import NamedTuple

from controller.layout.names import NAME_BYTES_MAX, NamespaceName, TopicName
from controller.layout.record import TopicRecord
from controller.topics import paths
from controller.topics.errors import InvalidTopic, TopicExists, TopicNotFound
from metastore.coordination import Backoff, Grant, Pace, View
from metastore.interface import (
    ABSENT,
    ConditionFailed,
    MetadataStore,
    OutcomeUnknown,
    Put,
    Record,
    UnexpectedVersion,
    exactly,
)

PROPERTIES_MAX = 100
UPDATE_ATTEMPTS_MAX = 30
"""Races with others who change the same topic that are lost in a row."""


class StoredTopic(NamedTuple):
    """A topic's record as it was read."""

    record: TopicRecord
    version_id: int


class Topics:
    """The records of all topics. What only a topic's leader may change is conditional on the grant that it has."""

    def __init__(self, store: MetadataStore, pace: Pace) -> None:
        self._store = store
        self._pace = pace

    async def create(self, topic: TopicName, record: TopicRecord) -> int:
        """Puts the record of a topic that must not exist; its version."""
        check_properties(record.properties)
        try:
            return await self._put(topic, record, ABSENT)
        except UnexpectedVersion:
            raise TopicExists(f"{topic} exists already") from None

    async def find(self, topic: TopicName) -> StoredTopic | None:
        """The record as it is now."""
        found = await self._store.get(topic.path, partition_key=paths.partition(topic))
        return None if found is None else stored(found)

    async def read(self, topic: TopicName) -> StoredTopic:
        """The record as it is now; TopicNotFound without one."""
        found = await self.find(topic)
        if found is None:
            raise TopicNotFound(f"there is no topic {topic}: create it first")
        return found

    async def update(
        self, topic: TopicName, change: Callable[[TopicRecord], TopicRecord], *, grant: Grant | None = None
    ) -> StoredTopic:
        """Changes the newest record, however often others change it meanwhile; what `change` makes is what is stored.

        With a grant, only while it stands: Deposed otherwise. `change` may be called several times.
        """
        backoff = Backoff(self._pace)
        for _ in range(UPDATE_ATTEMPTS_MAX):
            before = await self.read(topic)
            after = change(before.record)
            check_properties(after.properties)
            try:
                return StoredTopic(after, await self._put(topic, after, before.version_id, grant))
            except UnexpectedVersion:
                await backoff.pause()
            except OutcomeUnknown:
                found = await self.find(topic)
                if found is not None and found.record == after:
                    return found
                await backoff.pause()
        raise TopicExists(
            f"{topic} changed {UPDATE_ATTEMPTS_MAX} times while it was being changed (UPDATE_ATTEMPTS_MAX): try again"
        )

    async def _put(self, topic: TopicName, record: TopicRecord, expected: int, grant: Grant | None = None) -> int:
        put = Put(topic.path, record.encode(), expected, paths.indexes(topic, record.properties))
        if grant is None:
            result = await self._store.put(
                put.key, put.value, expected=expected, partition_key=paths.partition(topic), indexes=put.indexes
            )
            return result.version.version_id
        return await fenced(grant, put)

    async def remove(self, topic: TopicName, version_id: int) -> None:
        """Removes the record, if it is still at that version."""
        await self._store.delete(topic.path, expected=version_id, partition_key=paths.partition(topic))

    async def names(
        self, namespace: NamespaceName, properties: Mapping[str, str] | None = None
    ) -> AsyncIterator[TopicName]:
        """The namespace's topics that have all these properties."""
        if not properties:
            async for key in self._store.list(paths.topics_of(namespace, self._store.key_sorting)):
                if paths.is_topic_key(key):
                    yield paths.topic_of_key(key)
            return
        name, value = next(iter(properties.items()))
        wanted = exactly(paths.property_key(namespace, name, value))
        async for record in self._store.scan(wanted, index=paths.BY_PROPERTY):
            if has_properties(stored(record).record, properties):
                yield paths.topic_of_key(record.key)

    def view(self, topic: TopicName) -> View:
        """The topic's record, and every change of it."""
        return View(self._store, exactly(topic.path), partition_key=paths.partition(topic), pace=self._pace)

    def view_namespace(self, namespace: NamespaceName) -> View:
        """The records of a namespace's topics, and every change; `paths.is_topic_key` tells them from what is below."""
        return View(self._store, paths.topics_of(namespace, self._store.key_sorting), pace=self._pace)


async def fenced(grant: Grant, put: Put) -> int:
    """Puts a record of the grant's partition while the grant stands, on any store; the record's version.

    Without `transact` it is the put's own condition that keeps a deposed holder out: whoever takes a role over changes
    the records that it guards before anything else, so that no version that an earlier holder knew is left.
    """
    assert put.expected is not None, "what is fenced is compared"
    if grant.store.capabilities.transact:
        try:
            (result,) = await grant.transact([put])
        except ConditionFailed as error:
            raise UnexpectedVersion(str(error), put.key, put.expected) from error
        assert result is not None
        return result.version.version_id
    grant.check()
    result = await grant.store.put(
        put.key, put.value, expected=put.expected, partition_key=grant.partition_key, indexes=put.indexes
    )
    return result.version.version_id


async def read(grant: Grant, key: str) -> Record | None:
    """A record of the grant's partition; read while the grant stands, so that it is no successor's.

    Without `transact` a write is conditional on the record alone, so the store is asked whether the grant stands: then
    whoever takes the role over has not changed the record yet, and the version that was read is good only before that.
    """
    found = await grant.store.get(key, partition_key=grant.partition_key)
    grant.check()
    if not grant.store.capabilities.transact:
        await grant.confirm()
    return found


def stored(record: Record) -> StoredTopic:
    """What a record says."""
    assert record.value is not None, "a read brings the value"
    return StoredTopic(TopicRecord.decode(record.value), record.version.version_id)


def has_properties(record: TopicRecord, wanted: Mapping[str, str]) -> bool:
    """Whether a topic has all these properties."""
    return all(record.properties.get(name) == value for name, value in wanted.items())


def check_properties(properties: Mapping[str, str]) -> None:
    """InvalidTopic for what no topic's properties can be."""
    if len(properties) > PROPERTIES_MAX:
        raise InvalidTopic(f"{len(properties)} properties: at most {PROPERTIES_MAX} (PROPERTIES_MAX)")
    for name, value in properties.items():
        if not name or len(name.encode()) + len(value.encode()) > NAME_BYTES_MAX:
            raise InvalidTopic(
                f"property {name[:80]!r}: a name that is not empty, and at most {NAME_BYTES_MAX} bytes with its value"
            )
