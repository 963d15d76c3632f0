"""The lines that go through the store contract, each for a moment: they measure something, and close what they open."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadtest.bench import client_lines, watch_lines
from loadtest.bench.bench import Group, open_bench
from loadtest.bench.clients import sample_of
from loadtest.bench.model import BenchError, Turn
from loadtest.bench.servers import tidemark
from loadtest.bench.settings import Plan, Settings
from loadtest.bench.watch_lines import WatchedStore

PLAN = Plan(repeats=1, slow_repeats=1, seconds=0.05, warm_up_seconds=0.05, sizes=(2_000,))
TURN = Turn(0, PLAN.seconds)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(PLAN, (tidemark(),), tmp_path, "lean")


def only_group(module: object, settings: Settings) -> Group[object]:
    (group,) = module.groups(settings)  # type: ignore[attr-defined]
    assert isinstance(group, Group)
    return group


def test_every_client_puts_with_one_caller_and_with_many(settings: Settings) -> None:
    group = only_group(client_lines, settings)
    with open_bench(settings) as bench, group.open(bench) as subjects:
        assert tuple(subjects) == group.sides
        for line in group.lines[:2]:
            for subject in subjects.values():
                sample = line.measure(subject, TURN)
                assert all(sample[metric.key] > 0 for metric in line.metrics)
                assert sample["p50_ms"] <= sample["p99_ms"]


def test_a_watch_delivers_and_catches_up(settings: Settings) -> None:
    group = only_group(watch_lines, settings)
    lines = {line.name: line for line in group.lines}
    with open_bench(settings) as bench, group.open(bench) as subjects:
        subject = subjects[watch_lines.SIDE]
        assert isinstance(subject, WatchedStore)
        subject.have_idle_watches(20)
        assert lines["delivery-0"].measure(subject, TURN)["p50_ms"] > 0
        lines["catch-up"].prepare(subject)
        assert lines["catch-up"].measure(subject, TURN)["rate"] > 0


def test_a_turn_without_an_answer_measures_nothing() -> None:
    with pytest.raises(BenchError, match="not one put"):
        sample_of([], 0.0)
