"""All notes of a run, of topics and of their segments, looked up by what they are about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter

from topics_simulation.topic_notes import Gone, Part, Shape, TopicNotes, Written, name_in
from txn.model.header import TxnState
from txn.model.position import Position
from txn_histories.history import History, Message
from txn_histories.notes import Delivery, Sighting
from txn_histories.outcomes import Outcome, outcomes_of

Place = tuple[int, Position]
"""Where a message lies: the segments of a hash come one after another, in the order of their ids."""


@dataclass(frozen=True)
class Stored:
    """A message that is in a segment, as far as anybody knows."""

    written: Written
    part: Part
    message: Message

    @property
    def place(self) -> Place:
        assert self.message.position is not None, "what nobody has seen, nor was told of, has no place"
        return self.part.segment_id, self.message.position

    def __str__(self) -> str:
        key, number = self.written.key, self.written.number
        return f"{self.message} (key {key!r}, number {number} of {self.written.producer})"


@dataclass
class TopicHistory:
    """Everything that was noted in a run that began without any topic."""

    notes: TopicNotes
    segments: History = field(default_factory=History)
    groups: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """By the names of readers' sightings: the topic and the group that a checkpoint's reader belongs to."""

    @cached_property
    def outcomes(self) -> Mapping[str, Outcome]:
        """What became of transactions."""
        return outcomes_of(self.segments)

    @cached_property
    def shapes(self) -> Mapping[str, Sequence[Shape | Gone]]:
        """What became of each topic's layout, in the order of time."""
        found: dict[str, list[Shape | Gone]] = defaultdict(list)
        events: list[Shape | Gone] = [*self.notes.shapes, *self.notes.gone]
        for each in sorted(events, key=attrgetter("tick")):
            found[each.topic].append(each)
        return found

    @cached_property
    def parts(self) -> Mapping[str, tuple[str, Part]]:
        """All segments that ever were in a layout, by name, as they began."""
        return {part.name: (each.topic, part) for each in reversed(self.notes.shapes) for part in each.parts.values()}

    @cached_property
    def last(self) -> Mapping[str, Shape]:
        """How the topics are that are there in the end."""
        return {topic: each[-1] for topic, each in self.shapes.items() if isinstance(each[-1], Shape)}

    @cached_property
    def written(self) -> Mapping[str, Written]:
        """What somebody wanted to send, by name."""
        return {each.message: each for each in self.notes.written}

    @cached_property
    def stored(self) -> Mapping[str, Sequence[Stored]]:
        """The messages of each topic that are in a segment of it."""
        found: dict[str, list[Stored]] = defaultdict(list)
        for message in self.segments.messages.values():
            written, part = self.written.get(name_in(message.name)), self.parts.get(message.segment)
            if written is not None and part is not None and message.position is not None:
                found[written.topic].append(Stored(written, part[1], message))
        return found

    def is_aborted(self, written: Written) -> bool:
        """Whether its transaction was aborted."""
        return written.txn is not None and self.outcomes[written.txn].state is not TxnState.COMMITTED

    def ancestors(self, topic: str, segment_id: int) -> set[int]:
        """All segments that a segment comes from."""
        parents = {part.segment_id: part.parents for owner, part in self.parts.values() if owner == topic}
        found: set[int] = set()
        waiting = [segment_id]
        while waiting:
            new = set(parents.get(waiting.pop(), ())) - found
            found |= new
            waiting += new
        return found

    def deliveries(self, topic: str, subscription: str) -> Iterator[tuple[Sighting, Delivery]]:
        """What came to a subscription, or was read for a group."""
        for sighting in self.segments.sightings:
            if sighting.subscription is None:
                is_meant = self.groups.get(sighting.name) == (topic, subscription)
            else:
                owner, _ = self.parts.get(sighting.segment, ("", None))
                is_meant = (owner, sighting.subscription) == (topic, subscription)
            if is_meant:
                for delivery in sighting.deliveries:
                    yield sighting, delivery
