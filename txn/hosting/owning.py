"""How a segment is claimed, brought up and let go, or deleted, by whoever owns it: the means of its tenures.

The order at the beginning: the grant, then the log under the grant's term, then the buffer, then every subscription,
and only then is the segment to be had. At the end the other way round, and the grant last.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Generic

from metastore.coordination import Grant, Lock, Pace, SessionKeeper
from metastore.faults import Faults
from metastore.interface import MetadataStore
from txn.hosting.deletion import Deletion
from txn.hosting.descriptor import Descriptor
from txn.hosting.descriptors import Descriptors
from txn.model import paths
from txn.posts import Owner, Phase, ServedT
from txn.posts.tenure import Enter
from txn.segment.log import SegmentLog, SegmentLogs

Opener = Callable[[Descriptor, Grant, SegmentLog], AbstractAsyncContextManager[ServedT]]
"""Recovers a segment on its open log; it is closed at the end of the block."""


@dataclass(frozen=True, slots=True)
class Owning(Generic[ServedT]):
    """What all tenures of a broker as the owner of segments work with: `txn.posts.Means`."""

    store: MetadataStore
    keeper: SessionKeeper
    pace: Pace
    faults: Faults
    broker: str
    address: str
    logs: Mapping[str, SegmentLogs]
    """By the places that this broker serves."""
    descriptors: Descriptors
    recover: Opener[ServedT]
    openings: asyncio.Semaphore
    turn_s: float

    async def claim(self, post: str) -> Grant | None:
        """The grant of a segment, in one attempt."""
        value = Owner.value(self.broker, self.address)
        lock = Lock(self.store, paths.owner_key(post), value, partition_key=post, keeper=self.keeper)
        return await lock.try_acquire()

    @asynccontextmanager
    async def open(self, post: str, grant: Grant, enter: Enter) -> AsyncIterator[ServedT | None]:
        """The segment, recovered; None once it is deleted."""
        self.faults.reach("txn.own.granted")
        descriptor = await self.descriptors.find(post)
        if descriptor is None:
            yield None  # an owner before has come to the end of its deletion
            return
        logs = self.logs[descriptor.place]
        if descriptor.is_deleting:
            enter(Phase.DELETING)
            await Deletion(self.store, self.descriptors, logs, descriptor, self.faults).run(grant)
            yield None
            return
        enter(Phase.OPENING)
        log = await logs.open(post, grant.term)
        self.faults.reach("txn.own.log.opened")
        async with log, self.recover(descriptor, grant, log) as served:
            self.faults.reach("txn.own.recovered")
            yield served
