"""The records of a topic and of its operation, read and written by the topic's leader while it leads."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from controller.layout import TopicName, TopicRecord
from controller.operations.errors import OperationFailed
from controller.operations.operation import Operation
from controller.topics import paths
from controller.topics.claims import Claim
from controller.topics.records import StoredTopic, fenced, read, stored
from metastore.coordination import Backoff, Grant, Pace
from metastore.interface import (
    ABSENT,
    ConditionFailed,
    Delete,
    Index,
    OutcomeUnknown,
    Put,
    Record,
    Retriable,
    UnexpectedVersion,
)
from metastore.interface import Operation as StoreOperation
from txn.model.paths import below

logger = logging.getLogger("tidemark.operations")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StoredOperation:
    """An operation's record as it was read."""

    operation: Operation
    version_id: int


class LeaderRecords:
    """Deposed as soon as the grant is over; what may be repeated is repeated until then."""

    def __init__(self, grant: Grant, topic: TopicName, pace: Pace) -> None:
        self.topic = topic
        self.grant = grant
        self._store = grant.store
        self._pace = pace
        self._partition = paths.partition(topic)
        self._operation_key = paths.operation_key(topic)
        self._late = 0
        """Operations that were written down, as nobody knows, and were found nowhere."""

    @property
    def is_in_doubt(self) -> bool:
        """Whether an operation may be written down late, when it is done already: for as long as this grant is held."""
        return self._late > 0

    async def topic_record(self) -> StoredTopic | None:
        """The topic's record as it is."""
        found = await self.insist(lambda: self._get(self.topic.path))
        return None if found is None or not found.value else stored(found)

    async def operation(self) -> StoredOperation | None:
        """The operation that is under way."""
        found = await self.insist(lambda: self._get(self._operation_key))
        return None if found is None else _operation(found)

    async def take_over(self) -> None:
        """Makes sure that no earlier leader can change anything any more, where only versions keep it from that."""
        if not self._store.capabilities.transact:
            await self.insist(self._rewrite)

    async def _rewrite(self) -> None:
        for key in (self.topic.path, self._operation_key, paths.claim_key(self.topic)):
            found = await self._get(key)
            if found is not None and found.value:
                await fenced(self.grant, Put(key, found.value, found.version.version_id, self._indexes(found)))

    def _indexes(self, found: Record) -> tuple[Index, ...]:
        if found.key == self._operation_key:
            return paths.operation_indexes(self.topic)
        is_topic = found.key == self.topic.path
        return paths.indexes(self.topic, stored(found).record.properties) if is_topic else ()

    async def begin(self, operation: Operation) -> StoredOperation | None:
        """Writes an operation down; None if there is another one."""

        async def put() -> StoredOperation | None:
            found = await self._get(self._operation_key)
            if found is not None:
                there = _operation(found)
                if there.operation.mark != operation.mark:
                    return None
                self._late -= 1
                return there
            try:
                return StoredOperation(operation, await fenced(self.grant, self._put(operation, ABSENT)))
            except OutcomeUnknown:
                self._late += 1
                raise

        return await self.insist(put)

    async def enter(self, before: StoredOperation, operation: Operation) -> StoredOperation:
        """Replaces an operation by one of another phase."""

        async def put() -> StoredOperation:
            found = await self._own(before.operation)
            if found.operation == operation:
                return found
            return StoredOperation(operation, await fenced(self.grant, self._put(operation, found.version_id)))

        return await self.insist(put)

    async def commit(
        self, operation: Operation, change: Callable[[TopicRecord | None], TopicRecord], *, is_end: bool
    ) -> TopicRecord:
        """Changes the topic's record, and if that is the end removes the operation's in the same commit.

        Without `transact` the operation's record goes afterwards. `change` gets the newest record, whatever others have
        changed in it, and returns the same if it is as it should be.
        """

        async def put() -> TopicRecord:
            own = await self._find_own(operation)
            found = await self._get(self.topic.path)
            before = None if found is None or not found.value else stored(found).record
            after = change(before)
            if after == before:
                return after  # it was committed before, and the answer was lost
            if own is None:
                raise self._taken_away(operation)
            expected = ABSENT if found is None else found.version.version_id
            topic_put = Put(self.topic.path, after.encode(), expected, paths.indexes(self.topic, after.properties))
            if is_end and self._store.capabilities.transact:
                await self._transact([topic_put, Delete(self._operation_key, own.version_id)])
            else:
                await fenced(self.grant, topic_put)
            return after

        return await self.insist(put)

    async def unrecord(self, operation: Operation) -> None:
        """Removes the topic's record, and before it who may produce."""

        async def delete() -> None:
            await self._own(operation)
            await self._delete(paths.claim_key(self.topic))
            await self._delete(self.topic.path)

        await self.insist(delete)

    async def finish(self, operation: Operation) -> None:
        """Removes the operation's record, if it is still that one's."""

        async def delete() -> None:
            own = await self._find_own(operation)
            if own is not None:
                await self._delete_at(self._operation_key, own.version_id)

        await self.insist(delete)

    async def claim(self) -> Claim | None:
        """Who has the exclusive right to produce, or had it last."""
        found = await self.insist(lambda: self._get(paths.claim_key(self.topic)))
        return None if found is None else Claim.decode(found.value or b"")

    async def set_claim(self, claim: Claim) -> None:
        """Writes down who has the exclusive right to produce."""
        key = paths.claim_key(self.topic)

        async def put() -> None:
            found = await self._get(key)
            await fenced(self.grant, Put(key, claim.encode(), ABSENT if found is None else found.version.version_id))

        await self.insist(put)

    async def ensure(self, key: str, value: bytes, indexes: tuple[Index, ...]) -> None:
        """There is such a record of the topic afterwards; one that is there stays as it is."""

        async def put() -> None:
            if await self._get(key) is None:
                await fenced(self.grant, Put(key, value, ABSENT, indexes))

        await self.insist(put)

    async def delete(self, key: str) -> None:
        """Removes a record of the topic, whatever it says."""
        await self.insist(lambda: self._delete(key))

    async def keys_below(self, path: str) -> list[str]:
        """The keys one level below a path, in the topic's partition."""

        async def listed() -> list[str]:
            keys = self._store.list(below(path, self._store.key_sorting), partition_key=self._partition)
            return [key async for key in keys if key.count("/") == path.count("/") + 1]

        return await self.insist(listed)

    async def delete_reports(self, segment_id: int) -> None:
        """Removes what owners have reported of a segment."""
        path = f"{paths.loads_path(self.topic)}/{segment_id}"
        for key in [*await self.keys_below(f"{path}/drained"), paths.load_key(self.topic, segment_id)]:
            await self.delete(key)

    # -- single steps

    async def _find_own(self, operation: Operation) -> StoredOperation | None:
        found = await self._get(self._operation_key)
        own = None if found is None else _operation(found)
        return own if own is not None and own.operation.mark == operation.mark else None

    async def _own(self, operation: Operation) -> StoredOperation:
        own = await self._find_own(operation)
        if own is None:
            raise self._taken_away(operation)
        return own

    def _taken_away(self, operation: Operation) -> OperationFailed:
        what = f"the {operation.kind.value} of {self.topic}"
        return OperationFailed(f"{what}: somebody has taken its record away by force")

    def _put(self, operation: Operation, expected: int) -> Put:
        return Put(self._operation_key, operation.encode(), expected, paths.operation_indexes(self.topic))

    async def _get(self, key: str) -> Record | None:
        return await read(self.grant, key)

    async def _delete(self, key: str) -> None:
        found = await self._get(key)
        if found is not None:
            await self._delete_at(key, found.version.version_id)

    async def _delete_at(self, key: str, version_id: int) -> None:
        if self._store.capabilities.transact:
            await self._transact([Delete(key, version_id)])
        else:
            await self._store.delete(key, expected=version_id, partition_key=self._partition)

    async def _transact(self, operations: list[StoreOperation]) -> None:
        try:
            await self.grant.transact(operations)
        except ConditionFailed as error:
            raise UnexpectedVersion(str(error), operations[0].key, operations[0].expected) from error

    async def insist(self, call: Callable[[], Awaitable[T]]) -> T:
        """Repeats what may be repeated until it is done, or the grant is over."""
        backoff = Backoff(self._pace)
        while True:
            self.grant.check()
            try:
                return await call()
            except (Retriable, OutcomeUnknown, UnexpectedVersion) as error:
                logger.info("%s: once more, after %s", self.topic, error)
            await backoff.pause()


def _operation(record: Record) -> StoredOperation:
    return StoredOperation(Operation.decode(record.value or b""), record.version.version_id)
