"""Latencies by buckets of a constant ratio: small, quick, and the same error for 100 µs as for 10 s."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

RATIO = 1.02
LEAST_S = 1e-6
_LOG_RATIO = math.log(RATIO)


class Histogram:
    """How often which latency was seen."""

    __slots__ = ("buckets", "count", "greatest_s", "sum_s")

    def __init__(self) -> None:
        self.buckets: Counter[int] = Counter()
        self.count = 0
        self.sum_s = 0.0
        self.greatest_s = 0.0

    def add(self, latency_s: float) -> None:
        """One more."""
        self.buckets[int(math.log(max(latency_s, LEAST_S) / LEAST_S) / _LOG_RATIO)] += 1
        self.count += 1
        self.sum_s += latency_s
        self.greatest_s = max(self.greatest_s, latency_s)

    def merge(self, other: Histogram) -> None:
        """All of another one."""
        self.buckets.update(other.buckets)
        self.count += other.count
        self.sum_s += other.sum_s
        self.greatest_s = max(self.greatest_s, other.greatest_s)

    def percentile_s(self, share: float) -> float:
        """The latency that this share of all did not exceed; 0 of nothing."""
        assert 0 <= share <= 1
        wanted, seen = share * self.count, 0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if seen >= wanted:
                return min(self.greatest_s, LEAST_S * math.exp(_LOG_RATIO * (bucket + 0.5)))
        return self.greatest_s

    @property
    def mean_s(self) -> float:
        return self.sum_s / self.count if self.count else 0.0

    def encode(self) -> dict[str, object]:
        """As JSON has it."""
        return {"sum_s": self.sum_s, "greatest_s": self.greatest_s, "buckets": list(map(list, self.buckets.items()))}

    @classmethod
    def decode(cls, said: Mapping[str, object]) -> Histogram:
        """Reads what `encode` wrote."""
        found = cls()
        pairs = said["buckets"]
        assert isinstance(pairs, Iterable)
        found.buckets.update({int(bucket): int(count) for bucket, count in pairs})
        found.count = found.buckets.total()
        found.sum_s, found.greatest_s = float(str(said["sum_s"])), float(str(said["greatest_s"]))
        return found


def merged(histograms: Iterable[Histogram]) -> Histogram:
    """All of them as one."""
    whole = Histogram()
    for each in histograms:
        whole.merge(each)
    return whole
