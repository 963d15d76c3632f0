"""What operations give back: immutable values, free of the wire."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

ABSENT = -1
"""The expected version of a key that must not exist."""


class Comparison(Enum):
    """Which record a get asks for, relative to its key, in the order of the server's keys."""

    EQUAL = "equal"
    FLOOR = "floor"
    CEILING = "ceiling"
    LOWER = "lower"
    HIGHER = "higher"


class NotificationKind(Enum):
    """What happened to a key, or to a range of them."""

    CREATED = "created"
    MODIFIED = "modified"
    DELETED = "deleted"
    RANGE_DELETED = "range-deleted"


@dataclass(frozen=True, slots=True)
class Version:
    """Which state of a record this is, and since when; times in milliseconds since the epoch."""

    version_id: int
    modifications_count: int
    created_ms: int
    modified_ms: int
    session_id: int | None = None
    client_identity: str | None = None

    @property
    def ephemeral(self) -> bool:
        """Whether the record goes when its session ends."""
        return self.session_id is not None


@dataclass(frozen=True, slots=True)
class PutResult:
    """A stored record's key (the generated one, of a sequence) and version."""

    key: str
    version: Version


@dataclass(frozen=True, slots=True)
class Record:
    """A record as it was read: no `value` if none was asked for, no `secondary_key` if no index led to it."""

    key: str
    value: bytes | None
    version: Version
    secondary_key: str | None = None


@dataclass(frozen=True, slots=True)
class Notification:
    """One change. `range_end` (exclusive) belongs to a deleted range, which begins at `key`."""

    kind: NotificationKind
    key: str
    version_id: int | None = None
    range_end: str | None = None


@dataclass(frozen=True, slots=True)
class NotificationBatch:
    """The changes of one write request on one shard. It may hold none: the offset still counts."""

    shard_id: int
    offset: int
    timestamp_ms: int
    notifications: tuple[Notification, ...]
