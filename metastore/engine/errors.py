"""What the engine refuses, and how: a small tree.

EngineError
├── InvalidRequest       the request makes no sense; nothing was changed
├── ConditionsFailed     conditions of a transaction do not hold; nothing was changed
├── SessionNotFound      the session does not exist (any more)
├── StoreFull            no space or over the quota; reads and deletes go on
├── Overloaded           too much is waiting; nothing was done, trying again later is safe
├── ShardStopped         the shard is closed, or stopped itself after a failed write to disk
├── StoreInUse           another process has the shard open
└── StoreDamaged         the files do not hold what they must; the store does not open
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class EngineError(Exception):
    """Anything that the engine refuses to do."""


class InvalidRequest(EngineError):
    """The request itself is wrong; the text names what, and what is allowed."""


class FailedCondition(NamedTuple):
    """A condition that did not hold."""

    place: int
    """Counts the transaction's own conditions first, then the puts that expect a version, then such deletes."""
    key: bytes
    expected: int
    """A version id, or -1: no record."""
    actual: int


class ConditionsFailed(EngineError):
    """Conditions of a transaction do not hold."""

    def __init__(self, failed: Sequence[FailedCondition]) -> None:
        assert failed, "all conditions hold"
        first = failed[0]
        super().__init__(
            f"{len(failed)} conditions of the transaction do not hold; the first is number {first.place}, on "
            f"{first.key.decode('utf-8', 'backslashreplace')!r}: {_version(first.expected)} is expected, "
            f"{_version(first.actual)} is there"
        )
        self.failed = tuple(failed)


def _version(version_id: int) -> str:
    return "no record" if version_id == -1 else f"version {version_id}"


class SessionNotFound(EngineError):
    """No such session on this shard."""

    def __init__(self, session_id: int) -> None:
        super().__init__(f"session {session_id} does not exist")
        self.session_id = session_id


class InvalidSessionTimeout(InvalidRequest):
    """The session timeout lies outside of the allowed range."""

    def __init__(self, timeout_ms: int) -> None:
        super().__init__(f"session timeout of {timeout_ms} ms")
        self.timeout_ms = timeout_ms


class StoreFull(EngineError):
    """There is no space for more; deleting works and makes some."""


class Overloaded(EngineError):
    """A bounded queue is full; nothing was done."""


class ShardStopped(EngineError):
    """The shard answers nothing more: it was closed, or cannot know what is on disk."""


class PointReleased(EngineError):
    """The state that a read was to be of is no longer kept."""

    def __init__(self, point_id: int) -> None:
        super().__init__(
            f"point {point_id} is no longer held: it was released, or not used for longer than it was to be held, or "
            "the store had to grow or was restarted"
        )


class StoreInUse(EngineError):
    """Another process has the shard open."""


class StoreDamaged(EngineError):
    """The data on disk is not what was written."""
