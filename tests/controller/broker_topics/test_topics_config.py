"""Every setting of topics: its name, its default, where it is said, and what it may be."""

from __future__ import annotations

import argparse
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from controller.autoscale import AutoScaleConfig, Metric
from controller.autoscale.config import MERGE, OVERRIDES, SPLIT
from controller.broker import command
from controller.broker.config import BrokerConfig, ConfigError, kinds_of_settings, load_config
from controller.broker.limits import BrokerLimits
from controller.broker.topics.config import (
    BUCKET_BUDGET_MAX,
    RETENTION_MINUTES_MAX,
    SECONDS_MAX,
    TopicsConfig,
    shown,
    threshold_name,
)
from controller.broker.topics.numbers import BACKLOG_WITHIN_S, OWNERS_ASKED_AT_ONCE_MAX
from controller.leading.claims import CLAIMS_WAITING_MAX
from controller.leading.leaders import INITIAL_SEGMENTS_MAX
from controller.leading.scaling import DECISIONS_KEPT
from controller.subscriptions.coordinator import CONSUMERS_MAX
from controller.subscriptions.subscriptions import SUBSCRIPTIONS_MAX

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "tuning.md").read_text()
PIP_483 = {
    "scalableTopicAutoScaleEnabled": "true",
    "scalableTopicAutoScaleInterval": "60",
    "scalableTopicMaxSegments": "64",
    "scalableTopicMinSegments": "1",
    "scalableTopicMaxDagDepth": "10",
    "scalableTopicSplitCooldown": "60",
    "scalableTopicMergeCooldown": "300",
    "scalableTopicMergeWindow": "300",
    "scalableTopicSplitMsgRateInThreshold": "10000",
    "scalableTopicSplitBytesRateInThreshold": "50000000",
    "scalableTopicSplitMsgRateOutThreshold": "50000",
    "scalableTopicSplitBytesRateOutThreshold": "250000000",
    "scalableTopicMergeMsgRateInThreshold": "1000",
    "scalableTopicMergeBytesRateInThreshold": "5000000",
    "scalableTopicMergeMsgRateOutThreshold": "5000",
    "scalableTopicMergeBytesRateOutThreshold": "25000000",
    "scalableTopicLoadReportInterval": "10",
    "scalableTopicLoadReportRateChangeThreshold": "0.25",
}
"""All names of PIP-483, with its defaults: those of seconds in seconds."""
STORE = {"store": "memory://"}


