"""Takes lines through their turns, sides interleaved, and gathers rows and failures."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from loadtest.bench import proc
from loadtest.bench.bench import Bench, Group
from loadtest.bench.model import BenchError, Derived, Line, Sample, Turn
from loadtest.bench.progress import Progress
from loadtest.bench.report import OTHERS_SHARE, Failure, Report, Row, derived_row, rows_of
from loadtest.bench.settings import Plan
from loadtest.bench.table import row_summary


def selected(groups: Iterable[Group[Any]], patterns: Sequence[str]) -> list[tuple[Group[Any], list[Line[Any]]]]:
    """The groups with those of their lines that any pattern matches; all lines if there is no pattern.

    A pattern is a shell pattern over the full name, or, without `*`, `?` and `[`, a part of it.
    """
    chosen = [(group, [line for line in group.lines if _matches(group.label(line), patterns)]) for group in groups]
    return [(group, lines) for group, lines in chosen if lines]


def _matches(name: str, patterns: Sequence[str]) -> bool:
    if not patterns:
        return True
    globs = (pattern if set(pattern) & set("*?[") else f"*{pattern}*" for pattern in patterns)
    return any(fnmatch.fnmatchcase(name, glob) for glob in globs)


def turns_of(line: Line[Any], plan: Plan) -> Iterator[Turn]:
    """A line's turns, those of the warm-up first."""
    for number in range(0 if line.is_slow else line.warm_ups):
        yield Turn(number, plan.warm_up_seconds, is_warm_up=True)
    for number in range(plan.slow_repeats if line.is_slow else plan.repeats):
        yield Turn(number, plan.seconds)


def measured(line: Line[Any], subject: Any, turn: Turn) -> Sample:
    """One turn of one side, with the part of the processors that went to processes outside of the run."""
    before = proc.processor_use(os.getpid())
    sample = line.measure(subject, turn)
    after = proc.processor_use(os.getpid())
    return {**sample, OTHERS_SHARE: proc.share_of_others(before, after, os.cpu_count() or 1)}


class Runner:
    """Runs groups one after the other into a report."""

    def __init__(self, bench: Bench, report: Report, progress: Progress) -> None:
        self._bench = bench
        self._report = report
        self._progress = progress

    def run(self, work: Sequence[tuple[Group[Any], list[Line[Any]]]], derived: Iterable[Derived]) -> None:
        """Measures everything; what fails becomes a failure of the report and does not stop the rest."""
        plan = self._bench.settings.plan
        self._progress.expect(
            sum(len(list(turns_of(line, plan))) * len(group.sides) for group, lines in work for line in lines)
        )
        for group, lines in work:
            self._report.titles[group.name] = group.title
            if group.axis is not None:
                self._report.axes[group.name] = group.axis
            self._progress.note(f"{group.title}")
            try:
                with group.open(self._bench) as subjects:
                    assert tuple(subjects) == group.sides, group.name
                    for line in lines:
                        self._run_line(group, line, subjects)
            except BenchError as error:
                self._fail(group, "", error)
        rows = (derived_row(each, self._report.lookup) for each in derived)
        self._add([row for row in rows if row is not None])

    def _run_line(self, group: Group[Any], line: Line[Any], subjects: Mapping[str, Any]) -> None:
        samples: dict[str, list[Sample]] = {side: [] for side in subjects}
        try:
            for side, subject in subjects.items():
                self._progress.show(f"{group.label(line)}: preparing {side}")
                line.prepare(subject)
            for turn in turns_of(line, self._bench.settings.plan):
                for side, subject in subjects.items():
                    self._progress.step(f"{group.label(line)}: {side}")
                    sample = measured(line, subject, turn)
                    if not turn.is_warm_up:
                        samples[side].append(sample)
        except BenchError as error:
            self._fail(group, line.name, error)
        else:
            self._add(rows_of(group, line, samples))

    def _add(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self._report.rows.append(row)
            self._progress.note(f"  {row_summary(row)}")

    def _fail(self, group: Group[Any], line: str, error: BenchError) -> None:
        self._report.failures.append(Failure(group.name, line, str(error)))
        self._progress.note(f"  {group.name}/{line} failed: {error}")
