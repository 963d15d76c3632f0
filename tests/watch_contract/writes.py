"""What writers note: each write on one shard, what it was to do, when, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from metastore.interface import Index, Version


class Fate(Enum):
    """What the writer knows of a write."""

    DONE = "done"
    REFUSED = "refused"
    """By a condition, or by an error that says that nothing was done."""
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Put:
    """Stores a record. No two puts of a run have the same value."""

    key: str
    value: bytes
    expected: int | None = None
    indexes: tuple[Index, ...] = ()
    session: str | None = None
    """The name of the session with which it goes."""


@dataclass(frozen=True)
class Remove:
    """Removes a record, if there is one."""

    key: str
    expected: int | None = None


@dataclass(frozen=True)
class RemoveRange:
    """Removes the records of a range."""

    start: str
    end: str


@dataclass(frozen=True)
class EndSession:
    """Removes the records of a session."""

    session: str


Operation = Put | Remove | RemoveRange | EndSession
Answer = Version | bool | None
"""A put's version; whether a removal removed anything; None where that is not told."""


@dataclass(frozen=True)
class Write:
    """Operations that take effect together or not at all, on one shard. Times are ticks of a counter."""

    number: int
    writer: str
    shard: int
    operations: tuple[Operation, ...]
    invoked: int
    returned: int | None
    """None where the outcome is unknown: it may have happened at any later time."""
    fate: Fate
    answers: tuple[Answer, ...] = ()
    """One for each operation of a write that is done."""

    def __post_init__(self) -> None:
        assert (self.returned is None) == (self.fate is Fate.UNKNOWN), "a known outcome was known at some time"
        assert len(self.answers) == (len(self.operations) if self.fate is Fate.DONE else 0), "an answer each"

    def answer(self, place: int) -> Answer:
        """The answer to an operation, where there is one."""
        return self.answers[place] if self.answers else None

    @property
    def must_show(self) -> bool:
        """Whether it has certainly changed something."""
        return self.fate is Fate.DONE and any(
            isinstance(operation, Put) or answer is True
            for operation, answer in zip(self.operations, self.answers, strict=True)
        )

    def __str__(self) -> str:
        done = ", ".join(map(str, self.operations))
        if len(done) > 300:
            done = done[:300] + "…"
        times = f"[{self.invoked}..{'' if self.returned is None else self.returned}]"
        return f"write {self.number} of {self.writer} {times} on shard {self.shard}, {self.fate.value}: {done}"
