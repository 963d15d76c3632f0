"""The senders of one producer, one for each segment: who is there, what each of them is given, and when each may go.

What may be sent when is the dispatch's decision; here it is carried out. A sender is opened when there is something for
its segment, and goes when its segment has successors and everything on its way there has its outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

from controller.client.caller import Caller
from controller.client.segment.outbox import Outgoing, Packing
from controller.client.topics.ids import TopicSent
from controller.client.topics.layouts import TopicState, TopicView
from controller.client.topics.producer.claim import Claim
from controller.client.topics.producer.dispatch import Dispatch, Track
from controller.client.topics.producer.floors import Floors
from controller.client.topics.producer.hashing import hash_by_turn
from controller.client.topics.producer.sender import Sender
from controller.layout import Segment
from controller.topics.errors import TopicNotFound
from metastore.coordination import Backoff
from txn.hosting.errors import NoSuchSegment
from txn.model.errors import TxnError, TxnRetriable


class Crew:
    """Carries out what the dispatch decides."""

    def __init__(
        self,
        caller: Caller,
        view: TopicView,
        state: TopicState,
        name: str,
        packing: Packing,
        linger_ms: int,
        claim: Claim | None,
        floors: Floors | None,
        released: Callable[[Sequence[Outgoing]], None],
    ) -> None:
        self._caller = caller
        self._view = view
        self._state = state
        self._name = name
        self._packing = packing
        self._linger_ms = linger_ms
        self._claim = claim
        self._floors = floors
        """None: whatever this producer sends is new."""
        self._released = released
        """Told of messages that have left."""
        self._dispatch: Dispatch[Outgoing] = Dispatch(state.layout.active)
        self._turn: int | None = None
        """The hash of the last message without a key."""
        self._turn_bytes = 0
        """Of messages that were given it."""
        self._senders: dict[int, Sender] = {}
        self._preparing: set[int] = set()
        """Segments of which is not known yet what they had before."""
        self._leaving: set[Sender] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    # -- what the producer says

    def hash_by_turn(self, size_bytes: int) -> int:
        """Of a message without a key: that of those it can share an entry with, or else of the next segment's turn."""
        if self._turn is None or not self._has_company(self._turn, size_bytes):
            self._turn = hash_by_turn(self._dispatch.router, self._caller.pace.random)
            self._turn_bytes = 0
        self._turn_bytes += size_bytes
        return self._turn

    def _has_company(self, hash: int, size_bytes: int) -> bool:
        sender = self._senders.get(self._dispatch.segment_of(hash).segment_id)
        has_room = self._turn_bytes + size_bytes <= self._packing.batch_bytes_max
        return has_room and sender is not None and sender.has_company

    @property
    def messages(self) -> Iterator[Outgoing]:
        """All that have no outcome, or may be on their way still."""
        for sender in self._senders.values():
            yield from sender.messages
        for track in self._dispatch.tracks.values():
            yield from track.waiting

    async def open(self) -> None:
        """Returns when it is known what segments had of a producer before."""
        if self._floors is not None:
            segments = self._state.layout.active
            for segment in segments:
                self._man(segment)
            await asyncio.gather(*(self._prepared(segment) for segment in segments))

    def add(self, message: Outgoing) -> None:
        """The newest one."""
        self._send(self._dispatch.add(message))

    @property
    def trouble(self) -> TxnError:
        """What is in the way of one of its senders."""
        return next((sender.held_up_by for sender in self._senders.values()), self._view.trouble)

    def held_up_by(self, message: Outgoing) -> TxnError:
        """What is in the way of a message."""
        sender = self._senders.get(self._dispatch.segment_of(message.hash).segment_id)
        return self._view.trouble if sender is None else sender.held_up_by

    def drop_given_up(self) -> None:
        """Messages that nobody has sent, and nobody waits for any more, leave."""
        self._released(self._dispatch.withdraw(lambda message: message.outcome.done()))
        for sender in list(self._senders.values()):
            sender.drop_given_up()

    async def run(self) -> None:
        """Follows the layout until cancelled; raises what keeps the producer from going on."""
        following = asyncio.create_task(self._follow_layout())
        try:
            await asyncio.wait([following, self._failure], return_when=asyncio.FIRST_COMPLETED)
        finally:
            following.cancel()
            await asyncio.wait([following])
        if self._failure.done():
            self._failure.result()
        following.result()

    async def close(self) -> None:
        """Senders end; what they have is not sent any more."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        senders = [*self._senders.values(), *self._leaving]
        await asyncio.gather(*(sender.close() if sender.is_empty else sender.abort() for sender in senders))
        if self._tasks:
            await asyncio.wait(self._tasks)

    # -- what senders say

    def arrived(self, sender: Sender, messages: Sequence[Outgoing]) -> None:
        self._dispatch.arrived(sender.segment_id, len(messages))
        self._released(messages)
        self._moved(sender)

    def came_back(self, sender: Sender, messages: Sequence[Outgoing]) -> None:
        self._block(sender.segment_id, is_sealed=True)
        self._dispatch.came_back(sender.segment_id, messages)
        self._moved(sender)

    def ended(self, sender: Sender, error: BaseException, unsent: Sequence[Outgoing]) -> None:
        if self._senders.get(sender.segment_id) is sender:
            del self._senders[sender.segment_id]
        self._leaving.discard(sender)
        is_over = sender.is_leaving or self._is_closed
        if not is_over and isinstance(error, NoSuchSegment | TxnRetriable):
            self._block(sender.segment_id, is_sealed=False)
        elif not is_over:
            self._fail(error)
        if unsent:
            self._dispatch.came_back(sender.segment_id, unsent)
        self._moved(sender)

    def _moved(self, sender: Sender) -> None:
        """Messages have left a segment: what waited for that goes on, and who has nothing left to do goes."""
        track = self._dispatch.tracks.get(sender.segment_id)
        if track is None or track.is_abandoned:
            self._send_all()
        if track is None and sender.is_empty:
            self._dismiss(sender)

    # -- what goes to whom

    def _send_all(self) -> None:
        for track in list(self._dispatch.tracks.values()):
            self._send(track)

    def _send(self, track: Track[Outgoing]) -> None:
        """What stands on a clear track goes to its sender."""
        if not track.waiting or not self._dispatch.is_clear(track) or self._is_closed or self._failure.done():
            return
        sender = self._senders.get(track.segment.segment_id) or self._man(track.segment)
        if sender.segment_id in self._preparing:
            return
        departing = self._dispatch.depart(track, len(track.waiting))
        if self._floors is None:
            sender.push(departing)
            return
        floors = self._floors
        old = [each for each in departing if floors.covers(each.sequence_id, each.hash)]
        sender.push(each for each in departing if not floors.covers(each.sequence_id, each.hash))
        for message in old:
            if not message.outcome.done():
                message.outcome.set_result(TopicSent(message.sequence_id, None, is_duplicate=True))
        if old:
            self.arrived(sender, old)

    def _man(self, segment: Segment) -> Sender:
        """Somebody who sends to a segment."""
        segment_id, name = segment.segment_id, self._state.name_of(segment)
        sender = Sender(self._caller, segment_id, name, self._name, self._packing, self._linger_ms, self, self._claim)
        self._senders[segment_id] = sender
        if self._floors is not None:
            self._preparing.add(segment_id)
            self._start(self._prepare(sender, segment, self._floors))
        return sender

    def _dismiss(self, sender: Sender) -> None:
        """Nothing more goes to its segment."""
        if self._senders.get(sender.segment_id) is sender:
            del self._senders[sender.segment_id]
            self._leaving.add(sender)
            sender.is_leaving = True
            self._start(sender.close())

    # -- what was there before

    async def _prepare(self, sender: Sender, segment: Segment, floors: Floors) -> None:
        """Finds out what a segment and its ancestors have of this producer."""
        backoff = Backoff(self._caller.pace)
        while (opened := await sender.wait_opened_or_ended()) is not None and opened.is_undecided:
            await backoff.pause()
            sender.look_again()
        if opened is not None:
            floors.note(segment, opened)
            while not await self._have_learnt(floors, segment):
                await backoff.pause()
        self._preparing.discard(segment.segment_id)
        self._send_all()

    async def _have_learnt(self, floors: Floors, segment: Segment) -> bool:
        try:
            await floors.learn(self._state, segment)
        except TxnRetriable:
            return False
        return True

    async def _prepared(self, segment: Segment) -> None:
        while segment.segment_id in self._preparing:
            waits: list[asyncio.Future[None]] = [*self._tasks, self._failure]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if self._failure.done():
                self._failure.result()

    # -- the layout

    async def _follow_layout(self) -> None:
        view = self._view
        while True:
            known = view.news
            if view.is_gone:
                raise TopicNotFound(f"{view.topic} was deleted")
            if view.state is not None:
                self._follow(view.state)
            await view.wait_news(known)

    def _follow(self, state: TopicState) -> None:
        self._state = state
        active = state.layout.active
        tracks = self._dispatch.tracks
        there = {segment_id for segment_id, track in tracks.items() if not track.is_abandoned}
        if {each.segment_id for each in active} == there:
            return
        for track in self._dispatch.follow(active):
            sender = self._senders.get(track.segment.segment_id)
            if sender is not None:
                sender.recall()
        for sender in list(self._senders.values()):
            self._moved(sender)
        self._send_all()

    def _block(self, segment_id: int, is_sealed: bool) -> None:
        """A segment takes nothing, for ever or for now: what takes its place is looked for."""
        track = self._dispatch.tracks.get(segment_id)
        if track is not None and not (track.is_blocked or track.is_abandoned or self._is_closed):
            self._dispatch.block(segment_id)
            self._start(self._look_for_others(track, is_sealed))

    async def _look_for_others(self, track: Track[Outgoing], is_sealed: bool) -> None:
        backoff = Backoff(self._caller.pace)
        while not track.is_abandoned:
            try:
                await self._view.refresh(self._view.news)
            except TxnRetriable:
                await backoff.pause()
            if not is_sealed and not track.is_abandoned:
                self._dispatch.unblock(track.segment.segment_id)
                self._send(track)
                return

    # -- tasks

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._note_done)

    def _note_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if not self._failure.done():
            self._failure.set_exception(error)
            self._failure.exception()  # whether anybody asks for it is another matter
