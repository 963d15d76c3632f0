"""What is found to be wrong, with the evidence; and the count of what was looked at."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum

EVIDENCE_CHARACTERS = 1_200


class Lie(Enum):
    """The kinds of what can be wrong."""

    LOST_WRITE = "an acknowledged write never took effect"
    REFUSED_WRITE = "a refused write took effect"
    BROKEN_ORDER = "the order told does not explain the answers"
    WRONG_SCAN = "the last scan is not what the writes left"
    MISSING = "a change is missing"
    REPEATED = "a change is told again"
    INVENTED = "a change never happened"
    MISORDERED = "changes are out of order"
    TORN = "a write is told in parts"
    AHEAD_OF_TOKEN = "a change lies beyond the token of its batch"
    WRONG_KIND = "the kind is wrong"
    WRONG_RECORD = "the record is not what was written"
    WRONG_PREVIOUS = "the previous record is not what was there"
    WRONG_TIME = "the time is another than others were told"
    WRONG_SNAPSHOT = "the snapshot is not the state at its end"
    TOKEN_TOO_EARLY = "the token lies before what was acknowledged when the watch began"
    TOKEN_TOO_LATE = "the token lies beyond what had been written"
    TOKEN_WENT_BACK = "the token lies before an earlier one"
    BAD_SHAPE = "the batches are not in the order of the contract"
    WRONGLY_EXPIRED = "the watch ended for want of changes that are kept"
    WRONGLY_ENDED = "the watch ended with an error"
    STARVED = "what happened was never told"


@dataclass(frozen=True)
class Violation:
    """One thing that is wrong."""

    lie: Lie
    who: str
    evidence: str

    def __str__(self) -> str:
        return f"{self.lie.value}: {self.who}: {self.evidence}"


def shortened(evidence: str) -> str:
    """Without the filling of large values, and at no length."""
    evidence = re.sub(r"x{20,}", "x…x", evidence)
    return evidence if len(evidence) <= EVIDENCE_CHARACTERS else evidence[:EVIDENCE_CHARACTERS] + "…"


@dataclass
class Findings:
    """What was found, and how much was looked at."""

    violations: list[Violation] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, lie: Lie, who: str, evidence: str) -> None:
        self.violations.append(Violation(lie, who, shortened(evidence)))

    def merge(self, other: Findings) -> None:
        self.violations += other.violations
        self.counts += other.counts
