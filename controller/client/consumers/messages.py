"""Messages as consumers of topics hand them out.

They are values, and nobody changes them. They are not frozen: making one that is costs four times as much.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from controller.client.consumers.progress import Reached, reached_with
from controller.client.topics.ids import TopicMessageId
from controller.client.values import Message, MessageId
from txn.model.ids import TxnId


class Origin(Protocol):
    """A segment as it was read."""

    @property
    def segment(self) -> str:
        """Its name."""


@dataclass(slots=True)
class TopicMessage:
    """A message that was received from a topic."""

    topic: str
    segment_id: int
    in_segment: Message
    """As its segment has it."""

    @property
    def id(self) -> TopicMessageId:
        """Where it is."""
        return TopicMessageId(self.segment_id, self.in_segment.id.position, self.in_segment.id.batch_index)

    @property
    def payload(self) -> bytes:
        return self.in_segment.payload

    @property
    def key(self) -> str | None:
        """By which it was routed and is kept in order."""
        return self.in_segment.key

    @property
    def properties(self) -> Mapping[str, str]:
        return self.in_segment.properties

    @property
    def event_ms(self) -> int:
        """The application's own time; 0: none."""
        return self.in_segment.event_ms

    @property
    def published_ms(self) -> int:
        return self.in_segment.published_ms

    @property
    def producer(self) -> str:
        return self.in_segment.producer

    @property
    def sequence_id(self) -> int:
        """The producer's own number of the message, in the topic."""
        return self.in_segment.sequence_id

    @property
    def txn_id(self) -> TxnId | None:
        """The transaction in which it was written."""
        return self.in_segment.txn_id

    @property
    def redeliveries(self) -> int:
        """How often it may have been delivered before."""
        return self.in_segment.redeliveries

    @property
    def damage(self) -> str:
        """Why its entry cannot be taken apart: then the payload is all of the entry's, as it came."""
        return self.in_segment.damage


@dataclass(slots=True)
class StreamMessage(TopicMessage):
    """A message of a stream consumer: with how far every segment had been handed out when it was received."""

    origin: Origin = field(repr=False, compare=False, hash=False)
    turn: int = field(repr=False, compare=False, hash=False)
    reached_before: Mapping[Origin, Reached] = field(repr=False, compare=False, hash=False)
    """When the first message was received of those that came from there together."""

    @property
    def reached(self) -> Mapping[Origin, Reached]:
        """How far every segment had been handed out."""
        return {**self.reached_before, self.origin: reached_with(self.in_segment, self.turn)}

    @property
    def vector(self) -> Mapping[str, MessageId]:
        """By the names of segments: the last message of each that had been received, this one among them."""
        return {origin.segment: reached.message.id for origin, reached in self.reached.items()}


@dataclass(slots=True, eq=False)
class QueueMessage(TopicMessage):
    """A message of a queue consumer, which is acknowledged by itself."""

    source: object = field(repr=False)
    """Where it is acknowledged."""
