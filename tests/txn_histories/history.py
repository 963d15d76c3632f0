"""All notes of a run, and the ways to look something up in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from txn.model.position import Position
from txn_histories.notes import (
    START,
    Acknowledging,
    Begun,
    Delivery,
    Ending,
    Fate,
    Looked,
    Nacked,
    Rest,
    Send,
    Sighting,
    Trimming,
)


@dataclass(repr=False)
class History:
    """Everything that was noted in a run that began with no segment having an entry."""

    begun: list[Begun] = field(default_factory=list)
    endings: list[Ending] = field(default_factory=list)
    looks: list[Looked] = field(default_factory=list)
    sends: list[Send] = field(default_factory=list)
    acks: list[Acknowledging] = field(default_factory=list)
    nacks: list[Nacked] = field(default_factory=list)
    sightings: list[Sighting] = field(default_factory=list)
    trimmings: list[Trimming] = field(default_factory=list)
    starts: dict[tuple[str, str], Position] = field(default_factory=dict)
    """Where subscriptions begin that do not begin with everything."""
    rest: Rest = field(default_factory=Rest)

    @cached_property
    def messages(self) -> Mapping[str, Message]:
        """What was sent, by payload."""
        attempts: dict[str, list[Send]] = defaultdict(list)
        for send in self.sends:
            attempts[send.message].append(send)
        seen: dict[str, dict[Position, Delivery]] = defaultdict(dict)
        for sighting in self.sightings:
            for delivery in sighting.deliveries:
                seen[delivery.message].setdefault(delivery.position, delivery)
        return {name: Message(name, sends, seen.get(name, {})) for name, sends in attempts.items()}

    @cached_property
    def visible(self) -> Mapping[str, Mapping[Position, str]]:
        """Of each segment what the final readings show together, in the order of positions."""
        shown: dict[str, dict[Position, str]] = defaultdict(dict)
        for sighting in self.sightings:
            if sighting.is_final and sighting.subscription is None:
                for delivery in sighting.deliveries:
                    shown[sighting.segment].setdefault(delivery.position, delivery.message)
        return {segment: dict(sorted(found.items())) for segment, found in shown.items()}

    @cached_property
    def counts(self) -> Mapping[tuple[str, Position], int]:
        """How many messages an entry has, wherever one was told of or seen."""
        return {
            (message.segment, position): message.sends[0].count
            for message in self.messages.values()
            for position in (*message.told, *message.seen)
        }

    @cached_property
    def read_to_the_end(self) -> frozenset[str]:
        """The segments that a final reader has read."""
        return frozenset(each.segment for each in self.sightings if each.is_final and each.subscription is None)

    def may_be_trimmed(self, segment: str, position: Position, tick: int) -> bool:
        """Whether an entry may have been given up by then."""
        return any(
            each.segment == segment and position < each.before and each.invoked < tick for each in self.trimmings
        )

    def is_kept(self, segment: str, position: Position) -> bool:
        """Whether an entry has to be there in the end."""
        return position >= self.rest.oldest.get(segment, START)


@dataclass(frozen=True)
class Message:
    """A message: all attempts to send it, and where it was seen."""

    name: str
    sends: Sequence[Send]
    seen: Mapping[Position, Delivery]

    @property
    def segment(self) -> str:
        return self.sends[0].segment

    @property
    def txn(self) -> str | None:
        return self.sends[0].txn

    @property
    def number(self) -> tuple[str, str, int]:
        """Segment, producer and its own number: what tells a resend."""
        return self.segment, self.sends[0].producer, self.sends[0].sequence_id

    @property
    def told(self) -> set[Position]:
        """Where its senders were told it is."""
        return {send.position for send in self.sends if send.position is not None}

    @property
    def position(self) -> Position | None:
        """Where it is, as far as anybody knows."""
        return next(iter([*self.told, *self.seen]), None)

    @property
    def placing(self) -> list[Send]:
        """The attempts of which one has placed it."""
        possible = [send for send in self.sends if send.fate is not Fate.REFUSED]
        return [send for send in possible if not send.is_duplicate] or possible

    @property
    def is_accepted(self) -> bool:
        return any(send.fate is Fate.DONE for send in self.sends)

    @property
    def answered(self) -> int | None:
        """When somebody was first told that it is there."""
        told = [send.returned for send in self.sends if send.fate is Fate.DONE and send.returned is not None]
        return min(told, default=None)

    @property
    def is_refused(self) -> bool:
        return all(send.fate is Fate.REFUSED for send in self.sends)

    def __str__(self) -> str:
        place = ", ".join(map(str, sorted({*self.told, *self.seen}))) or "nowhere"
        whose = "" if self.txn is None else f" of {self.txn}"
        return f"{self.name!r}{whose} at {place} of {self.segment}"
