"""The lines of topics at tiny sizes, on real processes: each gives its figures, and bounds are where they belong."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from loadtest.bench import topic_decisions
from loadtest.bench.bench import Bench, open_bench
from loadtest.bench.model import AtMost, Better, Figure, Line
from loadtest.bench.progress import Progress
from loadtest.bench.report import Report
from loadtest.bench.runner import Runner
from loadtest.bench.settings import DEFAULT_PLAN, QUICK_PLAN, Plan, Settings
from loadtest.bench.topic_lines import FULL, QUICK, Sizes, derived, groups, groups_of
from loadtest.bench.topic_rates import MESSAGES_MIN
from loadtest.bench.topic_stage import PATIENCE_S
from metastore.clock import ManualClock

TINY = Sizes(messages=MESSAGES_MIN, counts=(1, 2), splits=1, topics=4, idle_s=0.1, sessions=20, streams=5)
PLAN = Plan(repeats=1, slow_repeats=1, seconds=0.02, warm_up_seconds=0.01, sizes=(1,))
GROUPS = {group.name: group for group in groups_of(TINY)}
FAILOVER = "topics-changes/leader-failover"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with open_bench(Settings(PLAN, (), tmp_path, "lean")) as bench:
        yield bench


def ran(bench: Bench, name: str, lines: list[Line[object]]) -> Report:
    report = Report("2026-01-01T00:00:00+00:00", ["bench"], {}, {}, {})
    Runner(bench, report, Progress(io.StringIO(), ManualClock())).run([(GROUPS[name], lines)], derived(bench.settings))
    assert not report.failures
    return report


@pytest.mark.parametrize("name", GROUPS)
def test_every_line_gives_its_figures(name: str, bench: Bench) -> None:
    group = GROUPS[name]
    lines = [line for line in group.lines if group.label(line) != FAILOVER]
    report = ran(bench, name, lines)
    measured = [row for row in report.rows if row.group == name]
    assert [(row.line, row.metric) for row in measured] == [
        (line.name, metric.key) for line in lines for metric in line.metrics
    ]
    for row in measured:
        assert tuple(row.figures) == group.sides
        assert all(figure.value >= 0 for figure in row.figures.values())
        if row.better is Better.HIGHER:
            assert all(figure.value > 0 for figure in row.figures.values()), row.name


def test_a_leader_that_is_killed_is_followed_by_another(bench: Bench) -> None:
    (line,) = (each for each in GROUPS["topics-changes"].lines if each.name == "leader-failover")
    report = ran(bench, "topics-changes", [line])
    assert {row.metric for row in report.rows} == {"split_s", "written_s"}
    assert all(0 < row.figures["tidemark"].value < PATIENCE_S for row in report.rows)


def test_no_join_moves_more_than_it_must(bench: Bench) -> None:
    (line,) = (each for each in GROUPS[topic_decisions.GROUP].lines if each.name == "join-moves")
    (row,) = ran(bench, topic_decisions.GROUP, [line]).rows
    assert [verdict.word for verdict in row.verdicts] == ["goal"]


def test_decisions_are_bounded_at_64_segments_and_consumers() -> None:
    lines = GROUPS[topic_decisions.GROUP].lines
    bounds = [metric.checks for line in lines for metric in line.metrics if metric.unit == "ms"]
    assert len(bounds) == 12
    assert set(bounds) == {(AtMost(1.0),)}


@pytest.mark.parametrize(("plan", "sizes"), [(DEFAULT_PLAN, FULL), (QUICK_PLAN, QUICK)])
def test_the_plan_says_how_much_there_is(plan: Plan, sizes: Sizes, tmp_path: Path) -> None:
    named = [group.label(line) for group in groups(Settings(plan, (), tmp_path, "lean")) for line in group.lines]
    assert f"topics-idle/topics-{sizes.topics}" in named
    assert f"topics-watch/sessions-{sizes.sessions}" in named
    assert f"topics/publish-batched-{sizes.counts[-1]}" in named


def test_several_segments_are_held_against_one(tmp_path: Path) -> None:
    rates = {"topics/publish-batched-1": 20.0, "topics/publish-batched-4": 30.0}

    def lookup(name: str, metric: str) -> Mapping[str, Figure] | None:
        assert metric == "rate"
        return {side: Figure((), rates[name], 0.0) for side in ("topic", "segments")} if name in rates else None

    found = {each.name: each.compute(lookup) for each in derived(Settings(PLAN, (), tmp_path, "lean"))}
    assert {name: values for name, values in found.items() if values is not None} == {
        "topics-publish-batched-4": {"topic": 1.5}
    }
