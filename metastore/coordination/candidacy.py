"""The way to a grant: claim it where it is free, else wait in line, and claim it when one's turn has come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from metastore.coordination.errors import NotGranted
from metastore.coordination.grant import Grant
from metastore.coordination.keeper import SessionKeeper
from metastore.coordination.line import Line
from metastore.coordination.own_record import OwnRecord, put_own
from metastore.coordination.pace import Backoff, Pace
from metastore.coordination.role import Role
from metastore.coordination.unless import Unless
from metastore.coordination.view import wait_gone
from metastore.interface import ABSENT, Index, MetadataStore, Retriable, Session, SessionLost
from metastore.interface.checks import check_value, shown


class Candidacy:
    """Somebody who wants a role's grant, once or again and again; what elections and locks are made of."""

    def __init__(
        self,
        store: MetadataStore,
        role: Role,
        value: bytes,
        *,
        keeper: SessionKeeper | None,
        timeout_ms: int,
        identity: str,
        pace: Pace | None,
        indexes: Sequence[Index],
    ) -> None:
        check_value(role.name, value)
        assert keeper is None or keeper.store is store, "a grant and its session are in one store"
        self.role = role
        self.pace = keeper.pace if keeper is not None else pace or Pace()
        self._store = store
        self._value = value
        self._keeper = keeper
        self._timeout_ms = timeout_ms
        self._identity = identity
        self._indexes = indexes

    async def win(self, timeout_s: float | None) -> Grant:
        """The grant, as soon as it is to be had. NotGranted if that takes longer than a given time."""
        async with self._with_keeper() as keeper, AsyncExitStack() as undo:
            async with AsyncExitStack() as limits:
                if timeout_s is not None:
                    name = shown(self.role.name)
                    late = NotGranted(f"{name} was not to be had within {timeout_s} s: somebody else holds it")
                    await limits.enter_async_context(Unless(_sleep(self.pace, timeout_s), lambda: late))
                own = await self._compete(keeper, undo)
            undo.pop_all()
            return self._grant(keeper, own)

    async def try_once(self) -> Grant | None:
        """The grant if it is free and nobody waits for it; else None, at once."""
        async with self._with_keeper() as keeper, AsyncExitStack() as undo:
            own = await self._claim_if_free(keeper, await keeper.session(), undo)
            undo.pop_all()
            if own is not None:
                return self._grant(keeper, own)
            if keeper is not self._keeper:
                await keeper.close()
            return None

    @asynccontextmanager
    async def hold(self, timeout_s: float | None, *, interrupt: bool) -> AsyncIterator[Grant]:
        """Holds the grant for the length of a block; its loss cuts the block short, if that is wanted."""
        grant = await self.win(timeout_s)
        try:
            if interrupt:
                async with Unless(_wait_taken(grant), grant.loss):
                    yield grant
            else:
                yield grant
        finally:
            await grant.release()

    @asynccontextmanager
    async def _with_keeper(self) -> AsyncIterator[SessionKeeper]:
        """The keeper to use: the one that was given, or a new one, which ends with the attempt if that fails."""
        if self._keeper is not None:
            yield self._keeper
            return
        keeper = SessionKeeper(self._store, timeout_ms=self._timeout_ms, identity=self._identity, pace=self.pace)
        try:
            yield keeper
        except BaseException:
            await keeper.close()
            raise

    def _grant(self, keeper: SessionKeeper, own: OwnRecord) -> Grant:
        return Grant(keeper, self.role, own, self._value, ends_keeper=keeper is not self._keeper)

    async def _compete(self, keeper: SessionKeeper, undo: AsyncExitStack) -> OwnRecord:
        """Wins the grant, with one session after another if need be."""
        backoff = Backoff(keeper.pace)
        while True:
            try:
                session = await keeper.session()
                own = await self._claim_if_free(keeper, session, undo)
                return own or await self._wait_in_line(keeper, session, undo)
            except (Retriable, SessionLost):
                await backoff.pause()

    async def _wait_in_line(self, keeper: SessionKeeper, session: Session, undo: AsyncExitStack) -> OwnRecord:
        line = Line(keeper, self.role)
        async with (
            Unless(session.wait_lost(), lambda: SessionLost("the session ended while its candidate was waiting")),
            line.place(session) as place,
        ):
            await line.wait_turn(place)
            while True:
                await wait_gone(self._store, self.role.name, partition_key=self.role.partition_key, pace=keeper.pace)
                own = await self._claim(keeper, session, undo)
                if own is not None:
                    return own

    async def _claim_if_free(self, keeper: SessionKeeper, session: Session, undo: AsyncExitStack) -> OwnRecord | None:
        # Who comes while others wait does not overtake them: a holder that returns at once would always be first.
        if not await Line(keeper, self.role).is_empty():
            return None
        return await self._claim(keeper, session, undo)

    async def _claim(self, keeper: SessionKeeper, session: Session, undo: AsyncExitStack) -> OwnRecord | None:
        """Puts the grant's record where there is none: that one such put succeeds is all that safety needs."""
        put = put_own(
            keeper,
            session,
            self.role.name,
            self._value,
            partition_key=self.role.partition_key,
            mark=keeper.pace.new_mark(),
            expected=ABSENT,
            indexes=self._indexes,
        )
        own = await keeper.complete(put, _withdraw)
        if own is not None:
            undo.push_async_callback(own.remove)
            if session.is_lost:
                raise SessionLost("the session ended while its candidate was winning")
        return own


async def _withdraw(own: OwnRecord | None) -> None:
    if own is not None:
        await own.remove()


async def _wait_taken(grant: Grant) -> None:
    """Returns when the grant is lost; not when its holder has released it, who knows."""
    await grant.wait_lost()
    if grant.is_released:
        await asyncio.Event().wait()


async def _sleep(pace: Pace, seconds: float) -> None:
    await pace.sleep(seconds)
