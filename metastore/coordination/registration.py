"""Service registration: a member's record in its group, there whenever it can be, until the service takes it away."""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType
from typing import Self

from metastore.coordination.keeper import SessionKeeper
from metastore.coordination.membership import member_key
from metastore.coordination.own_record import OwnRecord, put_own
from metastore.coordination.pace import Backoff, Pace
from metastore.coordination.stamps import HolderStamp
from metastore.coordination.unless import Unless
from metastore.coordination.view import View
from metastore.interface import (
    ABSENT,
    DEFAULT_SESSION_TIMEOUT_MS,
    MetadataStore,
    Record,
    Retriable,
    Session,
    SessionLost,
    UnexpectedVersion,
    exactly,
)
from metastore.interface.checks import check_value

logger = logging.getLogger("tidemark.coordination")


class Registration:
    """`async with Registration(store, "/brokers", "broker-1", address)`: registered in the block, as far as can be.

    The block begins once the member is registered. If the session is lost it comes back by itself with another one, at
    bounded intervals for as long as that takes; if somebody deletes its record, at once. At the start it replaces a
    member of the same name, which may be what is left of a process that has crashed. After that it only ever fills an
    empty place: one that was replaced waits, rather than fight for the name.
    """

    def __init__(
        self,
        store: MetadataStore,
        group: str,
        member: str,
        value: bytes = b"",
        *,
        keeper: SessionKeeper | None = None,
        session_timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS,
        identity: str = "",
        pace: Pace | None = None,
    ) -> None:
        self.key = member_key(group, member)
        check_value(self.key, value)
        self._store = store
        self._group = group
        self._value = value
        self._ends_keeper = keeper is None
        self._keeper = keeper or SessionKeeper(store, timeout_ms=session_timeout_ms, identity=identity, pace=pace)
        self._own: OwnRecord | None = None
        """The latest record we have put; of an earlier session until there is one of this."""
        self._is_here = asyncio.Event()
        self._writing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_registered(self) -> bool:
        """Whether the member is in its group, as far as this process can know."""
        return self._is_here.is_set() and self._own is not None and not self._own.session.is_lost

    async def wait_registered(self) -> None:
        """Returns when the member is registered; raises what the registration has ended with, if it has."""
        assert self._task is not None, "a registration is used in `async with`"
        arriving = asyncio.ensure_future(self._is_here.wait())
        try:
            await asyncio.wait({self._task, arriving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            arriving.cancel()
        if self._task.done():
            self._task.result()

    async def update(self, value: bytes) -> None:
        """Changes what the member says of itself: now, if it is registered, and whenever it comes back.

        An error of the store leaves open what the group is told now: call it again.
        """
        check_value(self.key, value)
        async with self._writing:
            self._value = value
            if self._own is None:
                return
            try:
                await self._own.change(HolderStamp(self._own.mark).on(value))
            except (UnexpectedVersion, SessionLost):
                # It is not registered at the moment: the value goes with it when it comes back.
                return

    async def __aenter__(self) -> Self:
        self._task = asyncio.ensure_future(self._stay())
        try:
            await self.wait_registered()
        except BaseException:
            await self._leave()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._leave()
        assert self._task is not None
        if error is None and not self._task.cancelled():
            self._task.result()

    async def _leave(self) -> None:
        ending = self._keeper.see_to(self._end())
        await (self._keeper.close() if self._ends_keeper else asyncio.shield(ending))

    async def _end(self) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait({self._task})
        self._is_here.clear()
        own, self._own = self._own, None
        if own is not None:
            await own.remove()

    async def _stay(self) -> None:
        """Keeps the member in its group, with one session after another, until it is cancelled."""
        backoff = Backoff(self._keeper.pace)
        while True:
            try:
                await self._stay_with(await self._keeper.session())
            except (Retriable, SessionLost) as error:
                logger.info("%s is not registered at the moment: %s", self.key, error)
            self._is_here.clear()
            await backoff.pause()

    async def _stay_with(self, session: Session) -> None:
        view = View(self._store, exactly(self.key), partition_key=self._group, pace=self._keeper.pace)
        async with Unless(session.wait_lost(), lambda: SessionLost("the session has ended")), view:
            while True:
                await view.news()
                async with self._writing:
                    await self._set_right(session, view.records.get(self.key))

    async def _set_right(self, session: Session, record: Record | None) -> None:
        """Looks at the record there is, if any; puts ours in its place where that is due."""
        is_ours = self._own is not None and self._own.recognise(record)
        if is_ours and self._own is not None and self._own.session is session:
            self._is_here.set()
            return
        self._is_here.clear()
        if record is not None and not is_ours and self._own is not None:
            return  # somebody else has the name: news will come when that one goes
        put = put_own(
            self._keeper,
            session,
            self.key,
            self._value,
            partition_key=self._group,
            mark=self._keeper.pace.new_mark(),
            expected=ABSENT if record is None else record.version.version_id,
        )
        # Not at the version expected: then there is other news on its way.
        self._own = await self._keeper.complete(put, _withdraw) or self._own


async def _withdraw(own: OwnRecord | None) -> None:
    if own is not None:
        await own.remove()
