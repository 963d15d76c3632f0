"""Entries that have come and are not handed to the application yet. Pure.

An entry is taken apart when its turn has come, and not before: in batches, many more messages wait here than anybody
has asked for. What the application acknowledges leaves the inbox, too: a copy of it that was delivered again behind a
broken stream.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator

from controller.client.batches import unpack
from controller.client.values import Message, MessageId, position_of
from controller.pb import broker_pb2 as pb
from txn.model.position import Position


class _Entry:
    """An entry with its messages that are left."""

    def __init__(self, segment: str, delivery: pb.Delivery, size_bytes: int) -> None:
        self.position = position_of(delivery.position)
        self.size_bytes = size_bytes
        self._segment = segment
        self._delivery = delivery
        self._messages: list[Message] | None = None
        self._taken = 0

    def take(self, messages_max: int) -> list[Message]:
        """The next ones, up to so many."""
        messages = self._apart()[self._taken : self._taken + messages_max]
        self._taken += len(messages)
        return messages

    def begins_by(self, last: MessageId) -> bool:
        """Whether the next one is not behind that."""
        messages = self._apart()
        return self._taken < len(messages) and messages[self._taken].id <= last

    def drop(self, is_dropped: Callable[[Message], bool]) -> list[Message]:
        """Takes messages out: these."""
        left = self._apart()[self._taken :]
        self._messages, self._taken = [message for message in left if not is_dropped(message)], 0
        return [message for message in left if is_dropped(message)]

    @property
    def is_through(self) -> bool:
        """Whether nothing is left."""
        return self._messages is not None and self._taken == len(self._messages)

    def _apart(self) -> list[Message]:
        if self._messages is None:
            self._messages = unpack(self._segment, self._delivery)
        return self._messages


class Inbox:
    """Messages of a segment in the order in which they came."""

    def __init__(self, segment: str) -> None:
        self._segment = segment
        self._entries: deque[_Entry] = deque()
        self._positions: Counter[Position] = Counter()
        """Of the entries: what is shared may come once more while it still waits."""
        self._is_ascending = True
        """Whether no entry waits behind one that is farther on in the segment."""
        self.size_bytes = 0
        """Of all entries of which something is left, as they came."""

    def __len__(self) -> int:
        """How many entries there are."""
        return len(self._entries)

    def add(self, delivery: pb.Delivery, size_bytes: int) -> Position:
        """The last one to be handed out; where it was."""
        entry = _Entry(self._segment, delivery, size_bytes)
        self._is_ascending = not self._entries or (self._is_ascending and self._entries[-1].position <= entry.position)
        self._entries.append(entry)
        self._positions[entry.position] += 1
        self.size_bytes += size_bytes
        return entry.position

    def take(self, messages_max: int) -> list[Message]:
        """The next messages, up to so many."""
        taken: list[Message] = []
        while self._entries and len(taken) < messages_max:
            entry = self._entries[0]
            taken += entry.take(messages_max - len(taken))
            if entry.is_through:
                self._forget(self._entries.popleft())
        return taken

    def drop(self, ids: Collection[MessageId]) -> list[Message]:
        """Takes these messages out, as they came."""
        here = self._positions.keys() & {each.position for each in ids}
        return self._drop(self._at(here), lambda message: message.id in ids) if here else []

    def drop_through(self, last: MessageId) -> list[Message]:
        """Takes out everything up to a message, as it came."""
        concerned = (entry for entry in self._until(last.position) if entry.begins_by(last))
        return self._drop(concerned, lambda message: message.id <= last)

    def drop_entries(self, positions: Collection[Position]) -> None:
        """Takes these entries out."""
        here = self._positions.keys() & positions
        if here:
            self._drop(self._at(here), lambda _: True)

    def clear(self) -> None:
        """Takes out everything."""
        self._entries.clear()
        self._positions.clear()
        self.size_bytes = 0

    def _at(self, positions: Collection[Position]) -> Iterator[_Entry]:
        return (entry for entry in self._entries if entry.position in positions)

    def _until(self, position: Position) -> Iterator[_Entry]:
        for entry in self._entries:
            if entry.position <= position:
                yield entry
            elif self._is_ascending:
                return

    def _drop(self, entries: Iterable[_Entry], is_dropped: Callable[[Message], bool]) -> list[Message]:
        dropped = [message for entry in entries for message in entry.drop(is_dropped)]
        if dropped:
            for entry in self._entries:
                if entry.is_through:
                    self._forget(entry)
            self._entries = deque(entry for entry in self._entries if not entry.is_through)
        return dropped

    def _forget(self, entry: _Entry) -> None:
        self.size_bytes -= entry.size_bytes
        self._positions[entry.position] -= 1
        if not self._positions[entry.position]:
            del self._positions[entry.position]
