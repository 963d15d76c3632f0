"""What a broker may be told about topics: names, defaults, and what may be. docs/tuning.md says what each one does.

The names are those of PIP-483 where it has one; a time has its unit behind it, `_s` for seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from controller.autoscale import AutoScaleConfig, InvalidAutoScale, Metric
from controller.autoscale.config import MERGE, MERGE_RATES, SPLIT, SPLIT_RATES
from controller.autoscale.load import CHANGE_THRESHOLD
from controller.layout import BUDGET
from controller.leading.claims import CLAIM_GRACE_S
from controller.leading.leaders import INTERVAL_S as AUTO_SCALE_INTERVAL_S
from controller.leading.loads import INTERVAL_S as LOAD_REPORT_INTERVAL_S
from controller.operations.retention import BROKER_DEFAULT_MINUTES
from controller.subscriptions.coordinator import GRACE_S
from controller.subscriptions.group import Strategy

SECONDS_MAX = 365 * 24 * 3_600
BUCKET_BUDGET_MAX = 4_096
"""More buckets than this in one topic are more than consumers could share."""
RETENTION_MINUTES_MAX = 1 << 40

_SCALE = AutoScaleConfig()
_IN, _BYTES_IN, _OUT, _BYTES_OUT = Metric


@dataclass(frozen=True, slots=True)
class TopicsConfig:
    """Everything that a broker may be told about topics, with the defaults."""

    scalable_topic_auto_scale_enabled: bool = _SCALE.enabled
    scalable_topic_auto_scale_interval_s: float = AUTO_SCALE_INTERVAL_S
    scalable_topic_max_segments: int = _SCALE.max_segments
    scalable_topic_min_segments: int = _SCALE.min_segments
    scalable_topic_max_dag_depth: int = _SCALE.max_dag_depth
    scalable_topic_split_cooldown_s: float = _SCALE.split_cooldown_ms / 1000
    scalable_topic_merge_cooldown_s: float = _SCALE.merge_cooldown_ms / 1000
    scalable_topic_merge_window_s: float = _SCALE.merge_window_ms / 1000
    scalable_topic_split_msg_rate_in_threshold: float = SPLIT_RATES[_IN]
    scalable_topic_split_bytes_rate_in_threshold: float = SPLIT_RATES[_BYTES_IN]
    scalable_topic_split_msg_rate_out_threshold: float = SPLIT_RATES[_OUT]
    scalable_topic_split_bytes_rate_out_threshold: float = SPLIT_RATES[_BYTES_OUT]
    scalable_topic_merge_msg_rate_in_threshold: float = MERGE_RATES[_IN]
    scalable_topic_merge_bytes_rate_in_threshold: float = MERGE_RATES[_BYTES_IN]
    scalable_topic_merge_msg_rate_out_threshold: float = MERGE_RATES[_OUT]
    scalable_topic_merge_bytes_rate_out_threshold: float = MERGE_RATES[_BYTES_OUT]
    scalable_topic_load_report_interval_s: float = LOAD_REPORT_INTERVAL_S
    scalable_topic_load_report_rate_change_threshold: float = CHANGE_THRESHOLD
    scalable_topic_consumer_session_grace_period_s: float = GRACE_S
    scalable_topic_assignment_strategy: str = Strategy.STICKY.value
    scalable_topic_producer_claim_grace_period_s: float = CLAIM_GRACE_S
    scalable_topic_entry_bucket_budget: int = BUDGET
    scalable_topic_retention_minutes: int = BROKER_DEFAULT_MINUTES

    def problem(self) -> str | None:
        """What cannot be, named as settings are; None if all can."""
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name.endswith("_s") and not 0 <= value <= SECONDS_MAX:
                return f"{shown(each.name)} must be between 0 and {SECONDS_MAX} seconds, got {value}"
            if isinstance(value, float) and not math.isfinite(value):
                return f"{shown(each.name)} must be a number, got {value}"
        if not self.scalable_topic_load_report_rate_change_threshold >= 0:
            return "scalable-topic-load-report-rate-change-threshold must be at least 0: 0.25 is a quarter"
        if not 1 <= self.scalable_topic_entry_bucket_budget <= BUCKET_BUDGET_MAX:
            return f"scalable-topic-entry-bucket-budget must be between 1 and {BUCKET_BUDGET_MAX}"
        if abs(self.scalable_topic_retention_minutes) > RETENTION_MINUTES_MAX:
            return f"scalable-topic-retention-minutes must be at most {RETENTION_MINUTES_MAX}, or negative for ever"
        if self.scalable_topic_assignment_strategy not in STRATEGIES:
            return f"scalable-topic-assignment-strategy must be one of {', '.join(STRATEGIES)}"
        try:
            self.auto_scale()
        except InvalidAutoScale as error:
            return f"the settings of scaling contradict each other: {error}"
        return None

    def auto_scale(self) -> AutoScaleConfig:
        """What holds for topics of which nothing else is said."""
        return AutoScaleConfig(
            self.scalable_topic_auto_scale_enabled,
            self.scalable_topic_max_segments,
            self.scalable_topic_min_segments,
            self.scalable_topic_max_dag_depth,
            round(self.scalable_topic_split_cooldown_s * 1000),
            round(self.scalable_topic_merge_cooldown_s * 1000),
            round(self.scalable_topic_merge_window_s * 1000),
            self._rates(SPLIT),
            self._rates(MERGE),
        )

    def _rates(self, kind: str) -> dict[Metric, float]:
        return {metric: getattr(self, threshold_name(kind, metric)) for metric in Metric}

    @property
    def strategy(self) -> Strategy:
        """How segments are divided among consumers."""
        return Strategy(self.scalable_topic_assignment_strategy)


STRATEGIES = tuple(each.value for each in Strategy)


def threshold_name(kind: str, metric: Metric) -> str:
    """The name of a threshold: of splits or of merges."""
    words = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in metric.title)
    return f"scalable_topic_{kind}{words}_threshold"


def shown(name: str) -> str:
    """A setting's name as files and flags have it."""
    return name.replace("_", "-")
