"""Messages for tests of what consumers decide by themselves."""

from __future__ import annotations

from controller.client import Message, MessageId, Position


def message(entry: int, index: int = 0, size: int = 1, redeliveries: int = 0) -> Message:
    """Message `index` of an entry of so many."""
    place = MessageId(Position(1, entry), index)
    return Message(
        b"content", place, "segment://public/default/t/0000-ffff-0", redeliveries=redeliveries, batch_size=size
    )
