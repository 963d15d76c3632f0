"""What a topic's leader asks of the owners of segments. All of it may be asked again, and is done once."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import Protocol

from controller.layout import Segment, TopicName


class Start(Enum):
    """Where the cursor of a new subscription begins."""

    EARLIEST = "earliest"
    LATEST = "latest"


class Bound(Enum):
    """Where a cursor is set, beside a time."""

    BEGINNING = "beginning"
    END = "end"


class SegmentWork(Protocol):
    """The owners of segments, wherever they are. What cannot be done at the moment raises TxnRetriable."""

    async def create(self, segment: str, subscriptions: Collection[str]) -> None:
        """There is such a segment afterwards, with these cursors at its beginning, and somebody owns it."""

    async def seal(self, segment: str) -> None:
        """It takes no more entries."""

    async def delete(self, segment: str) -> None:
        """It is on its way out, never to come back; nothing if there is none."""

    async def subscribe(self, segment: str, subscription: str, start: Start) -> None:
        """It has such a cursor afterwards; one that is there stays where it is."""

    async def unsubscribe(self, segment: str, subscription: str) -> None:
        """It has no such cursor afterwards."""

    async def seek(self, segment: str, subscription: str, to: int | Bound) -> None:
        """Sets a cursor to a time in milliseconds, or to an end. Nothing if there is no such segment or cursor."""

    async def backlog(self, segment: str, subscription: str) -> int | None:
        """Entries that are not acknowledged; None if there is no such segment or cursor."""


def has_cursors(kind: str) -> bool:
    """Whether a kind of subscription has cursors: of checkpoints the positions are kept by the application."""
    return kind != "CHECKPOINT"


def data_name(topic: TopicName, segment: Segment) -> str:
    """The name of a segment's data: its own, or that of the topic of the old kind that it stands for."""
    return segment.legacy_topic or str(topic.segment(segment.range, segment.segment_id))
