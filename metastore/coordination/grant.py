"""A grant while it is held: its term, whether it still stands, and what may be written on the strength of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from metastore.coordination.errors import Deposed
from metastore.coordination.guarded import GuardedRecord
from metastore.coordination.keeper import SessionKeeper
from metastore.coordination.own_record import OwnRecord
from metastore.coordination.role import Role
from metastore.coordination.stamps import HolderStamp, is_held_by
from metastore.coordination.unless import Unless
from metastore.coordination.view import View
from metastore.interface import (
    Condition,
    ConditionFailed,
    Delete,
    FailedCondition,
    Index,
    InvalidRequest,
    Operation,
    Put,
    PutResult,
    SessionLost,
    StoreError,
    Unavailable,
    UnexpectedVersion,
    Unsupported,
    exactly,
)
from metastore.interface.checks import is_numbered, shown

FENCE_ATTEMPTS_MAX = 8
"""How often a fenced write is repeated because the holder's own value was changed in the same moment."""


class Grant:
    """The right to a role until it is lost or released; every attempt to win one makes a new one.

    The term is the version that the store gave to the grant's record when it was put: a store never gives a record a
    smaller version than it has given to an earlier one under that key, deleted or not. So terms of a role only grow,
    and need no record that outlives the holders.
    """

    def __init__(self, keeper: SessionKeeper, role: Role, own: OwnRecord, value: bytes, *, ends_keeper: bool) -> None:
        self.name = role.name
        self.partition_key = role.partition_key
        self.term = own.version_id
        self.store = keeper.store
        self._value = value
        self._keeper = keeper
        self._own = own
        self._ends_keeper = ends_keeper
        self._reason: str | None = None
        """Why the grant is held no more, as far as it is known."""
        self._cause: BaseException | None = None
        self.is_released = False
        self._has_ended = asyncio.Event()
        self._guardian = asyncio.ensure_future(self._stand_guard())

    # -- whether it stands

    @property
    def is_held(self) -> bool:
        """Whether the grant stands. False before another can win, by this process's clock and without asking anybody.

        The exception: somebody took the grant's record away by force. That is known as soon as the watch tells it.
        """
        return self._reason is None and not self._own.session.is_lost

    @property
    def value(self) -> bytes:
        """What the holder says of itself."""
        return self._value

    def check(self) -> None:
        """Raises Deposed unless the grant is held."""
        if not self.is_held:
            raise self.loss()

    async def confirm(self) -> None:
        """Asks the store whether the grant stands: Deposed if not. What was read before this was then read under it."""
        self.check()
        if not await self._own.look():
            raise self.end("its record was removed or replaced by somebody else")

    def loss(self) -> Deposed:
        """Why the grant is held no more."""
        assert not self.is_held
        loss = Deposed(
            f"term {self.term} of {shown(self.name)} is over: {self._reason or 'its session was not renewed in time'}. "
            "Another may hold it: stop, then campaign again"
        )
        loss.__cause__ = self._cause
        return loss

    async def wait_lost(self) -> None:
        """Returns when the grant is lost or released."""
        await self._has_ended.wait()

    def end(self, reason: str, cause: BaseException | None = None) -> Deposed:
        """From now on the grant is held no more; the first reason stays. For those who write on the strength of it."""
        if self._reason is None:
            self._reason, self._cause = reason, cause
            self._has_ended.set()
        return self.loss()

    async def _stand_guard(self) -> None:
        """Ends the grant when its session ends, or its record is another's or gone."""
        session, key = self._own.session, self.name
        try:
            async with (
                Unless(session.wait_lost(), lambda: SessionLost("its session has ended")),
                View(self.store, exactly(key), partition_key=self.partition_key, pace=self._keeper.pace) as view,
            ):
                await view.news()
                while is_held_by(view.records.get(key), self._own.mark):
                    await view.news()
                self.end("its record was removed or replaced by somebody else")
        except Exception as error:
            self.end(str(error) or repr(error), error)

    async def release(self) -> None:
        """Lets the next one have it: when this returns, the record is gone or goes with its session very soon.

        The record is deleted only while it is this grant's. Releasing what is lost or released does nothing. It is safe
        to cancel: the rest is done all the same.
        """
        if self.is_held:
            self.is_released = True
            self.end("it was released")
        releasing = self._keeper.see_to(self._release())
        await (self._keeper.close() if self._ends_keeper else asyncio.shield(releasing))

    async def _release(self) -> None:
        self._guardian.cancel()
        await asyncio.wait({self._guardian})
        await self._own.remove()

    # -- what the holder may write

    async def update(self, value: bytes) -> None:
        """Changes what the holder says of itself. The term stays, although the record's version changes."""
        for _ in range(FENCE_ATTEMPTS_MAX):
            self.check()
            try:
                await self._own.change(HolderStamp(self._own.mark, self.term).on(value))
            except UnexpectedVersion as error:
                await self._confirm(error)
            except SessionLost as error:
                raise self.end(str(error), error) from error
            else:
                self._value = value
                return
        raise self._too_busy()

    async def put(
        self,
        key: str,
        value: bytes,
        *,
        expected: int | None = None,
        indexes: Sequence[Index] = (),
        is_ephemeral: bool = False,
    ) -> PutResult:
        """Stores a record in the role's partition, if the grant stands at that instant; see `transact`."""
        put = Put(key, value, expected, tuple(indexes), is_ephemeral)
        (result,) = await self._transact_one(put)
        assert result is not None
        return result

    async def delete(self, key: str, *, expected: int | None = None) -> None:
        """Removes a record of the role's partition, if the grant stands at that instant; see `transact`."""
        await self._transact_one(Delete(key, expected))

    async def _transact_one(self, operation: Operation) -> tuple[PutResult | None, ...]:
        try:
            return await self.transact([operation])
        except ConditionFailed as error:
            raise UnexpectedVersion(str(error), operation.key, operation.expected) from error

    async def transact(
        self, operations: Sequence[Operation], *, conditions: Sequence[Condition] = ()
    ) -> tuple[PutResult | None, ...]:
        """`MetadataStore.transact` in the role's partition, if the grant stands at that instant.

        Deposed if it does not, and then nothing was changed. Ephemeral puts go with the grant's own session.
        Unsupported on a store without `transact`: `guard` is for all stores.
        """
        if not self.store.capabilities.transact:
            raise Unsupported(
                "this store has no transact, so a grant cannot be a condition of a write: use Grant.guard, which works "
                "everywhere"
            )
        if any(operation.key == self.name and not is_numbered(operation) for operation in operations):
            raise InvalidRequest(f"{shown(self.name)} is the grant's own record: use Grant.update or Grant.release")
        is_ephemeral = any(isinstance(operation, Put) and operation.is_ephemeral for operation in operations)
        for _ in range(FENCE_ATTEMPTS_MAX):
            self.check()
            fence = Condition(self.name, self._own.version_id)
            try:
                return await self.store.transact(
                    self.partition_key,
                    operations,
                    conditions=[*conditions, fence],
                    session=self._own.session if is_ephemeral else None,
                )
            except ConditionFailed as error:
                if all(failed.place != len(conditions) for failed in error.failed):
                    raise _without_fence(error, len(conditions)) from None
                await self._confirm(error)
            except SessionLost as error:
                raise self.end(str(error), error) from error
        raise self._too_busy()

    def guard(self, key: str, *, partition_key: str | None = None) -> GuardedRecord:
        """A record that only holders of this role write, in order of their terms; on any store, in any partition.

        Without a partition key it lives in the role's partition.
        """
        return GuardedRecord(self, key, self.partition_key if partition_key is None else partition_key)

    async def _confirm(self, error: StoreError) -> None:
        """Learns why the grant is not at the version known: changed by ourselves meanwhile, or lost."""
        if not await self._own.look():
            raise self.end("its record was removed or replaced by somebody else", error) from error

    def _too_busy(self) -> Unavailable:
        return Unavailable(
            f"the holder's value of {shown(self.name)} changed {FENCE_ATTEMPTS_MAX} times during one write "
            "(FENCE_ATTEMPTS_MAX): nothing was done, change it less often"
        )


def _without_fence(error: ConditionFailed, place: int) -> ConditionFailed:
    """The same error, its places counted as the caller counts them."""
    failed = tuple(
        FailedCondition(each.place - (each.place > place), each.key, each.expected, each.actual)
        for each in error.failed
    )
    return ConditionFailed(str(error), failed)
