"""Settings of splitting and merging: names, overrides, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from controller.autoscale import AutoScaleConfig, InvalidAutoScale
from controller.autoscale.config import OVERRIDES
from support.vectors import cases

DURATIONS = {
    "splitCooldown": "split_cooldown_ms",
    "mergeCooldown": "merge_cooldown_ms",
    "mergeWindow": "merge_window_ms",
}


def resolved(case: dict[str, Any]) -> AutoScaleConfig | None:
    try:
        return AutoScaleConfig().overridden(case.get("broker"), case.get("namespace"), case.get("topic"))
    except InvalidAutoScale:
        return None


def test_overrides_come_out_as_recorded() -> None:
    for case in cases("config"):
        found, wanted = resolved(case), case["result"].get("ok")
        assert (found is None) == (wanted is None), case
        if found is None:
            continue
        shown = found.shown()
        for name, value in wanted.items():
            if name in DURATIONS:
                assert getattr(found, DURATIONS[name]) == value
            else:
                assert shown[name if name in shown else f"{name}Threshold"] == value


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        ({"mergeMsgRateInThreshold": 10_000}, "splitMsgRateInThreshold 10000 must be above"),
        ({"splitMsgRateInThreshold": 0}, "splitMsgRateInThreshold 0 must be above 0"),
        ({"minSegments": 10, "maxSegments": 5}, "maxSegments 5 must be at least minSegments 10"),
        ({"splitCooldownSeconds": -1}, "at least 0 seconds"),
        ({"maxDagDepth": -1}, "maxDagDepth -1"),
        ({"mergeBytesRateInThreshold": -1}, "mergeBytesRateInThreshold -1"),
        ({"maxSegment": 5}, "'maxSegment': one of enabled, maxSegments"),
        ({"maxSegments": "5"}, "maxSegments is '5': a whole number"),
        ({"maxSegments": True}, "maxSegments is True: a whole number"),
        ({"enabled": 1}, "enabled is 1: true or false"),
        ({"splitMsgRateInThreshold": float("nan")}, "a number"),
    ],
)
def test_what_contradicts_itself_is_refused(overrides: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidAutoScale, match=says):
        AutoScaleConfig().overridden(overrides)


def test_an_override_says_what_it_says_and_nothing_else() -> None:
    assert AutoScaleConfig().overridden({}, None, dict.fromkeys(OVERRIDES)) == AutoScaleConfig()
    shown = AutoScaleConfig().overridden({"maxSegments": 4}, {"splitCooldownSeconds": 5}).shown()
    assert shown == AutoScaleConfig().shown() | {"maxSegments": 4, "splitCooldownSeconds": 5}
    assert AutoScaleConfig().overridden(shown).shown() == shown


def test_all_merge_thresholds_may_be_nothing() -> None:
    nothing = {name: 0 for name in OVERRIDES if name.startswith("merge") and name.endswith("Threshold")}
    assert set(AutoScaleConfig().overridden(nothing).merge.values()) == {0.0}
