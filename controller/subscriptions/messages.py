"""What a consumer of a subscription is told."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from controller.layout import HashRange, TopicName
from controller.subscriptions.group import Group


@dataclass(frozen=True, slots=True)
class AssignedSegment:
    """A segment that a consumer reads, wholly or together with others."""

    segment_id: int
    range: HashRange
    name: str
    """The segment's name; of one that stands for data of the old kind that of its topic, where the data are."""
    buckets: tuple[HashRange, ...] = ()
    """All buckets of the segment, if it is shared: its owner spreads them over those who share it."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """All that the consumer reads from now on. What comes with a lower (term, generation) is older: drop it."""

    term: int
    generation: int
    epoch: int
    """Of the layout that was divided."""
    segments: tuple[AssignedSegment, ...]


class EndReason(Enum):
    """Why a consumer is told nothing any more."""

    REPLACED = "replaced"
    """A consumer of the same name came on another connection."""
    DELETED = "deleted"
    """The subscription is gone."""
    MOVED = "moved"
    """The topic is led by somebody else, or will be: go there."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The last thing that a connection is told."""

    reason: EndReason


Message = Assigned | Ended


def assigned(topic: TopicName, term: int, group: Group, consumer: str) -> Assigned:
    """What a member is told of a division."""
    found = []
    for share in group.assignment[consumer]:
        segment = group.layout.segment(share.segment_id)
        name = segment.legacy_topic or str(topic.segment(segment.range, segment.segment_id))
        found.append(AssignedSegment(segment.segment_id, segment.range, name, share.buckets))
    return Assigned(term, group.generation, group.layout.epoch, tuple(found))
