"""The metrics: read off the shards' counters when somebody asks, so that counting costs the hot paths next to nothing.

Names that begin with `oxia_` are those of an Oxia server, for dashboards that know them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from metastore.engine.statistics import Histogram
from metastore.server.host import ShardHost
from metastore.watch.hub import WatchStatistics

LABELS = ("oxia_namespace", "shard")

Reading = Callable[[ShardHost], float]

COUNTERS: tuple[tuple[str, str, Reading], ...] = (
    ("oxia_server_db_puts", "Puts.", lambda host: host.shard.statistics.puts),
    ("oxia_server_db_deletes", "Deletes.", lambda host: host.shard.statistics.deletes),
    ("oxia_server_db_delete_ranges", "Range deletes.", lambda host: host.shard.statistics.delete_ranges),
    ("oxia_server_db_gets", "Gets.", lambda host: host.shard.statistics.gets),
    ("oxia_server_db_lists", "Lists.", lambda host: host.shard.statistics.lists),
    ("oxia_server_db_range_scans", "Range scans.", lambda host: host.shard.statistics.range_scans),
    (
        "tidemark_log_appended_bytes",
        "Bytes appended to the change log.",
        lambda host: host.shard.statistics.log_bytes,
    ),
    (
        "tidemark_writes_refused_full",
        "Writes refused because of a full disk or the quota.",
        lambda host: host.shard.statistics.refused_full,
    ),
    (
        "tidemark_writes_paced_seconds",
        "Time for which writers were held up so that LMDB could catch up.",
        lambda host: host.shard.statistics.paced_seconds,
    ),
    (
        "tidemark_sessions_expired",
        "Sessions that ended because no heartbeat came.",
        lambda host: host.shard.statistics.sessions_expired,
    ),
    ("tidemark_lmdb_commits", "Commits to LMDB.", lambda host: host.shard.feeder.commits),
    ("tidemark_lmdb_entries", "Changed keys brought into LMDB.", lambda host: host.shard.feeder.fed_entries),
)

GAUGES: tuple[tuple[str, str, Reading], ...] = (
    ("oxia_server_session_active", "Live sessions.", lambda host: len(host.shard.sessions)),
    ("tidemark_log_first_offset", "The oldest change that is kept.", lambda host: host.shard.first_offset),
    ("tidemark_log_next_offset", "The offset of the next change.", lambda host: host.shard.next_offset),
    ("tidemark_log_size_bytes", "The change log on disk.", lambda host: host.shard.log.size_bytes),
    ("tidemark_store_size_bytes", "Records and indexes.", lambda host: host.shard.size_bytes()),
    (
        "tidemark_lmdb_lag_changes",
        "Write requests that LMDB is behind.",
        lambda host: host.shard.next_offset - host.shard.store.applied.next_offset,
    ),
    (
        "tidemark_lmdb_lag_bytes",
        "Log that LMDB is behind, and memory bounded by it.",
        lambda host: sum(each.size_bytes for each in host.shard.store.generations),
    ),
    ("tidemark_snapshots_open", "Long scans under way.", lambda host: host.shard.store.open_snapshots),
    ("tidemark_notification_streams", "Notification streams.", lambda host: host.follower_count),
    ("tidemark_sequence_streams", "Sequence streams.", lambda host: len(host.sequences)),
    (
        "tidemark_shard_up",
        "1 while the shard serves, 0 after it stopped itself.",
        lambda host: float(host.shard.rounds.failure is None),
    ),
)

WATCH_GAUGES: tuple[tuple[str, str, Callable[[WatchStatistics], float]], ...] = (
    ("tidemark_watches", "Open watches of ranges.", lambda watches: watches.watches),
    (
        "tidemark_watches_lagging",
        "Watches that are in their snapshot or are fed from the log.",
        lambda watches: watches.lagging,
    ),
    (
        "tidemark_watch_lag_changes_max",
        "Write requests that the slowest watch is behind.",
        lambda watches: watches.greatest_lag,
    ),
)

WATCH_COUNTERS: tuple[tuple[str, str, Callable[[WatchStatistics], float]], ...] = (
    ("tidemark_watch_changes", "Changes told to watches.", lambda watches: watches.events),
)

HISTOGRAMS: tuple[tuple[str, str, Callable[[ShardHost], Histogram]], ...] = (
    (
        "tidemark_write_seconds",
        "From a write's arrival at the shard until it is durable.",
        lambda host: host.shard.statistics.write_seconds,
    ),
    ("tidemark_read_seconds", "Gets of one request.", lambda host: host.shard.statistics.read_seconds),
    (
        "tidemark_round_requests",
        "Write requests that shared one append and one fsync.",
        lambda host: host.shard.statistics.round_requests,
    ),
    (
        "tidemark_round_stage_seconds",
        "Turning the requests of a round into effects.",
        lambda host: host.shard.statistics.stage_seconds,
    ),
    (
        "tidemark_round_sync_seconds",
        "Append, fsync and publication of a round.",
        lambda host: host.shard.statistics.sync_seconds,
    ),
)


class ShardCollector(Collector):
    """Reads the counters of the shards of this process."""

    def __init__(self, shards: Iterable[ShardHost], method_counts: dict[str, int]) -> None:
        self._shards = tuple(shards)
        self._method_counts = method_counts

    def collect(self) -> Iterator[Metric]:
        """All metrics, as they are now."""
        for name, text, reading in COUNTERS:
            counter = CounterMetricFamily(name, text, labels=LABELS)
            for host in self._shards:
                counter.add_metric(_labels(host), reading(host))
            yield counter
        for name, text, reading in GAUGES:
            gauge = GaugeMetricFamily(name, text, labels=LABELS)
            for host in self._shards:
                gauge.add_metric(_labels(host), reading(host))
            yield gauge
        watches = [(host, host.watches.statistics()) for host in self._shards]
        for name, text, of_watches in WATCH_GAUGES:
            gauge = GaugeMetricFamily(name, text, labels=LABELS)
            for host, statistics in watches:
                gauge.add_metric(_labels(host), of_watches(statistics))
            yield gauge
        for name, text, of_watches in WATCH_COUNTERS:
            counter = CounterMetricFamily(name, text, labels=LABELS)
            for host, statistics in watches:
                counter.add_metric(_labels(host), of_watches(statistics))
            yield counter
        for name, text, histogram in HISTOGRAMS:
            family = HistogramMetricFamily(name, text, labels=LABELS)
            for host in self._shards:
                read = histogram(host)
                family.add_metric(_labels(host), _buckets(read), read.total)
            yield family
        calls = CounterMetricFamily("tidemark_calls", "Calls begun, by method.", labels=("method",))
        for method, count in self._method_counts.items():
            calls.add_metric((method,), count)
        yield calls


def _labels(host: ShardHost) -> tuple[str, str]:
    return host.namespace.name, str(host.shard_id)


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    counts = tuple(histogram.counts)
    bounds = [*map(str, histogram.bounds), "+Inf"]
    return [(bound, float(sum(counts[: place + 1]))) for place, bound in enumerate(bounds)]
