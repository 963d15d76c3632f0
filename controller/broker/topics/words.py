"""Values into messages and back. What a message says that cannot be is refused by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controller.autoscale import Decision, Load, Metric
from controller.broker.messages import checked_count
from controller.errors import InvalidRequest
from controller.layout import HashRange, TopicName, TopicRecord
from controller.leading import Considered
from controller.operations import Start, data_name
from controller.pb import topics_pb2 as pb
from controller.subscriptions import AssignedSegment, SubscriptionKind
from controller.watches import SegmentOwners
from txn.posts import Owner

SUBSCRIPTIONS_MAX = 100
"""That a topic begins with."""

_KINDS = {
    pb.STREAM: SubscriptionKind.STREAM,
    pb.CHECKPOINT: SubscriptionKind.CHECKPOINT,
    pb.QUEUE: SubscriptionKind.QUEUE,
}
_KIND_MESSAGES = {kind: message for message, kind in _KINDS.items()}
_STARTS = {pb.EARLIEST: Start.EARLIEST, pb.LATEST: Start.LATEST}


def kind_of(message: pb.TopicSubscriptionKind.ValueType) -> SubscriptionKind:
    """A kind of subscription."""
    kind = _KINDS.get(message)
    if kind is None:
        raise InvalidRequest(f"subscriptions of kind {message} are unknown: STREAM, CHECKPOINT and QUEUE are there")
    return kind


def kinds_of(messages: Mapping[str, pb.TopicSubscriptionKind.ValueType]) -> dict[str, SubscriptionKind]:
    """The subscriptions that a topic begins with."""
    checked_count("subscriptions", len(messages), SUBSCRIPTIONS_MAX, "SUBSCRIPTIONS_MAX")
    return {name: kind_of(kind) for name, kind in messages.items()}


def kind_message(kind: SubscriptionKind) -> pb.TopicSubscriptionKind.ValueType:
    """A kind as it is said."""
    return _KIND_MESSAGES[kind]


def start_of(message: pb.StartAt.ValueType) -> Start:
    """Where a subscription begins."""
    start = _STARTS.get(message)
    if start is None:
        raise InvalidRequest(f"a subscription cannot start at {message}: EARLIEST and LATEST are known")
    return start


def address_message(owner: Owner) -> pb.BrokerAddress:
    """Who leads or owns something."""
    return pb.BrokerAddress(broker=owner.broker, address=owner.address, term=owner.term)


def owners_of(topic: TopicName, record: TopicRecord, owners: SegmentOwners) -> dict[int, Owner]:
    """Who serves a topic's segments, as far as that is known."""
    found = {each.segment_id: owners.find(data_name(topic, each)) for each in record.layout.segments.values()}
    return {segment_id: owner for segment_id, owner in found.items() if owner is not None}


def description(
    topic: TopicName, record: TopicRecord, version_id: int, leader: Owner | None, owners: Mapping[int, Owner]
) -> pb.TopicDescription:
    """A topic."""
    return pb.TopicDescription(
        topic=str(topic),
        record=record.encode(),
        version_id=version_id,
        leader=None if leader is None else address_message(leader),
        owners={segment_id: address_message(owner) for segment_id, owner in owners.items()},
    )


def load_message(load: Load) -> pb.SegmentLoad:
    """What a segment's owner has measured."""
    return pb.SegmentLoad(
        messages_in_per_s=load.rates[Metric.MSG_RATE_IN],
        bytes_in_per_s=load.rates[Metric.BYTES_RATE_IN],
        messages_out_per_s=load.rates[Metric.MSG_RATE_OUT],
        bytes_out_per_s=load.rates[Metric.BYTES_RATE_OUT],
        reported_ms=load.modified_ms,
    )


def decision_message(decision: Decision) -> pb.ScalingDecision:
    """What is to be done, and why."""
    return pb.ScalingDecision(
        action=decision.action.value,
        segment_ids=decision.segments,
        reason=decision.reason,
        notes=decision.notes,
        suppressed=sorted(each.value for each in decision.suppressed),
    )


def considered_message(entry: Considered) -> pb.ScalingConsidered:
    """An entry of the decision log."""
    return pb.ScalingConsidered(
        at_ms=entry.at_ms,
        triggers=entry.triggers,
        decision=decision_message(entry.decision),
        outcome=entry.outcome,
        times=entry.times,
    )


def assigned_message(segment: AssignedSegment) -> pb.AssignedSegment:
    """A segment that a consumer reads."""
    return pb.AssignedSegment(
        segment_id=segment.segment_id,
        segment=segment.name,
        start=segment.range.start,
        end=segment.range.end,
        buckets=_bucket_messages(segment.buckets),
    )


def _bucket_messages(buckets: Iterable[HashRange]) -> list[pb.HashBucket]:
    return [pb.HashBucket(start=each.start, end=each.end) for each in buckets]
