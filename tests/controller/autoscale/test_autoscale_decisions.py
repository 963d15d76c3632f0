"""Decisions to split and merge: as recorded, and where ours differ on purpose."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from controller.autoscale import Action, AutoScaleConfig, Load, Metric, Situation, Suppression, decide, is_material
from controller.autoscale.config import MERGE_RATES, SPLIT_RATES
from controller.layout import Layout
from support.vectors import cases, changed

NOW_MS = 1_700_000_000_000
OLD_MS = 600_000
FIELDS = {
    "enabled": "enabled",
    "maxSegments": "max_segments",
    "minSegments": "min_segments",
    "maxDagDepth": "max_dag_depth",
    "splitCooldown": "split_cooldown_ms",
    "mergeCooldown": "merge_cooldown_ms",
    "mergeWindow": "merge_window_ms",
}


def config_of(changes: dict[str, Any]) -> AutoScaleConfig:
    """The settings of a recorded case."""
    plain = {FIELDS[name]: value for name, value in changes.items() if name in FIELDS}
    rates = {"split": dict(SPLIT_RATES), "merge": dict(MERGE_RATES)}
    for name, value in changes.items():
        if name not in FIELDS:
            metric = next(each for each in Metric if each.title == name[5:])
            rates[name[:5]][metric] = value
    return AutoScaleConfig(**plain, split=rates["split"], merge=rates["merge"])


def load(
    msg_in: float = 0, bytes_in: float = 0, msg_out: float = 0, bytes_out: float = 0, age_ms: int = OLD_MS
) -> Load:
    return Load(dict(zip(Metric, (msg_in, bytes_in, msg_out, bytes_out), strict=True)), NOW_MS - age_ms)


def situation_of(case: dict[str, Any]) -> Situation:
    layout = changed(Layout.initial(case["start"], 0), case["ops"])
    last_split, last_merge = (
        None if case[name] is None else NOW_MS - case[name] for name in ("sinceSplit", "sinceMerge")
    )
    loads = {segment: load(*rates) for segment, *rates in case["loads"]}
    return Situation(layout, loads, case["consumers"], NOW_MS, last_split, last_merge)


def test_decisions_are_as_recorded() -> None:
    """What differs, always in merges: none below what consumers need (H8), none of segments whose pruned ancestors were
    merged too often (H7), and the coldest pair is found by rates that are comparable (H8).
    """
    counts = Counter[str]()
    for case in cases("decide"):
        found = decide(situation_of(case), config_of(case["config"]))
        ours: list[Any] = [found.action.value, *found.segments]
        if found.action is Action.SPLIT:
            ours.append(found.reason)
        theirs = [each[:3] if each[0] == "merge" else each for each in case["outcomes"]]
        if ours in theirs:
            counts[f"same {ours[0]}"] += 1
            continue
        assert {each[0] for each in theirs} == {"merge"}, case
        if found.action is Action.MERGE:
            counts["colder"] += 1
            check_colder(case, found.segments, theirs)
        elif Suppression.MAX_DEPTH in found.suppressed:
            counts["depth"] += 1
            assert any(name == "prune" for name, *_ in case["ops"]) or was_pruned(case)
        else:
            counts["needed"] += 1
            assert max(case["consumers"].values()) >= len(case["active"])
    assert min(counts["same none"], counts["same split"]) > 500, counts
    assert counts["same merge"] > 150, counts
    assert counts["needed"] > 50, counts


def was_pruned(case: dict[str, Any]) -> bool:
    """Whether the recorded depths are less than what was merged."""
    layout = situation_of(case).layout
    return any(layout.segments[segment].merge_depth > depth for segment, _, _, depth in case["active"])


def check_colder(case: dict[str, Any], pair: tuple[int, ...], theirs: list[list[Any]]) -> None:
    situation, config = situation_of(case), config_of(case["config"])

    def warmth(ids: Any) -> float:
        return sum(situation.loads[each].rates[metric] / config.merge[metric] for each in ids for metric in Metric)

    shallow = [each[1:] for each in theirs if not was_pruned(case)]
    assert all(warmth(pair) <= warmth(each) for each in shallow)


def situation(segments: int, loads: dict[int, Load], consumers: dict[str, int] | None = None, **last: int) -> Situation:
    return Situation(Layout.initial(segments, 0), loads, consumers or {}, NOW_MS, **last)


COLD = load()
WARM = load(100)


@pytest.mark.parametrize(
    ("given", "config", "wanted"),
    [
        (situation(1, {0: load(1e6)}, {"s": 100}), {"enabled": False}, ("none",)),
        (situation(2, {0: WARM, 1: load(200)}, {"sub": 3}), {}, ("split", 1, "consumer-count")),
        (situation(2, {0: load(age_ms=0), 1: load(age_ms=0)}, {"a": 2, "b": 2}), {}, ("none",)),
        (situation(2, {}, {"sub": 5}), {"maxSegments": 2}, ("none",)),
        (situation(2, {}, {"sub": 3}, last_split_ms=NOW_MS - 30_000), {}, ("none",)),
        (situation(2, {}, {"sub": 3}, last_split_ms=NOW_MS - 60_000), {}, ("split", 0, "consumer-count")),
        (situation(2, {}, {"sub": 3}, last_split_ms=NOW_MS + 1), {}, ("none",)),
        (situation(1, {0: load(10_001)}), {}, ("split", 0, "msgRateIn")),
        (situation(1, {0: load(10_000)}), {}, ("none",)),
        (situation(1, {0: load(bytes_out=250_000_001)}), {}, ("split", 0, "bytesRateOut")),
        (situation(1, {0: load(20_000, 150e6)}), {}, ("split", 0, "bytesRateIn")),
        (situation(2, {0: load(11_000), 1: load(15_000)}), {}, ("split", 1, "msgRateIn")),
        (situation(2, {0: COLD, 1: COLD}), {}, ("merge", 0, 1, "cold")),
        (situation(2, {0: COLD, 1: COLD}), {"minSegments": 2}, ("none",)),
        (situation(2, {0: COLD, 1: COLD}, last_merge_ms=NOW_MS - 60_000), {}, ("none",)),
        (situation(2, {0: load(age_ms=60_000), 1: load(age_ms=60_000)}), {}, ("none",)),
        (situation(2, {0: load(age_ms=300_000), 1: load(age_ms=300_000)}), {}, ("merge", 0, 1, "cold")),
        (situation(2, {}), {}, ("none",)),
        (situation(2, {0: load(1_001), 1: COLD}), {}, ("none",)),
        (situation(2, {0: load(1_000), 1: COLD}), {}, ("none",)),
        (situation(4, {0: load(900), 1: load(900), 2: load(10), 3: load(10)}), {}, ("merge", 2, 3, "cold")),
    ],
)
def test_v9_one_step_at_a_time(given: Situation, config: dict[str, Any], wanted: tuple[Any, ...]) -> None:
    found = decide(given, AutoScaleConfig().overridden(config))
    reason = () if found.action is Action.NONE else (found.reason,)
    assert (found.action.value, *found.segments, *reason) == wanted
    assert found.notes, "every decision says why"


def test_h8_nothing_is_merged_that_consumers_need() -> None:
    found = decide(situation(2, {0: COLD, 1: COLD}, {"sub": 2}), AutoScaleConfig())
    assert (found.action, found.reason) == (Action.NONE, "consumers")


def test_h8_a_hot_segment_of_one_hash_keeps_no_other_from_being_split() -> None:
    layout = Layout.initial(1, 0)
    while layout.active[0].range.size > 1:
        layout = layout.split(layout.active[0].segment_id, 0)
    single, other = layout.active[0].segment_id, layout.active[-1].segment_id
    hot = {single: load(1e6), other: load(20_000)}
    found = decide(Situation(layout, hot, {}, NOW_MS), AutoScaleConfig())
    assert (found.action, found.segments) == (Action.SPLIT, (other,))
    found = decide(Situation(layout, {single: load(1e6)}, {}, NOW_MS), AutoScaleConfig())
    assert (found.action, found.reason) == (Action.NONE, "unsplittable")


def test_h7_merges_are_counted_although_their_traces_are_pruned() -> None:
    layout = Layout.initial(1, 0).split(0, 0)
    layout = layout.merge([1, 2], 0).split(3, 0).prune([0, 1, 2, 3])
    cold = {each.segment_id: COLD for each in layout.active}
    found = decide(Situation(layout, cold, {}, NOW_MS), AutoScaleConfig(max_dag_depth=1))
    assert found.suppressed == {Suppression.MAX_DEPTH}
    assert decide(Situation(layout, cold, {}, NOW_MS), AutoScaleConfig(max_dag_depth=2)).action is Action.MERGE


def test_what_is_suppressed_is_told() -> None:
    found = decide(situation(2, {0: load(1e6)}), AutoScaleConfig(max_segments=2))
    assert found.suppressed == {Suppression.MAX_SEGMENTS}
    assert "maxSegments" in " ".join(found.notes)


def test_changes_are_material_as_recorded() -> None:
    for case in cases("material"):
        last, current = (dict(zip(Metric, case[name], strict=True)) for name in ("last", "current"))
        assert is_material(last, current, case["threshold"]) == case["material"], case


def test_loads_are_read_as_they_were_written() -> None:
    given = load(1.5, 2, 3e9, 0.1)
    assert Load.decode(given.encode(), given.modified_ms) == given
    assert Load.decode(b"{}", 7) == Load(dict.fromkeys(Metric, 0.0), 7)
