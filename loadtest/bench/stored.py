"""Stored runs: the JSON of `report`, read back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loadtest.bench.figures import Verdict
from loadtest.bench.model import AtLeast, AtMost, Axis, BenchError, Better, Check, Figure, Point
from loadtest.bench.report import SCHEMA, Failure, Report, Row

PAGES = Path(__file__).resolve().parents[2] / "docs" / "benchmarks"
"""Where the project keeps its stored runs; only a checkout of the sources has the folder."""


def read_report(path: Path) -> Report:
    """A stored run; raises BenchError if the file holds none that this version understands."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BenchError(f"{path}: {error}") from error
    schema = told.get("schema") if isinstance(told, dict) else None
    if schema != SCHEMA:
        raise BenchError(f"{path}: the schema is {schema!r}, and only {SCHEMA!r} can be read")
    try:
        return report_of(told)
    except (KeyError, TypeError, ValueError) as error:
        raise BenchError(f"{path}: not a whole result: {error!r}") from error


def report_of(told: Mapping[str, Any]) -> Report:
    """The report that a JSON object tells."""
    groups = told["groups"]
    return Report(
        started_at=told["started_at"],
        command=told["command"],
        plan=told["plan"],
        machine=told["machine"],
        versions=told["versions"],
        titles={name: group["title"] for name, group in groups.items()},
        axes={name: Axis(**group["axis"]) for name, group in groups.items() if group["axis"] is not None},
        rows=[_row(row) for row in told["rows"]],
        failures=[Failure(**failure) for failure in told["failures"]],
        duration_s=told["duration_s"],
    )


def _row(told: Mapping[str, Any]) -> Row:
    return Row(
        group=told["group"],
        line=told["line"],
        metric=told["metric"],
        title=told["title"],
        label="",
        unit=told["unit"],
        better=Better(told["better"]),
        figures={side: _figure(figure) for side, figure in told["figures"].items()},
        verdicts=tuple(_verdict(check) for check in told["checks"]),
        point=None if told["point"] is None else Point(**told["point"]),
    )


def _figure(told: Mapping[str, Any]) -> Figure:
    return Figure(tuple(told["repeats"]), told["value"], told["spread"], told["details"])


def _verdict(told: Mapping[str, Any]) -> Verdict:
    if told["kind"] == "at-least":
        check: Check = AtLeast(told["of"], told["floor"], told["goal"])
        return Verdict(check, told["ratio"], told["verdict"])
    return Verdict(AtMost(told["bound"]), told["value"], told["verdict"])
