"""What a watch tells: batches of records or changes. Records are the engine's blobs (`metastore.engine.record`)."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class ChangeKind(IntEnum):
    """What a write was to a range."""

    CREATED = 0
    """The record is new, and in the range."""
    MODIFIED = 1
    """It was in the range before, and is."""
    DELETED = 2
    """It was in the range, and is no more."""
    ENTERED = 3
    """Of an index: it existed, and now has an entry in the range."""
    LEFT = 4
    """Of an index: it exists, and now has no entry in the range."""


class Change(NamedTuple):
    """One record's change by one write request."""

    kind: ChangeKind
    key: bytes
    record: bytes | None
    """None: deleted."""
    previous: bytes | None
    """What it was before the request, if the watch asks for that; None: there was none."""
    offset: int
    time_ms: int


class FeedBatchKind(IntEnum):
    """What a batch is. A snapshot may begin anew before its end: then forget what came of it."""

    SNAPSHOT_BEGIN = 0
    SNAPSHOT = 1
    SNAPSHOT_END = 2
    CHANGES = 3
    PROGRESS = 4


class FeedBatch(NamedTuple):
    """The next news of a watch."""

    kind: FeedBatchKind
    next_offset: int | None = None
    """Where to resume behind this batch; None until the snapshot is complete."""
    records: tuple[bytes, ...] = ()
    """Of SNAPSHOT, each record once."""
    changes: tuple[Change, ...] = ()
    """Of CHANGES: those of whole write requests, in their order."""
