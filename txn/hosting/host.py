"""A broker's segments: it registers, takes over what nobody owns when its turn has come, serves it, and lets go."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from metastore.coordination import Pace, Registration, SessionKeeper
from metastore.coordination.unless import Unless
from metastore.faults import NO_FAULTS, Faults
from metastore.interface import DEFAULT_SESSION_TIMEOUT_MS, MetadataStore
from txn.coordinator.collector import RETENTION_MS
from txn.coordinator.coordinator import Coordinator, CoordinatorLimits
from txn.coordinator.registry import OpenTransactions
from txn.hosting.chart import SegmentChart
from txn.hosting.descriptor import Descriptor, SegmentState
from txn.hosting.descriptors import Descriptors
from txn.hosting.errors import NoBrokerServesSegment, NoSuchSegment, OwnedElsewhere
from txn.hosting.measures import NO_MEASURES, HostMeasures
from txn.hosting.opening import Opening, OpeningOptions
from txn.hosting.owning import Owning
from txn.hosting.segment import Segment
from txn.hosting.sweeper import Sweeper
from txn.model.errors import SegmentUnavailable
from txn.model.ids import COORDINATORS_MAX
from txn.outcomes import OpenHeaders, Outcomes
from txn.posts import GROUP, Broker, Owner, Takeover
from txn.segment.bell import Bell
from txn.segment.log import SegmentLogs

OPENINGS_AT_ONCE_MAX = 32
"""Segments that a broker claims and recovers at the same time."""
TURN_S = 2.0
"""How long each broker that stands before another one has for claiming a segment, before that one does."""
WAIT_S = 10.0
"""How long a caller waits for a segment that is being taken over."""


@dataclass(frozen=True, slots=True)
class HostOptions:
    """What a broker may be told."""

    session_timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS
    """How long after a broker's last sign of life others take over its segments."""
    openings_at_once_max: int = OPENINGS_AT_ONCE_MAX
    turn_s: float = TURN_S
    wait_s: float = WAIT_S
    retention_ms: int = RETENTION_MS
    limits: CoordinatorLimits = field(default_factory=CoordinatorLimits)
    opening: OpeningOptions = field(default_factory=OpeningOptions)


def coordinator_number(broker: str) -> int:
    """The id space from which a broker draws. Two brokers may have the same: that costs them races, and no ids."""
    return int.from_bytes(hashlib.sha256(broker.encode()).digest()[:8]) % COORDINATORS_MAX


