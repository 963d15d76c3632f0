"""What a plain Oxia offers to those who make more of it: the seam between its protocol and an emulated watch."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from metastore.interface.errors import StoreFailed
from metastore.interface.store import Watch
from metastore.interface.values import Range, Record
from metastore.pb import oxia_pb2 as pb
from metastore.providers.merging import StoreOrder
from metastore.providers.tokens import TokenForm
from metastore.providers.wire.protocol import from_wire
from metastore.providers.wire.scans import IndexedKey


class NotificationKind(Enum):
    """What happened to a key, or to a range of keys."""

    CREATED = "created"
    MODIFIED = "modified"
    DELETED = "deleted"
    RANGE_DELETED = "range-deleted"


@dataclass(frozen=True, slots=True)
class Notification:
    """One change. Several changes of a key by one write request are one: the last."""

    kind: NotificationKind
    key: str
    """Of a deleted range, its start."""
    version_id: int | None = None
    """Of a record that was created or modified."""
    range_end: str | None = None
    """Of a deleted range: the key before which it ends."""


@dataclass(frozen=True, slots=True)
class NotificationBatch:
    """The changes of one write request on one shard; there may be none."""

    shard: int
    offset: int
    time_ms: int
    notifications: tuple[Notification, ...]


_KINDS = {
    pb.KEY_CREATED: NotificationKind.CREATED,
    pb.KEY_MODIFIED: NotificationKind.MODIFIED,
    pb.KEY_DELETED: NotificationKind.DELETED,
    pb.KEY_RANGE_DELETED: NotificationKind.RANGE_DELETED,
}


def decode_notifications(message: bytes) -> NotificationBatch:
    """A batch. An unknown kind is a failure: to skip it would be to lose a change."""
    batch = pb.NotificationBatch.FromString(message)
    notifications = []
    for entry in batch.notifications:
        change = entry.value
        kind = _KINDS.get(change.type)
        if kind is None:
            raise StoreFailed(
                f"shard {batch.shard} sent a notification of unknown type {change.type} at offset {batch.offset}: "
                "use a newer version of this library"
            )
        version_id = change.version_id if change.HasField("version_id") else None
        range_end = from_wire(change.key_range_last) if change.HasField("key_range_last") else None
        notifications.append(Notification(kind, from_wire(entry.key), version_id, range_end))
    return NotificationBatch(batch.shard, batch.offset, batch.timestamp, tuple(notifications))


class PlainShards(Protocol):
    """The shards of a plain Oxia, one at a time. Errors are those of the contract."""

    order: StoreOrder

    def notifications(self, shard: int, after_offset: int | None) -> AsyncGenerator[NotificationBatch, None]:
        """What is written on a shard, request by request.

        With None it begins now: the first batch comes at once, is empty, and has the last offset so far (-1: none).
        With an offset it begins with the first batch behind that, of those that are still kept: the server skips what
        is not, and does not say so. (Ask from before a batch that is known: if that comes, nothing was skipped.)

        It never ends: it raises Unavailable when the connection breaks, and what never passes, such as Unsupported
        where the namespace keeps no notifications.
        """

    def scan_shard(self, shard: int, range: Range, index: str | None) -> AsyncGenerator[Record, None]:
        """The records of a range, or of a range of an index, in order, from one state of the shard."""

    def index_entries(self, shard: int, range: Range, index: str) -> AsyncGenerator[IndexedKey, None]:
        """The entries of a range of an index, in order: secondary keys, and keys of records. Not from one state."""

    async def get_many(self, shard: int, keys: Sequence[str], include_value: bool = True) -> list[Record | None]:
        """The records with these keys, each from a state that has every write acknowledged before."""


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """A watch that is wanted; the range and the token were checked."""

    range: Range
    index: str | None
    tokens: TokenForm
    """Makes its tokens, of one offset for each shard in their order."""
    shards: tuple[int, ...]
    resume: tuple[int, ...] | None
    """The offsets of the token from which to go on, one for each shard. None to begin."""
    has_snapshot: bool
    has_previous_values: bool


class MakeWatch(Protocol):
    """The emulation: a watch by the contract over a plain Oxia."""

    def __call__(self, shards: PlainShards, request: WatchRequest) -> Watch:
        """The watch. It ends with the calls that it makes, and those end when the store is closed."""
