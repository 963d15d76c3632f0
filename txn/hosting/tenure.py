"""One broker's time as the owner of a segment: from waiting for its turn to letting go.

The order at the beginning: the grant, then the log under the grant's term, then the buffer, then every subscription,
and only then is the segment to be had. At the end the other way round, and the grant last: whoever comes next finds
everything closed. When the grant is lost all this is cut short wherever it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from enum import Enum
from typing import Generic, Protocol, TypeVar

from metastore.coordination import Backoff, Deposed, Grant, Lock, Pace, SessionKeeper
from metastore.coordination.unless import Unless
from metastore.faults import Faults
from metastore.interface import MetadataStore, StoreError
from txn.coordinator.waiting import first_of
from txn.hosting.brokers import Owner
from txn.hosting.deletion import Deletion
from txn.hosting.descriptor import Descriptor
from txn.hosting.descriptors import Descriptors
from txn.model import paths
from txn.model.errors import SegmentUnavailable, TxnError
from txn.segment.log import SegmentLog, SegmentLogs

logger = logging.getLogger("tidemark.hosting")


class Served(Protocol):
    """What a tenure serves."""

    async def wait_ended(self) -> None:
        """Returns when it has ended."""

    def check(self) -> None:
        """Raises why, if it has."""


ServedT = TypeVar("ServedT", bound=Served)
Opener = Callable[[Descriptor, Grant, SegmentLog], AbstractAsyncContextManager[ServedT]]
"""Recovers a segment on its open log; it is closed at the end of the block."""


class Phase(Enum):
    """How far a tenure is."""

    WAITING = "waiting for its turn"
    CLAIMING = "claiming the segment"
    OPENING = "recovering the segment"
    SERVING = "serving the segment"
    DELETING = "deleting the segment"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Means(Generic[ServedT]):
    """What all tenures of a broker work with."""

    store: MetadataStore
    keeper: SessionKeeper
    pace: Pace
    faults: Faults
    broker: str
    address: str
    logs: Mapping[str, SegmentLogs]
    """By the places that this broker serves."""
    descriptors: Descriptors
    open: Opener[ServedT]
    openings: asyncio.Semaphore
    """How many segments are claimed and recovered at the same time."""
    turn_s: float


class Tenure(Generic[ServedT]):
    """An attempt to own a segment, and what comes of it. It ends by itself, or by being cancelled."""

    def __init__(
        self,
        means: Means[ServedT],
        segment: str,
        ahead: int,
        backoff: Backoff | None,
        progressed: Callable[[Tenure[ServedT]], None],
    ) -> None:
        self.segment = segment
        self.ahead = ahead
        """How many brokers stand before this one: each has a turn to claim the segment first."""
        self.phase = Phase.WAITING
        self.served: ServedT | None = None
        """The segment, while it is served."""
        self.failure: Exception | None = None
        """Why it is over, unless it has come to its natural end."""
        self._means = means
        self._backoff = backoff
        """The pauses after attempts that failed."""
        self._progressed = progressed
        """Told of every phase but the first and the last."""
        self._is_wanted = asyncio.Event()

    def hurry(self) -> None:
        """Somebody wants the segment now: the others are not waited for."""
        self._is_wanted.set()

    async def run(self) -> None:
        """The whole of it. Errors are logged and kept in `failure`: one segment's trouble is no other's."""
        try:
            await self._wait_turn()
            async with AsyncExitStack() as opening:
                await opening.enter_async_context(self._means.openings)
                self._enter(Phase.CLAIMING)
                grant = await self._claim()
                try:
                    await self._hold(grant, opening)
                finally:
                    await grant.release()
        except Deposed as error:
            self.failure = error
            logger.warning("%s is no longer owned here: %s", self.segment, error)
        except (TxnError, StoreError) as error:
            self.failure = error
            logger.warning("%s is not served while %s: %s", self.segment, self.phase.value, error)
        except Exception as error:
            self.failure = error
            logger.exception("%s is not served while %s", self.segment, self.phase.value)
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

    async def _claim(self) -> Grant:
        """The grant, in one attempt: who is too late need not stand in line, for the owner's end will be seen."""
        means, name = self._means, self.segment
        lock = Lock(
            means.store,
            paths.owner_key(name),
            Owner.value(means.broker, means.address),
            partition_key=name,
            keeper=means.keeper,
        )
        grant = await lock.try_acquire()
        if grant is None:
            raise SegmentUnavailable(f"another broker has just claimed {name!r}: ask again")
        return grant

    async def _hold(self, grant: Grant, opening: AsyncExitStack) -> None:
        means, name = self._means, self.segment
        means.faults.reach("txn.own.granted")
        async with Unless(grant.wait_lost(), grant.loss):
            descriptor = await means.descriptors.find(name)
            if descriptor is None:
                return  # an owner before has come to the end of its deletion
            logs = means.logs[descriptor.place]
            if descriptor.is_deleting:
                self._enter(Phase.DELETING)
                await Deletion(means.store, means.descriptors, logs, descriptor, means.faults).run(grant)
                return
            self._enter(Phase.OPENING)
            log = await logs.open(name, grant.term)
            means.faults.reach("txn.own.log.opened")
            async with log, means.open(descriptor, grant, log) as served:
                means.faults.reach("txn.own.recovered")
                self.served = served
                self._enter(Phase.SERVING)
                await opening.aclose()
                await served.wait_ended()
                served.check()
