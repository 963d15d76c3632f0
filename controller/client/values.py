"""What goes in and comes out of a client: messages, where they are, and where to begin."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from controller.client.errors import InvalidRequest
from controller.pb import broker_pb2 as pb
from txn.model.errors import TxnError
from txn.model.ids import TxnId
from txn.model.position import Position

_ID = re.compile(r"([0-9]+:[0-9]+)(?:/(0|[1-9][0-9]{0,5}))?")


class Edge(Enum):
    """The ends of a segment."""

    EARLIEST = "earliest"
    """Before the oldest message that is kept."""
    LATEST = "latest"
    """Behind everything that has been written so far."""


EARLIEST = Edge.EARLIEST
LATEST = Edge.LATEST


class SubscriptionKind(Enum):
    """How the consumers of a subscription share it."""

    EXCLUSIVE = "exclusive"
    """One consumer at a time; a second one is refused."""
    SHARED = "shared"
    """Messages are spread over all consumers; their order is not kept."""
    FAILOVER = "failover"
    """One consumer at a time gets everything; when it goes, the next one."""
    KEY_SHARED = "key_shared"
    """Each key's messages go to one of the consumers, in their order."""


class MessageId(NamedTuple):
    """Where a message is in its segment: the entry, and its place there if the entry is a batch."""

    position: Position
    batch_index: int = 0

    def __str__(self) -> str:
        return f"{self.position}/{self.batch_index}" if self.batch_index else str(self.position)

    @classmethod
    def parse(cls, text: str) -> MessageId:
        """Reads the form that `str` writes."""
        match = _ID.fullmatch(text)
        if match is None:
            raise InvalidRequest(f"{text[:80]!r} is no message id: LEDGER:ENTRY or LEDGER:ENTRY/INDEX is expected")
        try:
            return cls(Position.parse(match[1]), int(match[2] or 0))
        except TxnError as error:
            raise InvalidRequest(str(error)) from None


class Part(NamedTuple):
    """What of an entry somebody was given who cannot take it apart."""

    messages: int
    """How many the entry has."""
    indexes: tuple[int, ...]
    """Which of them."""


class Message(NamedTuple):
    """A message that was received."""

    payload: bytes
    id: MessageId
    segment: str
    properties: Mapping[str, str] = MappingProxyType({})
    producer: str = ""
    sequence_id: int = 0
    """The producer's own number of the message."""
    published_ms: int = 0
    txn_id: TxnId | None = None
    """The transaction in which it was written."""
    redeliveries: int = 0
    """How often it may have been delivered before."""
    batch_size: int = 1
    """How many messages its entry has."""
    key: str | None = None
    """What it is routed and kept in order by."""
    event_ms: int = 0
    """The application's own time; 0: none."""
    deliver_at_ms: int = 0
    """Before when it was not to be delivered; 0: at once."""
    damage: str = ""
    """Why its entry cannot be taken apart: then the payload is all of the entry's, as it came."""
    era: int = 0
    """Of the subscription that gave it, at the time: an acknowledgement of all before it says so."""
    part: Part | None = None
    """Of an entry that cannot be taken apart and has several messages: those that this stands for."""

    @property
    def received(self) -> Received:
        """It, without its content."""
        return Received(self.segment, self.id, self.batch_size, self.era, self.part)


class Received(NamedTuple):
    """A message that was received, without its content: what is needed to acknowledge it."""

    segment: str
    id: MessageId
    batch_size: int
    era: int = 0
    part: Part | None = None


class GivenBack(NamedTuple):
    """A message that is to be delivered again, and by which delivery it came."""

    id: MessageId
    redeliveries: int
    part: Part | None = None

    @classmethod
    def of(cls, message: Message) -> GivenBack:
        """A message as it came."""
        return cls(message.id, message.redeliveries, message.part)

    @property
    def batch(self) -> tuple[int, ...]:
        """Which messages of its entry it stands for."""
        return (self.id.batch_index,) if self.part is None else self.part.indexes


class Sent(NamedTuple):
    """What became of a message that was sent."""

    sequence_id: int
    id: MessageId | None
    """Where it is, durably. None for a duplicate of one that was stored so long ago that nobody knows where."""
    is_duplicate: bool = False
    """It had been stored before."""


Start: TypeAlias = Edge | Position | MessageId | Message
"""Where to begin: at an end, or right before an entry."""


def bound_of(start: Start) -> pb.Bound:
    """A start as it goes over the wire."""
    if isinstance(start, Edge):
        return pb.Bound(edge=pb.EARLIEST if start is EARLIEST else pb.LATEST)
    if isinstance(start, Message):
        start = start.id
    if isinstance(start, MessageId):
        start = start.position
    if not isinstance(start, Position):
        raise InvalidRequest(f"{start!r} is no place to begin: EARLIEST, LATEST, a position or a message is expected")
    return pb.Bound(position=pb.Position(ledger=start.ledger, entry=start.entry))


def checked_most(messages_max: int) -> None:
    """InvalidRequest if that is no number of messages to ask for."""
    if messages_max < 1:
        raise InvalidRequest(f"{messages_max} messages at most: at least 1 is expected")


def position_of(position: pb.Position) -> Position:
    """A position that came over the wire."""
    return Position(position.ledger, position.entry)
