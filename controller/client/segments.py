"""What is done to segments as wholes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TypeVar

from google.protobuf.message import Message as ProtoMessage

from controller.client.caller import Caller
from controller.client.names import segment_of
from controller.client.protocol import (
    CREATE_SEGMENT,
    DELETE_SEGMENT,
    LIST_SEGMENTS,
    SEAL_SEGMENT,
    SEGMENT_STATS,
    TRIM_SEGMENT,
)
from controller.client.values import EARLIEST, Message, MessageId, Start, position_of
from controller.pb import broker_pb2 as pb
from metastore.dialling import Method
from txn.model.position import Position

Q = TypeVar("Q", bound=ProtoMessage)
A = TypeVar("A", bound=ProtoMessage)


@dataclass(frozen=True, slots=True)
class SubscriptionStats:
    """A subscription in numbers."""

    backlog_entries: int
    """That may be read and are not acknowledged."""
    unacknowledged_messages: int
    """That were delivered and are not acknowledged."""
    pending_acks: dict[str, int]
    """Acknowledgements of transactions that are not decided, by transaction."""
    consumers: int


@dataclass(frozen=True, slots=True)
class SegmentStats:
    """A segment in numbers."""

    term: int
    """Of its owner, who answers."""
    is_sealed: bool
    first: Position | None
    last_confirmed: Position | None
    horizon: Position | None
    """Nothing at or behind this may be read yet."""
    horizon_lag_entries: int
    open_transactions: int
    subscriptions: dict[str, SubscriptionStats]


class Segments:
    """Every method takes a topic's name, which means its first segment, or a segment's own."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def create(self, topic: str) -> None:
        """Creates a segment; one that exists is left as it is."""
        segment = segment_of(topic)
        await self._caller.call(CREATE_SEGMENT, pb.CreateSegmentRequest(segment=segment), f"create {segment}")

    async def delete(self, topic: str) -> None:
        """Deletes a segment for good, with its subscriptions."""
        segment = segment_of(topic)
        await self._at_owner(DELETE_SEGMENT, pb.DeleteSegmentRequest(segment=segment), segment, "delete")

    async def seal(self, topic: str) -> None:
        """Lets nothing more be written; it stays readable, and transactions end as they would have."""
        segment = segment_of(topic)
        await self._at_owner(SEAL_SEGMENT, pb.SealSegmentRequest(segment=segment), segment, "seal")

    async def trim(self, topic: str, before: Position | MessageId | Message) -> None:
        """Gives up the entries before this one; they count as acknowledged everywhere."""
        segment = segment_of(topic)
        place = before.id if isinstance(before, Message) else before
        position = place.position if isinstance(place, MessageId) else place
        bound = pb.Position(ledger=position.ledger, entry=position.entry)
        await self._at_owner(TRIM_SEGMENT, pb.TrimSegmentRequest(segment=segment, before=bound), segment, "trim")

    async def stats(self, topic: str) -> SegmentStats:
        """A segment and its subscriptions in numbers."""
        segment = segment_of(topic)
        told = await self._at_owner(SEGMENT_STATS, pb.SegmentStatsRequest(segment=segment), segment, "look at")
        return SegmentStats(
            told.term,
            told.is_sealed,
            position_of(told.first) if told.HasField("first") else None,
            position_of(told.last_confirmed) if told.HasField("last_confirmed") else None,
            position_of(told.horizon) if told.HasField("horizon") else None,
            told.horizon_lag_entries,
            told.open_transactions,
            {each.subscription: _subscription(each) for each in told.subscriptions},
        )

    async def end(self, topic: str) -> Start:
        """Behind everything that has been written so far."""
        last = (await self.stats(topic)).last_confirmed
        return EARLIEST if last is None else Position(last.ledger, last.entry + 1)

    async def list(self, prefix: str = "") -> AsyncIterator[str]:
        """The names of all segments that begin so, in order."""
        after = ""
        while True:
            request = pb.ListSegmentsRequest(prefix=prefix, after=after)
            page = await self._caller.call(LIST_SEGMENTS, request, "list segments")
            for each in page.segments:
                yield each.segment
            if not page.has_more or not page.segments:
                return
            after = page.segments[-1].segment

    async def _at_owner(self, method: Method[Q, A], request: Q, segment: str, doing: str) -> A:
        return await self._caller.call(method, request, f"{doing} {segment}", segment=segment)


def _subscription(told: pb.SubscriptionStats) -> SubscriptionStats:
    return SubscriptionStats(
        told.backlog_entries, told.unacknowledged_messages, dict(told.pending_acks), told.consumers
    )
