"""What the engine refuses, and how: a small tree.

    EngineError
    ├── InvalidRequest       the request makes no sense; nothing was changed
    ├── SessionNotFound      the session does not exist (any more)
    ├── StoreFull            no space or over the quota; reads and deletes go on
    ├── Overloaded           too much is waiting; nothing was done, trying again later is safe
    ├── ShardStopped         the shard is closed, or stopped itself after a failed write to disk
    ├── StoreInUse           another process has the shard open
    └── StoreDamaged         the files do not hold what they must; the store does not open
"""

from __future__ import annotations


class EngineError(Exception):
    """Anything that the engine refuses to do."""


class InvalidRequest(EngineError):
    """The request itself is wrong; the text names what, and what is allowed."""


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


class StoreInUse(EngineError):
    """Another process has the shard open."""


class StoreDamaged(EngineError):
    """The data on disk is not what was written."""
