"""What a log entry tells its subscribers: one notification per key, derived when somebody listens. Pure."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from metastore.engine.change import Kind, decode
from metastore.engine.keys import KeyOrder
from metastore.engine.record import modifications_of, version_id_of


class NotificationType(IntEnum):
    """What happened to a key; the numbers are those of the protocol."""

    KEY_CREATED = 0
    KEY_MODIFIED = 1
    KEY_DELETED = 2
    KEY_RANGE_DELETED = 3


class Notification(NamedTuple):
    """One key's, or one range's, news."""

    key: bytes
    type: NotificationType
    version_id: int | None
    range_end: bytes | None


class NotificationBatch(NamedTuple):
    """The news of one write request, in the order of the keys' bytes."""

    offset: int
    time_ms: int
    notifications: list[Notification]


def notifications_of(offset: int, payload: bytes, order: KeyOrder) -> NotificationBatch:
    """Reads a log entry as its subscribers shall see it: the last change of each key; internal keys stay hidden."""
    entry = decode(payload)
    news: dict[bytes, Notification] = {}
    for kind, encoded, value in entry.changes:
        if kind == Kind.RECORD_PUT:
            key = order.decode(encoded)
            is_new = modifications_of(value) <= 0
            what = NotificationType.KEY_CREATED if is_new else NotificationType.KEY_MODIFIED
            news[key] = Notification(key, what, version_id_of(value), None)
        elif kind == Kind.RECORD_DELETED:
            key = order.decode(encoded)
            news[key] = Notification(key, NotificationType.KEY_DELETED, None, None)
        elif kind == Kind.RANGE_DELETED:
            news[encoded] = Notification(encoded, NotificationType.KEY_RANGE_DELETED, None, value)
    shown = [news[key] for key in sorted(news) if not order.is_internal(key)]
    return NotificationBatch(offset, entry.time_ms, shown)
