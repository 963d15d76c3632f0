"""The session that grants, places in line and members hang on: opened when it is needed, and anew after it was lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from metastore.coordination.pace import Pace
from metastore.interface import (
    DEFAULT_SESSION_TIMEOUT_MS,
    InvalidRequest,
    MetadataStore,
    OutcomeUnknown,
    Retriable,
    Session,
    StoreError,
)

logger = logging.getLogger("tidemark.coordination")

T = TypeVar("T")

_chores: set[asyncio.Task[Any]] = set()
"""Event loops refer to tasks weakly: what must come to its end is held here until it has."""


class SessionKeeper:
    """Keeps one session for any number of grants, candidates and members of a process; in `async with`.

    It also sees to what must not be left half done when whoever began it is cancelled. Where it cannot be made sure
    that nothing of ours is left in the store, the session is given up: a write whose answer was lost may still arrive
    later, and the end of the session it names is what surely stops it. All that hangs on the session is lost then, is
    told so, and starts over with the next one.
    """

    def __init__(
        self,
        store: MetadataStore,
        *,
        timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS,
        identity: str = "",
        pace: Pace | None = None,
    ) -> None:
        self.store = store
        self.pace = pace or Pace()
        self._timeout_ms = timeout_ms
        self._identity = identity
        self._session: Session | None = None
        self._opening = asyncio.Lock()
        self._own_chores: set[asyncio.Task[Any]] = set()
        self._closing: asyncio.Task[None] | None = None

    async def session(self) -> Session:
        """The session, alive as far as one can tell."""
        async with self._opening:
            if self._closing is not None:
                raise InvalidRequest("the session keeper was closed: what hangs on it ends before it does")
            if self._session is None or self._session.is_lost:
                self._session = await self.store.open_session(self._timeout_ms, identity=self._identity)
            return self._session

    def give_up(self, session: Session, reason: str) -> None:
        """Ends a session, with all that hangs on it; the next caller gets another one."""
        logger.warning("session given up: %s", reason)
        if self._session is session:
            self._session = None
        self.see_to(_end(session))

    def see_to(self, chore: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Runs something to its end, whoever is cancelled meanwhile; `close` waits for it."""
        task = asyncio.ensure_future(chore)
        for tasks in (_chores, self._own_chores):
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        return task

    async def complete(self, write: Coroutine[Any, Any, T], undo: Callable[[T], Awaitable[None]]) -> T:
        """The result of a write. If the caller is cancelled meanwhile, it still ends, and is then undone.

        A write that was cancelled itself might take effect or not, and nobody would know.
        """
        writing = self.see_to(write)
        try:
            return await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.shield(self.see_to(_undo(writing, undo)))
            raise

    async def close(self) -> None:
        """Ends the session, after what is still to be seen to. It is safe to cancel: the rest is done all the same."""
        if self._closing is None:
            self._closing = self.see_to(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        while chores := self._own_chores - {self._closing}:
            await asyncio.wait(chores)
        async with self._opening:
            session, self._session = self._session, None
        if session is not None:
            await _end(session)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def _end(session: Session) -> None:
    """Closes a session. One that the store cannot be told about gets no more heartbeats, and ends by itself."""
    try:
        await session.close()
    except (Retriable, OutcomeUnknown) as error:
        logger.warning("a session could not be closed and is left to expire: %s", error)


async def _undo(writing: asyncio.Task[T], undo: Callable[[T], Awaitable[None]]) -> None:
    try:
        result = await writing
    except StoreError as error:
        # Nothing is there to be undone, and whoever wanted it has gone.
        logger.info("a write failed whose caller was cancelled: %s", error)
        return
    await undo(result)
