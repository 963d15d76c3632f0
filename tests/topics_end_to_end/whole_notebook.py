"""What is noted in a run, in the form that the judges of simulations read.

A client does not say which segment it tries: a message has one attempt for each segment in which anybody met it. Of the
messages of a batch each has a position of its own: the entry's, times STRIDE, and its place.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from controller.client import MessageId, TopicMessageId, TopicSent
from controller.layout import key_hash, segment_hash
from topics_simulation.topic_history import TopicHistory
from topics_simulation.topic_notes import Claimed, Reading, Subscribed, Timed, TopicNotes, Written, payload
from txn.model.header import TxnState
from txn.model.position import Position
from txn.segment.bell import Bell
from txn_histories.history import History
from txn_histories.notes import Acknowledging, AckOf, Begun, Delivery, Ending, Fate, Looked, Nacked, Send, Sighting

STRIDE = 1_024
"""More than a batch has messages."""

Line = tuple[str, str]
"""A subscription: the topic, and its name."""


def place_of(id: MessageId | TopicMessageId) -> Position:
    """Where a message is."""
    assert id.batch_index < STRIDE, "each has a position of its own"
    return Position(id.position.ledger, id.position.entry * STRIDE + id.batch_index)


def note_no_more() -> int:
    """Where a notebook at rest has its ticks."""
    raise AssertionError("these notes are of a run that is over")


@dataclass
class Attempt:
    """A message was sent."""

    written: Written
    invoked: int
    returned: int | None = None
    fate: Fate = Fate.UNKNOWN
    sent: TopicSent | None = None


@dataclass
class AckCall:
    """Something is being acknowledged."""

    segment: str
    subscription: str
    topic: str
    units: Mapping[Position, str]
    txn: str | None
    invoked: int
    returned: int | None = None
    fate: Fate = Fate.UNKNOWN
    is_too_late: bool = False


@dataclass
class Notebook:
    """All of a run."""

    topics: TopicNotes = field(default_factory=TopicNotes)
    history: History = field(default_factory=History)
    groups: dict[str, Line] = field(default_factory=dict)
    accepted: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """By topic: the messages that are there for certain."""
    settled: defaultdict[Line, set[str]] = field(default_factory=lambda: defaultdict(set))
    """By subscription: those that are done with for certain."""
    confirmed: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    news: Bell = field(default_factory=Bell)
    tick: Callable[[], int] = field(default_factory=lambda: itertools.count(1).__next__)
    _attempts: list[Attempt] = field(default_factory=list)
    _calls: list[AckCall] = field(default_factory=list)
    _sightings: dict[Hashable, Sighting] = field(default_factory=dict)
    _doubted: defaultdict[Line, set[str]] = field(default_factory=lambda: defaultdict(set))
    """By subscription: those whose acknowledgement failed."""
    _topics: dict[str, str] = field(default_factory=dict)
    """Of segments."""
    _met: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """By message: the segments in which somebody met it."""
    _due_ms: dict[str, int] = field(default_factory=dict)
    """Of delayed messages: their time."""
    _next_number: Callable[[], int] = field(default_factory=lambda: itertools.count(1).__next__)

    # -- sending

    def want(
        self, topic: str, key: str, hash: int, producer: str, number: int, txn: str | None = None, due_ms: int = 0
    ) -> Written:
        """Somebody is about to send a message; queues are not to have it before that time."""
        name = f"m{self._next_number()}"
        if due_ms:
            self._due_ms[name] = due_ms
        written = Written(name, topic, key, hash, producer, number, txn)
        self.topics.written.append(written)
        return written

    def want_keyed(
        self, topic: str, key: str, producer: str, number: int, txn: str | None = None, due_ms: int = 0
    ) -> Written:
        """The same of a message with a key."""
        return self.want(topic, key, segment_hash(key_hash(key)), producer, number, txn, due_ms)

    def attempt(self, written: Written) -> Attempt:
        """It is sent."""
        attempt = Attempt(written, self.tick())
        self._attempts.append(attempt)
        return attempt

    def sent(self, attempt: Attempt, sent: TopicSent) -> None:
        """It is there."""
        attempt.fate, attempt.sent, attempt.returned = Fate.DONE, sent, self.tick()
        self.confirmed += 1
        if attempt.written.txn is None:
            self.accepted[attempt.written.topic].add(attempt.written.message)
        self.news.ring()

    def claimed(self, topic: str, producer: str, invoked: int) -> None:
        """A producer has the exclusive right to produce, which it had asked for at that tick."""
        self.topics.claimed.append(Claimed(topic, producer, invoked, self.tick()))
        self.news.ring()

    # -- receiving

    def show(
        self,
        source: Hashable,
        segment: str,
        id: MessageId,
        name: str,
        *,
        topic: str,
        subscription: str | None,
        group: Line | None = None,
        since: int | None = None,
        start: Position | None = None,
        is_shared: bool = False,
        is_final: bool = False,
        shown_ms: int | None = None,
    ) -> Position:
        """A message came to somebody. `source` is one for all that comes to him of a segment in one go.

        With the time if it is somebody to whom a delayed message is not to come before its own.
        """
        tick, at = self.tick(), place_of(id)
        if shown_ms is not None and subscription is not None and name in self._due_ms:
            self.topics.timed.append(Timed(name, topic, subscription, self._due_ms[name], shown_ms))
        self._topics[segment] = topic
        self._met[name].add(segment)
        found = self._sightings.get(source)
        if found is None:
            found = self._sightings[source] = Sighting(
                f"sighting-{len(self._sightings)}",
                segment,
                subscription,
                tick,
                start or Position(0, 0),
                None,
                is_shared,
                is_final,
            )
            self.history.sightings.append(found)
            if group is not None:
                self.groups[found.name] = group
        segment_id = int(segment.rpartition("-")[2])
        found.deliveries.append(Delivery(at, payload(name, segment_id), since or tick, tick))
        self.counts["received"] += 1
        return at

    def look(self, source: Hashable, segment: str) -> None:
        """Somebody reads a segment to its end; it may be empty."""
        if source not in self._sightings:
            found = Sighting(f"sighting-{len(self._sightings)}", segment, None, self.tick(), is_final=True)
            self._sightings[source] = found
            self.history.sightings.append(found)

    def give_back(self, segment: str, subscription: str, positions: Iterable[Position]) -> None:
        """A consumer does not want them now."""
        self.history.nacks.append(Nacked(segment, subscription, tuple(positions), self.tick()))

    # -- acknowledging

    def acknowledge(
        self, topic: str, segment: str, subscription: str, units: Mapping[Position, str], txn: str | None = None
    ) -> AckCall:
        """Somebody is about to acknowledge some messages."""
        call = AckCall(segment, subscription, topic, dict(units), txn, self.tick())
        self._calls.append(call)
        return call

    def acknowledged(self, calls: Iterable[AckCall]) -> None:
        """That is done; in a transaction, when that commits."""
        for call in calls:
            call.fate, call.returned = Fate.DONE, self.tick()
            if call.txn is None:
                self.settle((call.topic, call.subscription), call.units.values())

    def doubted(self, calls: Iterable[AckCall]) -> None:
        """That may be done, or not; if it is not, they come again."""
        for call in calls:
            self._doubted[call.topic, call.subscription].update(call.units.values())
        self.news.ring()

    def settle(self, line: Line, names: Iterable[str]) -> None:
        """A subscription is done with these."""
        self.settled[line].update(names)
        self.news.ring()

    def forget_acks(self, line: Line) -> None:
        """The subscription was put to the beginning: nothing is acknowledged any more."""
        self._calls = [call for call in self._calls if (call.topic, call.subscription) != line]
        if not self.topics.rest.pruned_without:  # else some of it is gone
            self.settled[line].clear()
            self._doubted[line].clear()

    # -- transactions

    def began(self, txn: str) -> None:
        """There is a transaction."""
        self.history.begun.append(Begun(txn, self.tick()))

    def ended(self, txn: str, wanted: TxnState, invoked: int, outcome: TxnState | None) -> None:
        """Somebody asked for its end; what he was told."""
        returned = None if outcome is None else self.tick()
        self.history.endings.append(Ending(txn, wanted, invoked, returned, outcome))
        if outcome is TxnState.COMMITTED:
            self._commit(txn)
        self.counts[f"transactions {'unknown' if outcome is None else outcome.value.lower()}"] += 1

    def looked(self, txn: str, state: TxnState, invoked: int) -> None:
        """What became of it."""
        self.history.looks.append(Looked(txn, state, invoked, self.tick()))
        if state is TxnState.COMMITTED:
            self._commit(txn)

    def _commit(self, txn: str) -> None:
        for attempt in self._attempts:
            if attempt.written.txn == txn:
                self.accepted[attempt.written.topic].add(attempt.written.message)
        for call in self._calls:
            if call.txn == txn:
                self.settle((call.topic, call.subscription), call.units.values())
        self.news.ring()

    # -- subscriptions

    def subscribed(self, topic: str, name: str, reading: Reading) -> None:
        """There is a subscription, which begins with everything there is."""
        self.topics.subscribed.append(Subscribed(topic, name, reading, 0))

    def missing(self, line: Line) -> set[str]:
        """What a subscription is certainly not done with."""
        return self.accepted[line[0]] - self.settled[line] - self._doubted[line]

    def trail(self, line: Line, name: str) -> str:
        """All that is noted of a message and a subscription, for whoever wants to know why it is missing."""
        topic, subscription = line
        shown = [
            f"{sighting.name} of {sighting.segment} was shown {delivery}"
            for sighting in self.history.sightings
            if sighting.subscription == subscription and self._topics.get(sighting.segment) == topic
            for delivery in sighting.deliveries
            if delivery.message.partition("@")[0] == name
        ]
        of_line = [each for each in self._calls if (each.topic, each.subscription) == line]
        calls = [each for each in of_line if name in each.units.values()]
        of_calls = {each.txn for each in calls}
        ends = [each for each in self.history.endings if each.txn in of_calls]
        looks = [each for each in self.history.looks if each.txn in of_calls]
        return "\n  ".join([f"{name}, {line}:", *shown, *map(str, calls), *map(str, ends), *map(str, looks)])

    def may_be_settled(self, line: Line, names: Iterable[str]) -> None:
        """Somebody else has acknowledged these, or not."""
        topic, subscription = line
        for name in names:
            for segment in self._met[name]:
                if self._topics[segment] == topic:
                    at = self._position(name, segment)
                    self._calls.append(AckCall(segment, subscription, topic, {at: name}, None, 0))

    def _position(self, name: str, segment: str) -> Position:
        wanted = payload(name, int(segment.rpartition("-")[2]))
        return next(
            delivery.position
            for sighting in self._sightings.values()
            if sighting.segment == segment
            for delivery in sighting.deliveries
            if delivery.message == wanted
        )

    # -- the end

    def judged(self) -> TopicHistory:
        """All of it, to be judged."""
        whole = TopicHistory(self.topics, self.history, self.groups)
        self.history.acks = [
            Acknowledging(
                call.segment,
                call.subscription,
                tuple(AckOf(at) for at in call.units),
                call.txn,
                call.invoked,
                call.returned,
                call.fate,
                call.is_too_late,
            )
            for call in self._calls
        ]
        by_id = {(topic, part.segment_id): part.name for topic, part in whole.parts.values()}
        for attempt in self._attempts:
            self.history.sends += self._sends(attempt, by_id)
        return whole

    def at_rest(self) -> Notebook:
        """What can be stored of it, and judged another time; nothing more is noted in that."""
        return replace(
            self,
            history=replace(self.history, sends=[], acks=[]),  # these are made when it is judged
            news=Bell(),
            tick=note_no_more,
            _next_number=note_no_more,
            _sightings=dict(enumerate(self._sightings.values())),
        )

    def _sends(self, attempt: Attempt, by_id: Mapping[tuple[str, int], str]) -> Iterable[Send]:
        """One for each segment in which the message is; the one that was told of, if none is known."""
        written, id = attempt.written, attempt.sent.id if attempt.sent is not None else None
        met = {each for each in self._met[written.message] if self._topics[each] == written.topic}
        told = None if id is None else by_id[written.topic, id.segment_id]
        nowhere = by_id[written.topic, 0] if attempt.fate is Fate.DONE and id is None and not met else None
        for segment in sorted({*met, *filter(None, [told, nowhere])}):
            is_told = segment == told or id is None
            yield Send(
                payload(written.message, int(segment.rpartition("-")[2])),
                segment,
                written.producer,
                written.number,
                written.txn,
                attempt.invoked,
                attempt.returned if is_told else None,
                attempt.fate if is_told else Fate.UNKNOWN,
                place_of(id) if id is not None and segment == told else None,
                bool(attempt.sent and attempt.sent.is_duplicate),
            )
