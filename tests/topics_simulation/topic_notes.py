"""What is noted of topics, beside what is noted of their segments. Ticks are those of the segments' notes.

A message is sent to one segment after another until one takes it, each time with a payload of its own: `NAME@ID` is the
message NAME as it was sent to segment ID. So the notes of segments are those of `txn_histories`, and are judged there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

MARK = "@"


def payload(message: str, segment_id: int) -> str:
    """A message as it is sent to one segment."""
    assert MARK not in message, "names of messages are told from ids"
    return f"{message}{MARK}{segment_id}"


def name_in(text: str) -> str:
    """The message that was sent so."""
    return text.partition(MARK)[0]


class Reading(Enum):
    """How a subscription reads."""

    STREAM = "stream"
    QUEUE = "queue"
    CHECKPOINT = "checkpoint"

    @property
    def is_ordered(self) -> bool:
        """Whether each key's messages come in their order."""
        return self is not Reading.QUEUE


@dataclass(frozen=True, slots=True)
class Written:
    """A message that somebody wanted to send."""

    message: str
    topic: str
    key: str
    hash: int
    """Of the ring."""
    producer: str
    number: int
    """The producer's own."""
    txn: str | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """A segment, as a layout has it."""

    segment_id: int
    name: str
    start: int
    end: int
    is_active: bool
    parents: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Shape:
    """A layout, from the tick on at which it was committed."""

    tick: int
    topic: str
    epoch: int
    parts: Mapping[int, Part]

    @property
    def active(self) -> list[Part]:
        """The active segments by their ranges."""
        return sorted((each for each in self.parts.values() if each.is_active), key=lambda each: each.start)


@dataclass(frozen=True, slots=True)
class Gone:
    """A topic's record was removed."""

    tick: int
    topic: str


@dataclass(slots=True)
class Subscribed:
    """A subscription that begins with everything there is. Without the last tick it is there in the end."""

    topic: str
    name: str
    reading: Reading
    since: int
    """Whatever was sent after this tick is for it."""
    until: int | None = None
    """From this tick on it may be gone."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A delayed message came to a subscription that waits for its time."""

    message: str
    topic: str
    subscription: str
    due_ms: int
    shown_ms: int
    """By the clock of those who deliver."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """A producer was granted the exclusive right to produce; when it loses it, it does not get it again."""

    topic: str
    producer: str
    invoked: int
    granted: int


@dataclass(frozen=True, slots=True)
class Told:
    """What a member of a subscription was told to read, when everything was at rest; and who else is a member."""

    topic: str
    subscription: str
    member: str
    segments: Mapping[int, bool]
    """Whether the whole of it; else together with others."""


@dataclass(frozen=True, slots=True)
class Probe:
    """How long it took, after the last fault, until a range of a topic took a message."""

    topic: str
    hash: int
    after_ms: int | None
    """None: it was not to be had."""


@dataclass(slots=True)
class TopicRest:
    """What is so in the end."""

    told: list[Told] = field(default_factory=list)
    members: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)
    """Of subscriptions that are divided, the members who were there."""
    drained: dict[tuple[str, str], frozenset[int]] = field(default_factory=dict)
    """Of subscriptions, the segments that they have wholly acknowledged, by the owners of these."""
    probes: list[Probe] = field(default_factory=list)
    pruned_without: bool = False
    """Whether sealed segments go as soon as those with cursors need them no more: then checkpoints may miss some."""
    leftovers: list[str] = field(default_factory=list)
    """Keys that should be gone with their topics, or subscriptions."""


@dataclass
class TopicNotes:
    """All of a run."""

    written: list[Written] = field(default_factory=list)
    shapes: list[Shape] = field(default_factory=list)
    gone: list[Gone] = field(default_factory=list)
    subscribed: list[Subscribed] = field(default_factory=list)
    timed: list[Timed] = field(default_factory=list)
    claimed: list[Claimed] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    """What else has happened."""
    rest: TopicRest = field(default_factory=TopicRest)
