"""The result of a run, and its one JSON schema, `tidemark-bench/2`.

```
{"schema", "started_at", "duration_s", "command", "plan": {...}, "machine": {...}, "versions": {...},
 "groups": {GROUP: {"title", "axis": {"label", "is_log"} or null}},
 "rows": [{"group", "line", "metric", "title", "unit", "better", "point": {"series", "at"} or null,
           "figures": {SIDE: {"repeats": [...], "value", "spread", "details": {...}}},
           "checks": [{"kind": "at-least", "of", "floor", "goal", "ratio", "verdict"}
                      or {"kind": "at-most", "bound", "value", "verdict"}]}],
 "failures": [{"group", "line", "error"}], "others_cpu_share"}
```
`others_cpu_share`, of the run and in each figure's details, is the part of the processors that went to
processes outside of the run: where it is not near 0, figures are low and spreads wide. The first side of
`figures` is ours. `value` is the median of the repeats, or their worst for a metric such as the longest
wait; `spread` is (greatest - least) / median. A derived row has no repeats. `ratio` is 1.0 when equal and
more when ours is better, whichever way the unit points. Lines of a group with an axis are points of curves.
`stored` reads it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from loadtest.bench.bench import Group
from loadtest.bench.figures import Verdict, judge, summarize
from loadtest.bench.model import AtLeast, Axis, Better, Check, Derived, Figure, Line, Lookup, Point, Sample

SCHEMA = "tidemark-bench/2"
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
    point: Point | None = None

    @property
    def name(self) -> str:
        """Group and line, as `--only` gives them."""
        return f"{self.group}/{self.line}"

    @property
    def full_title(self) -> str:
        """The line's title and the metric's label, as people read them."""
        return " ".join(filter(None, (self.title, self.label))).rstrip(",")


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
    axes: dict[str, Axis] = field(default_factory=dict)
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
            "groups": {name: {"title": title, "axis": self._axis(name)} for name, title in self.titles.items()},
            "rows": [_row_as_json(row) for row in self.rows],
            "failures": [{"group": f.group, "line": f.line, "error": f.error} for f in self.failures],
            "others_cpu_share": round(self.others_share(), 4),
        }

    def _axis(self, group: str) -> dict[str, Any] | None:
        return asdict(self.axes[group]) if group in self.axes else None


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
                line.point,
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
        "title": row.full_title,
        "unit": row.unit,
        "better": row.better.value,
        "point": None if row.point is None else asdict(row.point),
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
