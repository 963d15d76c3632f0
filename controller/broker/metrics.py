"""The metrics of a broker: what it counts itself, and what is read off when somebody asks.

Each broker has a registry of its own, so that several can live in one process. The first four are those that PIP-473
names for its metadata store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from txn.segment.entry import Entry

SEGMENT_LABELS_MAX = 200
"""Segments that have metrics of their own: those with the greatest lags."""
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class SegmentLag(NamedTuple):
    """How far a segment's horizon is behind."""

    segment: str
    entries: int


class State(NamedTuple):
    """What is so at a moment."""

    open_transactions: int
    """Of all coordinators of the store."""
    oldest_open_s: float
    """The age of the oldest of them; 0 if there is none."""
    expired: int
    """Transactions that this broker has aborted at their deadlines."""
    collected: int
    """Headers that this broker has removed."""
    segments_owned: int
    takeovers: int
    """How often it has begun to serve a segment."""
    streams: int
    sessions: int
    lags: Sequence[SegmentLag]
    """Of all segments it serves."""


class BrokerMetrics:
    """What a broker counts. It is told also what `txn.outcomes` and `txn.segment.buffer` measure."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.begun = self._counter("tidemark_txn_metadata_store_begin", "Transactions begun here.")
        self.ended = self._counter(
            "tidemark_txn_metadata_store_end",
            "Requests to end a transaction that were answered with success, by outcome and by who decided.",
            "state",
            "cause",
        )
        operations = self._counter(
            "tidemark_txn_metadata_store_operation",
            "Writes and acknowledgements in transactions, recorded and stored here.",
            "kind",
        )
        self.writes_recorded, self.acks_recorded = operations.labels("write"), operations.labels("ack")
        self.end_seconds = self._histogram(
            "tidemark_txn_metadata_store_end_seconds", "From a request to end a transaction until that is decided."
        )
        self.learned_seconds = self._histogram(
            "tidemark_txn_outcome_learned_seconds", "From a decision until a broker that takes part knows it."
        )
        self.visible_seconds = self._histogram(
            "tidemark_txn_commit_to_visible_seconds",
            "From a commit until what it has written to a segment may be read.",
        )
        self._settled = self._counter(
            "tidemark_txn_settled", "Outcomes carried out in the writes of a segment, by outcome.", "state"
        )
        synced = self._histogram(
            "tidemark_segment_log_sync_seconds",
            "From writing entries of a segment until they are durable, by where its log is kept.",
            "log",
        )
        self.local_synced, self.stored_synced = synced.labels("local").observe, synced.labels("stored").observe
        self.published = self._counter("tidemark_publish_entries", "Entries stored for producers.")
        self.published_bytes = self._counter("tidemark_publish_bytes", "Their payloads.")
        self.refused = self._counter("tidemark_publish_refused", "Entries not stored, by error.", "error")
        self.delivered = self._counter("tidemark_deliver_entries", "Entries sent to consumers and readers.")
        self.delivered_bytes = self._counter("tidemark_deliver_bytes", "Their payloads.")
        self.acknowledged = self._counter("tidemark_acknowledge_entries", "Acknowledgements stored.")
        self.calls = self._counter("tidemark_broker_calls", "Calls and streams begun, by method.", "method")

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, *labels: str) -> Histogram:
        return Histogram(name, text, labels, buckets=SECONDS, registry=self.registry)

    def count_delivered(self, entries: Sequence[Entry]) -> None:
        """Entries were sent to a consumer or a reader."""
        self.delivered.inc(len(entries))
        self.delivered_bytes.inc(sum(len(each.payload) for each in entries))

    def outcome_learned(self, delay_ms: int) -> None:
        """See `txn.outcomes.Measures`."""
        self.learned_seconds.observe(delay_ms / 1000)

    def became_visible(self, delay_ms: int) -> None:
        """See `txn.segment.buffer.Measures`."""
        self.visible_seconds.observe(delay_ms / 1000)

    def settled(self, is_aborted: bool) -> None:
        """See `txn.segment.buffer.Measures`."""
        self._settled.labels("aborted" if is_aborted else "committed").inc()

    def read_from(self, read: Callable[[], State]) -> None:
        """From now on the rest is read off by this."""
        self.registry.register(StateCollector(read))


GAUGES: tuple[tuple[str, str, Callable[[State], float]], ...] = (
    ("tidemark_txn_open", "Open transactions of all brokers.", lambda state: state.open_transactions),
    ("tidemark_txn_oldest_open_seconds", "Age of the oldest of them.", lambda state: state.oldest_open_s),
    ("tidemark_segments_owned", "Segments that this broker serves.", lambda state: state.segments_owned),
    ("tidemark_broker_streams", "Open streams of segments.", lambda state: state.streams),
    ("tidemark_broker_sessions", "Open watches, consumers that registered, and claims.", lambda state: state.sessions),
)

COUNTERS: tuple[tuple[str, str, Callable[[State], float]], ...] = (
    ("tidemark_txn_expired", "Transactions aborted at their deadlines here.", lambda state: state.expired),
    ("tidemark_txn_collected", "Headers removed here.", lambda state: state.collected),
    ("tidemark_segment_takeovers", "Segments this broker has begun to serve.", lambda state: state.takeovers),
)


class StateCollector(Collector):
    """Reads off what is so now."""

    def __init__(self, read: Callable[[], State]) -> None:
        self._read = read

    def describe(self) -> list[Metric]:
        """Nothing: that would be the moment to read, and it is too early."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All of it, as it is now."""
        state = self._read()
        for name, text, reading in GAUGES:
            yield GaugeMetricFamily(name, text, value=reading(state))
        for name, text, reading in COUNTERS:
            yield CounterMetricFamily(name, text, value=reading(state))
        lags = GaugeMetricFamily(
            "tidemark_segment_horizon_lag_entries",
            f"Confirmed entries that may not be read yet; of the {SEGMENT_LABELS_MAX} segments with most of them.",
            labels=("segment",),
        )
        worst = sorted(state.lags, key=lambda each: (-each.entries, each.segment))
        for segment, entries in worst[:SEGMENT_LABELS_MAX]:
            lags.add_metric((segment,), entries)
        yield lags
