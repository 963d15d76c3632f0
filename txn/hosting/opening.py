"""How an owner brings a segment up, once its log is open: the write side, then every subscription, then it is served.

Nothing is read or dispatched before all of it is known, and nothing is left running where that fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from metastore.coordination import Grant, Pace
from metastore.faults import Faults
from metastore.interface import MetadataStore
from txn.hosting.descriptor import Descriptor, SegmentState
from txn.hosting.descriptors import Descriptors
from txn.hosting.errors import told
from txn.hosting.segment import SUBSCRIPTIONS_MAX, Segment
from txn.outcomes import Outcomes
from txn.segment.buffer import NO_MEASURES, BufferOptions, Measures, TransactionBuffer
from txn.segment.claim import ClaimRecord
from txn.segment.log import SegmentLog
from txn.segment.operations import OperationRecords
from txn.segment.subscription import Subscription, Surroundings, subscriptions_of

RECOVERIES_AT_ONCE_MAX = 16
"""Subscriptions of one segment that are recovered at the same time."""


@dataclass(frozen=True, slots=True)
class OpeningOptions:
    """Limits of a segment."""

    buffer: BufferOptions = field(default_factory=BufferOptions)
    subscriptions_max: int = SUBSCRIPTIONS_MAX


@dataclass(frozen=True, slots=True)
class Opening:
    """What it takes to bring segments up; one for each broker."""

    store: MetadataStore
    outcomes: Outcomes
    descriptors: Descriptors
    broker: str
    pace: Pace
    faults: Faults
    options: OpeningOptions = field(default_factory=OpeningOptions)
    measures: Measures = NO_MEASURES
    ends_changed: Callable[[str, str], None] = lambda segment, subscription: None
    """Told when it may be another answer whether a subscription has read a segment to its end."""

    @asynccontextmanager
    async def open(self, descriptor: Descriptor, grant: Grant, log: SegmentLog) -> AsyncIterator[Segment]:
        """The segment, served for the length of the block."""
        operations = OperationRecords(self.store, log.segment, self.broker, grant.term, self.pace)
        async with AsyncExitStack() as undo:
            with told(log.segment, "recovering"):
                buffer = await TransactionBuffer.recover(
                    log,
                    grant,
                    self.outcomes,
                    operations,
                    pace=self.pace,
                    options=self.options.buffer,
                    measures=self.measures,
                    faults=self.faults,
                )
                undo.push_async_callback(buffer.close)
                self.faults.reach("txn.own.buffer.recovered")
                around = Surroundings(
                    log,
                    buffer.visibility,
                    grant,
                    self.outcomes,
                    operations,
                    self.pace,
                    self.faults,
                    lambda subscription: self.ends_changed(log.segment, subscription),
                )
                claim = await ClaimRecord.recover(log.segment, grant, self.faults)
                subscriptions = await self._recover_subscriptions(around, undo)
            if log.is_sealed:
                # An owner before may have sealed the log, and not come to say so.
                await self.descriptors.advance(log.segment, SegmentState.SEALED)
            undo.pop_all()
        segment = Segment(
            descriptor,
            grant,
            buffer,
            around,
            subscriptions,
            claim,
            self.descriptors,
            subscriptions_max=self.options.subscriptions_max,
        )
        try:
            yield segment
        finally:
            await segment.close()

    async def _recover_subscriptions(self, around: Surroundings, undo: AsyncExitStack) -> list[Subscription]:
        recovered: list[Subscription] = []

        async def recover(name: str) -> None:
            subscription = await Subscription.recover(name, around)
            if subscription is not None:
                recovered.append(subscription)
                undo.push_async_callback(subscription.close)

        names = await subscriptions_of(self.store, around.log.segment)
        for start in range(0, len(names), RECOVERIES_AT_ONCE_MAX):
            results = await asyncio.gather(
                *map(recover, names[start : start + RECOVERIES_AT_ONCE_MAX]), return_exceptions=True
            )
            for failure in results:
                if failure is not None:
                    raise failure
        return recovered
