"""The recorded stages of a real Pulsar: every loss and leak that there was in truth is found, and nothing else."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from pulsar_stages import source, stages, vectors
from pyspark.sql import SparkSession

from txn.audit.dialect import PULSAR, DialectName, Limits
from txn.audit.engine import violations
from txn.audit.rules.registry import rules_of
from txn.audit.tables import Tables

GRACE_MS = 2_000
LIMITS = Limits(grace_ms=GRACE_MS, skew_ms=1_000, sweep_ms=10_000, collect_ms=1_200_000, announcements_max=5)
"""The recorded broker swept each 5 s, and one scenario took seconds."""
TOPIC_DELETED = "35-k-deleted"
OF_DELETED_TOPIC = ("0_7", "1_10")
OF_UNLOADED_SEGMENT = "0_1"
NEVER_ANNOUNCED = "0_9"
"""Names of subscriptions that begin alike made the announcement fail, which the client was told."""
CAUGHT_IN_BETWEEN = "07-b-open"
"""A row came between the reading of records and that of indexes: no dump is a snapshot."""

Found = dict[str, set[tuple[str, str | None]]]


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> Found:
    """By rule: which transactions, at which stages."""
    rows = violations(Tables(source(spark), PULSAR, LIMITS), rules_of(DialectName.PULSAR, history=False)).collect()
    by_rule: Found = defaultdict(set)
    for row in rows:
        stage, _, name = (row.txn_id or row.segment or row.key.rpartition("/")[2]).partition("|")
        by_rule[row.rule].add((stage, name if row.txn_id else None))
    return by_rule


def true_of(stage: str) -> dict[str, dict[str, Any]]:
    """What became of the transactions of a stage's run; nothing is known of the third run, which went well."""
    truth: dict[str, dict[str, dict[str, Any]]] = vectors()["truth"]
    return {} if stage.startswith("alt") else truth["s4" if stage.startswith("s4") else "main"]


def rows_left(true: dict[str, Any], at_ms: int) -> bool:
    """Whether operations of a transaction were still there."""
    deleted = true.get("opRowsDeletedMs") or [0, 0]
    return bool(true["opRowsCreated"] > true["opRowsDeleted"] or deleted[-1] > at_ms)


def is_collected(true: dict[str, Any], at_ms: int) -> bool:
    """Whether its header was gone."""
    return bool(true.get("headerDeletedAtMs", at_ms + 1) < at_ms)


def in_truth() -> Found:
    """By rule: what there was."""
    expected: Found = defaultdict(set)
    for stage in stages():
        at_ms = vectors()["dumps"][stage]["ended_ms"]
        for txn_id, true in true_of(stage).items():
            if true.get("decidedAtMs", at_ms) > at_ms - GRACE_MS:
                continue  # nothing is expected of a participant before that
            if is_collected(true, at_ms):
                if rows_left(true, at_ms):
                    expected["operations-without-header"].add((stage, txn_id))
                if true["opRowsCreated"] and txn_id != NEVER_ANNOUNCED:
                    expected["announcement-left-behind"].add((stage, txn_id))
            elif rows_left(true, at_ms):
                expected["outcome-not-applied"].add((stage, txn_id))
        if TOPIC_DELETED < stage < "9":
            expected["participant-without-segment"] |= {(stage, each) for each in OF_DELETED_TOPIC}
            expected["topic-left-behind"].add((stage, None))
    expected["index-leads-nowhere"].add((CAUGHT_IN_BETWEEN, None))
    return expected


@pytest.mark.parametrize("rule", sorted(in_truth()))
def test_what_happened_in_truth_is_found(found: Found, rule: str) -> None:
    assert found[rule] == in_truth()[rule]


def test_participants_that_were_never_told_are_those_that_a_store_of_several_shards_hid(found: Found) -> None:
    unannounced = found["decision-not-announced"]
    behind = {each for each in stages() if each.startswith("s4-") and each > "s4-05"}
    assert {stage for stage, _ in unannounced} == behind
    assert unannounced <= found["outcome-not-applied"]


def test_decisions_are_announced_again_where_nobody_listens(found: Found) -> None:
    repeated = found["announcements-repeated"]
    assert {stage for stage, _ in repeated} == {"48-n-collected", "49-n-loaded"}
    assert {txn_id for _, txn_id in repeated} == {OF_UNLOADED_SEGMENT, *OF_DELETED_TOPIC}


def test_nothing_else_is_found(found: Found) -> None:
    others = {"decision-not-announced", "announcements-repeated"}
    assert {rule for rule, places in found.items() if places} == {*in_truth(), *others}
