"""What brokers say of topics, as values: policies, numbers, and what scaling by itself has in mind."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controller.client.errors import BrokerFailed
from controller.client.topics.layouts import TopicState, state_of
from controller.layout import HashRange
from controller.pb import topics_pb2 as pb
from controller.subscriptions import SubscriptionKind

TopicSubscriptionKind = SubscriptionKind
"""STREAM, CHECKPOINT or QUEUE."""

KIND_MESSAGES = {
    TopicSubscriptionKind.STREAM: pb.STREAM,
    TopicSubscriptionKind.CHECKPOINT: pb.CHECKPOINT,
    TopicSubscriptionKind.QUEUE: pb.QUEUE,
}
_KINDS = {message: kind for kind, message in KIND_MESSAGES.items()}


@dataclass(frozen=True, slots=True)
class Policy:
    """What a topic or a namespace says about scaling and retention, and what holds."""

    auto_scale: Mapping[str, Any] | None
    """What was said here; None: nothing."""
    retention_minutes: int | None
    effective_auto_scale: Mapping[str, Any]
    """What holds, with what namespace and broker say."""
    effective_retention_minutes: int


@dataclass(frozen=True, slots=True)
class SegmentLoad:
    """What a segment's owner has measured."""

    messages_in_per_s: float
    bytes_in_per_s: float
    messages_out_per_s: float
    bytes_out_per_s: float
    reported_ms: int


@dataclass(frozen=True, slots=True)
class SegmentNumbers:
    """A segment of a topic in numbers."""

    load: SegmentLoad | None
    backlog_entries: Mapping[str, int]
    """Entries that are not acknowledged, by subscription."""
    drained_by: tuple[str, ...]
    """The subscriptions that have read it to its end."""


@dataclass(frozen=True, slots=True)
class AssignedSegment:
    """A segment that a consumer reads."""

    segment_id: int
    segment: str
    range: HashRange
    buckets: tuple[HashRange, ...]
    """All of the segment, if several consumers share it."""


@dataclass(frozen=True, slots=True)
class ConsumerNumbers:
    """A consumer of a divided subscription."""

    consumer: str
    is_connected: bool
    segments: tuple[AssignedSegment, ...]


@dataclass(frozen=True, slots=True)
class SubscriptionNumbers:
    """A subscription of a topic in numbers."""

    kind: TopicSubscriptionKind
    backlog_entries: int
    generation: int
    """Of the division among consumers, where there is one."""
    consumers: tuple[ConsumerNumbers, ...]


@dataclass(frozen=True, slots=True)
class TopicStats:
    """A topic in numbers."""

    topic: TopicState
    segments: Mapping[int, SegmentNumbers]
    subscriptions: Mapping[str, SubscriptionNumbers]
    effective_auto_scale: Mapping[str, Any]
    effective_retention_minutes: int
    is_busy: bool
    """Whether its layout is being changed."""


@dataclass(frozen=True, slots=True)
class ScalingDecision:
    """What is to be done, and why."""

    action: str
    """`none`, `split` or `merge`."""
    segment_ids: tuple[int, ...]
    reason: str
    notes: tuple[str, ...]
    suppressed: tuple[str, ...]
    """What kept from acting."""


@dataclass(frozen=True, slots=True)
class ScalingConsidered:
    """An entry of the decision log."""

    at_ms: int
    triggers: tuple[str, ...]
    decision: ScalingDecision
    outcome: str
    times: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """What scaling by itself would do now, and what it has considered, the newest last."""

    now: ScalingDecision
    log: tuple[ScalingConsidered, ...]


def policy_of(told: pb.Policy) -> Policy:
    """A policy that came over the wire."""
    return Policy(
        _json(told.auto_scale) if told.auto_scale else None,
        told.retention_minutes if told.HasField("retention_minutes") else None,
        _json(told.effective_auto_scale),
        told.effective_retention_minutes,
    )


def stats_of(told: pb.TopicStatsResponse) -> TopicStats:
    """A topic's numbers that came over the wire."""
    return TopicStats(
        state_of(told.topic),
        {segment_id: _segment(numbers) for segment_id, numbers in told.segments.items()},
        {name: _subscription(numbers) for name, numbers in told.subscriptions.items()},
        _json(told.effective_auto_scale),
        told.effective_retention_minutes,
        told.is_busy,
    )


def explanation_of(told: pb.ExplainScalingResponse) -> Explanation:
    """The thoughts of a topic's leader that came over the wire."""
    log = (
        ScalingConsidered(each.at_ms, tuple(each.triggers), _decision(each.decision), each.outcome, each.times)
        for each in told.log
    )
    return Explanation(_decision(told.now), tuple(log))


def _segment(told: pb.SegmentNumbers) -> SegmentNumbers:
    load = told.load
    rates = load.messages_in_per_s, load.bytes_in_per_s, load.messages_out_per_s, load.bytes_out_per_s
    return SegmentNumbers(
        SegmentLoad(*rates, load.reported_ms) if told.HasField("load") else None,
        dict(told.backlog_entries),
        tuple(told.drained_by),
    )


def _subscription(told: pb.SubscriptionNumbers) -> SubscriptionNumbers:
    kind = _KINDS.get(told.kind)
    if kind is None:
        raise BrokerFailed(f"a subscription of kind {told.kind}: use a newer version of this library")
    consumers = (
        ConsumerNumbers(each.consumer, each.is_connected, tuple(map(_assigned, each.segments)))
        for each in told.consumers
    )
    return SubscriptionNumbers(kind, told.backlog_entries, told.generation, tuple(consumers))


def _assigned(told: pb.AssignedSegment) -> AssignedSegment:
    buckets = tuple(HashRange(each.start, each.end) for each in told.buckets)
    return AssignedSegment(told.segment_id, told.segment, HashRange(told.start, told.end), buckets)


def _decision(told: pb.ScalingDecision) -> ScalingDecision:
    return ScalingDecision(told.action, tuple(told.segment_ids), told.reason, tuple(told.notes), tuple(told.suppressed))


def _json(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError as error:
        raise BrokerFailed(f"a policy that is no JSON: {text[:80]!r}: {error}") from None
    if not isinstance(found, dict):
        raise BrokerFailed(f"a policy that is no JSON object: {text[:80]!r}")
    return found
