"""What all leaders of topics at one broker share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.autoscale import AutoScaleConfig
from controller.layout import TopicName
from controller.leading.claims import CLAIM_GRACE_S
from controller.leading.scaling import ScaleCounts
from controller.operations import OperationCounts, SegmentWork
from controller.operations.retention import BROKER_DEFAULT_MINUTES, retention_ms
from controller.subscriptions import Options
from controller.topics.policies import NO_POLICY, NamespacePolicy
from metastore.coordination import Pace
from metastore.faults import NO_FAULTS, Faults


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a leader works with, beside its grant."""

    work: SegmentWork
    pace: Pace
    faults: Faults = NO_FAULTS
    auto_scale: AutoScaleConfig = field(default_factory=AutoScaleConfig)
    """What the broker says."""
    retention_minutes: int = BROKER_DEFAULT_MINUTES
    subscriptions: Options = field(default_factory=Options)
    policy: Callable[[TopicName], NamespacePolicy] = lambda topic: NO_POLICY
    """What a topic's namespace says."""
    claim_grace_s: float = CLAIM_GRACE_S
    counts: ScaleCounts = field(default_factory=ScaleCounts)
    operations: OperationCounts = field(default_factory=OperationCounts)

    def config(self, topic: TopicName, own: Mapping[str, Any] | None) -> AutoScaleConfig:
        """What holds for a topic; InvalidAutoScale if what is said contradicts itself."""
        return self.auto_scale.overridden(self.policy(topic).auto_scale, own)

    def retention_ms(self, topic: TopicName) -> int | None:
        """How long a topic's sealed segments are kept; None for ever."""
        said = self.policy(topic).retention_minutes
        return retention_ms(self.retention_minutes if said is None else said)
