"""How a consumer of a segment receives, and how it says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from controller.client.segment.credits import BYTES_MAX, ENTRIES_MAX
from controller.client.values import Start, SubscriptionKind, bound_of
from controller.layout import HashRange
from controller.pb import broker_pb2 as pb

_KINDS = {
    SubscriptionKind.EXCLUSIVE: pb.EXCLUSIVE,
    SubscriptionKind.SHARED: pb.SHARED,
    SubscriptionKind.FAILOVER: pb.FAILOVER,
    SubscriptionKind.KEY_SHARED: pb.KEY_SHARED,
}


class Assigned(NamedTuple):
    """A division of a topic's segments among consumers; of two, the greater one is newer."""

    term: int
    generation: int


@dataclass(frozen=True, slots=True)
class SegmentConsumerOptions:
    """Of one consumer."""

    kind: SubscriptionKind = SubscriptionKind.EXCLUSIVE
    start: Start | None = None
    """Where the subscription begins if there is none yet; None: it has to exist."""
    name: str = ""
    """For statistics."""
    prefetch: int = ENTRIES_MAX
    """How many entries may come ahead of being asked for."""
    prefetch_bytes: int = BYTES_MAX
    """And how many bytes. One entry may be larger."""
    buckets: tuple[HashRange, ...] = ()
    """All buckets of the segment, for KEY_SHARED."""
    assigned: Assigned | None = None
    """The division of a topic's segments by which it is here."""
    replaces: bool = False
    """Whether consumers of an older division have to go."""

    def opening(self, segment: str, subscription: str, instance: int) -> pb.OpenConsumer:
        """What a broker is told. By the instance it is the same consumer on all its streams."""
        assigned = None
        if self.assigned is not None:
            assigned = pb.Assigned(term=self.assigned.term, generation=self.assigned.generation)
        return pb.OpenConsumer(
            segment=segment,
            subscription=subscription,
            consumer=self.name,
            kind=_KINDS[self.kind],
            start=None if self.start is None else bound_of(self.start),
            buckets=[pb.Bucket(start=each.start, end=each.end) for each in self.buckets],
            assigned=assigned,
            replaces=self.replaces,
            instance=instance,
        )
