"""A run in numbers, and its one JSON schema, `tidemark-load/1`.

```
{"schema", "scenario", "targets": [...], "plan": {...}, "seed", "began_ms", "seconds", "machine": {...},
 "versions": {...},
 "operations": [{"scenario", "operation", "kind", "count", "errors": {NAME: COUNT}, "rate", "bytes",
                 "mean_ms", "p50_ms", "p90_ms", "p99_ms", "p999_ms", "max_ms"}],
 "arrivals", "errors", "not_started", "whole": {"p50_ms", "p90_ms", "p99_ms", "max_ms"}, "late_p99_ms", "failure",
 "violations": [{"what", "value", "bound"}], "marks": [{"second", "scenario", "text"}],
 "step_s", "timeline": [{"second", "scenario", "operation", "kind", "count", "errors", "not_started",
                         "p50_ms", "p90_ms", "p99_ms", "max_ms"}]}
```
`whole` is of all arrivals. Seconds of marks and of the timeline count from the first arrival; an outcome is in the
second in which it was meant to begin. The timeline has a row for each operation in each step, one for each scenario
(without an operation), and one for each kind (without a scenario). `late_p99_ms`: 99 of 100 arrivals were begun no
later than that after they were meant to; it is part of their latency, and tells a slow generator, or one that waits for
`outstanding_max`, from a slow service.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from loadtest.outcomes.histogram import Histogram, merged
from loadtest.outcomes.outcome import NOT_STARTED, Kind
from loadtest.outcomes.timeline import Cell, Line, Timeline
from loadtest.outcomes.verdict import Violation

SCHEMA = "tidemark-load/1"
STEPS_MAX = 300
"""Of a timeline: a longer run has longer steps."""
TOUCHED_MORE_MAX = 3
"""Beginnings of several processes lie apart as well."""
PERCENTILES = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "p999_ms": 0.999}


@dataclass(frozen=True, slots=True)
class Plan:
    """What was asked for."""

    scenario: str
    targets: tuple[str, ...]
    rate: float
    shape: str
    time_s: float | None
    spacing: str
    seed: int
    processes: int = 1


@dataclass(frozen=True, slots=True)
class Result:
    """A run."""

    plan: Plan
    timeline: Timeline
    violations: Sequence[Violation] = ()
    machine: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    failure: str | None = None
    """Why it could not go on to its end."""

    @property
    def first_second(self) -> int:
        """The first second in which something was meant to happen; 0 if nothing was."""
        seconds = self.timeline.seconds()
        return seconds.start if seconds else 0

    @property
    def seconds(self) -> float:
        """How long it was. Five seconds that begin in the middle of one touch six of the clock."""
        touched, planned = len(self.timeline.seconds()), self.plan.time_s
        return planned if planned is not None and 0 < touched - planned < TOUCHED_MORE_MAX else touched

    @property
    def arrivals(self) -> list[Cell]:
        """Every line of arrivals."""
        return [cell for line, cell in self.timeline.totals().items() if line.kind is Kind.ARRIVAL]

    def as_json(self) -> dict[str, Any]:
        """The schema above."""
        arrivals = self.arrivals
        first = self.first_second
        late = merged(cell.late for cell in arrivals)
        return {
            "schema": SCHEMA,
            "scenario": self.plan.scenario,
            "targets": list(self.plan.targets),
            "plan": asdict(self.plan),
            "seed": self.plan.seed,
            "began_ms": first * 1000,
            "seconds": self.seconds,
            "machine": dict(self.machine),
            "versions": dict(self.versions),
            "operations": list(self._operations()),
            "arrivals": sum(cell.latencies.count for cell in arrivals),
            "errors": sum(cell.errors.total() for cell in arrivals),
            "not_started": sum(cell.errors[NOT_STARTED] for cell in arrivals),
            "whole": _told(merged(cell.latencies for cell in arrivals)),
            "late_p99_ms": round(late.percentile_s(0.99) * 1000, 3),
            "failure": self.failure,
            "violations": [each._asdict() for each in self.violations],
            "marks": [
                {"second": mark.second - first, "scenario": mark.scenario, "text": mark.text}
                for mark in sorted(self.timeline.marks)
            ],
            "step_s": self.step_s,
            "timeline": list(self._steps(first)),
        }

    @property
    def step_s(self) -> int:
        """How many seconds a row of the timeline is of."""
        return max(1, -(-len(self.timeline.seconds()) // STEPS_MAX))

    def _operations(self) -> Iterator[dict[str, Any]]:
        seconds = max(1, self.seconds)
        for line, cell in self.timeline.totals().items():
            count = cell.latencies.count
            yield {
                **_named(line),
                "count": count,
                "errors": dict(cell.errors),
                "rate": round(count / seconds, 3),
                "bytes": cell.size,
                "mean_ms": round(cell.latencies.mean_s * 1000, 3),
                **_percentiles(cell.latencies, PERCENTILES),
                "max_ms": round(cell.latencies.greatest_s * 1000, 3),
            }

    def _steps(self, first: int) -> Iterator[dict[str, Any]]:
        steps: dict[tuple[int, Line], Cell] = {}
        for (second, line), cell in self.timeline.cells.items():
            step = (second - first) // self.step_s * self.step_s
            for each in (line, line._replace(operation=""), line._replace(scenario="", operation="")):
                steps.setdefault((step, each), Cell()).merge(cell)
        for (step, line), cell in sorted(steps.items(), key=lambda each: each[0][0]):
            yield {
                "second": step,
                **_named(line),
                "count": cell.latencies.count,
                "errors": cell.errors.total(),
                "not_started": cell.errors[NOT_STARTED],
                **_told(cell.latencies),
            }


def _named(line: Line) -> dict[str, str]:
    return {"scenario": line.scenario, "operation": line.operation, "kind": line.kind.value}


def _told(latencies: Histogram) -> dict[str, float]:
    """The middle, the slow and the slowest."""
    return {
        **_percentiles(latencies, {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99}),
        "max_ms": round(latencies.greatest_s * 1000, 3),
    }


def _percentiles(latencies: Histogram, shares: Mapping[str, float]) -> dict[str, float]:
    return {name: round(latencies.percentile_s(share) * 1000, 3) for name, share in shares.items()}
