"""The result of a run, and its one JSON schema, `tidemark-bench/1`.

```
{"schema", "started_at", "duration_s", "command", "plan": {...}, "machine": {...}, "versions": {...},
 "rows": [{"group", "line", "metric", "title", "unit", "better",
           "figures": {SIDE: {"repeats": [...], "value", "spread", "details": {...}}},
           "checks": [{"kind": "at-least", "of", "floor", "goal", "ratio", "verdict"}
                      or {"kind": "at-most", "bound", "value", "verdict"}]}],
 "failures": [{"group", "line", "error"}], "others_cpu_share"}
```
`others_cpu_share`, of the run and in each figure's details, is the part of the processors that went to
processes outside of the run: where it is not near 0, figures are low and spreads wide. The first side of
`figures` is ours. `value` is the median of the repeats, or their worst for a metric such as the longest
wait; `spread` is (greatest - least) / median. A derived row has no repeats. `ratio` is 1.0 when equal and
more when ours is better, whichever way the unit points.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from loadtest.bench.bench import Group
from loadtest.bench.figures import Verdict, judge, summarize
from loadtest.bench.model import AtLeast, Better, Check, Derived, Figure, Line, Lookup, Sample

SCHEMA = "tidemark-bench/1"
DERIVED_GROUP = "derived"
OTHERS_SHARE = "others_cpu_share"


@dataclass(frozen=True)
class Row:
    """One metric of one line, for all sides."""

    group: str
    line: str
    metric: str
    title: str
    label: str
    unit: str
    better: Better
    figures: Mapping[str, Figure]
    verdicts: tuple[Verdict, ...]

    @property
    def name(self) -> str:
        """Group and line, as `--only` gives them."""
        return f"{self.group}/{self.line}"


@dataclass(frozen=True)
class Failure:
    """A line, or (with an empty name) a whole group, that could not be measured."""

    group: str
    line: str
    error: str


@dataclass
class Report:
    """What a run found."""

    started_at: str
    command: list[str]
    plan: Mapping[str, Any]
    machine: Mapping[str, Any]
    versions: Mapping[str, str]
    titles: dict[str, str] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    duration_s: float = 0.0

    def lookup(self, name: str, metric: str) -> Mapping[str, Figure] | None:
        """The figures by side of a metric, for derived rows."""
        return next((row.figures for row in self.rows if (row.name, row.metric) == (name, metric)), None)

    def others_share(self) -> float:
        """The part of the processors that processes outside of the run took, over all figures."""
        figures = [figure for row in self.rows for figure in row.figures.values()]
        return median([figure.details[OTHERS_SHARE] for figure in figures if OTHERS_SHARE in figure.details] or [0.0])

    def as_json(self) -> dict[str, Any]:
        """The schema above."""
        return {
            "schema": SCHEMA,
            "started_at": self.started_at,
            "duration_s": round(self.duration_s, 1),
            "command": self.command,
            "plan": dict(self.plan),
            "machine": dict(self.machine),
            "versions": dict(self.versions),
            "rows": [_row_as_json(row) for row in self.rows],
            "failures": [{"group": f.group, "line": f.line, "error": f.error} for f in self.failures],
            "others_cpu_share": round(self.others_share(), 4),
        }


def rows_of(group: Group[Any], line: Line[Any], samples: Mapping[str, list[Sample]]) -> list[Row]:
    """The rows of a measured line."""
    hidden = frozenset(metric.key for metric in line.metrics)
    rows = []
    for metric in line.metrics:
        figures = {side: summarize(metric, taken, hidden) for side, taken in samples.items()}
        verdicts = _verdicts(metric.checks, metric.better, {side: f.value for side, f in figures.items()})
        rows.append(
            Row(
                group.name,
                line.name,
                metric.key,
                line.title,
                metric.label,
                metric.unit,
                metric.better,
                figures,
                verdicts,
            )
        )
    return rows


def derived_row(derived: Derived, lookup: Lookup) -> Row | None:
    """The row of a derived figure; None if what it needs was not measured."""
    values = derived.compute(lookup)
    if values is None:
        return None
    figures = {side: Figure((), value, 0.0) for side, value in values.items()}
    verdicts = _verdicts(derived.checks, derived.better, values)
    return Row(
        DERIVED_GROUP,
        derived.name,
        "value",
        derived.title,
        "",
        derived.unit,
        derived.better,
        figures,
        verdicts,
    )


def _verdicts(checks: Iterable[Check], better: Better, values: Mapping[str, float]) -> tuple[Verdict, ...]:
    ours, *_ = values.values()
    judged = (judge(check, better, ours, values) for check in checks)
    return tuple(verdict for verdict in judged if verdict is not None)


def _row_as_json(row: Row) -> dict[str, Any]:
    return {
        "group": row.group,
        "line": row.line,
        "metric": row.metric,
        "title": " ".join(filter(None, (row.title, row.label))),
        "unit": row.unit,
        "better": row.better.value,
        "figures": {side: _figure_as_json(figure) for side, figure in row.figures.items()},
        "checks": [_verdict_as_json(verdict) for verdict in row.verdicts],
    }


def _figure_as_json(figure: Figure) -> dict[str, Any]:
    return {
        "repeats": list(figure.repeats),
        "value": figure.value,
        "spread": round(figure.spread, 4),
        "details": dict(figure.details),
    }


def _verdict_as_json(verdict: Verdict) -> dict[str, Any]:
    check = verdict.check
    if isinstance(check, AtLeast):
        told = {"kind": "at-least", "of": check.of, "floor": check.floor, "goal": check.goal}
        return {**told, "ratio": round(verdict.value, 4), "verdict": verdict.word}
    return {"kind": "at-most", "bound": check.bound, "value": verdict.value, "verdict": verdict.word}
