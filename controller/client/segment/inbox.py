"""Entries that have come and are not handed to the application yet, taken apart into messages. Pure.

What the application acknowledges leaves the inbox, too: a copy of it that was delivered again behind a broken stream.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from controller.client.values import Message
from txn.model.position import Position


class _Entry:
    """An entry with its messages that are left."""

    __slots__ = ("messages", "position", "size_bytes")

    def __init__(self, position: Position, messages: deque[Message], size_bytes: int) -> None:
        self.position = position
        self.messages = messages
        self.size_bytes = size_bytes


class Inbox:
    """Messages in the order in which they came."""

    def __init__(self) -> None:
        self._entries: deque[_Entry] = deque()
        self.size_bytes = 0
        """Of all entries of which something is left, as they came."""

    def __len__(self) -> int:
        """How many entries there are."""
        return len(self._entries)

    def add(self, position: Position, messages: list[Message], size_bytes: int) -> None:
        """The last ones to be handed out, unless there are none."""
        if messages:
            self._entries.append(_Entry(position, deque(messages), size_bytes))
            self.size_bytes += size_bytes

    def take(self) -> Message | None:
        """The next message."""
        if not self._entries:
            return None
        entry = self._entries[0]
        message = entry.messages.popleft()
        if not entry.messages:
            self._entries.popleft()
            self.size_bytes -= entry.size_bytes
        return message

    def drop(self, is_dropped: Callable[[Message], bool]) -> set[Position]:
        """Takes messages out: where they were."""
        positions = set()
        for entry in self._entries:
            kept = deque(message for message in entry.messages if not is_dropped(message))
            if len(kept) < len(entry.messages):
                positions.add(entry.position)
                entry.messages = kept
        if positions:
            self._entries = deque(entry for entry in self._entries if entry.messages)
            self.size_bytes = sum(entry.size_bytes for entry in self._entries)
        return positions

    def clear(self) -> None:
        """Takes out everything."""
        self._entries.clear()
        self.size_bytes = 0
