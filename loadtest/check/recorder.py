"""What has become of the pieces of a work: latencies, failures, and which were the slowest."""

from __future__ import annotations

import heapq
from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean, pstdev

from loadtest.bench.figures import percentile
from loadtest.outcomes import Outcome

SLOWEST_KEPT = 5


@dataclass(frozen=True, slots=True, order=True)
class Piece:
    """One piece of work that was answered."""

    seconds: float
    """From its intended start to its answer."""
    intended_s: float
    """After the beginning."""
    what: str


@dataclass(frozen=True, slots=True)
class Measured:
    """All of a profile. The latencies are of what was answered, and 0 if nothing was."""

    due: int
    answered: int
    elapsed_s: float
    """From the beginning to the last answer, or to the end of the schedule if that was later."""
    p50_s: float
    p99_s: float
    slowest_s: float
    deviation_s: float
    slowest: tuple[Piece, ...]
    """The slowest first."""
    failures: Mapping[str, int]
    """How many failed, or were never answered, by reason."""

    @property
    def failed(self) -> int:
        return sum(self.failures.values())

    @property
    def rate(self) -> float:
        """Answers a second."""
        return self.answered / self.elapsed_s


class Recorder:
    """Takes down what happens, from a beginning on."""

    def __init__(self, began_s: float) -> None:
        self._began_s = began_s
        self._latencies_s = array("d")
        self._slowest: list[Piece] = []
        self._failures: Counter[str] = Counter()
        self._last_s = 0.0

    @property
    def answered(self) -> int:
        return len(self._latencies_s)

    @property
    def failed(self) -> int:
        return self._failures.total()

    def record(self, outcome: Outcome) -> None:
        """One was answered, or failed."""
        if outcome.error is not None:
            self._failures[outcome.error] += 1
            return
        intended_s = outcome.began_s - self._began_s
        piece = Piece(outcome.latency_s, intended_s, outcome.operation)
        self._latencies_s.append(piece.seconds)
        self._last_s = max(self._last_s, intended_s + piece.seconds)
        if len(self._slowest) < SLOWEST_KEPT:
            heapq.heappush(self._slowest, piece)
        elif piece > self._slowest[0]:
            heapq.heapreplace(self._slowest, piece)

    def measured(self, planned_s: float, reasons: Mapping[str, str]) -> Measured:
        """The whole of it, for a schedule of so many seconds; errors that have a reason are called by that."""
        latencies_s = sorted(self._latencies_s)
        return Measured(
            due=len(latencies_s) + self.failed,
            answered=len(latencies_s),
            elapsed_s=max(planned_s, self._last_s),
            p50_s=percentile(latencies_s, 0.5) if latencies_s else 0.0,
            p99_s=percentile(latencies_s, 0.99) if latencies_s else 0.0,
            slowest_s=latencies_s[-1] if latencies_s else 0.0,
            deviation_s=pstdev(latencies_s, fmean(latencies_s)) if latencies_s else 0.0,
            slowest=tuple(sorted(self._slowest, reverse=True)),
            failures={reasons.get(error, error): count for error, count in self._failures.items()},
        )
