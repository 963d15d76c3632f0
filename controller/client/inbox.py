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

    __slots__ = ("messages", "position")

    def __init__(self, position: Position, messages: deque[Message]) -> None:
        self.position = position
        self.messages = messages


class Inbox:
    """Messages in the order in which they came."""

    def __init__(self) -> None:
        self._entries: deque[_Entry] = deque()

    def __len__(self) -> int:
        """How many entries there are."""
        return len(self._entries)

    def add(self, position: Position, messages: list[Message]) -> None:
        """The last ones to be handed out, unless there are none."""
        if messages:
            self._entries.append(_Entry(position, deque(messages)))

    def take(self) -> tuple[Message, bool] | None:
        """The next message, and whether it is the last one of its entry."""
        if not self._entries:
            return None
        entry = self._entries[0]
        message = entry.messages.popleft()
        if not entry.messages:
            self._entries.popleft()
        return message, not entry.messages

    def drop(self, is_dropped: Callable[[Message], bool]) -> tuple[set[Position], int]:
        """Takes messages out: where they were, and how many entries are gone as a whole."""
        positions = set()
        before = len(self._entries)
        for entry in self._entries:
            kept = deque(message for message in entry.messages if not is_dropped(message))
            if len(kept) < len(entry.messages):
                positions.add(entry.position)
                entry.messages = kept
        if positions:
            self._entries = deque(entry for entry in self._entries if entry.messages)
        return positions, before - len(self._entries)

    def clear(self) -> None:
        """Takes out everything."""
        self._entries.clear()
