"""A topic's record, as JSON: the layout, the topic's properties, and its own policy of splitting and merging.

The format is the one that Pulsar 5 writes and its tools read, with one member more: `mergedIds`, by which a segment's
merge depth survives the pruning of its ancestors. Members that are derived (`sealed`, `active`, `root`, `leaf`,
`legacy`) are written for readers and ignored when read. Members this code does not know are ignored as well.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from controller.layout.errors import LayoutError
from controller.layout.layout import Layout
from controller.layout.ranges import HashRange
from controller.layout.segments import NEVER, Segment, SegmentState


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """What a topic's record says."""

    layout: Layout
    properties: Mapping[str, str] = field(default_factory=dict)
    auto_scale_policy: Mapping[str, Any] | None = None
    """The topic's overrides, as they were given; `controller.autoscale` knows what they mean."""

    def with_layout(self, layout: Layout) -> TopicRecord:
        """The same topic with another layout."""
        return replace(self, layout=layout)

    def fields(self) -> dict[str, Any]:
        """The record as it is shown and stored."""
        fields: dict[str, Any] = {
            "epoch": self.layout.epoch,
            "nextSegmentId": self.layout.next_segment_id,
            "segments": {str(each.segment_id): segment_fields(each) for each in self.layout.segments.values()},
            "properties": dict(self.properties),
        }
        if self.auto_scale_policy is not None:
            fields["autoScalePolicy"] = dict(self.auto_scale_policy)
        return fields

    def encode(self) -> bytes:
        """The record's value."""
        return json.dumps(self.fields(), separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def decode(cls, value: bytes) -> TopicRecord:
        """Reads a record's value; LayoutError for what no topic's record says."""
        try:
            fields = json.loads(value)
            segments = {int(key): _segment(each) for key, each in (fields.get("segments") or {}).items()}
            layout = Layout(_number(fields, "epoch"), _number(fields, "nextSegmentId"), segments)
            properties = {str(key): str(each) for key, each in (fields.get("properties") or {}).items()}
            policy = fields.get("autoScalePolicy")
            return cls(layout, properties, None if policy is None else dict(policy))
        except LayoutError as error:
            raise LayoutError(f"a topic's record is damaged: {error}; it says {value[:200]!r}") from error
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise LayoutError(f"a topic's record says {value[:200]!r}: {error!r}") from error


def segment_fields(segment: Segment) -> dict[str, Any]:
    """A segment as it is shown and stored."""
    fields: dict[str, Any] = {
        "segmentId": segment.segment_id,
        "hashRange": {"start": segment.range.start, "end": segment.range.end},
        "state": segment.state.value,
        "parentIds": list(segment.parents),
        "childIds": list(segment.children),
        "createdAtEpoch": segment.created_epoch,
        "sealedAtEpoch": segment.sealed_epoch,
        "createdAtMs": segment.created_ms,
        "sealedAtMs": segment.sealed_ms,
    }
    if segment.legacy_topic is not None:
        fields["legacyTopicName"] = segment.legacy_topic
    fields["entryBucketSplits"] = list(segment.bucket_splits)
    if segment.merges:
        fields["mergedIds"] = sorted(segment.merges)
    return fields | {
        "sealed": not segment.is_active,
        "active": segment.is_active,
        "root": not segment.parents,
        "leaf": not segment.children,
        "legacy": segment.is_legacy,
    }


def _segment(fields: dict[str, Any]) -> Segment:
    bounds = fields["hashRange"]
    state = SegmentState(fields["state"])
    never = NEVER if state is SegmentState.ACTIVE else 0
    return Segment(
        _number(fields, "segmentId"),
        HashRange(_number(bounds, "start"), _number(bounds, "end")),
        state,
        _numbers(fields, "parentIds"),
        _numbers(fields, "childIds"),
        _number(fields, "createdAtEpoch"),
        _number(fields, "sealedAtEpoch", never),
        _number(fields, "createdAtMs"),
        _number(fields, "sealedAtMs", never),
        fields.get("legacyTopicName"),
        _numbers(fields, "entryBucketSplits"),
        frozenset(_numbers(fields, "mergedIds")) or _merges_by_itself(fields),
    )


def _merges_by_itself(fields: dict[str, Any]) -> frozenset[int]:
    """What a segment's own record says of merges where none are written down: records of other software."""
    return frozenset({_number(fields, "segmentId")}) if len(fields.get("parentIds") or ()) > 1 else frozenset()


def _number(fields: dict[str, Any], name: str, absent: int = 0) -> int:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float | str | None):
        raise TypeError(f"{name} is {value!r}")
    return absent if value is None else int(value)


def _numbers(fields: dict[str, Any], name: str) -> tuple[int, ...]:
    return tuple(int(each) for each in fields.get(name) or ())
