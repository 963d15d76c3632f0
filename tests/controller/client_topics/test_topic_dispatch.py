"""What may be sent when, under every order of events: a topic whose segments split, merge, refuse and answer at will.

The topic of the test is the other side: segments that store what comes until they are sealed, whose answers are on
their way for any time. Whatever happens, each message is stored once, those of one hash in the order in which they were
sent, ancestors before descendants, and the numbers of a segment only grow.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from controller.client.topics.producer.dispatch import Dispatch, Track
from controller.layout import Layout, segment_hash

HASHES = [each << 16 for each in (0x0000, 0x1FFF, 0x2000, 0x7FFF, 0x8000, 0xBFFF, 0xC000, 0xFFFF)]
SEGMENTS_MAX = 6


@dataclass(frozen=True)
class Sent:
    """A message."""

    sequence_id: int
    hash: int


class Dispatching(RuleBasedStateMachine):
    """A producer, and a topic that does what it likes."""

    @initialize(segments=st.integers(1, 3))
    def begin(self, segments: int) -> None:
        self.layout = Layout.initial(segments, 0)
        self.known = self.layout
        self.sealed: set[int] = set()
        self.stored: dict[int, list[Sent]] = {each: [] for each in self.layout.segments}
        self.on_their_way: dict[int, deque[Sent]] = {}
        """To segments, in the order in which they left."""
        self.answers: dict[int, deque[tuple[bool, Sent]]] = {}
        self.sent: list[Sent] = []
        self.dispatch: Dispatch[Sent] = Dispatch(self.layout.active)

    # -- the application

    @rule(hash=st.sampled_from(HASHES))
    def send(self, hash: int) -> None:
        message = Sent(len(self.sent), hash)
        self.sent.append(message)
        self.depart(self.dispatch.add(message))

    def depart(self, track: Track[Sent]) -> None:
        if self.dispatch.is_clear(track) and track.waiting:
            departed = self.dispatch.depart(track, len(track.waiting))
            self.on_their_way.setdefault(track.segment.segment_id, deque()).extend(departed)

    def depart_all(self) -> None:
        for track in list(self.dispatch.tracks.values()):
            self.depart(track)

    # -- the topic

    @precondition(lambda self: any(self.on_their_way.values()))
    @rule(data=st.data())
    def reach_a_segment(self, data: st.DataObject) -> None:
        self._reach(data.draw(st.sampled_from(sorted(each for each, some in self.on_their_way.items() if some))))

    @precondition(lambda self: any(self.answers.values()))
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        self._answer(data.draw(st.sampled_from(sorted(each for each, some in self.answers.items() if some))))

    @precondition(lambda self: len(self.layout.active) < SEGMENTS_MAX)
    @rule(data=st.data())
    def split(self, data: st.DataObject) -> None:
        parent = data.draw(st.sampled_from([each for each in self.layout.active if each.range.size > 1]))
        self.change(self.layout.split(parent.segment_id, 0), parent.segment_id)

    @precondition(lambda self: len(self.layout.active) > 1)
    @rule(data=st.data())
    def merge(self, data: st.DataObject) -> None:
        left, right = data.draw(st.sampled_from(self.layout.adjacent_pairs()))
        pair = (left.segment_id, right.segment_id)
        self.change(self.layout.merge(pair, 0), *pair)

    def change(self, layout: Layout, *parents: int) -> None:
        self.sealed.update(parents)
        self.layout = layout
        for segment_id in layout.segments:
            self.stored.setdefault(segment_id, [])

    @precondition(lambda self: self.known is not self.layout)
    @rule()
    def hear_of_the_layout(self) -> None:
        self.known = self.layout
        for track in self.dispatch.follow(self.layout.active):
            segment_id = track.segment.segment_id
            back = self.on_their_way.pop(segment_id, None)
            if back:
                self.dispatch.came_back(segment_id, list(back))
        self.depart_all()

    # -- what holds

    @invariant()
    def nothing_is_stored_twice_or_out_of_order(self) -> None:
        if not hasattr(self, "layout"):
            return
        for messages in self.stored.values():
            numbers = [each.sequence_id for each in messages]
            assert numbers == sorted(set(numbers)), "the numbers of a segment grow"
        for hash in HASHES:
            # A segment's descendants have greater ids: so this is the order in which the hash is read.
            read = [each for segment_id in sorted(self.stored) for each in self.stored[segment_id] if each.hash == hash]
            assert [each.sequence_id for each in read] == sorted({each.sequence_id for each in read})
        for segment_id, messages in self.stored.items():
            assert all(segment_hash(each.hash) in self.layout.segment(segment_id).range for each in messages)

    def teardown(self) -> None:
        """When all is answered, and the layout is known, everything is stored."""
        if not hasattr(self, "layout"):
            return
        if self.known is not self.layout:
            self.hear_of_the_layout()
        while any(self.on_their_way.values()) or any(self.answers.values()):
            for segment_id in [each for each, some in self.on_their_way.items() if some]:
                self._reach(segment_id)
            for segment_id in [each for each, some in self.answers.items() if some]:
                self._answer(segment_id)
        self.nothing_is_stored_twice_or_out_of_order()
        stored = sorted(each.sequence_id for messages in self.stored.values() for each in messages)
        assert stored == list(range(len(self.sent)))
        assert {each.segment_id for each in self.layout.active} == set(self.dispatch.tracks)

    def _reach(self, segment_id: int) -> None:
        message = self.on_their_way[segment_id].popleft()
        is_stored = segment_id not in self.sealed
        if is_stored:
            self.stored[segment_id].append(message)
        self.answers.setdefault(segment_id, deque()).append((is_stored, message))

    def _answer(self, segment_id: int) -> None:
        is_stored, message = self.answers[segment_id].popleft()
        if is_stored:
            self.dispatch.arrived(segment_id)
        else:
            if segment_id in self.dispatch.tracks:
                self.dispatch.block(segment_id)
            self.dispatch.came_back(segment_id, [message])
        self.depart_all()


TestDispatching = Dispatching.TestCase
TestDispatching.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
