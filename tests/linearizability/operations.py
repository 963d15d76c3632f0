"""What is recorded: operations on one key, with the times of call and answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

NO_RECORD = -1
"""The expected version id that means: only if there is no record."""


@dataclass(frozen=True)
class Put:
    value: bytes
    expected: int | None = None


@dataclass(frozen=True)
class Get:
    pass


@dataclass(frozen=True)
class Delete:
    expected: int | None = None


@dataclass(frozen=True)
class Stored:
    """A put has succeeded."""

    version_id: int
    modifications_count: int


@dataclass(frozen=True)
class Found:
    """A get has found a record."""

    value: bytes
    version_id: int
    modifications_count: int


@dataclass(frozen=True)
class Deleted:
    pass


@dataclass(frozen=True)
class Missing:
    """There is no record."""


@dataclass(frozen=True)
class Conflict:
    """The version is not the expected one."""


Action = Put | Get | Delete
Answer = Stored | Found | Deleted | Missing | Conflict


@dataclass(frozen=True)
class Operation:
    """One call of one client. Without an answer nobody knows whether, or when, it has happened."""

    client: int
    key: bytes
    action: Action
    invoked: int
    returned: int | None = None
    answer: Answer | None = None

    def __post_init__(self) -> None:
        assert (self.returned is None) == (self.answer is None), "an answer has a time"
        assert self.returned is None or self.invoked <= self.returned, "an answer follows its call"


def by_key(history: Iterable[Operation]) -> dict[bytes, Sequence[Operation]]:
    """Registers are independent: a history is linearizable if each key's is."""
    keys: defaultdict[bytes, list[Operation]] = defaultdict(list)
    for operation in history:
        keys[operation.key].append(operation)
    return dict(keys)
