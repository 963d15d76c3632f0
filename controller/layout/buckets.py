"""Entry buckets: the parts into which a segment's messages are grouped, so that several consumers can share a segment.

The buckets of a segment are said by the points at which they begin; no point means one bucket of everything.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from controller.layout.ranges import FULL, HASH_MAX, HASHES, HashRange

BUDGET = 4
"""Buckets of a whole topic (`scalableTopicEntryBucketBudget`), shared by the segments it begins with."""


def equal_splits(count: int) -> tuple[int, ...]:
    """Where so many buckets of one width begin, but the first."""
    return tuple(number * HASHES // count for number in range(1, count))


def buckets_for_budget(budget: int, segments: int) -> int:
    """How many buckets each segment of a new topic has."""
    return max(1, budget // segments)


def bucket_ranges(splits: Sequence[int]) -> tuple[HashRange, ...]:
    """The buckets as ranges of bucket hashes."""
    if not splits:
        return (FULL,)
    starts = (0, *splits)
    ends = (*(split - 1 for split in splits), HASH_MAX)
    return tuple(HashRange(start, end) for start, end in zip(starts, ends, strict=True))


def bucket_of(hash: int, splits: Sequence[int]) -> int:
    """The number of the bucket that a bucket hash is in."""
    return bisect_right(splits, hash)


def canonical_hash(bucket: HashRange) -> int:
    """The hash that stands for a whole bucket; never 0, which says that there is no key."""
    return max(1, bucket.start)


def spread(buckets: int, consumers: int) -> list[range]:
    """Which buckets each of so many consumers owns, in their order; without buckets enough some own none."""
    return [range(number * buckets // consumers, (number + 1) * buckets // consumers) for number in range(consumers)]
