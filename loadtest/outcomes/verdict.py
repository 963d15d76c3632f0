"""Thresholds: what a run must keep, or it has failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from loadtest.outcomes.outcome import Kind
from loadtest.outcomes.timeline import Line, Timeline

WHOLE = (Kind.ARRIVAL, Kind.EVENT)
"""What is judged; a step is a part of an arrival."""
JUDGED_SHARE = 0.99


class Violation(NamedTuple):
    """A threshold that was not kept."""

    what: str
    value: float
    bound: float

    def __str__(self) -> str:
        return f"{self.what}: {self.value:.6g}, where {self.bound:.6g} is allowed"


@dataclass(frozen=True, slots=True)
class Thresholds:
    """None: nothing is demanded."""

    p99_ms: float | None = None
    """Of every operation that is timed as a whole, errors included."""
    error_ratio: float | None = None
    """Of all arrivals and events together; arrivals that were not begun are errors."""


def violations_of(timeline: Timeline, thresholds: Thresholds) -> list[Violation]:
    """What was not kept."""
    judged = {line: cell for line, cell in timeline.totals().items() if line.kind in WHOLE}
    count = sum(cell.latencies.count for cell in judged.values())
    found = []
    if thresholds.p99_ms is not None:
        for line, cell in judged.items():
            p99_ms = cell.latencies.percentile_s(JUDGED_SHARE) * 1000
            if p99_ms > thresholds.p99_ms:
                found.append(Violation(f"p99 in ms of {name_of(line)}", p99_ms, thresholds.p99_ms))
    if thresholds.error_ratio is not None and count:
        errors = sum(cell.errors.total() for cell in judged.values())
        if errors / count > thresholds.error_ratio:
            found.append(Violation("ratio of errors", errors / count, thresholds.error_ratio))
    return found


def name_of(line: Line) -> str:
    """A line for people."""
    return f"{line.scenario}: {line.operation}"
