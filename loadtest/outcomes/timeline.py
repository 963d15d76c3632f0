"""Outcomes by second and operation: what charts are drawn from, and what processes tell each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from loadtest.outcomes.histogram import Histogram
from loadtest.outcomes.outcome import Kind, Outcome


class Line(NamedTuple):
    """What is counted together."""

    scenario: str
    operation: str
    kind: Kind


class Mark(NamedTuple):
    """Something that happened, for the axis of time."""

    second: int
    scenario: str
    text: str


@dataclass(slots=True)
class Cell:
    """One line in one second, by when things were meant to begin."""

    latencies: Histogram = field(default_factory=Histogram)
    late: Histogram = field(default_factory=Histogram)
    """Of arrivals: how late they were begun."""
    errors: Counter[str] = field(default_factory=Counter)
    size: int = 0

    def add(self, outcome: Outcome) -> None:
        """One more."""
        self.latencies.add(outcome.latency_s)
        if outcome.kind is Kind.ARRIVAL:
            self.late.add(outcome.late_s)
        if outcome.error is not None:
            self.errors[outcome.error] += 1
        self.size += outcome.size

    def merge(self, other: Cell) -> None:
        """All of another one."""
        self.latencies.merge(other.latencies)
        self.late.merge(other.late)
        self.errors.update(other.errors)
        self.size += other.size


class Timeline:
    """Seconds are those of the wall clock, so that those of several machines can be put together."""

    def __init__(self) -> None:
        self.cells: dict[tuple[int, Line], Cell] = {}
        self.marks: list[Mark] = []

    def add(self, second: int, outcome: Outcome) -> None:
        """One more."""
        line = Line(outcome.scenario, outcome.operation, outcome.kind)
        self._cell(second, line).add(outcome)

    def merge(self, other: Timeline) -> None:
        """All of another one."""
        for (second, line), cell in other.cells.items():
            self._cell(second, line).merge(cell)
        self.marks.extend(other.marks)

    def clear(self) -> None:
        """Begins anew."""
        self.cells.clear()
        self.marks.clear()

    def totals(self) -> dict[Line, Cell]:
        """Every line over all of the time, in order."""
        found: dict[Line, Cell] = {}
        for (_, line), cell in self.cells.items():
            found.setdefault(line, Cell()).merge(cell)
        return dict(sorted(found.items(), key=lambda each: (each[0].scenario, each[0].kind.value, each[0].operation)))

    def seconds(self) -> range:
        """From the first one in which something was meant to happen, to the last."""
        known = [second for second, _ in self.cells]
        return range(min(known), max(known) + 1) if known else range(0)

    def encode(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"cells": list(self._rows()), "marks": [list(mark) for mark in self.marks]}

    @classmethod
    def decode(cls, said: Mapping[str, Any]) -> Timeline:
        """Reads what `encode` wrote."""
        found = cls()
        for second, scenario, operation, kind, latencies, late, errors, size in said["cells"]:
            cell = Cell(Histogram.decode(latencies), Histogram.decode(late), Counter(errors), size)
            found.cells[second, Line(scenario, operation, Kind(kind))] = cell
        found.marks = [Mark(*mark) for mark in said["marks"]]
        return found

    def _cell(self, second: int, line: Line) -> Cell:
        cell = self.cells.get((second, line))
        if cell is None:
            cell = self.cells[second, line] = Cell()
        return cell

    def _rows(self) -> Iterator[list[Any]]:
        for (second, line), cell in self.cells.items():
            latencies, late = cell.latencies.encode(), cell.late.encode()
            yield [
                second,
                line.scenario,
                line.operation,
                line.kind.value,
                latencies,
                late,
                dict(cell.errors),
                cell.size,
            ]
