"""The operation records of one segment: put before anything happens, listed and watched, deleted when all has happened.

Putting them is the moment at which a transaction can still be refused. Where the store has `transact` they are put on
the condition that the header is the open one that was seen: a decided transaction gets no operation any more, not even
by a put that was held up on its way. Elsewhere they are put, and then the header is looked at again: if it is not the
same any more, they are taken back before anybody acts on them. There a put whose answer was lost may leave a record
behind, even one that comes when everything else of the transaction is gone; nobody has acted on it, and whoever owns
the segment sees it by the watch and removes it.

A participant that has carried an outcome out leaves an `Applied` record together with the removal: in the same
transaction, on the condition that the header is still there, so that a removal that arrives late leaves nothing behind
that nobody would collect. On a store without `transact` it is put before the records go; if its answer is lost and it
arrives after the header went, it stays, and the doctor tells of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from metastore.coordination import Pace, View
from metastore.interface import (
    ABSENT,
    Condition,
    ConditionFailed,
    Delete,
    MetadataStore,
    OutcomeUnknown,
    Put,
    PutResult,
    StoreError,
    UnexpectedVersion,
    exactly,
)
from metastore.interface import Operation as StoreOperation
from txn.model import paths
from txn.model.applied import Applied
from txn.model.errors import TooManyOperations, TxnConflict
from txn.model.ids import TxnId
from txn.model.operation import Operation

OPERATIONS_AT_ONCE_MAX = 1_000
"""Operation records that are put or deleted by one call of the store."""
CALLS_AT_ONCE_MAX = 64
"""Single puts or deletes at the same time, on a store without `transact`."""

T = TypeVar("T")


class StoredOperation(NamedTuple):
    """An operation record as it was found."""

    key: str
    operation: Operation


class OperationRecords:
    """The operation records that the owner of a segment writes and removes."""

    def __init__(self, store: MetadataStore, segment: str, broker: str, term: int, pace: Pace) -> None:
        self.segment = segment
        self.broker = broker
        self.term = term
        self._store = store
        self._pace = pace

    def now_ms(self) -> int:
        """The time that records bear."""
        return self._pace.clock.wall_ms()

    async def put(self, txn_id: TxnId, header_version: int, operations: Sequence[Operation]) -> list[str]:
        """Records operations of an open transaction, all or none of them; returns their keys in the same order.

        `header_version` is that of the open header that was seen. Broker, term and time are filled in here.
        TxnConflict if the transaction is decided: nothing stays. OutcomeUnknown, and being cancelled: some or all of
        them may be there, or come yet. Whoever gets that does nothing on the strength of them, and lists what is there
        when the transaction has ended. With any other error of the store nothing stays.
        """
        if not 1 <= len(operations) <= OPERATIONS_AT_ONCE_MAX:
            raise TooManyOperations(
                f"{len(operations)} operations of {txn_id} at once: 1 to {OPERATIONS_AT_ONCE_MAX} "
                "(OPERATIONS_AT_ONCE_MAX)"
            )
        now_ms = self.now_ms()
        stamped = [replace(each, broker=self.broker, term=self.term, written_ms=now_ms) for each in operations]
        assert all(each.segment == self.segment for each in stamped), "an owner writes of its own segment"
        if self._store.capabilities.transact:
            return await self._put_together(txn_id, header_version, stamped)
        return await self._put_singly(txn_id, header_version, stamped)

    async def _put_together(self, txn_id: TxnId, version: int, operations: Sequence[Operation]) -> list[str]:
        sequence = paths.operation_sequence(txn_id)
        puts = [Put(sequence, each.encode(), indexes=each.indexes(), sequence_deltas=(1,)) for each in operations]
        is_open = Condition(paths.header_key(txn_id), version)
        try:
            results = await self._store.transact(paths.partition(txn_id), puts, conditions=[is_open])
        except ConditionFailed as error:
            raise _decided(txn_id) from error
        return [result.key for result in results if result is not None]

    async def _put_singly(self, txn_id: TxnId, version: int, operations: Sequence[Operation]) -> list[str]:
        stored: list[PutResult] = []
        failures: list[StoreError] = []
        for batch in _portions(operations, CALLS_AT_ONCE_MAX):
            puts = [self._put_one(txn_id, each) for each in batch]
            for result in await asyncio.gather(*puts, return_exceptions=True):
                if isinstance(result, StoreError):
                    failures.append(result)
                elif isinstance(result, BaseException):
                    raise result
                else:
                    stored.append(result)
            if failures:
                break
        if not failures:
            try:
                header = await self._store.get(
                    paths.header_key(txn_id), partition_key=paths.partition(txn_id), include_value=False
                )
                if header is not None and header.version.version_id == version:
                    return [each.key for each in stored]
            except StoreError as error:
                failures.append(error)
        await self._take_back(txn_id, stored, failures)
        raise _decided(txn_id)

    async def _put_one(self, txn_id: TxnId, operation: Operation) -> PutResult:
        return await self._store.put(
            paths.operation_sequence(txn_id),
            operation.encode(),
            partition_key=paths.partition(txn_id),
            sequence_deltas=(1,),
            indexes=operation.indexes(),
        )

    async def _take_back(self, txn_id: TxnId, stored: Sequence[PutResult], failures: Sequence[StoreError]) -> None:
        """Removes what was put; raises what went wrong, if anything did, and what is worst first."""
        try:
            for batch in _portions(stored, CALLS_AT_ONCE_MAX):
                await _all_done(self.take_back(txn_id, each.key, each.version.version_id) for each in batch)
        except StoreError as error:
            raise OutcomeUnknown(f"operations of {txn_id} were put and could not be taken back: {error}") from error
        for failure in sorted(failures, key=lambda each: not isinstance(each, OutcomeUnknown)):
            raise failure

    async def take_back(self, txn_id: TxnId, key: str, version_id: int) -> None:
        """Removes a record that nobody acts on, if it is still there.

        The key of one that is gone may be given again, to another owner's intent: only that very record is removed.
        """
        try:
            await self._store.delete(key, expected=version_id, partition_key=paths.partition(txn_id))
        except UnexpectedVersion:
            return

    async def delete(
        self, txn_id: TxnId, keys: Iterable[str], applied: Applied, *, header_version: int = ABSENT
    ) -> None:
        """Removes operation records, and leaves word that the outcome was carried out. It may be repeated.

        The version is that of the decided header; without a header no word is left, for nobody would collect it.
        """
        word = paths.applied_key(txn_id, self.segment)
        await self._delete(txn_id, list(keys), word, applied, header_version)

    async def delete_acks(
        self, txn_id: TxnId, subscription: str, keys: Iterable[str], applied: Applied, *, header_version: int = ABSENT
    ) -> None:
        """The same for the acknowledgements of a subscription, which is a participant of its own."""
        word = paths.applied_key(txn_id, self.segment, subscription)
        await self._delete(txn_id, list(keys), word, applied, header_version)

    async def _delete(
        self, txn_id: TxnId, keys: Sequence[str], word: str, applied: Applied, header_version: int
    ) -> None:
        if header_version != ABSENT:
            keys = await self._delete_with_word(txn_id, keys, Put(word, applied.encode()), header_version)
        if not self._store.capabilities.transact:
            await self._delete_singly(txn_id, keys)
            return
        for batch in _portions(keys, OPERATIONS_AT_ONCE_MAX):
            await self._store.transact(paths.partition(txn_id), [Delete(key) for key in batch])

    async def _delete_with_word(
        self, txn_id: TxnId, keys: Sequence[str], word: Put, header_version: int
    ) -> Sequence[str]:
        """Leaves word, together with the first removals where the store can do that; the keys that are left."""
        partition = paths.partition(txn_id)
        if not self._store.capabilities.transact:
            await self._store.put(word.key, word.value, partition_key=partition)
            return keys
        first, rest = keys[:OPERATIONS_AT_ONCE_MAX], keys[OPERATIONS_AT_ONCE_MAX:]
        operations: list[StoreOperation] = [word, *(Delete(key) for key in first)]
        stands = Condition(paths.header_key(txn_id), header_version)
        try:
            await self._store.transact(partition, operations, conditions=[stands])
        except ConditionFailed:
            return keys  # the header has gone, and with it all interest in the word
        return rest

    async def _delete_singly(self, txn_id: TxnId, keys: Sequence[str]) -> None:
        partition = paths.partition(txn_id)
        for batch in _portions(keys, CALLS_AT_ONCE_MAX):
            await _all_done(self._store.delete(key, partition_key=partition) for key in batch)

    def watch_writes(self) -> View:
        """The records of all writes to the segment, and every change of them; to be used in `async with`."""
        return View(
            self._store,
            exactly(paths.escaped(self.segment)),
            index=paths.WRITES_BY_SEGMENT,
            pace=self._pace,
        )

    def watch_acks(self, subscription: str) -> View:
        """The same for the acknowledgements of a subscription."""
        return View(
            self._store,
            exactly(paths.subscription_key(self.segment, subscription)),
            index=paths.ACKS_BY_SUBSCRIPTION,
            pace=self._pace,
        )

    async def of_transaction(self, txn_id: TxnId, subscription: str | None = None) -> list[StoredOperation]:
        """What a transaction has recorded of this participant: the writes, or the acknowledgements of a subscription.

        All that was put before the call is there; a put that was not answered may still come.
        """
        found = []
        everything = paths.below(paths.operations_path(txn_id), self._store.key_sorting)
        async for record in self._store.scan(everything, partition_key=paths.partition(txn_id)):
            operation = Operation.decode(record.value or b"")
            if operation.segment == self.segment and operation.subscription == subscription:
                found.append(StoredOperation(record.key, operation))
        return found


async def _all_done(calls: Iterable[Awaitable[object]]) -> None:
    """Waits for all of them, whatever comes of the others, then raises the first error."""
    for result in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result


def _decided(txn_id: TxnId) -> TxnConflict:
    return TxnConflict(f"transaction {txn_id} was decided meanwhile, so it can do nothing more: begin another one")


def _portions(all_of_them: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """In their order, so many at a time."""
    return (all_of_them[start : start + size] for start in range(0, len(all_of_them), size))
