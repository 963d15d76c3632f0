"""Counters of a shard: plain numbers that the code adds to as it goes, for the metrics to read at any time."""

from __future__ import annotations

from bisect import bisect_left

SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Bounds for times."""
COUNTS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
"""Bounds for sizes of groups."""


class Histogram:
    """How often a value fell under each bound; the last count is that of the values above all bounds."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Counts a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        """All values."""
        return sum(self.counts)


class ShardStatistics:
    """What a shard has done since it was opened."""

    def __init__(self) -> None:
        self.puts = 0
        self.deletes = 0
        self.delete_ranges = 0
        self.gets = 0
        self.lists = 0
        self.range_scans = 0
        self.refused_full = 0
        self.log_bytes = 0
        self.paced_seconds = 0.0
        self.sessions_expired = 0
        self.write_seconds = Histogram(SECONDS)
        self.read_seconds = Histogram(SECONDS)
        self.round_requests = Histogram(COUNTS)
        self.stage_seconds = Histogram(SECONDS)
        self.sync_seconds = Histogram(SECONDS)
