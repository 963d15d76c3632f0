"""A record that carries a fence: the term of its last writer, below which nobody writes it any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from metastore.coordination.errors import Deposed
from metastore.coordination.stamps import FenceStamp, read_fence
from metastore.interface import (
    ABSENT,
    Condition,
    ConditionFailed,
    Delete,
    Index,
    MetadataStore,
    Operation,
    OutcomeUnknown,
    Put,
    PutResult,
    Record,
    Unavailable,
    UnexpectedVersion,
)
from metastore.interface.checks import shown

TAKEOVER_ATTEMPTS_MAX = 8
"""How often a record is read again because it changed while its fence was being raised. Each time it was a write of a
deposed holder that was under way: so many are not to be expected."""


class Holder(Protocol):
    """What a guarded record needs to know of the grant it is written under."""

    name: str
    partition_key: str
    term: int
    store: MetadataStore

    def check(self) -> None: ...

    def end(self, reason: str) -> Deposed: ...

    async def transact(
        self, operations: Sequence[Operation], *, conditions: Sequence[Condition] = ()
    ) -> tuple[PutResult | None, ...]: ...


@dataclass(frozen=True, slots=True)
class GuardedValue:
    """What a guarded record says, and who said it."""

    value: bytes | None
    """None where there is no record, or it was deleted."""
    term: int | None
    """The term it was written under, or its fence was raised to; None where there is no record."""


async def read_guarded(store: MetadataStore, key: str, *, partition_key: str) -> GuardedValue:
    """Reads a guarded record without holding anything. ForeignRecord if it was not written under a guard."""
    record = await store.get(key, partition_key=partition_key)
    if record is None:
        return GuardedValue(None, None)
    stamp, value = read_fence(record)
    return GuardedValue(None if stamp.is_deleted else value, stamp.term)


class GuardedRecord:
    """A record under a grant's guard. Used by one task at a time; every holder makes its own, by `Grant.guard`.

    Terms of its writers only grow, and no write of an earlier holder succeeds after a later one has read it. How:

    - In the role's partition of a store with `transact`, each write is on the condition that the grant stands.
    - Elsewhere the first `read` raises the fence: it puts the record as it is, with its own term, even where there is
      none. That moves the record to a version that no earlier holder knows; who reads that version reads the greater
      term, and stops. Every write is on the condition of the version read. A record that is deleted stays as a fence
      without a value.
    """

    def __init__(self, holder: Holder, key: str, partition_key: str) -> None:
        self.key = key
        self.partition_key = partition_key
        self._holder = holder
        self._store = holder.store
        self._is_fenced_by_grant = self._store.capabilities.transact and partition_key == holder.partition_key
        self._version_id: int | None = None
        """The version that the next write expects; None if the record must be read first."""

    async def read(self) -> bytes | None:
        """The value, if any; from now on no earlier holder can change it. Deposed if there is a later one."""
        for _ in range(TAKEOVER_ATTEMPTS_MAX):
            self._holder.check()
            record = await self._store.get(self.key, partition_key=self.partition_key)
            stamp, value = self._judge(record)
            is_raised = stamp.term == self._holder.term or self._is_fenced_by_grant
            version_id = _version_of(record) if is_raised else await self._raise_fence(record, stamp, value)
            if version_id is not None:
                self._holder.check()
                self._version_id = version_id
                return None if stamp.is_deleted else value
        raise Unavailable(
            f"{shown(self.key)} changed {TAKEOVER_ATTEMPTS_MAX} times while its fence was being raised "
            "(TAKEOVER_ATTEMPTS_MAX): somebody writes it without a grant"
        )

    async def write(self, value: bytes, *, indexes: Sequence[Index] = ()) -> None:
        """Stores a value, and the index entries it has from now on.

        UnexpectedVersion if the record was changed since it was read, by another task or by somebody without a grant;
        after that, and after OutcomeUnknown, the next call reads it again.
        """
        stamp = FenceStamp(self._holder.term, indexes=tuple(indexes))
        await self._store_stamped(stamp, value)

    async def delete(self) -> None:
        """Takes the value away; the fence stays where only the record itself can hold it."""
        if not self._is_fenced_by_grant:
            await self._store_stamped(FenceStamp(self._holder.term, is_deleted=True), b"")
        elif (expected := await self._expected()) != ABSENT:
            await self._transact(Delete(self.key, expected))
            self._version_id = ABSENT

    async def _store_stamped(self, stamp: FenceStamp, value: bytes) -> None:
        expected = await self._expected()
        stamped = stamp.on(value)
        if self._is_fenced_by_grant:
            result = await self._transact(Put(self.key, stamped, expected, stamp.indexes))
            assert result is not None
            self._version_id = result.version.version_id
            return
        self._holder.check()
        try:
            result = await self._store.put(
                self.key, stamped, expected=expected, partition_key=self.partition_key, indexes=stamp.indexes
            )
        except UnexpectedVersion:
            self._judge(await self._store.get(self.key, partition_key=self.partition_key))
            raise
        self._version_id = result.version.version_id

    async def _expected(self) -> int:
        """The version to write upon; forgotten until the write has succeeded."""
        if self._version_id is None:
            await self.read()
        expected, self._version_id = self._version_id, None
        assert expected is not None
        return expected

    async def _transact(self, operation: Operation) -> PutResult | None:
        try:
            (result,) = await self._holder.transact([operation])
        except ConditionFailed as error:
            raise UnexpectedVersion(str(error), operation.key, operation.expected) from error
        return result

    async def _raise_fence(self, record: Record | None, stamp: FenceStamp, value: bytes) -> int | None:
        """Puts the record as it is, with the holder's term; None if it must be read again."""
        raised = FenceStamp(self._holder.term, stamp.is_deleted, stamp.indexes)
        try:
            result = await self._store.put(
                self.key,
                raised.on(value),
                expected=_version_of(record),
                partition_key=self.partition_key,
                indexes=raised.indexes,
            )
        except (UnexpectedVersion, OutcomeUnknown):
            return None
        return result.version.version_id

    def _judge(self, record: Record | None) -> tuple[FenceStamp, bytes]:
        """What a record says; Deposed if a later holder has written it."""
        if record is None:
            return FenceStamp(ABSENT, is_deleted=True), b""
        stamp, value = read_fence(record)
        if stamp.term > self._holder.term:
            raise self._holder.end(f"{shown(self.key)} was written under term {stamp.term}")
        return stamp, value


def _version_of(record: Record | None) -> int:
    return ABSENT if record is None else record.version.version_id
