"""The report as text for people: a table per group, then failures, machine and versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from loadtest.bench.comparison import Change, Word
from loadtest.bench.figures import Verdict
from loadtest.bench.model import AtLeast
from loadtest.bench.report import DERIVED_GROUP, Report, Row

ABSENT = "-"
OTHERS_SHARE_QUIET = 0.1
LEGEND = """\
A figure is the median of its repeats (of a longest wait: the
worst), and spread is (greatest - least) / median. Held to: a goal, as a fraction of a peer's figure (more
than 1 is better than the peer, whichever way the unit points), with a floor below it; or a bound."""
DERIVED_TITLE = "Held against each other"


def format_value(value: float) -> str:
    """Three significant digits, thousands with commas."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"


def row_summary(row: Row) -> str:
    """One line for the progress."""
    figures = ", ".join(f"{side} {format_value(figure.value)}" for side, figure in row.figures.items())
    verdicts = ", ".join(_requirement(verdict) + " " + verdict.word for verdict in row.verdicts)
    return f"{row.full_title}: {figures} {row.unit}" + (f" ({verdicts})" if verdicts else "")


def render(report: Report) -> str:
    """The whole report."""
    blocks = []
    for name, title in (*report.titles.items(), (DERIVED_GROUP, DERIVED_TITLE)):
        rows = [row for row in report.rows if row.group == name]
        if rows:
            blocks.append(f"{title}\n{_group_table(rows)}")
    if report.failures:
        failed = (f"  {failure.group}/{failure.line}: {failure.error}" for failure in report.failures)
        blocks.append("Not measured\n" + "\n".join(failed))
    blocks.append(_circumstances(report))
    return "\n\n".join(blocks) + "\n"


def render_changes(source: str, before: Report, machine: Mapping[str, Any], changes: Sequence[Change]) -> str:
    """What became better or worse since a stored run."""
    counts = {word: sum(change.word is word for change in changes) for word in Word}
    told = ", ".join(f"{count} {word.value}" for word, count in counts.items())
    elsewhere = "" if _is_same(before.machine, machine) else ", which was another machine"
    title = f"Against {source} of {before.started_at}{elsewhere}\n  {told} (beyond the repeats of both)"
    moved = [change for change in changes if change.word is not Word.SAME]
    if not moved:
        return title
    lines = [["line", "held", "before", "now", "times", ""]]
    lines += [
        [
            change.title,
            change.to,
            format_value(change.before.middle),
            format_value(change.after.middle),
            format_value(change.factor),
            change.word.value,
        ]
        for change in moved
    ]
    return f"{title}\n{_aligned(lines, left=(0, 1, 5))}"


def _is_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(one.get(key) == other.get(key) for key in {*one, *other} - {"load_at_start"})


def _group_table(rows: Sequence[Row]) -> str:
    sides = list(dict.fromkeys(side for row in rows for side in row.figures))
    judged = any(row.verdicts for row in rows)
    header = ["line", "unit", *(cell for side in sides for cell in (side, "spread"))]
    header += ["held to", "is", "verdict"] if judged else []
    lines = [header]
    for row in rows:
        figures = [row.figures.get(side) for side in sides]
        cells = [row.full_title, row.unit]
        for figure in figures:
            value, spread = (format_value(figure.value), f"{figure.spread:.0%}") if figure else (ABSENT, "")
            cells += [value, spread if figure and len(figure.repeats) > 1 else ""]
        lines.append(cells + (_verdict_cells(row.verdicts[0]) if row.verdicts else []))
        lines += [[""] * len(cells) + _verdict_cells(verdict) for verdict in row.verdicts[1:]]
    return _aligned(lines, left=(0, 1, 2 + 2 * len(sides), 4 + 2 * len(sides)))


def _requirement(verdict: Verdict) -> str:
    check = verdict.check
    if isinstance(check, AtLeast):
        floor = "" if check.floor is None else f", floor {check.floor:g}"
        return f"{check.goal:g} of {check.of}{floor}"
    return f"at most {format_value(check.bound)}"


def _verdict_cells(verdict: Verdict) -> list[str]:
    return [_requirement(verdict), format_value(verdict.value), verdict.word]


def _aligned(lines: Sequence[Sequence[str]], left: Iterable[int]) -> str:
    columns = max(len(line) for line in lines)
    filled = [[*line, *[""] * (columns - len(line))] for line in lines]
    widths = [max(len(line[column]) for line in filled) for column in range(columns)]
    rule = ["-" * width for width in widths]
    left_columns = set(left)
    rows = [filled[0], rule, *filled[1:]]
    return "\n".join(
        "  "
        + "  ".join(
            cell.ljust(width) if column in left_columns else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _circumstances(report: Report) -> str:
    others = report.others_share()
    lines = [f"Processes outside of the run took {others:.0%} of the processors: measure on a quiet machine."]
    lines = lines if others > OTHERS_SHARE_QUIET else []
    for name, values in (("Machine", report.machine), ("Versions", report.versions), ("Plan", report.plan)):
        lines.append(f"{name}: " + ", ".join(f"{key} {value}" for key, value in values.items()))
    lines.append(f"Started {report.started_at}, took {report.duration_s:.0f} s. {LEGEND}")
    return "\n".join(lines)
