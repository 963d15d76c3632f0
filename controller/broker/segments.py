"""The methods about segments, and about the broker itself."""

from __future__ import annotations

from contextlib import suppress
from heapq import nsmallest

from controller.broker.desk import Desk
from controller.broker.messages import optional_position, position_message, position_of
from controller.errors import InvalidRequest
from controller.pb import broker_pb2 as pb
from metastore import __version__
from txn.hosting import Descriptor, NoSuchSegment, OwnedElsewhere, Segment, SegmentExists, SegmentState
from txn.segment.subscription import Subscription

STATES = {
    SegmentState.OPEN: pb.WRITABLE,
    SegmentState.SEALED: pb.SEALED,
    SegmentState.DELETING: pb.DELETING,
}


class Segments:
    """What any broker does, and what the owner of a segment does."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._host = desk.host

    # -- at any broker

    async def describe_broker(
        self, request: pb.DescribeBrokerRequest, principal: str | None
    ) -> pb.DescribeBrokerResponse:
        """This broker, and the others."""
        limits = self._desk.limits
        return pb.DescribeBrokerResponse(
            name=self._host.broker,
            version=__version__,
            limits=pb.Limits(
                request_bytes_max=limits.request_bytes_max,
                entry_bytes_max=limits.entry_bytes_max,
                message_count_max=limits.message_count_max,
                properties_max=limits.properties_max,
                name_bytes_max=limits.name_bytes_max,
                sends_per_request_max=limits.sends_per_request_max,
                acks_per_request_max=limits.acks_per_request_max,
                acknowledges_under_way_max=limits.acknowledges_under_way_max,
                permits_max=limits.permits_max,
                timeout_ms_max=self._desk.host.options.limits.timeout_ms_max,
                streams_max=limits.streams_max,
            ),
            brokers=[
                pb.BrokerDescription(name=name, address=broker.address)
                for name, broker in sorted(self._host.brokers.items())
            ],
        )

    async def create(self, request: pb.CreateSegmentRequest, principal: str | None) -> pb.CreateSegmentResponse:
        """One that exists already is left as it is."""
        name = self._desk.checked("segment", request.segment)
        try:
            await self._host.create(name)
        except SegmentExists:
            return pb.CreateSegmentResponse(is_old=True)
        return pb.CreateSegmentResponse()

    async def delete(self, request: pb.DeleteSegmentRequest, principal: str | None) -> pb.DeleteSegmentResponse:
        """One that does not exist is deleted already."""
        with suppress(NoSuchSegment):  # by somebody else, or by the same call when its answer was lost
            await self._host.delete(self._desk.checked("segment", request.segment))
        return pb.DeleteSegmentResponse()

    async def list(self, request: pb.ListSegmentsRequest, principal: str | None) -> pb.ListSegmentsResponse:
        """A page, in the order of names."""
        most = self._desk.limits.segments_per_page_max
        limit = min(request.limit or most, most)
        known = self._host.segments
        wanted = (each for each in known if each.startswith(request.prefix) and each > request.after)
        page = nsmallest(limit + 1, wanted)
        return pb.ListSegmentsResponse(
            segments=[_described(known[each]) for each in page[:limit]], has_more=len(page) > limit
        )

    async def look_up(self, request: pb.LookupSegmentRequest, principal: str | None) -> pb.LookupSegmentResponse:
        """Its owner; if there is none this broker becomes it, if it can."""
        try:
            segment = await self._desk.segment(request.segment)
        except OwnedElsewhere as owner:
            return pb.LookupSegmentResponse(address=owner.address, term=owner.term, broker=owner.broker)
        return pb.LookupSegmentResponse(address=self._host.address, term=segment.term, broker=self._host.broker)

    # -- at its owner

    async def seal(self, request: pb.SealSegmentRequest, principal: str | None) -> pb.SealSegmentResponse:
        """Nothing more is written to it."""
        segment = await self._desk.segment(request.segment)
        await segment.seal()
        return pb.SealSegmentResponse(last=optional_position(segment.last_confirmed))

    async def trim(self, request: pb.TrimSegmentRequest, principal: str | None) -> pb.TrimSegmentResponse:
        """Entries before a position are given up."""
        if not request.HasField("before"):
            raise InvalidRequest("a trim without a position")
        before = position_of(request.before)
        segment = await self._desk.segment(request.segment)
        await segment.trim(before)
        return pb.TrimSegmentResponse(first=optional_position(segment.first))

    async def stats(self, request: pb.SegmentStatsRequest, principal: str | None) -> pb.SegmentStatsResponse:
        """In numbers."""
        return _numbers(await self._desk.segment(request.segment))


def _described(descriptor: Descriptor) -> pb.SegmentDescription:
    return pb.SegmentDescription(
        segment=descriptor.segment, state=STATES[descriptor.state], created_ms=descriptor.created_ms
    )


def _numbers(segment: Segment) -> pb.SegmentStatsResponse:
    stats = segment.stats
    return pb.SegmentStatsResponse(
        segment=segment.name,
        term=segment.term,
        is_sealed=segment.is_sealed,
        first=optional_position(segment.first),
        last_confirmed=optional_position(segment.last_confirmed),
        horizon=position_message(stats.bound),
        horizon_lag_entries=segment.horizon_lag,
        open_transactions=stats.open,
        subscriptions=[_subscription_numbers(each) for each in segment.subscriptions.values()],
    )


def _subscription_numbers(subscription: Subscription) -> pb.SubscriptionStats:
    stats = subscription.stats
    return pb.SubscriptionStats(
        subscription=subscription.name,
        mark=position_message(stats.mark),
        backlog_entries=stats.backlog,
        unacknowledged_messages=stats.unacked,
        pending_acks={str(txn_id): count for txn_id, count in stats.pending.items()},
        consumers=len(stats.consumers),
    )
