"""The records of a topic's subscriptions, written on the strength of the leader's grant.

The subscription's own record decides. Where the store has `transact`, the records of consumers change in the same
commit; elsewhere those who come are written before it, and those who go removed after it, and what a crash leaves in
between is set right by the next leader. There, too, a new leader first rewrites every record as it is: so no version
is left on which a deposed one could still write.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from controller.layout import TopicName
from controller.subscriptions.errors import DamagedSubscription, WrongKind
from controller.subscriptions.records import CONSUMER_VALUE, SubscriptionKind, SubscriptionRecord
from controller.topics import SubscriptionNotFound, paths
from controller.topics.records import fenced, read
from metastore.coordination import Backoff, Grant, Pace
from metastore.interface import (
    ABSENT,
    ConditionFailed,
    Delete,
    Operation,
    OutcomeUnknown,
    Put,
    Record,
    Retriable,
    UnexpectedVersion,
)
from txn.model.paths import below

logger = logging.getLogger("tidemark.subscriptions")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stored:
    """A subscription as it was found."""

    record: SubscriptionRecord
    members: frozenset[str]
    version_id: int


class SubscriptionStore:
    """A topic's subscriptions in the store. Deposed as soon as the grant is over."""

    def __init__(self, grant: Grant, topic: TopicName, pace: Pace) -> None:
        self.topic = topic
        self.pace = pace
        self._grant = grant
        self._store = grant.store
        self._partition = paths.partition(topic)

    @property
    def term(self) -> int:
        """The term of the leader."""
        return self._grant.term

    async def restore(self) -> Mapping[str, Stored | DamagedSubscription]:
        """All subscriptions there are, by name, once an earlier leader can change none of them any more."""
        found: dict[str, Stored | DamagedSubscription] = {}
        for key in await self._insist(lambda: self._children(paths.subscriptions_path(self.topic))):
            name = paths.subscription_of_key(key)
            try:
                found[name] = await self._restore(name)
            except DamagedSubscription as error:
                logger.error("%s of %s is left out: %s", name, self.topic, error)
                found[name] = error
        return found

    async def create(self, name: str, kind: SubscriptionKind) -> Stored:
        """Records a subscription, or finds that it is recorded; WrongKind if it is of another kind."""
        key = paths.subscription_key(self.topic, name)
        record = SubscriptionRecord(kind, 0, {})

        async def put() -> Stored:
            found = await self._get(key)
            if found is None:
                version_id = await self._put(Put(key, record.encode(), ABSENT), (), ())
                return Stored(record, frozenset(), version_id)
            stored = await self._restore(name)
            if stored.record.kind is not kind:
                raise WrongKind(f"subscription {name!r} of {self.topic} is a {stored.record.kind.value}")
            return stored

        return await self._insist(put)

    async def write(
        self,
        name: str,
        record: SubscriptionRecord,
        expected: int,
        *,
        joined: Collection[str] = (),
        left: Collection[str] = (),
    ) -> int:
        """Replaces a subscription's record, however long that takes; its version.

        What others wrote meanwhile is overwritten where the grant is a condition of the write; elsewhere it is taken
        for a later leader's, and ends the grant. SubscriptionNotFound if the record was removed.
        """
        key, value = paths.subscription_key(self.topic, name), record.encode()
        is_first = True

        async def put() -> int:
            nonlocal expected, is_first
            if not is_first:
                found = await self._get(key)
                if found is None:
                    raise self._not_found(name)
                if found.value == value:
                    return found.version.version_id
                expected = self._only_by_leaders(name, found.version.version_id, expected)
            is_first = False
            return await self._put(Put(key, value, expected), self._keys(name, joined), self._keys(name, left))

        if self._store.capabilities.transact:
            return await self._insist(put)
        for each in self._keys(name, joined):
            await self._insist(partial(self._put_consumer, each))
        version_id = await self._insist(put)
        for each in self._keys(name, left):
            await self._insist(partial(self._delete, each))
        return version_id

    async def delete(self, name: str) -> None:
        """Removes a subscription and all records of its consumers (H11); nothing if there is none.

        Its own record goes last: as long as something is left, whoever goes on with that finds it by its name.
        """
        key = paths.subscription_key(self.topic, name)

        async def delete() -> None:
            found = await self._get(key)
            if found is None:
                return
            operation = Delete(key, found.version.version_id)
            if self._store.capabilities.transact:
                await self._transact([operation])
            else:
                await self._store.delete(key, expected=operation.expected, partition_key=self._partition)

        consumers = below(paths.consumers_path(self.topic, name), self._store.key_sorting)
        await self._insist(lambda: self._store.delete_range(consumers, partition_key=self._partition))
        await self._insist(delete)

    # -- single steps

    async def _restore(self, name: str) -> Stored:
        """A subscription as it is, its consumers' records as its own record says they should be."""
        key = paths.subscription_key(self.topic, name)

        async def read() -> Stored:
            found = await self._get(key)
            if found is None:
                raise self._not_found(name)
            record = SubscriptionRecord.decode(found.value or b"")
            version_id = found.version.version_id
            if not self._store.capabilities.transact:
                version_id = await fenced(self._grant, Put(key, found.value or b"", version_id))
            recorded = {
                paths.consumer_of_key(each) for each in await self._children(paths.consumers_path(self.topic, name))
            }
            members = recorded if record.assignment is None else set(record.assignment)
            for each in self._keys(name, members - recorded):
                await self._put_consumer(each)
            for each in self._keys(name, recorded - members):
                await self._delete(each)
            return Stored(record, frozenset(members), version_id)

        return await self._insist(read)

    async def _put(self, put: Put, joined: Collection[str], left: Collection[str]) -> int:
        """The record that decides, and where that can be in the same commit those of consumers."""
        if not self._store.capabilities.transact:
            return await fenced(self._grant, put)
        consumers: list[Operation] = [Put(key, CONSUMER_VALUE) for key in joined]
        consumers += [Delete(key) for key in left]
        return (await self._transact([put, *consumers]))[0]

    async def _transact(self, operations: list[Operation]) -> list[int]:
        """The versions of what was put, 0 for what was deleted."""
        try:
            results = await self._grant.transact(operations)
        except ConditionFailed as error:
            raise UnexpectedVersion(str(error), operations[0].key, operations[0].expected) from error
        return [0 if result is None else result.version.version_id for result in results]

    def _only_by_leaders(self, name: str, found: int, known: int) -> int:
        """The version found. Without `transact` nobody but a later leader may have put another one than was known."""
        if found != known and not self._store.capabilities.transact:
            raise self._grant.end(f"subscription {name!r} of {self.topic} was written by somebody else")
        return found

    async def _put_consumer(self, key: str) -> None:
        await self._store.put(key, CONSUMER_VALUE, partition_key=self._partition)

    async def _delete(self, key: str) -> None:
        await self._store.delete(key, partition_key=self._partition)

    async def _get(self, key: str) -> Record | None:
        return await read(self._grant, key)

    async def _children(self, path: str) -> list[str]:
        """The keys one level below a path."""
        keys = self._store.list(below(path, self._store.key_sorting), partition_key=self._partition)
        return [key async for key in keys if key.count("/") == path.count("/") + 1]

    def _keys(self, name: str, consumers: Collection[str]) -> list[str]:
        return [paths.consumer_key(self.topic, name, each) for each in sorted(consumers)]

    def _not_found(self, name: str) -> SubscriptionNotFound:
        return SubscriptionNotFound(f"{self.topic} has no subscription {name!r}: create it first")

    async def _insist(self, call: Callable[[], Awaitable[T]]) -> T:
        """Repeats what may be repeated until it is done, or the grant is over."""
        backoff = Backoff(self.pace)
        while True:
            self._grant.check()
            try:
                return await call()
            except (Retriable, OutcomeUnknown, UnexpectedVersion) as error:
                logger.info("subscriptions of %s: once more, after %s", self.topic, error)
            await backoff.pause()
