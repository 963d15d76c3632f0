"""A subscription's record, as JSON: its kind, and who reads what since which generation.

    {"type":"STREAM","generation":7,"assignment":{"c1":[{"segment":4}],"c2":[{"segment":5,"buckets":[[0,32767],…]},…]}}

`type` is what Pulsar 5 writes and reads; its tools ignore the rest. A record without an assignment was written by
other software: then the records of consumers say who is a member. An empty one is what a store puts where only a
consumer's record was written: of a stream, the only kind whose consumers that software records.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from controller.assignment import Assignment, Share
from controller.layout import HashRange
from controller.subscriptions.errors import DamagedSubscription

CONSUMER_VALUE = b"{}"
"""A consumer's record says nothing but that it is there."""


class SubscriptionKind(Enum):
    """How a subscription's consumers read."""

    STREAM = "STREAM"
    """Each key in its order: segments are divided among the consumers."""
    QUEUE = "QUEUE"
    """Every consumer reads all segments; messages are shared one by one."""
    CHECKPOINT = "CHECKPOINT"
    """Like a stream, but the positions are kept by the application."""

    @property
    def is_divided(self) -> bool:
        """Whether segments are divided among the consumers, so that these have to register."""
        return self is not SubscriptionKind.QUEUE


@dataclass(frozen=True, slots=True)
class SubscriptionRecord:
    """What a subscription's record says."""

    kind: SubscriptionKind
    generation: int = 0
    assignment: Assignment | None = None
    """None in records of other software."""

    def encode(self) -> bytes:
        """The record's value."""
        fields: dict[str, Any] = {"type": self.kind.value, "generation": self.generation}
        if self.assignment is not None:
            fields["assignment"] = {
                name: [share_fields(share) for share in shares] for name, shares in sorted(self.assignment.items())
            }
        return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def decode(cls, value: bytes) -> SubscriptionRecord:
        """Reads a record's value."""
        if not value:
            return cls(SubscriptionKind.STREAM)
        try:
            fields = json.loads(value)
            return cls(
                SubscriptionKind(fields["type"]),
                int(fields.get("generation", 0)),
                _assignment(fields.get("assignment")),
            )
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise DamagedSubscription(f"a subscription's record says {value[:200]!r}: {error!r}") from error


def share_fields(share: Share) -> dict[str, Any]:
    """A share as it is shown and stored."""
    fields: dict[str, Any] = {"segment": share.segment_id}
    if share.buckets:
        fields["buckets"] = [[bucket.start, bucket.end] for bucket in share.buckets]
    return fields


def _assignment(fields: Mapping[str, Any] | None) -> Assignment | None:
    if fields is None:
        return None
    return {str(name): tuple(_share(each) for each in shares) for name, shares in fields.items()}


def _share(fields: Mapping[str, Any]) -> Share:
    buckets = (HashRange(int(start), int(end)) for start, end in fields.get("buckets", ()))
    return Share(int(fields["segment"]), tuple(buckets))
