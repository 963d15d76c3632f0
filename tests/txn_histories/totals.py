"""The counts of many runs together, as a table: what has happened how often, and what never."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from txn_histories.violations import Findings

COLUMNS = 2


class Totals:
    """Of all runs so far."""

    def __init__(self) -> None:
        self.runs = 0
        self.violations = 0
        self.counts: Counter[str] = Counter()

    def add(self, findings: Findings) -> None:
        """Another run."""
        self.runs += 1
        self.violations += len(findings.violations)
        self.counts.update(findings.counts)

    def missing(self, kinds: Iterable[str]) -> list[str]:
        """What has not happened once."""
        return [kind for kind in kinds if not self.counts[kind]]

    def table(self, title: str) -> str:
        """All of it, for people."""
        cells = [f"{self.counts[what]:>11,}  {what}" for what in sorted(self.counts)]
        rows = -(-len(cells) // COLUMNS)
        width = max(map(len, cells), default=0)
        lines = ["  ".join(f"{each:<{width}}" for each in cells[row::rows]).rstrip() for row in range(rows)]
        return "\n".join(["", f"{title}: {self.runs} runs, {self.violations} violations", *lines])
