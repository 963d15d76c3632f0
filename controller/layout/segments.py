"""One segment of a topic's layout: its range, its state, and where it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from controller.layout.ranges import HashRange

NEVER = -1
"""The epoch and the time at which an active segment was sealed."""
MERGES_KEPT_MAX = 1_000
"""Merges in a segment's past that are remembered one by one: its depth is at least as great as this says."""


class SegmentState(Enum):
    """Active segments take messages; sealed ones are only read."""

    ACTIVE = "ACTIVE"
    SEALED = "SEALED"


@dataclass(frozen=True, slots=True)
class Segment:
    """A node of the layout."""

    segment_id: int
    range: HashRange
    state: SegmentState = SegmentState.ACTIVE
    parents: tuple[int, ...] = ()
    """Those that are still in the layout."""
    children: tuple[int, ...] = ()
    created_epoch: int = 0
    sealed_epoch: int = NEVER
    created_ms: int = 0
    sealed_ms: int = NEVER
    legacy_topic: str | None = None
    """The topic of the old kind whose data this segment stands for."""
    bucket_splits: tuple[int, ...] = ()
    merges: frozenset[int] = frozenset()
    """The merges it comes from: itself, if it is one, and those among its ancestors, pruned ones as well."""

    @property
    def is_active(self) -> bool:
        """Whether it takes messages."""
        return self.state is SegmentState.ACTIVE

    @property
    def is_legacy(self) -> bool:
        """Whether it stands for data of the old kind."""
        return self.legacy_topic is not None

    @property
    def bucket_count(self) -> int:
        """How many consumers can share it in order."""
        return len(self.bucket_splits) + 1

    @property
    def merge_depth(self) -> int:
        """How many merges it comes from."""
        return len(self.merges)


def remembered(merges: frozenset[int]) -> frozenset[int]:
    """The newest of them, as many as are kept."""
    return merges if len(merges) <= MERGES_KEPT_MAX else frozenset(sorted(merges)[-MERGES_KEPT_MAX:])
