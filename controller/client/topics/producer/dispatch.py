"""Which segment each message goes to, and what may be sent when. Pure: it is told what happens, and says what may go.

Every segment has a *track*. A message stands on the track that its hash leads to, in the order of numbers; when the
track is clear the message *departs*, and until it has arrived or come back it is under way there.

    add, depart      a new message takes its place; what is on clear tracks leaves
    arrived          a message has its outcome: it is stored, or failed for good
    came_back        a message was not stored, and is not on its way any more: it stands on its track again
    block, unblock   the segment takes no more; nothing departs until there are successors, or it takes messages again
    follow           the active segments are others now: tracks of those that are not among them are abandoned

The order of a key is kept by two rules. From an abandoned track messages are moved to its successors when nothing is
under way on it, all at once, in front of whatever is newer there. And a track is clear only while nothing is under way
on an abandoned one of which it has a part: so nothing overtakes what may still be stored in a parent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from heapq import merge
from operator import attrgetter
from typing import Generic, Protocol, TypeVar

from controller.layout import Router, Segment


class Routed(Protocol):
    """A message, as far as it matters here."""

    @property
    def sequence_id(self) -> int:
        """Its number in the topic: its place in the order."""

    @property
    def hash(self) -> int:
        """Of its key, 32 bits."""


M = TypeVar("M", bound=Routed)

_number = attrgetter("sequence_id")


class Track(Generic[M]):
    """The messages of one segment."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.waiting: deque[M] = deque()
        """In the order of their numbers."""
        self.under_way = 0
        """Messages that have departed, and neither arrived nor come back."""
        self.is_blocked = False
        """Whether the segment takes no more."""
        self.is_abandoned = False
        """Whether there are other segments in its place."""

    def put(self, messages: Iterable[M]) -> None:
        """Messages take their places."""
        self.waiting = deque(merge(self.waiting, messages, key=_number))


class Dispatch(Generic[M]):
    """The tracks of one topic."""

    def __init__(self, active: Sequence[Segment]) -> None:
        self.tracks: dict[int, Track[M]] = {}
        """By segment; abandoned ones until they are empty."""
        self._abandoned: dict[int, Track[M]] = {}
        self._router = Router(active)
        for segment in active:
            self.tracks[segment.segment_id] = Track(segment)

    @property
    def router(self) -> Router:
        """Of the active segments."""
        return self._router

    def segment_of(self, hash: int) -> Segment:
        """The active segment that a hash leads to."""
        return self._router.by_hash(hash)

    # -- what happens

    def add(self, message: M) -> Track[M]:
        """The newest message; its track."""
        track = self.tracks[self.segment_of(message.hash).segment_id]
        assert not track.waiting or track.waiting[-1].sequence_id < message.sequence_id, "numbers grow"
        track.waiting.append(message)
        return track

    def arrived(self, segment_id: int, count: int = 1) -> None:
        """So many messages have their outcomes."""
        track = self.tracks[segment_id]
        assert 0 < count <= track.under_way, "only what has departed arrives"
        track.under_way -= count
        self._move_on(track)

    def came_back(self, segment_id: int, messages: Sequence[M]) -> None:
        """These were not stored, in the order of their numbers."""
        track = self.tracks[segment_id]
        assert len(messages) <= track.under_way, "only what has departed comes back"
        track.under_way -= len(messages)
        track.put(messages)
        self._move_on(track)

    def block(self, segment_id: int) -> None:
        """The segment takes no more."""
        self.tracks[segment_id].is_blocked = True

    def unblock(self, segment_id: int) -> None:
        """It takes messages again."""
        self.tracks[segment_id].is_blocked = False

    def follow(self, active: Sequence[Segment]) -> list[Track[M]]:
        """Other segments are active; the tracks that are abandoned by that, before anything is moved from them."""
        turn = self._router.turn
        self._router = Router(active, turn)
        kept = {segment.segment_id for segment in active}
        abandoned = [track for id, track in self.tracks.items() if id not in kept and not track.is_abandoned]
        for track in abandoned:
            track.is_abandoned = True
            self._abandoned[track.segment.segment_id] = track
        for segment in active:
            self.tracks.setdefault(segment.segment_id, Track(segment))
        for track in abandoned:
            self._move_on(track)
        return abandoned

    def withdraw(self, is_withdrawn: Callable[[M], bool]) -> list[M]:
        """Takes out messages that have not departed; which ones they were."""
        gone: list[M] = []
        for track in self.tracks.values():
            found = [each for each in track.waiting if is_withdrawn(each)]
            if found:
                gone += found
                track.waiting = deque(each for each in track.waiting if not is_withdrawn(each))
        return gone

    # -- what may go

    def is_clear(self, track: Track[M]) -> bool:
        """Whether what stands on a track may depart."""
        if track.is_blocked or track.is_abandoned:
            return False
        return not self._abandoned or not any(self._is_before(each, track) for each in self._abandoned.values())

    def depart(self, track: Track[M], count: int) -> list[M]:
        """So many messages from the front of a clear track leave, if there are so many."""
        assert self.is_clear(track), "others have to arrive first"
        departing = [track.waiting.popleft() for _ in range(min(count, len(track.waiting)))]
        track.under_way += len(departing)
        return departing

    @staticmethod
    def _is_before(abandoned: Track[M], track: Track[M]) -> bool:
        one, other = abandoned.segment.range, track.segment.range
        return bool(abandoned.under_way) and one.start <= other.end and other.start <= one.end

    def _move_on(self, track: Track[M]) -> None:
        """What stands on an abandoned track goes to its successors, once nothing is under way there."""
        if not track.is_abandoned or track.under_way:
            return
        segment_id = track.segment.segment_id
        del self.tracks[segment_id], self._abandoned[segment_id]
        moved: dict[int, list[M]] = {}
        for message in track.waiting:
            moved.setdefault(self.segment_of(message.hash).segment_id, []).append(message)
        for successor, messages in moved.items():
            self.tracks[successor].put(messages)
