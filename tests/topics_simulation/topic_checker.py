"""The door: what everybody noted of topics and of their segments, and what is wrong with it."""

from __future__ import annotations

from topics_simulation.topic_deliveries import judge_deliveries
from topics_simulation.topic_history import TopicHistory
from topics_simulation.topic_logs import judge_logs
from topics_simulation.topic_rights import judge_rights
from topics_simulation.topic_shapes import judge_shapes
from txn_histories.checker import check
from txn_histories.violations import Findings


def check_topics(history: TopicHistory) -> Findings:
    """Everything that is wrong, of segments first, and the counts."""
    findings = check(history.segments)
    judge_shapes(history, findings)
    judge_logs(history, findings)
    judge_deliveries(history, findings)
    judge_rights(history, findings)
    findings.counts.update(history.notes.counts)
    return findings
