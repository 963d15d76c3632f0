"""Turns, interleaving, failures and selection, with lines that only take notes; then report and table."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from loadtest.bench.bench import Bench, Group
from loadtest.bench.generator import Generator
from loadtest.bench.model import (
    AtLeast,
    AtMost,
    BenchError,
    Better,
    Derived,
    Line,
    Lookup,
    Metric,
    Sample,
    Turn,
)
from loadtest.bench.progress import Progress
from loadtest.bench.report import OTHERS_SHARE, SCHEMA, Report
from loadtest.bench.runner import Runner, selected, turns_of
from loadtest.bench.settings import Plan, Settings
from loadtest.bench.table import format_value, render
from metastore.clock import ManualClock

PLAN = Plan(repeats=3, slow_repeats=2, seconds=1.0, warm_up_seconds=0.5, sizes=(1000,))
RATE = Metric("rate", "", "puts/s", Better.HIGHER, (AtLeast("peer", 0.6), AtMost(150.0)))


class Side:
    """Takes notes in a book that all sides share; its rate depends on its name and the turn."""

    def __init__(self, name: str, book: list[str]) -> None:
        self.name = name
        self.book = book

    def measure(self, turn: Turn) -> Sample:
        self.book.append(f"{'warm ' if turn.is_warm_up else ''}{self.name} {turn.number}")
        return {"rate": (100.0 if self.name == "ours" else 200.0) + turn.number, "cpu": 7.0}

    def prepare(self) -> None:
        self.book.append(f"prepare {self.name}")


def fail(_side: Side, _turn: Turn) -> Sample:
    raise BenchError("out of breath")


def group_of(book: list[str], *lines: Line[Side]) -> Group[Side]:
    @contextmanager
    def open_sides(_bench: Bench) -> Iterator[Mapping[str, Side]]:
        book.append("open")
        yield {name: Side(name, book) for name in ("ours", "peer")}
        book.append("close")

    return Group("group", "A group", ("ours", "peer"), lines, open_sides)


def quick_line(name: str = "put") -> Line[Side]:
    return Line(name, f"{name} something", (RATE,), Side.measure, Side.prepare)


@pytest.fixture
def report() -> Report:
    return Report("2026-01-01T00:00:00+00:00", ["bench"], {"repeats": 3}, {"cores": 2}, {"python": "3"})


@pytest.fixture
def runner(report: Report, tmp_path: Path) -> Runner:
    bench = Bench(Settings(PLAN, (), tmp_path, "lean"), Generator("lean"), tmp_path)
    return Runner(bench, report, Progress(io.StringIO(), ManualClock()))


def test_sides_take_turns_after_one_warm_up(runner: Runner, report: Report) -> None:
    book: list[str] = []
    group = group_of(book, quick_line())
    runner.run([(group, list(group.lines))], [])
    assert book == [
        *("open", "prepare ours", "prepare peer", "warm ours 0", "warm peer 0"),
        *("ours 0", "peer 0", "ours 1", "peer 1", "ours 2", "peer 2", "close"),
    ]
    (row,) = report.rows
    assert {side: figure.repeats for side, figure in row.figures.items()} == {
        "ours": (100.0, 101.0, 102.0),
        "peer": (200.0, 201.0, 202.0),
    }


def test_a_slow_line_has_fewer_turns_and_no_warm_up() -> None:
    line = Line("slow", "slow", (RATE,), Side.measure, is_slow=True)
    assert [(turn.number, turn.is_warm_up) for turn in turns_of(line, PLAN)] == [(0, False), (1, False)]


def test_a_line_may_ask_for_more_turns_that_do_not_count() -> None:
    line = Line("cold", "cold", (RATE,), Side.measure, warm_ups=3)
    assert [turn.is_warm_up for turn in turns_of(line, PLAN)] == [True] * 3 + [False] * PLAN.repeats


def test_a_line_that_fails_leaves_the_others_alone(runner: Runner, report: Report) -> None:
    group = group_of([], Line("bad", "bad", (RATE,), fail), quick_line("good"))
    runner.run([(group, list(group.lines))], [])
    assert [row.line for row in report.rows] == ["good"]
    assert [(each.group, each.line, each.error) for each in report.failures] == [("group", "bad", "out of breath")]
    assert "group/bad: out of breath" in render(report)


def test_a_group_that_does_not_open_leaves_the_others_alone(runner: Runner, report: Report) -> None:
    def broken(_bench: Bench) -> AbstractContextManager[Mapping[str, Side]]:
        raise BenchError("no server")

    closed = Group("closed", "Closed", ("ours",), [quick_line()], broken)
    group = group_of([], quick_line())
    runner.run([(closed, list(closed.lines)), (group, list(group.lines))], [])
    assert [(row.group, row.line) for row in report.rows] == [("group", "put")]
    assert [(each.group, each.line, each.error) for each in report.failures] == [("closed", "", "no server")]


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        ([], ["put", "get", "put-100"]),
        (["put"], ["put", "put-100"]),
        (["group/put"], ["put", "put-100"]),
        (["*/put"], ["put"]),
        (["get", "*-100"], ["get", "put-100"]),
        (["nothing"], []),
    ],
)
def test_lines_are_selected_by_part_or_shell_pattern(patterns: list[str], names: list[str]) -> None:
    group = group_of([], quick_line("put"), quick_line("get"), quick_line("put-100"))
    assert [line.name for _group, lines in selected([group], patterns) for line in lines] == names


def doubled(lookup: Lookup) -> dict[str, float] | None:
    figures = lookup("group/put", "rate")
    return None if figures is None else {side: figure.value * 2 for side, figure in figures.items()}


def test_derived_rows_follow_what_was_measured(runner: Runner, report: Report) -> None:
    group = group_of([], quick_line())
    twice = Derived("twice", "twice the rate", "puts/s", Better.HIGHER, doubled, (AtMost(300.0),))
    absent = Derived("absent", "absent", "x", Better.LOWER, lambda lookup: doubled(lambda *_: None))
    runner.run([(group, list(group.lines))], [twice, absent])
    row = report.rows[-1]
    assert {side: figure.value for side, figure in row.figures.items()} == {"ours": 202.0, "peer": 402.0}
    assert [(row.name, [verdict.word for verdict in row.verdicts]) for row in report.rows[1:]] == [
        ("derived/twice", ["goal"])
    ]


def test_the_json_has_every_repeat_ratio_and_verdict(runner: Runner, report: Report) -> None:
    group = group_of([], quick_line())
    runner.run([(group, list(group.lines))], [])
    told = json.loads(json.dumps(report.as_json()))
    assert told["schema"] == SCHEMA
    (row,) = told["rows"]
    assert row["title"] == "put something"
    assert list(row["figures"]) == ["ours", "peer"]
    ours = row["figures"]["ours"]
    assert (ours["repeats"], ours["value"], ours["spread"]) == ([100.0, 101.0, 102.0], 101.0, 0.0198)
    assert ours["details"]["cpu"] == 7.0
    assert 0 <= ours["details"][OTHERS_SHARE] <= 1
    assert row["checks"] == [
        {"kind": "at-least", "of": "peer", "floor": 0.6, "goal": 1.0, "ratio": 0.5025, "verdict": "missed"},
        {"kind": "at-most", "bound": 150.0, "value": 101.0, "verdict": "goal"},
    ]


def test_the_table_shows_sides_and_every_verdict(runner: Runner, report: Report) -> None:
    group = group_of([], quick_line())
    runner.run([(group, list(group.lines))], [])
    lines = [" ".join(line.split()) for line in render(report).splitlines()]
    assert lines[0] == "A group"
    assert lines[1] == "line unit ours spread peer spread held to is verdict"
    assert lines[3] == "put something puts/s 101 2% 201 1% 1 of peer, floor 0.6 0.502 missed"
    assert lines[4] == "at most 150 101 goal"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.01234, "0.012"), (1.234, "1.23"), (12.345, "12.35"), (1234567.8, "1,234,568")],
)
def test_values_are_short(value: float, text: str) -> None:
    assert format_value(value) == text
