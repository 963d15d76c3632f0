"""What goes over the wire as JSON: the members that Pulsar's admin client knows, and some that it passes over."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from controller.autoscale.config import OVERRIDES
from controller.layout import TopicRecord

Count = Annotated[int, Field(ge=0)]
Hash = Annotated[int, Field(ge=0, le=0xFFFF)]
State = Literal["ACTIVE", "SEALED"]
Kind = Literal["STREAM", "QUEUE", "CHECKPOINT"]


class HashRangeBody(BaseModel):
    """A range of hashes, both ends in it."""

    start: Hash
    end: Hash


class SegmentBody(BaseModel):
    """A segment as a topic's record has it."""

    model_config = ConfigDict(extra="allow")

    segmentId: Count
    hashRange: HashRangeBody
    state: State
    parentIds: list[Count]
    childIds: list[Count]
    createdAtEpoch: Count
    sealedAtEpoch: int = Field(ge=-1, description="-1: it is active.")
    createdAtMs: Count
    sealedAtMs: int = Field(ge=-1, description="-1: it is active.")


class RecordBody(BaseModel):
    """A topic's record."""

    model_config = ConfigDict(extra="allow")

    epoch: Count = Field(description="Grows with every change of the segments.")
    nextSegmentId: Count
    segments: dict[str, SegmentBody] = Field(description="By number, sealed ones as well.")
    properties: dict[str, str]
    autoScalePolicy: dict[str, Any] = Field(default_factory=dict, description="Overrides, where the topic has its own.")


def record_body(record: TopicRecord) -> RecordBody:
    """The record as it is answered; what it does not say is not there either."""
    return RecordBody.model_validate(record.fields())


class LeaderBody(BaseModel):
    """A broker that leads a topic, or serves a segment, and since which term."""

    broker: str
    address: str
    term: Count


class LoadBody(BaseModel):
    """What a segment's broker has reported last."""

    msgRateIn: float
    bytesRateIn: float
    msgRateOut: float
    bytesRateOut: float
    reportedAtMs: Count


class SegmentStatsBody(BaseModel):
    """A segment in numbers."""

    name: str
    state: State
    hashRange: HashRangeBody
    owner: LeaderBody | None = Field(description="null: nobody serves it at the moment.")
    load: LoadBody | None = Field(description="null: nothing was reported.")
    backlog: dict[str, Count] = Field(description="Entries that are not acknowledged, by subscription.")
    drainedBy: list[str] = Field(description="The subscriptions that have read it to its end.")


class AssignedBody(BaseModel):
    """A segment that a consumer reads."""

    segmentId: Count
    name: str
    hashRange: HashRangeBody
    buckets: list[HashRangeBody] = Field(description="All parts of the segment, if several consumers share it.")


class ConsumerBody(BaseModel):
    """A consumer of a divided subscription."""

    name: str
    connected: bool = Field(description="false: it is within its grace.")
    segments: list[AssignedBody]


class SubscriptionStatsBody(BaseModel):
    """A subscription in numbers."""

    type: Kind
    consumerCount: Count
    backlog: Count = Field(description="Entries that are not acknowledged, in all segments.")
    generation: Count = Field(description="Grows with every assignment.")
    consumers: list[ConsumerBody]


class StatsBody(BaseModel):
    """A topic in numbers."""

    epoch: Count
    totalSegments: Count
    activeSegments: Count
    sealedSegments: Count
    segments: dict[str, SegmentStatsBody]
    subscriptions: dict[str, SubscriptionStatsBody]
    leader: LeaderBody | None
    operationUnderWay: bool
    effectiveAutoScalePolicy: dict[str, Any] = Field(description="What holds, with what namespace and broker say.")
    effectiveRetentionMinutes: int = Field(description="Negative: for ever.")


class SegmentCountsBody(BaseModel):
    """How many segments a topic has: what a container autoscaler wants to know."""

    activeSegments: Count
    sealedSegments: Count
    totalSegments: Count


class DecisionBody(BaseModel):
    """What is done about the segments of a topic, and why."""

    action: Literal["none", "split", "merge"]
    segmentIds: list[Count]
    reason: str
    notes: list[str]
    suppressed: list[str] = Field(description="What kept from acting: max-segments, max-depth.")


class ConsideredBody(BaseModel):
    """An entry of the decision log."""

    atMs: Count
    triggers: list[str]
    decision: DecisionBody
    outcome: str
    times: Annotated[int, Field(ge=1, description="How often in a row it was the same.")]


class ExplanationBody(BaseModel):
    """Why a topic did or did not scale."""

    now: DecisionBody = Field(description="What would be done now: nothing is done for this answer.")
    log: list[ConsideredBody] = Field(description="What was considered, the newest last.")


class RetentionBody(BaseModel):
    """How long sealed segments are kept that nobody needs."""

    retentionTimeInMinutes: int = Field(
        strict=True, ge=-1, le=(1 << 40), description="-1: for ever; 0: not at all.", examples=[1440]
    )
    retentionSizeInMB: Literal[-1, 0] = Field(
        default=-1, description="There is no limit by size: -1, or 0 where nothing is kept."
    )


def policy_schema() -> dict[str, Any]:
    """The schema of an override object: what is left out, or null, is as it is said above it."""
    properties: dict[str, Any] = {}
    for name in OVERRIDES:
        if name == "enabled":
            properties[name] = {"type": ["boolean", "null"]}
        elif name.endswith("Threshold"):
            properties[name] = {"type": ["number", "null"], "minimum": 0}
        else:
            properties[name] = {"type": ["integer", "null"], "minimum": 0}
    return {
        "type": "object",
        "title": "AutoScalePolicy",
        "description": "Overrides of how topics split and merge by themselves. Those that are left out fall through.",
        "properties": properties,
        "additionalProperties": False,
    }
