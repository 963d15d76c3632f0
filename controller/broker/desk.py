"""What all methods of a broker work with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controller.broker.limits import BrokerLimits
from controller.broker.messages import checked_name
from controller.broker.metrics import BrokerMetrics
from controller.broker.streams import Streams
from controller.leading import Meter
from metastore.clock import Clock
from metastore.coordination import Pace
from txn.hosting import Host, Segment
from txn.segment.bell import Bell
from txn.segment.entry import Entry


@dataclass(frozen=True, slots=True)
class Desk:
    """One for each broker."""

    host: Host
    streams: Streams
    limits: BrokerLimits
    pace: Pace
    metrics: BrokerMetrics
    meter: Meter
    """Counts what goes in and out of segments."""
    sought: Bell
    """Rung when somebody has put a subscription somewhere else: one that was at its end may have something again."""

    @property
    def clock(self) -> Clock:
        """The time."""
        return self.pace.clock

    async def segment(self, name: str) -> Segment:
        """A segment, owned here."""
        return await self.host.get(self.checked("segment", name))

    def count_delivered(self, segment: str, entries: Sequence[Entry]) -> None:
        """Entries of a segment were sent to a consumer or a reader."""
        self.metrics.count_delivered(entries)
        messages = sum(each.message_count for each in entries)
        self.meter.count_out(segment, messages, sum(len(each.payload) for each in entries))

    @staticmethod
    async def lost(segment: Segment) -> None:
        """Raises when a segment is served here no longer."""
        await segment.wait_ended()
        segment.check()

    def checked(self, what: str, name: str) -> str:
        """A name of something, if it may be one."""
        return checked_name(what, name, self.limits)
