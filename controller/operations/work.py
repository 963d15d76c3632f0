"""What a topic's leader asks of the owners of segments. All of it may be asked again, and is done once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from enum import Enum
from typing import Protocol

from controller.layout import Segment, TopicName
from controller.together import together

WORK_AT_ONCE_MAX = 16
"""Segments whose owners are asked at the same time."""


class Start(Enum):
    """Where the cursor of a new subscription begins."""

    EARLIEST = "earliest"
    LATEST = "latest"


class Bound(Enum):
    """Where a cursor is set, beside a time."""

    BEGINNING = "beginning"
    END = "end"


class OwnedWork(Protocol):
    """The owner of segments. What cannot be done at the moment raises TxnRetriable."""

    async def create(self, segment: str, subscriptions: Collection[str]) -> None:
        """There is such a segment afterwards, with these cursors at its beginning, and somebody owns it."""

    async def seal(self, segment: str) -> None:
        """It takes no more entries."""

    async def subscribe(self, segment: str, subscription: str, start: Start) -> None:
        """It has such a cursor afterwards; one that is there stays where it is."""

    async def unsubscribe(self, segment: str, subscription: str) -> None:
        """It has no such cursor afterwards."""

    async def seek(self, segment: str, subscription: str, to: int | Bound) -> None:
        """Sets a cursor to a time in milliseconds, or to an end. Nothing if there is no such segment or cursor."""

    async def set_claim(self, segment: str, claim: int, is_released: bool) -> None:
        """It has heard of this claim to produce; nothing if there is no such segment."""

    async def backlog(self, segment: str, subscription: str) -> int | None:
        """Entries that are not acknowledged; None if there is no such segment or cursor."""

    async def backlogs(self, segment: str) -> Mapping[str, int]:
        """The same of all its cursors, by subscription; nothing if there is no such segment."""


class SegmentWork(OwnedWork, Protocol):
    """The owners of all segments, wherever they are."""

    async def delete(self, segment: str) -> None:
        """It is on its way out, never to come back; nothing if there is none."""


async def each_of(names: Sequence[str], work: Callable[[str], Awaitable[None]]) -> None:
    """Asks for all of these segments, some at a time."""

    async def ask(name: str) -> None:
        await work(name)

    for start in range(0, len(names), WORK_AT_ONCE_MAX):
        await together(*(ask(name) for name in names[start : start + WORK_AT_ONCE_MAX]))


def has_cursors(kind: str) -> bool:
    """Whether a kind of subscription has cursors: of checkpoints the positions are kept by the application."""
    return kind != "CHECKPOINT"


def data_name(topic: TopicName, segment: Segment) -> str:
    """The name of a segment's data: its own, or that of the topic of the old kind that it stands for."""
    return segment.legacy_topic or str(topic.segment(segment.range, segment.segment_id))
