"""One broker's time at a post: from waiting for its turn to letting go.

The order at the beginning: the grant, then all that is needed to serve, and only then is the post to be had. At the end
the other way round, and the grant last: whoever comes next finds everything closed. When the grant is lost all this is
cut short wherever it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from enum import Enum
from typing import Generic, Protocol, TypeVar

from metastore.coordination import Backoff, Deposed, Grant, Pace
from metastore.coordination.unless import Unless
from metastore.interface import StoreError
from txn.coordinator.waiting import first_of
from txn.model.errors import SegmentUnavailable, TxnError

logger = logging.getLogger("tidemark.posts")


class Served(Protocol):
    """What a tenure serves."""

    async def wait_ended(self) -> None:
        """Returns when it has ended."""

    def check(self) -> None:
        """Raises why, if it has."""


ServedT = TypeVar("ServedT", bound=Served)
ServedT_co = TypeVar("ServedT_co", bound=Served, covariant=True)


class Phase(Enum):
    """How far a tenure is."""

    WAITING = "waiting for its turn"
    CLAIMING = "claiming it"
    OPENING = "recovering it"
    SERVING = "serving it"
    DELETING = "deleting it"
    OVER = "over"


Enter = Callable[[Phase], None]
"""Says how far the tenure is from now on."""


class Means(Protocol[ServedT_co]):
    """What all tenures of a broker at posts of one kind work with."""

    @property
    def broker(self) -> str:
        """Its name."""

    @property
    def pace(self) -> Pace: ...

    @property
    def openings(self) -> asyncio.Semaphore:
        """How many posts are claimed and recovered at the same time."""

    @property
    def turn_s(self) -> float:
        """How long each broker that stands before another one has for its claim, before that one makes its own."""

    async def claim(self, post: str) -> Grant | None:
        """The grant, in one attempt: who is too late need not stand in line, for the holder's end will be seen."""

    def open(self, post: str, grant: Grant, enter: Enter) -> AbstractAsyncContextManager[ServedT_co | None]:
        """Recovers the post; it is closed at the end of the block. None if nothing is left to be served of it."""


class Tenure(Generic[ServedT]):
    """An attempt to hold a post, and what comes of it. It ends by itself, or by being cancelled."""

    def __init__(
        self,
        means: Means[ServedT],
        post: str,
        ahead: int,
        backoff: Backoff | None,
        progressed: Callable[[Tenure[ServedT]], None],
    ) -> None:
        self.post = post
        self.ahead = ahead
        """How many brokers stand before this one: each has a turn to claim the post first."""
        self.phase = Phase.WAITING
        self.served: ServedT | None = None
        """The post, while it is served."""
        self.failure: Exception | None = None
        """Why it is over, unless it has come to its natural end."""
        self._means = means
        self._backoff = backoff
        """The pauses after attempts that failed."""
        self._progressed = progressed
        """Told of every phase but the first and the last."""
        self._is_wanted = asyncio.Event()

    def hurry(self) -> None:
        """Somebody wants the post now: the others are not waited for."""
        self._is_wanted.set()

    async def run(self) -> None:
        """The whole of it. Errors are logged and kept in `failure`: one post's trouble is no other's."""
        try:
            await self._wait_turn()
            async with AsyncExitStack() as opening:
                await opening.enter_async_context(self._means.openings)
                self._enter(Phase.CLAIMING)
                grant = await self._means.claim(self.post)
                if grant is None:
                    raise SegmentUnavailable(f"another broker has just claimed {self.post!r}: ask again")
                try:
                    await self._hold(grant, opening)
                finally:
                    await grant.release()
        except Deposed as error:
            self.failure = error
            logger.warning("%s is no longer held here: %s", self.post, error)
        except (TxnError, StoreError) as error:
            self.failure = error
            logger.warning("%s is not served while %s: %s", self.post, self.phase.value, error)
        except Exception as error:
            self.failure = error
            logger.exception("%s is not served while %s", self.post, self.phase.value)
        finally:
            self.served = None
            self.phase = Phase.OVER

    def _enter(self, phase: Phase) -> None:
        self.phase = phase
        self._progressed(self)

    async def _wait_turn(self) -> None:
        if self._backoff is not None:
            await self._backoff.pause()
        if self.ahead:
            await first_of(self._is_wanted.wait(), self._means.pace.sleep(self.ahead * self._means.turn_s))

    async def _hold(self, grant: Grant, opening: AsyncExitStack) -> None:
        async with (
            Unless(grant.wait_lost(), grant.loss),
            self._means.open(self.post, grant, self._enter) as served,
        ):
            if served is not None:
                self.served = served
                self._enter(Phase.SERVING)
                await opening.aclose()
                await served.wait_ended()
                served.check()
