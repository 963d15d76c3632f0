"""How a topic comes to be: what is to be created is written down, and whoever leads the topic first does it.

Who asks while it is being created waits for that. If the same is asked for, be it by the same caller who had no answer
in time, the topic that comes of it is his as well; whoever asks for another one is told that it exists once it does.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.layout import TopicName, TopicRecord
from controller.leading.requests import Requests
from controller.operations import Kind, Operation, OperationFailed
from controller.subscriptions import SubscriptionKind
from controller.topics import OperationUnderWay, TopicExists, paths
from controller.topics.records import stored
from metastore.coordination import Backoff, Pace
from metastore.coordination.view import wait_gone
from metastore.interface import (
    ABSENT,
    Condition,
    ConditionFailed,
    MetadataStore,
    OutcomeUnknown,
    Put,
    Record,
    Retriable,
    UnexpectedVersion,
)


class Birth:
    """The creation of one topic, by anybody."""

    def __init__(self, store: MetadataStore, topic: TopicName, pace: Pace) -> None:
        self._store = store
        self._topic = topic
        self._pace = pace
        self._partition = paths.partition(topic)

    async def run(self, record: TopicRecord, subscriptions: Mapping[str, SubscriptionKind]) -> TopicRecord:
        """The topic's record, once it is created. TopicExists, OperationUnderWay, OperationFailed."""
        operation = await self._written_down(Requests(self._topic, self._pace).create(record, subscriptions))
        await self._wait_done()
        found = await self._get(self._topic.path)
        if found is None:
            raise OperationFailed(f"{self._topic} could not be created; its leader's log says why")
        there = stored(found).record
        assert operation.record is not None, "a creation has the record of the topic"
        if not _is_born_of(there, operation.record):
            raise TopicExists(f"{self._topic} exists already")
        return there

    async def _wait_done(self) -> None:
        key = paths.operation_key(self._topic)
        await wait_gone(self._store, key, partition_key=self._partition, pace=self._pace)

    async def _written_down(self, operation: Operation) -> Operation:
        """The operation that creates it: this one, or another that is under way and asks for the same."""
        backoff = Backoff(self._pace)
        put = Put(paths.operation_key(self._topic), operation.encode(), ABSENT, paths.operation_indexes(self._topic))
        while True:
            try:
                other = await self._under_way()
                if other is None:
                    await self._put(put)
                    return operation
                if _is_same(other, operation):
                    return other
                await self._wait_done()
            except (ConditionFailed, UnexpectedVersion, OutcomeUnknown, Retriable):
                if await self._is_written(operation):
                    return operation
                await backoff.pause()

    async def _under_way(self) -> Operation | None:
        """Another creation that is under way. TopicExists, OperationUnderWay if there is a topic, or was just now."""
        # In this order: one becomes the other.
        under_way = await self._get(paths.operation_key(self._topic))
        if await self._get(self._topic.path) is not None:
            raise TopicExists(f"{self._topic} exists already")
        if under_way is None:
            return None
        other = Operation.decode(under_way.value or b"")
        if other.kind is not Kind.CREATE:
            raise OperationUnderWay(f"{self._topic} is just being deleted: create it when that is done")
        return other

    async def _put(self, put: Put) -> None:
        if self._store.capabilities.transact:
            nothing = Condition(self._topic.path, ABSENT)
            await self._store.transact(self._partition, [put], conditions=[nothing])
        else:
            await self._store.put(
                put.key, put.value, expected=put.expected, partition_key=self._partition, indexes=put.indexes
            )

    async def _is_written(self, operation: Operation) -> bool:
        """Whether the operation's record is there, or was and has done its work."""
        try:
            under_way = await self._get(paths.operation_key(self._topic))
            if under_way is not None:
                return Operation.decode(under_way.value or b"").mark == operation.mark
            found = await self._get(self._topic.path)
        except Retriable:
            return False
        assert operation.record is not None, "a creation has the record of the topic"
        return found is not None and _is_born_of(stored(found).record, operation.record)

    async def _get(self, key: str) -> Record | None:
        return await self._store.get(key, partition_key=self._partition)


def _is_same(one: Operation, other: Operation) -> bool:
    """Whether two creations are of the same topic, but for when they were asked for."""
    assert one.record is not None, "a creation has the record of the topic"
    assert other.record is not None, "a creation has the record of the topic"
    ranges, others = ([each.range for each in of.layout.segments.values()] for of in (one.record, other.record))
    return (one.record.properties, one.subscriptions, ranges) == (
        other.record.properties,
        other.subscriptions,
        others,
    )


def _is_born_of(there: TopicRecord, wanted: TopicRecord) -> bool:
    """Whether a topic may have begun as that: with segments of the same instant, and the same properties."""
    instants = {each.created_ms for each in wanted.layout.segments.values()}
    first = [each for each in there.layout.segments.values() if each.created_epoch == 0]
    return there.properties == wanted.properties and {each.created_ms for each in first} <= instants
