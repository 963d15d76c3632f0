"""Histories of a topic made by hand: what was sent, what was delivered, how its layout changed."""

from __future__ import annotations

from topics_simulation.topic_checker import check_topics
from topics_simulation.topic_history import TopicHistory
from topics_simulation.topic_notes import (
    Claimed,
    Gone,
    Part,
    Probe,
    Reading,
    Shape,
    Subscribed,
    Timed,
    Told,
    TopicNotes,
    Written,
    payload,
)
from txn_histories.made import Story
from txn_histories.notes import Fate, Sighting
from txn_histories.violations import Findings

TOPIC = "topic://t/n/x"
LEFT, RIGHT = 0x1000, 0x9000
"""Hashes in the two halves of the ring."""


def part(
    segment_id: int, start: int = 0, end: int = 0xFFFF, *, active: bool = True, parents: tuple[int, ...] = ()
) -> Part:
    return Part(segment_id, f"{TOPIC}/{segment_id}", start, end, active, parents)


WHOLE = (part(0),)
SPLIT = (part(0, active=False), part(1, 0, 0x7FFF, parents=(0,)), part(2, 0x8000, 0xFFFF, parents=(0,)))


class TopicStory:
    """A topic with one segment, and a stream that consumes it from its beginning."""

    def __init__(self, *parts: Part, reading: Reading = Reading.STREAM) -> None:
        self.segments = Story()
        self.notes = TopicNotes()
        self.notes.subscribed.append(Subscribed(TOPIC, "sub", reading, 0))
        self._epoch = 0
        self._numbers: dict[str, int] = {}
        self._entries: dict[int, int] = {}
        self._consumers: dict[tuple[int, str], Sighting] = {}
        self.shape(*(parts or WHOLE))

    def shape(self, *parts: Part, epoch: int | None = None) -> None:
        """The layout is committed."""
        self._epoch = self._epoch + 1 if epoch is None else epoch
        found = {each.segment_id: each for each in parts}
        self.notes.shapes.append(Shape(self.segments.tick(), TOPIC, self._epoch, found))

    def split(self) -> None:
        """The only segment makes place for two."""
        self.shape(*SPLIT)

    def gone(self) -> None:
        self.notes.gone.append(Gone(self.segments.tick(), TOPIC))

    def send(
        self,
        message: str,
        segment_id: int = 0,
        *,
        hash: int = LEFT,
        key: str | None = None,
        producer: str = "p",
        number: int | None = None,
        txn: str | None = None,
        fate: Fate = Fate.DONE,
    ) -> None:
        """An attempt. What is not refused takes the next place of its segment."""
        if all(each.message != message for each in self.notes.written):
            if number is None:
                number = self._numbers[producer] = self._numbers.get(producer, 0) + 1
            text = f"key-{hash}" if key is None else key
            self.notes.written.append(Written(message, TOPIC, text, hash, producer, number, txn))
        written = next(each for each in self.notes.written if each.message == message)
        entry = None if fate is Fate.REFUSED else self._entries.get(segment_id, 0)
        self._entries[segment_id] = self._entries.get(segment_id, 0) + (entry is not None)
        self.segments.send(
            payload(message, segment_id),
            entry,
            segment=f"{TOPIC}/{segment_id}",
            producer=producer,
            number=written.number,
            txn=txn,
            fate=fate,
        )

    def deliver(self, message: str, segment_id: int = 0, subscription: str = "sub", *, is_shared: bool = False) -> None:
        """It comes to the one consumer of the segment."""
        where = (segment_id, subscription)
        if where not in self._consumers:
            name = f"{TOPIC}/{segment_id}"
            self._consumers[where] = self.segments.open(subscription, segment=name, is_shared=is_shared)
        self.segments.show(self._consumers[where], payload(message, segment_id))

    def probe(self, after_ms: int | None) -> None:
        self.notes.rest.probes.append(Probe(TOPIC, LEFT, after_ms))

    def claim(self, producer: str) -> None:
        """Somebody is granted the exclusive right to produce."""
        self.notes.claimed.append(Claimed(TOPIC, producer, self.segments.tick(), self.segments.tick()))

    def timed(self, message: str, due_ms: int, shown_ms: int) -> None:
        """A delayed message comes at that time."""
        self.notes.timed.append(Timed(message, TOPIC, "sub", due_ms, shown_ms))

    def told(self, drained: set[int], **members: dict[int, bool]) -> None:
        """In the end the members have these segments, as a whole or not."""
        self.notes.rest.members[TOPIC, "sub"] = frozenset(members)
        self.notes.rest.drained[TOPIC, "sub"] = frozenset(drained)
        self.notes.rest.told += [Told(TOPIC, "sub", name, segments) for name, segments in members.items()]

    def end(self, *left_out: int) -> TopicStory:
        """Everything is read once more, but for segments that are left out."""
        history = TopicHistory(self.notes, self.segments.history)
        last = history.last.get(TOPIC)
        for segment_id in () if last is None else last.parts.keys() - set(left_out):
            name = f"{TOPIC}/{segment_id}"
            messages = [
                (each.position, each.message)
                for each in self.segments.history.sends
                if each.segment == name and each.position is not None and not self._is_aborted(each.txn)
            ]
            self.segments.end_with(name, [message for _, message in sorted(messages)])
        return self

    def _is_aborted(self, txn: str | None) -> bool:
        return any(each.txn == txn and each.wanted.value == "ABORTED" for each in self.segments.history.endings)

    def findings(self) -> Findings:
        return check_topics(TopicHistory(self.notes, self.segments.history))

    def lies(self) -> set[object]:
        return {*self.findings().lies}
