"""The layout of a topic: its segments as a graph, in which the active ones tile the key space. Immutable.

Every change gives a new layout, one epoch later. Children come behind their parents: a split makes two of one, a merge
one of several that lie side by side, and pruning forgets a sealed segment. No id is ever given twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from operator import attrgetter
from types import MappingProxyType

from controller.layout.buckets import BUDGET, buckets_for_budget, equal_splits
from controller.layout.errors import LayoutError, SegmentInWrongState, SegmentNotFound
from controller.layout.names import TopicName
from controller.layout.ranges import FULL, HashRange, equal_ranges, joined
from controller.layout.segments import Segment, SegmentState, remembered


@dataclass(frozen=True)
class Layout:
    """The segments of a topic at one epoch."""

    epoch: int
    next_segment_id: int
    segments: Mapping[int, Segment]
    """By id, in the order in which they came."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "segments", MappingProxyType(dict(self.segments)))
        self._check()

    def _check(self) -> None:
        """LayoutError unless the active segments tile the ring and relatives know each other."""
        active = self.active
        if all(segment.is_legacy for segment in active):
            pass  # routed by partition: their ranges are for show
        elif active[0].range.start or active[-1].range.end != FULL.end:
            raise LayoutError(f"the active segments cover {active[0].range} to {active[-1].range}, not the whole ring")
        else:
            joined([segment.range for segment in active])
        for segment_id, segment in self.segments.items():
            if segment_id != segment.segment_id or not 0 <= segment_id < self.next_segment_id:
                raise LayoutError(
                    f"segment {segment.segment_id} under id {segment_id}; the next is {self.next_segment_id}"
                )
            for child in segment.children:
                if child not in self.segments or segment_id not in self.segments[child].parents:
                    raise LayoutError(f"segment {child} is a child of {segment_id}, but does not know it")
            for parent in segment.parents:
                if parent not in self.segments or segment_id not in self.segments[parent].children:
                    raise LayoutError(f"segment {parent} is a parent of {segment_id}, but does not know it")

    # -- the first layouts

    @classmethod
    def initial(cls, segments: int, now_ms: int, *, bucket_budget: int = BUDGET) -> Layout:
        """The layout of a new topic."""
        ranges = equal_ranges(segments)
        splits = equal_splits(buckets_for_budget(bucket_budget, segments))
        return cls(0, segments, _by_id(_born(number, each, splits, now_ms) for number, each in enumerate(ranges)))

    @classmethod
    def migrated(cls, topic: TopicName, partitions: int, now_ms: int, *, bucket_budget: int = BUDGET) -> Layout:
        """The layout of a topic of the old kind (0 partitions: it is not partitioned) that becomes a scalable one.

        What it has stays readable as sealed parents, of which every new segment is a child: a key may be in any.
        """
        count = max(1, partitions)
        splits = equal_splits(buckets_for_budget(bucket_budget, count))
        parents, children = range(count), range(count, 2 * count)
        names = [f"{topic}-partition-{number}" for number in parents] if partitions else [str(topic)]
        old = [
            Segment(
                number,
                FULL,
                SegmentState.SEALED,
                children=tuple(children),
                sealed_epoch=0,
                created_ms=now_ms,
                sealed_ms=now_ms,
                legacy_topic=names[number],
            )
            for number in parents
        ]
        new = [
            _born(number, each, splits, now_ms, tuple(parents))
            for number, each in zip(children, equal_ranges(count), strict=True)
        ]
        return cls(0, 2 * count, _by_id([*old, *new]))

    @classmethod
    def synthetic(cls, topic: TopicName, partitions: int) -> Layout:
        """How a topic of the old kind looks to those who know only layouts: a segment for each partition."""
        count = max(1, partitions)
        names = [f"{topic}-partition-{number}" for number in range(count)] if partitions else [str(topic)]
        segments = zip(equal_ranges(count), names, strict=True)
        return cls(0, count, _by_id(Segment(n, each, legacy_topic=name) for n, (each, name) in enumerate(segments)))

    # -- questions

    @cached_property
    def active(self) -> tuple[Segment, ...]:
        """The active segments in the order of their ranges."""
        found = tuple(sorted((each for each in self.segments.values() if each.is_active), key=_by_range))
        if not found:
            raise LayoutError("a layout without any active segment")
        return found

    @property
    def sealed(self) -> tuple[Segment, ...]:
        """The sealed segments, oldest first."""
        return tuple(each for each in self.segments.values() if not each.is_active)

    def segment(self, segment_id: int) -> Segment:
        """The segment with that id."""
        segment = self.segments.get(segment_id)
        if segment is None:
            raise SegmentNotFound(f"Segment not found: {segment_id}")
        return segment

    def find(self, hash: int) -> Segment:
        """The active segment that a hash belongs to."""
        for segment in self.active:
            if hash in segment.range:
                return segment
        raise LayoutError(f"No active segment covers hash: {hash}")

    def lineage(self, segment_id: int) -> tuple[Segment, ...]:
        """Ancestors, the segment itself, descendants: parents before their children, and each once."""
        segment = self.segment(segment_id)
        before = _reached(self.segments, segment.parents, attrgetter("parents"))
        return (*before, segment, *_reached(self.segments, segment.children, attrgetter("children")))

    def adjacent_pairs(self) -> list[tuple[Segment, Segment]]:
        """The active segments that lie side by side, from the left."""
        return list(pairwise(self.active))

    # -- changes

    def split(self, segment_id: int, now_ms: int) -> Layout:
        """Two active segments in place of one; the left one has the smaller id."""
        parent = self.segment(segment_id)
        if not parent.is_active:
            raise SegmentInWrongState(f"Cannot split non-active segment: {segment_id}")
        ids = (self.next_segment_id, self.next_segment_id + 1)
        splits = equal_splits(max(1, parent.bucket_count // 2))
        born = [
            replace(
                _born(child_id, half, splits, now_ms, (segment_id,)), created_epoch=self.epoch + 1, merges=parent.merges
            )
            for child_id, half in zip(ids, parent.range.halves(), strict=True)
        ]
        return self._succeeded([parent], born, now_ms)

    def merge(self, segment_ids: Sequence[int], now_ms: int) -> Layout:
        """One active segment in place of several that lie side by side, given in any order."""
        if len(set(segment_ids)) < 2 or len(set(segment_ids)) != len(segment_ids):
            raise LayoutError(f"a merge of {list(segment_ids)}: at least two different segments are expected")
        missing = [each for each in segment_ids if each not in self.segments]
        if missing:
            raise SegmentNotFound(f"Segment not found: {missing[0]}")
        parents = [self.segments[each] for each in segment_ids]
        for parent in parents:
            if not parent.is_active:
                raise SegmentInWrongState(f"Both segments must be active: segment {parent.segment_id} is sealed")
        child_id = self.next_segment_id
        child = replace(
            _born(
                child_id,
                joined([parent.range for parent in parents]),
                equal_splits(sum(parent.bucket_count for parent in parents)),
                now_ms,
                tuple(segment_ids),
            ),
            created_epoch=self.epoch + 1,
            merges=remembered(frozenset({child_id}).union(*(parent.merges for parent in parents))),
        )
        return self._succeeded(parents, [child], now_ms)

    def prune(self, segment_ids: Iterable[int]) -> Layout:
        """The layout without these sealed segments. What their relatives know of themselves stays as it is."""
        gone = set(segment_ids)
        for segment_id in gone:
            if self.segment(segment_id).is_active:
                raise SegmentInWrongState(f"Cannot prune an active segment: {segment_id}")
        kept = {
            segment_id: replace(
                segment,
                parents=tuple(each for each in segment.parents if each not in gone),
                children=tuple(each for each in segment.children if each not in gone),
            )
            for segment_id, segment in self.segments.items()
            if segment_id not in gone
        }
        return Layout(self.epoch + 1, self.next_segment_id, kept)

    def _succeeded(self, parents: Sequence[Segment], born: Sequence[Segment], now_ms: int) -> Layout:
        """The layout in which these active segments are sealed, and those are their children."""
        segments = dict(self.segments)
        for parent in parents:
            segments[parent.segment_id] = replace(
                parent,
                state=SegmentState.SEALED,
                children=tuple(child.segment_id for child in born),
                sealed_epoch=self.epoch + 1,
                sealed_ms=now_ms,
            )
        segments.update(_by_id(born))
        return Layout(self.epoch + 1, self.next_segment_id + len(born), segments)


def _born(
    segment_id: int, range: HashRange, splits: tuple[int, ...], now_ms: int, parents: tuple[int, ...] = ()
) -> Segment:
    return Segment(segment_id, range, parents=parents, created_ms=now_ms, bucket_splits=splits)


def _by_id(segments: Iterable[Segment]) -> dict[int, Segment]:
    return {segment.segment_id: segment for segment in segments}


def _by_range(segment: Segment) -> tuple[HashRange, int]:
    return segment.range, segment.segment_id


def _reached(
    segments: Mapping[int, Segment], starts: Sequence[int], relatives: Callable[[Segment], Sequence[int]]
) -> tuple[Segment, ...]:
    """These and all that is reached from them, by id: parents have smaller ones than their children."""
    seen, waiting = set[int](), list(starts)
    while waiting:
        segment_id = waiting.pop()
        if segment_id not in seen:
            seen.add(segment_id)
            waiting += relatives(segments[segment_id])
    return tuple(segments[segment_id] for segment_id in sorted(seen))
