"""A run against a stored one, and the stored form read back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from loadtest.bench.comparison import Change, Word, compare, pace_ms
from loadtest.bench.figures import Verdict
from loadtest.bench.model import AtLeast, AtMost, Axis, BenchError, Better, Figure, Point
from loadtest.bench.report import Failure, Report, Row
from loadtest.bench.stored import read_report, report_of
from loadtest.bench.table import render, render_changes

MACHINE = {"processor": "Fast", "cores": 2, "load_at_start": 0.1}


def row(name: str, unit: str, better: Better, figures: Mapping[str, Sequence[float]], metric: str = "rate") -> Row:
    group, _, line = name.partition("/")
    told = {side: Figure(tuple(repeats), sorted(repeats)[len(repeats) // 2], 0.1) for side, repeats in figures.items()}
    return Row(group, line, metric, f"title of {name}", "", unit, better, told, ())


def pace(echo_ms: float, synced_ms: float) -> list[Row]:
    return [
        row("limits/echo-unary", "ms", Better.LOWER, {"limit": [echo_ms]}, "p50_ms"),
        row("limits/fdatasync-256", "ms", Better.LOWER, {"limit": [synced_ms]}, "p50_ms"),
    ]


def report(*rows: Row) -> Report:
    return Report("2026-01-01T00:00:00+00:00", ["bench"], {}, MACHINE, {}, {"wire": "Wire"}, {}, list(rows))


def only(before: Report, after: Report) -> Change:
    (change,) = compare(before, after)
    return change


def puts(ours: Sequence[float], peer: Sequence[float]) -> Row:
    return row("wire/put", "puts/s", Better.HIGHER, {"tidemark": ours, "oxia": peer})


def test_a_machine_twice_as_fast_changes_nothing() -> None:
    before, after = report(puts([100, 110, 90], [50, 52, 48])), report(puts([200, 220, 180], [100, 104, 96]))
    change = only(before, after)
    assert change.word is Word.SAME
    assert change.factor == pytest.approx(1.0)
    assert change.to == "to oxia"


@pytest.mark.parametrize(
    ("ours", "word"), [([160, 165, 150], Word.BETTER), ([60, 55, 62], Word.WORSE), ([112, 99, 120], Word.SAME)]
)
def test_a_line_has_changed_when_its_ranges_lie_apart(ours: list[float], word: Word) -> None:
    assert only(report(puts([100, 110, 90], [50, 50, 50])), report(puts(ours, [50, 50, 50]))).word is word


def test_less_is_better_where_the_unit_says_so() -> None:
    def waits(ours: float) -> Row:
        return row("wire/put", "ms", Better.LOWER, {"tidemark": [ours] * 3, "oxia": [1.0] * 3}, "p50_ms")

    change = only(report(waits(2.0)), report(waits(1.0)))
    assert change.word is Word.BETTER
    assert change.factor == pytest.approx(2.0)


def test_one_side_is_held_against_the_pace_of_its_own_run() -> None:
    def commits(wait_ms: float) -> Row:
        return row("txn/commit", "ms", Better.LOWER, {"tidemark": [wait_ms] * 3}, "p50_ms")

    before = report(*pace(0.3, 0.1), commits(4.0))
    twice_as_slow = report(*pace(0.6, 0.2), commits(8.0))
    assert pace_ms(twice_as_slow) == pytest.approx(0.8)
    assert only(before, twice_as_slow).word is Word.SAME
    assert only(before, report(*pace(0.3, 0.1), commits(8.0))).word is Word.WORSE


def test_rates_of_one_side_and_seconds_are_held_against_the_pace_as_well() -> None:
    rate = row("txn/messages", "messages/s", Better.HIGHER, {"tidemark": [1000.0] * 3})
    seconds = row("txn/recovery", "s", Better.LOWER, {"tidemark": [2.0] * 3}, "seconds")
    changes = compare(report(*pace(0.3, 0.1), rate, seconds), report(*pace(0.6, 0.2), rate, seconds))
    # The same absolute figures in an hour half as fast are twice as good.
    assert [change.factor for change in changes] == [pytest.approx(2.0), pytest.approx(2.0)]
    assert {change.to for change in changes} == {"to the pace"}


def test_speed_without_a_pace_is_not_compared_and_memory_is() -> None:
    waits = row("txn/commit", "ms", Better.LOWER, {"tidemark": [4.0] * 3}, "p50_ms")
    memory = row("store/rest", "MiB", Better.LOWER, {"tidemark": [28.0] * 3}, "idle_private_mib")
    change = only(report(waits, memory), report(waits, memory))
    assert (change.name, change.to, change.word) == ("store/rest", "in MiB", Word.SAME)


def test_what_only_one_run_has_is_left_out() -> None:
    assert compare(report(), report(puts([1.0], [1.0]))) == []
    assert compare(report(puts([1.0], [1.0])), report()) == []
    alone = row("wire/put", "puts/s", Better.HIGHER, {"tidemark": [100.0]})
    assert compare(report(puts([1.0], [1.0])), report(alone)) == []


def test_zeros_are_no_base_of_a_comparison() -> None:
    assert compare(report(puts([0.0], [0.0])), report(puts([1.0], [1.0]))) == []


def test_the_table_names_what_moved_and_another_machine() -> None:
    before, after = report(puts([100] * 3, [50] * 3)), report(puts([50] * 3, [50] * 3))
    text = render_changes("metastore.json", before, {**MACHINE, "load_at_start": 3.0}, compare(before, after))
    assert text.startswith("Against metastore.json of 2026-01-01T00:00:00+00:00\n  0 better, 1 worse, 0 same")
    assert " ".join(text.splitlines()[-1].split()) == "title of wire/put to oxia 2.00 1.00 0.500 worse"
    assert "another machine" in render_changes("x", before, {**MACHINE, "cores": 8}, [])


def whole_report() -> Report:
    checks = (Verdict(AtLeast("oxia", 0.6), 0.75, "floor"), Verdict(AtMost(50.0), 7.0, "goal"))
    first = replace(puts([100, 110, 90], [50, 52, 48]), verdicts=checks, point=Point("put", 64.0))
    told = report(first)
    told.axes["wire"] = Axis("requests outstanding", is_log=False)
    told.failures.append(Failure("wire", "get", "out of breath"))
    return told


def test_a_stored_run_reads_back_as_what_it_was() -> None:
    told = whole_report()
    again = report_of(json.loads(json.dumps(told.as_json())))
    assert again.as_json() == told.as_json()
    assert render(again) == render(told)
    assert again.rows[0].point == Point("put", 64.0)
    assert again.axes == told.axes


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "Expecting"),
        ("[]", "the schema is None"),
        ('{"schema": "tidemark-bench/1"}', "the schema is 'tidemark-bench/1', and only 'tidemark-bench/2'"),
        ('{"schema": "tidemark-bench/2"}', "not a whole result"),
    ],
)
def test_a_file_that_is_no_run_is_refused_by_name(text: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(text)
    with pytest.raises(BenchError, match=complaint) as error:
        read_report(path)
    assert str(path) in str(error.value)