def rows() -> dict[str, list[str]]:
    """The rows of the page's tables, by what stands first in them."""
    found = {}
    for line in PAGE.splitlines():
        cells = [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            assert cells[0] not in found, f"{cells[0]} is there twice"
            found[cells[0]] = cells[1:]
    return found


def plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def test_every_setting_is_on_the_page_with_its_default() -> None:
    told = rows()
    for each in fields(TopicsConfig):
        assert plain(each.default) in told[shown(each.name)], each.name
    assert {name for name in told if name.startswith("scalable-topic-")} == {
        shown(each.name) for each in fields(TopicsConfig)
    }


def test_every_name_of_the_proposal_is_there_with_its_default() -> None:
    told = {row[0]: (name, row[1]) for name, row in rows().items() if row[0].startswith("scalableTopic")}
    for name, default in PIP_483.items():
        ours, shown_default = told[name]
        assert shown_default == default
        words = re.sub(r"(?=[A-Z])", "-", name).lower()
        assert ours.removesuffix("-s") == words
    assert told.keys() - PIP_483.keys() == {
        "scalableTopicConsumerSessionGracePeriodSeconds",
        "scalableTopicEntryBucketBudget",
    }


def test_every_override_is_named_beside_its_setting() -> None:
    told = rows()
    named = [row[-1] for name, row in told.items() if name.startswith("scalable-topic-") and row[-1] in OVERRIDES]
    assert sorted(named) == sorted(OVERRIDES)
    for kind in (SPLIT, MERGE):
        for metric in Metric:
            name = shown(threshold_name(kind, metric))
            assert told[name][-1] == f"{kind}{metric.title}Threshold"


def test_the_limits_on_the_page_are_those_that_hold() -> None:
    told = rows()
    for name, value in (
        ("sessions_max", BrokerLimits().sessions_max),
        ("CONSUMERS_MAX", CONSUMERS_MAX),
        ("SUBSCRIPTIONS_MAX", SUBSCRIPTIONS_MAX),
        ("CLAIMS_WAITING_MAX", CLAIMS_WAITING_MAX),
        ("INITIAL_SEGMENTS_MAX", INITIAL_SEGMENTS_MAX),
        ("OWNERS_ASKED_AT_ONCE_MAX", OWNERS_ASKED_AT_ONCE_MAX),
        ("BACKLOG_WITHIN_S", BACKLOG_WITHIN_S),
    ):
        assert told[name][0] == plain(value), name
    assert f"the last {DECISIONS_KEPT} " in PAGE


def test_the_defaults_are_those_of_the_decision() -> None:
    assert TopicsConfig().auto_scale() == AutoScaleConfig()
    assert TopicsConfig().problem() is None


def test_a_file_and_flags_say_them_beside_the_others(tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text(
        'store = "memory://"\nscalable-topic-max-segments = 7\nscalable_topic_split_cooldown_s = 5\n'
        "scalable-topic-auto-scale-enabled = false\nscalable-topic-retention-minutes = -1\n"
    )
    topics = load_config(path, {"scalable_topic_max_segments": 9, "scalable_topic_min_segments": None}).topics
    assert (topics.scalable_topic_max_segments, topics.scalable_topic_min_segments) == (9, 1)
    assert topics.auto_scale().split_cooldown_ms == 5_000
    assert not topics.auto_scale().enabled
    assert topics.scalable_topic_retention_minutes == -1
    path.write_text('store = "memory://"\nscalable-topic-max-segments = "many"\n')
    with pytest.raises(ConfigError, match="scalable-topic-max-segments must be of type int"):
        load_config(path, {})
    path.write_text('store = "memory://"\ntopics = 1\n')
    with pytest.raises(ConfigError, match="unknown setting 'topics'"):
        load_config(path, {})


def test_every_setting_is_a_flag() -> None:
    parser = argparse.ArgumentParser()
    command.register(parser.add_subparsers())
    values = {"bool": [], "int": ["3"], "float": ["2.5"], "str": ["round-robin"]}
    expected = {"bool": True, "int": 3, "float": 2.5, "str": "round-robin"}
    for each in fields(TopicsConfig):
        kind = str(each.type)
        given = parser.parse_args(["broker", f"--{shown(each.name)}", *values[kind]])
        assert getattr(given, each.name) == expected[kind]
        assert kinds_of_settings()[each.name] == kind


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("scalable_topic_auto_scale_interval_s", -1.0),
        ("scalable_topic_auto_scale_interval_s", SECONDS_MAX + 1.0),
        ("scalable_topic_merge_window_s", float("nan")),
        ("scalable_topic_max_segments", 0),
        ("scalable_topic_min_segments", 65),
        ("scalable_topic_split_msg_rate_in_threshold", 0.0),
        ("scalable_topic_split_msg_rate_in_threshold", float("inf")),
        ("scalable_topic_merge_msg_rate_in_threshold", 10_000.0),
        ("scalable_topic_load_report_rate_change_threshold", -0.1),
        ("scalable_topic_entry_bucket_budget", 0),
        ("scalable_topic_entry_bucket_budget", BUCKET_BUDGET_MAX + 1),
        ("scalable_topic_retention_minutes", RETENTION_MINUTES_MAX + 1),
        ("scalable_topic_assignment_strategy", "random"),
    ],
)
def test_what_cannot_be_is_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError, match="scal"):
        load_config(None, {**STORE, setting: value})


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("scalable_topic_auto_scale_interval_s", 0.0),
        ("scalable_topic_auto_scale_interval_s", float(SECONDS_MAX)),
        ("scalable_topic_entry_bucket_budget", BUCKET_BUDGET_MAX),
        ("scalable_topic_retention_minutes", RETENTION_MINUTES_MAX),
        ("scalable_topic_merge_msg_rate_in_threshold", 0.0),
    ],
)
def test_what_can_just_be(setting: str, value: Any) -> None:
    config: BrokerConfig = load_config(None, {**STORE, setting: value})
    assert getattr(config.topics, setting) == value