class Host:
    """One for each broker, to be used in `async with`: if the store fails for good, the block is cancelled."""

    def __init__(
        self,
        store: MetadataStore,
        logs: Mapping[str, SegmentLogs],
        broker: str,
        address: str,
        *,
        pace: Pace | None = None,
        options: HostOptions | None = None,
        faults: Faults = NO_FAULTS,
        measures: HostMeasures = NO_MEASURES,
    ) -> None:
        assert logs, "a broker serves one place at least"
        self.broker = broker
        self.address = address
        self._store = store
        self._logs = logs
        self._pace = pace or Pace()
        self.options = options or HostOptions()
        self._faults = faults
        self._measures = measures
        self._bell = Bell()
        self._descriptors = Descriptors(store, self._pace)
        self.keeper = SessionKeeper(store, timeout_ms=self.options.session_timeout_ms, identity=broker, pace=self._pace)
        """The broker's one session: whatever else it is to hold may hang on it as well."""
        self._chart = SegmentChart(store, self._pace, self._bell)
        headers = OpenHeaders(store, self._pace)
        self._outcomes = Outcomes(store, self._pace, measures, headers=headers)
        self.open_transactions = OpenTransactions(store, self._pace, headers)
        self.coordinator = Coordinator(
            store,
            coordinator_number(broker),
            self.open_transactions,
            limits=self.options.limits,
            pace=self._pace,
            faults=faults,
        )
        self.sweeper = Sweeper(
            store,
            self.coordinator,
            self.open_transactions,
            self.keeper,
            broker,
            self._pace,
            retention_ms=self.options.retention_ms,
            faults=faults,
        )
        self._listeners: list[Callable[[str, str], None]] = []
        self._takeover = Takeover(self._make_owning(), self._chart, self._bell)
        self._stack = AsyncExitStack()

    def _make_owning(self) -> Owning[Segment]:
        opening = Opening(
            self._store,
            self._outcomes,
            self._descriptors,
            self.broker,
            self._pace,
            self._faults,
            self.options.opening,
            self._measures,
            self._tell_ends,
        )
        return Owning(
            self._store,
            self.keeper,
            self._pace,
            self._faults,
            self.broker,
            self.address,
            self._logs,
            self._descriptors,
            opening.open,
            asyncio.Semaphore(self.options.openings_at_once_max),
            self.options.turn_s,
        )

    # -- what others ask

    @property
    def segments(self) -> Mapping[str, Descriptor]:
        """All segments there are, as far as this broker has heard."""
        return self._chart.descriptors

    @property
    def owned(self) -> Mapping[str, Segment]:
        """The segments that this broker serves."""
        return self._takeover.served()

    @property
    def brokers(self) -> Mapping[str, Broker]:
        """The live brokers, as far as this one has heard."""
        return self._chart.brokers

    @property
    def takeovers(self) -> int:
        """How often this broker has begun to serve a segment."""
        return self._takeover.begun

    def listen_to_ends(self, listener: Callable[[str, str], None]) -> None:
        """Calls with segment and subscription when it may be another answer whether this has read that to its end."""
        self._listeners.append(listener)

    def _tell_ends(self, segment: str, subscription: str) -> None:
        for listener in self._listeners:
            listener(segment, subscription)

    def owner(self, segment: str) -> Owner | None:
        """Who owns a segment, as far as this broker has heard."""
        return self._chart.owners.get(segment)

    async def create(self, segment: str, place: str | None = None) -> Descriptor:
        """Creates a segment; without a place its log is in the first place that this broker serves."""
        place = next(iter(self._logs)) if place is None else place
        if place not in self._logs and not self._chart.has_broker_for(place):
            raise NoBrokerServesSegment(f"no live broker serves {place!r}, so the log of {segment!r} cannot be there")
        return await self._descriptors.create(segment, place)

    async def begin_deletion(self, segment: str) -> Descriptor:
        """Decides that a segment goes, with all that belongs to it: from then on it does, whoever waits for it."""
        return await self._descriptors.advance(segment, SegmentState.DELETING)

    async def delete(self, segment: str) -> None:
        """Deletes a segment, and returns when it is gone."""
        descriptor = await self.begin_deletion(segment)
        async with self._within(f"{segment!r} is being deleted: ask again until it is gone"):
            while True:
                await self._bell.until(lambda: not self._shows(descriptor))
                found = await self._descriptors.find(segment)
                if found is None or found.mark != descriptor.mark:
                    return
                await self._bell.wait()  # the chart is behind, and will show it yet

    def _shows(self, descriptor: Descriptor) -> bool:
        """Whether the chart has a segment; raises if nobody can do anything about it."""
        self._check_served(descriptor)
        shown = self._chart.descriptors.get(descriptor.segment)
        return shown is not None and shown.mark == descriptor.mark

    async def get(self, segment: str) -> Segment:
        """The segment, owned here; it is taken over if nobody has it. OwnedElsewhere says who else has it.

        NoSuchSegment if there is none; NoBrokerServesSegment if it cannot be had; SegmentUnavailable when that is not
        known in time.
        """
        served = self._takeover.find(segment)
        if served is not None:
            return served
        async with self._within(f"{segment!r} is being taken over: ask again"):
            while True:
                await self._check_there(segment)
                found = self._look(segment)
                if found is not None:
                    return found
                await self._bell.wait()

    async def _check_there(self, segment: str) -> None:
        """NoSuchSegment if there is none. The chart may be behind: of a segment that was deleted and created anew it
        shows the end of the one before."""
        if not self._chart.is_served(segment):
            found = await self._descriptors.find(segment)
            if found is None or found.is_deleting:
                raise NoSuchSegment(f"there is no segment {segment!r}: it was deleted, or never created")

    def _look(self, segment: str) -> Segment | None:
        """The segment if it is served here; None if that is not decided yet."""
        served = self._takeover.find(segment)
        if served is not None:
            return served
        owner = self._chart.owners.get(segment)
        if owner is not None and owner.broker != self.broker:
            raise OwnedElsewhere(
                f"{segment!r} is owned by {owner.broker!r} at {owner.address} under term {owner.term}: ask there",
                owner.broker,
                owner.address,
                owner.term,
            )
        descriptor = self._chart.descriptors.get(segment)
        if descriptor is not None and not descriptor.is_deleting:
            self._check_served(descriptor)
        self._takeover.hurry(segment)
        return None

    def _check_served(self, descriptor: Descriptor) -> None:
        if not self._chart.has_broker_for(descriptor.place) and descriptor.segment not in self._chart.owners:
            raise NoBrokerServesSegment(
                f"the log of {descriptor.segment!r} is in {descriptor.place!r}, which no live broker serves: start one "
                "that does"
            )

    def _within(self, message: str) -> Unless:
        """A block that is given up after a while."""

        def late() -> Exception:
            return SegmentUnavailable(message)

        return Unless(_sleep(self._pace, self.options.wait_s), late)

    # -- the beginning and the end

    async def __aenter__(self) -> Self:
        broker = Broker(self.broker, self.address, frozenset(self._logs))
        registration = Registration(self._store, GROUP, self.broker, broker.encode(), keeper=self.keeper)
        try:
            await self._stack.enter_async_context(self.keeper)
            await self._stack.enter_async_context(self._outcomes)
            tasks = await self._stack.enter_async_context(asyncio.TaskGroup())
            for work in (self._chart.follow(), self.open_transactions.follow(), self.sweeper.run()):
                self._stack.callback(tasks.create_task(work).cancel)
            await self._stack.enter_async_context(self._takeover)
            self._stack.callback(tasks.create_task(self._takeover.run()).cancel)
            await self._stack.enter_async_context(registration)
            await self._chart.ready()
            await self.open_transactions.ready()
        except BaseException as error:
            await self._stack.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The registration goes first: from then on others stand before this broker for what it lets go of.
        await self._stack.__aexit__(kind, error, trace)


async def _sleep(pace: Pace, seconds: float) -> None:
    await pace.sleep(seconds)
