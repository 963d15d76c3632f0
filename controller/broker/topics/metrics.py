"""The metrics of topics: those of PIP-483 and PIP-460, read off when somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from controller.autoscale import Metric
from controller.autoscale.config import Rates
from controller.leading import ScaleCounts

TOPIC_LABELS_MAX = 200
"""Topics that have metrics of their own: of those led here the ones with the most active segments."""
SEGMENT_LABELS_MAX = 200
"""Segments that have: of those owned here the ones with the greatest backlogs."""


@dataclass(frozen=True, slots=True)
class TopicFigures:
    """A topic that is led here."""

    topic: str
    active_segments: int
    counts: ScaleCounts
    rates: Rates
    """Of all its segments together, as their owners have reported."""


@dataclass(frozen=True, slots=True)
class SegmentFigures:
    """A segment that is owned here."""

    segment: str
    backlog: int
    """Of all its subscriptions together."""
    consumers: int
    rates: Rates


@dataclass(frozen=True, slots=True)
class TopicsState:
    """What is so at a moment."""

    topics: Sequence[TopicFigures]
    segments: Sequence[SegmentFigures]
    takeovers: int
    operations: Mapping[str, int]
    sealed: int
    divisions: int
    assignments: int


BY_TOPIC: tuple[tuple[str, str, Callable[[ScaleCounts], int]], ...] = (
    ("tidemark_scalable_topic_auto_splits", "Splits that a topic has done by itself.", lambda counts: counts.splits),
    ("tidemark_scalable_topic_auto_merges", "Merges that a topic has done by itself.", lambda counts: counts.merges),
    (
        "tidemark_scalable_topic_split_suppressed_max_segments",
        "Splits not done because a topic has as many segments as it may.",
        lambda counts: counts.split_suppressed_max_segments,
    ),
    (
        "tidemark_scalable_topic_merge_suppressed_max_depth",
        "Merges not done because segments were merged as often as they may be.",
        lambda counts: counts.merge_suppressed_max_depth,
    ),
)
COUNTERS: tuple[tuple[str, str, Callable[[TopicsState], int]], ...] = (
    ("tidemark_topic_takeovers", "Topics this broker has begun to lead.", lambda state: state.takeovers),
    ("tidemark_topic_segments_sealed", "Segments sealed by splits and merges.", lambda state: state.sealed),
    ("tidemark_topic_rebalances", "Times segments were divided anew among consumers.", lambda state: state.divisions),
    ("tidemark_topic_assignments", "Assignments that consumers were told.", lambda state: state.assignments),
)
DIRECTIONS = (("in", Metric.MSG_RATE_IN, Metric.BYTES_RATE_IN), ("out", Metric.MSG_RATE_OUT, Metric.BYTES_RATE_OUT))


class TopicsCollector(Collector):
    """Reads off what is so now."""

    def __init__(self, read: Callable[[], TopicsState]) -> None:
        self._read = read

    def describe(self) -> list[Family]:
        """Nothing: that would be the moment to read, and it is too early."""
        return []

    def collect(self) -> Iterator[Family]:
        """All of it, as it is now."""
        state = self._read()
        yield GaugeMetricFamily("tidemark_topics_led", "Topics that this broker leads.", value=len(state.topics))
        for name, text, reading in COUNTERS:
            yield CounterMetricFamily(name, text, value=reading(state))
        operations = CounterMetricFamily(
            "tidemark_topic_operations", "Changes of topics that this broker has finished.", labels=("kind",)
        )
        for kind, count in sorted(state.operations.items()):
            operations.add_metric((kind,), count)
        yield operations
        topics = sorted(state.topics, key=lambda each: (-each.active_segments, each.topic))[:TOPIC_LABELS_MAX]
        yield from _of_topics(topics)
        segments = sorted(state.segments, key=lambda each: (-each.backlog, each.segment))[:SEGMENT_LABELS_MAX]
        yield from _of_segments(segments)


def _of_topics(topics: Sequence[TopicFigures]) -> Iterator[Family]:
    label = ("topic",)
    active = GaugeMetricFamily("tidemark_scalable_topic_active_segments", "Segments that take messages.", labels=label)
    for topic in topics:
        active.add_metric((topic.topic,), topic.active_segments)
    yield active
    for name, text, reading in BY_TOPIC:
        counter = CounterMetricFamily(name, text, labels=label)
        for topic in topics:
            counter.add_metric((topic.topic,), reading(topic.counts))
        yield counter
    names = "tidemark_scalable_topic_messages_per_second", "tidemark_scalable_topic_bytes_per_second"
    yield from _rates(names, "topic", [(each.topic, each.rates) for each in topics])


def _of_segments(segments: Sequence[SegmentFigures]) -> Iterator[Family]:
    label = ("segment",)
    backlog = GaugeMetricFamily("tidemark_segment_backlog_entries", "Entries not acknowledged yet.", labels=label)
    consumers = GaugeMetricFamily("tidemark_segment_consumers", "Consumers that are attached.", labels=label)
    for each in segments:
        backlog.add_metric((each.segment,), each.backlog)
        consumers.add_metric((each.segment,), each.consumers)
    yield backlog
    yield consumers
    names = "tidemark_segment_messages_per_second", "tidemark_segment_bytes_per_second"
    yield from _rates(names, "segment", [(each.segment, each.rates) for each in segments])


def _rates(names: tuple[str, str], label: str, found: Sequence[tuple[str, Rates]]) -> Iterator[Family]:
    messages = GaugeMetricFamily(names[0], "Published and delivered, by direction.", labels=(label, "direction"))
    sizes = GaugeMetricFamily(names[1], "Their payloads.", labels=(label, "direction"))
    for name, rates in found:
        for direction, of_messages, of_bytes in DIRECTIONS:
            messages.add_metric((name, direction), rates[of_messages])
            sizes.add_metric((name, direction), rates[of_bytes])
    yield messages
    yield sizes
