"""What a watch looks at on one shard."""

from __future__ import annotations

from metastore.interface.values import Range
from metastore.providers.merging import StoreOrder
from metastore.providers.wire.plain import Notification, NotificationBatch, NotificationKind


class Scope:
    """A range of keys, or of an index, of one shard."""

    def __init__(
        self, shard: int, range: Range, index: str | None, has_previous_values: bool, order: StoreOrder
    ) -> None:
        self.shard = shard
        self.range = range
        self.index = index
        self.has_previous_values = has_previous_values
        self._order = order
        self._start = order.position(range.start)
        self._end = order.position(range.end) if range.end else None

    def __str__(self) -> str:
        of_index = "" if self.index is None else f" of index {self.index!r}"
        return f"the watch of {self.range}{of_index} on shard {self.shard}"

    @property
    def keeps_outsiders(self) -> bool:
        """Whether the watch must know records that are not in its range: they may enter it, and have been something."""
        return self.index is not None and self.has_previous_values

    def position(self, key: str) -> bytes:
        """Compares as the store compares the keys."""
        return self._order.position(key)

    def concerns(self, notification: Notification) -> bool:
        """Whether it may be news. Any record may enter a range of an index; notifications do not tell which.

        Of several ranges that one write request deletes from the same key on, notifications tell only the last. So
        they say where what was deleted begins, and not where it ends.
        """
        if self.index is not None:
            return True
        position = self.position(notification.key)
        is_before_end = self._end is None or position < self._end
        return is_before_end and (notification.kind is NotificationKind.RANGE_DELETED or position >= self._start)

    def of_concern(self, batch: NotificationBatch) -> NotificationBatch:
        """The batch without what is of no concern."""
        kept = tuple([each for each in batch.notifications if self.concerns(each)])
        return NotificationBatch(batch.shard, batch.offset, batch.time_ms, kept)
