"""The way of a round to the watches that are caught up: decoded once, matched, pushed into bounded queues.

One lock guards the queues, the structure over their ranges, and the offset up to which rounds have been told. A watch
that has read the log joins here under that lock, if it has read at least as far as has been told; what it read beyond
that is passed over when its round comes. So between the log and the queue there is no gap and no repetition.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from metastore.engine.keys import KeyOrder
from metastore.engine.stage import Stage
from metastore.watch import limits
from metastore.watch.effects import Effects, effects_of
from metastore.watch.errors import PreviousValuesMissing
from metastore.watch.matching import Watchers, change_of
from metastore.watch.news import Change
from metastore.watch.spec import Selector

CHANGE_BYTES = 200
"""What a change takes beside its key and records, about."""


class Item(NamedTuple):
    """What a request is to a watch."""

    offset: int
    changes: list[Change]
    size_bytes: int


class LiveQueue:
    """What waits for the reader of one watch, and how far that has got."""

    __slots__ = ("events", "is_live", "is_waiting", "items", "next_offset", "selector", "size_bytes", "wake")

    def __init__(self, selector: Selector, next_offset: int, wake: Callable[[], None]) -> None:
        self.selector = selector
        self.next_offset = next_offset
        """Everything below has been handed out or is none of its business. While live it is brought up to date
        only when somebody asks."""
        self.wake = wake
        self.items: deque[Item] = deque()
        self.events = 0
        self.size_bytes = 0
        self.is_live = False
        self.is_waiting = False
        """The reader found nothing: it wants to be woken."""


class Live:
    """All that are caught up."""

    def __init__(self, order: KeyOrder, next_offset: int) -> None:
        self._order = order
        self._lock = threading.Lock()
        self._watchers: Watchers[LiveQueue] = Watchers(order)
        self._queues: set[LiveQueue] = set()
        self._told_offset = next_offset
        """Rounds are told in their order, up to here."""
        self._size_bytes = 0
        """What waits in all queues."""
        self.events_told = 0

    def on_round(self, stage: Stage) -> None:
        """Tells a durable round. Called for one after the other."""
        woken: list[LiveQueue] = []
        with self._lock:
            if stage.first_offset != self._told_offset:
                # Whoever was called before this failed at an earlier round. The log has what was not told.
                for queue in list(self._queues):
                    self._fall_behind(queue, queue.items[0].offset if queue.items else self._told_offset)
                    self._note_news(queue, woken)
            elif self._queues:
                self._tell(stage.entries, woken)
            self._told_offset = stage.next_offset
        for queue in woken:
            queue.wake()

    def _tell(self, entries: Sequence[bytes], woken: list[LiveQueue]) -> None:
        """Pushes what concerns anybody; notes whom to wake."""
        for offset, payload in enumerate(entries, self._told_offset):
            for queue, changes in self._changes(effects_of(offset, payload, self._order.user_end)).items():
                self._push(queue, offset, changes)
                self._note_news(queue, woken)

    def _note_news(self, queue: LiveQueue, woken: list[LiveQueue]) -> None:
        """Wakes a reader that waits, once."""
        if queue.is_waiting:
            queue.is_waiting = False
            woken.append(queue)

    def _changes(self, effects: Effects) -> dict[LiveQueue, list[Change]]:
        """What a request is to each watch that it concerns; nothing where the watch cannot be told all of it."""
        told: dict[LiveQueue, list[Change]] = {}
        failed: list[LiveQueue] = []
        for queue, kind, effect in self._watchers.matches(effects):
            if queue.next_offset <= effects.offset:
                try:
                    change = change_of(kind, effect, effects, queue.selector, self._order)
                    told.setdefault(queue, []).append(change)
                except PreviousValuesMissing:
                    failed.append(queue)
        for queue in failed:
            told[queue] = []
        return told

    def _push(self, queue: LiveQueue, offset: int, changes: list[Change]) -> None:
        """Without changes the watch cannot go on here: its reader will learn why from the log."""
        size = sum(map(_size_bytes, changes))
        queue.events += len(changes)
        queue.size_bytes += size
        self._size_bytes += size
        if changes and self._has_room(queue):
            queue.items.append(Item(offset, changes, size))
        else:
            self._fall_behind(queue, queue.items[0].offset if queue.items else offset)

    def _has_room(self, queue: LiveQueue) -> bool:
        if queue.events > limits.FEED_EVENTS_MAX or queue.size_bytes > limits.FEED_BYTES_MAX:
            return False
        return (
            self._size_bytes <= limits.LIVE_BYTES_MAX or queue.size_bytes * len(self._queues) <= limits.LIVE_BYTES_MAX
        )

    def _fall_behind(self, queue: LiveQueue, next_offset: int) -> None:
        """What waits is dropped: the log has it as well."""
        self._end(queue)
        queue.next_offset = max(queue.next_offset, next_offset)

    def _end(self, queue: LiveQueue) -> None:
        self._watchers.remove(queue.selector, queue)
        self._queues.remove(queue)
        queue.is_live = False
        queue.items.clear()
        self._size_bytes -= queue.size_bytes
        queue.events = queue.size_bytes = 0

    def join(self, queue: LiveQueue) -> bool:
        """From now on rounds tell the queue, if it has been told everything until now."""
        with self._lock:
            if not queue.is_live and queue.next_offset >= self._told_offset:
                self._watchers.add(queue.selector, queue)
                self._queues.add(queue)
                queue.is_live = True
            return queue.is_live

    def leave(self, queue: LiveQueue) -> None:
        """The watch ends."""
        with self._lock:
            if queue.is_live:
                self._end(queue)

    def take(self, queue: LiveQueue, events_max: int) -> list[Change] | None:
        """The next changes, of whole requests. If there are none the reader is woken by the next; None: not live."""
        with self._lock:
            if not queue.is_live:
                return None
            changes: list[Change] = []
            while queue.items and len(changes) < events_max:
                item = queue.items.popleft()
                changes += item.changes
                queue.events -= len(item.changes)
                queue.size_bytes -= item.size_bytes
                self._size_bytes -= item.size_bytes
                queue.next_offset = item.offset + 1
            queue.is_waiting = not changes
            return changes

    def next_offset(self, queue: LiveQueue, events: int = 0) -> int:
        """Everything below has been handed out or did not concern the watch; counts events just handed out."""
        with self._lock:
            self.events_told += events
            if queue.is_live:
                reached = queue.items[0].offset if queue.items else self._told_offset
                queue.next_offset = max(queue.next_offset, reached)
            return queue.next_offset


def _size_bytes(change: Change) -> int:
    return CHANGE_BYTES + len(change.key) + len(change.record or b"") + len(change.previous or b"")
