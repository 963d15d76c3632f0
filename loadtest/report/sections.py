"""The charts of a page, from a result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loadtest.report.curves import Chart, Look, Points, Series, points_of

MARK_COLOURS = {"split": "five", "merge": "three"}
"""As the triangles have them that stand for these."""
WHOLE_STEPS_MIN = 4
"""In longer runs the first and the last step are not shown, which are not whole."""
Rows = Sequence[Mapping[str, Any]]


def charts_of(result: Mapping[str, Any]) -> Iterator[Chart]:
    """Those that there is something for."""
    timeline, step_s = result["timeline"], result["step_s"]
    whole = [row for row in timeline if row["kind"] == "arrival" and not row["scenario"]]
    yield _throughput(whole, step_s)
    yield _latency(whole)
    yield from _by_scenario(timeline)
    yield from _events(timeline)


def _throughput(whole: Rows, step_s: float) -> Chart:
    if len(whole) > WHOLE_STEPS_MIN:
        whole = whole[1:-1]  # a run begins and ends within a step
    meant = [(row["second"], row["count"] / step_s) for row in whole]
    well = [(row["second"], (row["count"] - row["errors"]) / step_s) for row in whole]
    series = [Series("meant to begin", "two", meant), Series("served", "one", well, Look.AREA)]
    for name, column, colour in (("errors", "errors", "bad"), ("not started in time", "not_started", "worse")):
        bars = [(row["second"], row[column] / step_s) for row in whole]
        if any(value for _, value in bars):
            series.append(Series(name, colour, bars, Look.BARS))
    said = "Arrivals by the second in which they were meant to begin, and how many of these were served."
    return Chart("Arrivals", said, "per second", series)


def _latency(whole: Rows) -> Chart:
    series = [
        Series("median", "one", points_of(whole, "p50_ms")),
        Series("p90", "six", points_of(whole, "p90_ms")),
        Series("p99", "four", points_of(whole, "p99_ms")),
    ]
    said = "From when an arrival was meant to begin to its answer, all scenarios together; a stall shows in all of it."
    return Chart("Latency", said, "ms", series, is_log=True)


def _by_scenario(timeline: Rows) -> Iterator[Chart]:
    rows = [row for row in timeline if row["kind"] == "arrival" and row["scenario"] and not row["operation"]]
    names = sorted({row["scenario"] for row in rows})
    if len(names) > 1:
        said = "99 of 100 arrivals of a scenario were answered within this time of when they were meant to begin."
        yield Chart("p99 by scenario", said, "ms", _strips(rows, names, "scenario"), is_log=True, is_apart=True)


def _events(timeline: Rows) -> Iterator[Chart]:
    rows = [row for row in timeline if row["kind"] == "event" and row["operation"]]
    delivered = [row for row in rows if "news" in row["operation"] or "deliver" in row["operation"]]
    names = sorted({row["operation"] for row in delivered})
    if names:
        said = (
            "p99 of how long news of watches and messages took, from when the arrival was meant to begin that caused "
            "them; of what is committed, from when its commit began."
        )
        yield Chart("Delivery", said, "ms", _strips(delivered, names, "operation"), is_log=True, is_apart=True)
    changes = [
        Series(f"{name} of a segment", colour, _points(rows, "operation", name, "max_ms"), Look.EVENTS)
        for name, colour in MARK_COLOURS.items()
    ]
    if any(each.points for each in changes):
        yield Chart("Splits and merges", "How long each took.", "ms", changes, is_log=True, has_marks=False)


def _strips(rows: Rows, names: Sequence[str], column: str) -> list[Series]:
    return [Series(name, "one", _points(rows, column, name, "p99_ms"), Look.AREA) for name in names]


def _points(rows: Rows, column: str, name: str, value: str) -> Points:
    return points_of([row for row in rows if row[column] == name], value)
