"""What brokers say, as it is answered in JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from controller.admin.bodies import (
    AssignedBody,
    ConsideredBody,
    ConsumerBody,
    DecisionBody,
    ExplanationBody,
    HashRangeBody,
    LeaderBody,
    LoadBody,
    RetentionBody,
    SegmentCountsBody,
    SegmentStatsBody,
    StatsBody,
    SubscriptionStatsBody,
)
from controller.client.topics.descriptions import (
    AssignedSegment,
    ConsumerNumbers,
    Explanation,
    ScalingConsidered,
    ScalingDecision,
    SegmentLoad,
    SegmentNumbers,
    SubscriptionNumbers,
    TopicStats,
)
from controller.client.topics.layouts import Broker, TopicState
from controller.layout import HashRange, Layout, Segment

NO_NUMBERS = SegmentNumbers(None, {}, ())
"""Of a segment that came after the numbers were gathered."""


def counts_of(layout: Layout) -> SegmentCountsBody:
    """How many segments there are."""
    active, sealed = len(layout.active), len(layout.sealed)
    return SegmentCountsBody(activeSegments=active, sealedSegments=sealed, totalSegments=active + sealed)


def stats_of(told: TopicStats) -> StatsBody:
    """A topic in numbers."""
    state, layout = told.topic, told.topic.layout
    return StatsBody(
        epoch=layout.epoch,
        **counts_of(layout).model_dump(),
        segments={
            str(number): _segment(state, segment, told.segments.get(number, NO_NUMBERS))
            for number, segment in layout.segments.items()
        },
        subscriptions={name: _subscription(each) for name, each in sorted(told.subscriptions.items())},
        leader=_broker(state.leader),
        operationUnderWay=told.is_busy,
        effectiveAutoScalePolicy=dict(told.effective_auto_scale),
        effectiveRetentionMinutes=told.effective_retention_minutes,
    )


def _segment(state: TopicState, segment: Segment, numbers: SegmentNumbers) -> SegmentStatsBody:
    return SegmentStatsBody(
        name=state.name_of(segment),
        state=segment.state.value,
        hashRange=_range(segment.range),
        owner=_broker(state.owners.get(segment.segment_id)),
        load=None if numbers.load is None else _load(numbers.load),
        backlog=dict(numbers.backlog_entries),
        drainedBy=list(numbers.drained_by),
    )


def _load(load: SegmentLoad) -> LoadBody:
    return LoadBody(
        msgRateIn=load.messages_in_per_s,
        bytesRateIn=load.bytes_in_per_s,
        msgRateOut=load.messages_out_per_s,
        bytesRateOut=load.bytes_out_per_s,
        reportedAtMs=load.reported_ms,
    )


def _subscription(numbers: SubscriptionNumbers) -> SubscriptionStatsBody:
    kind: Any = numbers.kind.value
    return SubscriptionStatsBody(
        type=kind,
        consumerCount=len(numbers.consumers),
        backlog=numbers.backlog_entries,
        generation=numbers.generation,
        consumers=[_consumer(each) for each in numbers.consumers],
    )


def _consumer(numbers: ConsumerNumbers) -> ConsumerBody:
    segments = [_assigned(each) for each in numbers.segments]
    return ConsumerBody(name=numbers.consumer, connected=numbers.is_connected, segments=segments)


def _assigned(segment: AssignedSegment) -> AssignedBody:
    return AssignedBody(
        segmentId=segment.segment_id,
        name=segment.segment,
        hashRange=_range(segment.range),
        buckets=_ranges(segment.buckets),
    )


def _ranges(ranges: Iterable[HashRange]) -> list[HashRangeBody]:
    return [_range(each) for each in ranges]


def _range(range: HashRange) -> HashRangeBody:
    return HashRangeBody(start=range.start, end=range.end)


def _broker(broker: Broker | None) -> LeaderBody | None:
    return None if broker is None else LeaderBody(broker=broker.name, address=broker.address, term=broker.term)


def explanation_of(told: Explanation) -> ExplanationBody:
    """Why a topic did or did not scale."""
    return ExplanationBody(now=_decision(told.now), log=[_considered(each) for each in told.log])


def _considered(entry: ScalingConsidered) -> ConsideredBody:
    return ConsideredBody(
        atMs=entry.at_ms,
        triggers=list(entry.triggers),
        decision=_decision(entry.decision),
        outcome=entry.outcome,
        times=entry.times,
    )


def _decision(decision: ScalingDecision) -> DecisionBody:
    action: Any = decision.action
    return DecisionBody(
        action=action,
        segmentIds=list(decision.segment_ids),
        reason=decision.reason,
        notes=list(decision.notes),
        suppressed=list(decision.suppressed),
    )


def retention_of(minutes: int) -> RetentionBody:
    """A retention that is set."""
    kept = max(minutes, -1)
    return RetentionBody(retentionTimeInMinutes=kept, retentionSizeInMB=-1 if kept else 0)
