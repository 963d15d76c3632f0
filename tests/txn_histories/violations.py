"""What is found to be wrong, with the evidence; and the count of what was looked at."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum

EVIDENCE_CHARACTERS = 1_200


class Lie(Enum):
    """The kinds of what can be wrong."""

    ABORTED_READ = "an entry of an aborted transaction was seen"
    DIRTY_READ = "an entry was seen before its transaction was committed"
    TORN = "of a committed transaction a part is there and a part is not"
    LOST_WRITE = "an entry that was acknowledged, or seen, is not there"
    DUPLICATED = "a message is there twice"
    MISORDERED = "entries are not in the order in which they were sent, or come out of order"
    INVENTED = "an entry was seen that nobody had sent"
    REFUSED_WRITE = "an entry whose sending was refused is there"
    MOVED = "an entry is not where its sender was told it is"
    POSITION_REUSED = "two entries had one position"
    SKIPPED = "a reader was not shown an entry that is there"
    REPEATED = "a reader was shown an entry again without a reason"
    ACK_REDELIVERED = "an entry was delivered again after its acknowledgement"
    PENDING_REDELIVERED = "an entry was delivered again while the transaction that acknowledges it was open"
    ABORTED_ACK_LOST = "an entry whose acknowledgement was aborted was not delivered again"
    UNDELIVERED = "an entry that nobody acknowledged was not delivered"
    CONFLICTING_ACKS = "two acknowledgements of one entry took effect"
    OUTCOME_LIE = "somebody was told another outcome than the true one"
    DEADLINE_MISSED = "a commit was successful after the deadline, or a deadline struck before its time"
    STUCK = "something stands still that should have ended"
    LEFTOVER = "a record is left that serves nothing"


@dataclass(frozen=True)
class Violation:
    """One thing that is wrong: a `Lie`, or what another checker calls one."""

    lie: Enum
    who: str
    evidence: str

    def __str__(self) -> str:
        return f"{self.lie.value}: {self.who}: {self.evidence}"


@dataclass
class Findings:
    """What was found, and how much was looked at."""

    violations: list[Violation] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, lie: Enum, who: str, evidence: str) -> None:
        if len(evidence) > EVIDENCE_CHARACTERS:
            evidence = evidence[:EVIDENCE_CHARACTERS] + "…"
        self.violations.append(Violation(lie, who, evidence))

    @property
    def lies(self) -> list[Enum]:
        """The kinds of what is wrong."""
        return [violation.lie for violation in self.violations]
