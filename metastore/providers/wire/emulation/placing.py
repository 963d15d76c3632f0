"""Where a snapshot is among the writes. Pure.

A scan shows one state of a shard, and does not say which. The notifications of what was written meanwhile say it: the
snapshot is of any offset at which all records had the versions that the scan found.
"""

from __future__ import annotations

from collections.abc import Sequence

from metastore.providers.wire.emulation.mirror import Mirror
from metastore.providers.wire.plain import Notification, NotificationBatch, NotificationKind


def place_of(found: Mirror, begun: int, batches: Sequence[NotificationBatch], end: int) -> int | None:
    """The last offset at which the range was as a scan found it, or one just like it; None if there is none for sure.

    The batches are those of concern behind `begun`, up to `end`, and the scan was made behind `begun` and before `end`
    was reached. If a range was deleted among them nothing is sure: it may have been so before the scan, or behind it.
    """
    notified = [each for batch in batches for each in batch.notifications]
    if any(each.kind is NotificationKind.RANGE_DELETED for each in notified):
        return None
    versions = {(each.key, each.version_id) for each in notified}
    firsts: dict[str, Notification] = {}
    for each in notified:
        firsts.setdefault(each.key, each)
    wrong = {key for key, first in firsts.items() if not _was_before(_version_of(found, key), first, versions)}
    place = None if wrong else begun
    for batch in batches:
        for each in batch.notifications:
            if each.version_id == _version_of(found, each.key):
                wrong.discard(each.key)
            else:
                wrong.add(each.key)
        if not wrong:
            place = batch.offset
    return place if wrong else end


def _was_before(version_id: int | None, first: Notification, versions: set[tuple[str, int | None]]) -> bool:
    """Whether a record was at this version (None: not there) before the first notification of it, for sure."""
    if version_id is None:
        return first.kind is NotificationKind.CREATED
    return (first.key, version_id) not in versions


def _version_of(found: Mirror, key: str) -> int | None:
    known = found.get(key)
    return None if known is None else known.version_id
