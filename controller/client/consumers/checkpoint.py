"""Checkpoint consumers: read a topic without a subscription; where they are, only they know, and can say.

Segments are read as readers read them, parents to their end before their children begin. What was received is in the
checkpoint; a segment that begins later is read from its beginning, wherever the consumer itself began (H17).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from controller.assignment import servable
from controller.client.consumers.base import TopicConsumer
from controller.client.consumers.checkpoints import INDEX_LAST, Checkpoint, behind
from controller.client.consumers.intake import Intake
from controller.client.consumers.messages import TopicMessage
from controller.client.consumers.surroundings import Surroundings
from controller.client.errors import InvalidRequest
from controller.client.protocol import SEGMENT_STATS
from controller.client.segment.credits import Budget
from controller.client.segment.reader import SegmentReader
from controller.client.topics.layouts import TopicState, TopicView
from controller.client.values import EARLIEST, LATEST, Edge, MessageId, Start, position_of
from controller.layout import TopicName
from controller.pb import broker_pb2 as pb
from controller.topics.errors import TopicNotFound
from txn.coordinator.waiting import first_of
from txn.hosting.errors import NoSuchSegment
from txn.segment.bell import Bell


class Reading:
    """One segment that is read. `through` is told when the application has received all of it, or it is gone."""

    def __init__(
        self,
        around: Surroundings,
        budget: Budget,
        intake: Intake[TopicMessage],
        state: TopicState,
        segment_id: int,
        after: MessageId | None,
        through: Callable[[int], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self.topic = str(state.topic)
        self.segment_id = segment_id
        self.after = after
        """The last message that was received."""
        self._intake = intake
        self._through = through
        self._failed = failed
        self._is_through = False
        name = state.name_of(state.layout.segment(segment_id))
        start: Start = EARLIEST if after is None else after
        self._reader = SegmentReader(around.caller, name, start, True, budget=budget, arrived=self._arrived)
        self._reader.running.add_done_callback(self._end)

    def take(self, messages_max: int) -> list[TopicMessage]:
        """The next messages that are there, up to so many."""
        while messages := self._reader.take(messages_max):
            after = self.after
            new = [each for each in messages if after is None or each.id > after]
            if new:
                self.after = behind(new[-1])
                return [TopicMessage(self.topic, self.segment_id, each) for each in new]
        if self._reader.is_through:
            self._end_of_segment()
        return []

    async def close(self) -> None:
        """Reads no more."""
        self._is_through = True
        self._intake.withdraw(self)
        await self._reader.close()

    def _arrived(self) -> None:
        if not self._is_through:
            self._intake.announce(self)

    def _end_of_segment(self) -> None:
        if not self._is_through:
            self._is_through = True
            self._through(self.segment_id)

    def _end(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, NoSuchSegment):
            self._end_of_segment()  # it was pruned: nobody can read it
        elif error is not None:
            self._failed(error)
        else:
            self._arrived()


class CheckpointConsumer(TopicConsumer[TopicMessage]):
    """Reads a topic from a checkpoint on. There is nothing to acknowledge: keep what `checkpoint` says."""

    def __init__(
        self, around: Surroundings, topic: TopicName, start: Checkpoint | Edge, budget: Budget, creates: bool
    ) -> None:
        super().__init__(f"checkpoint consumer of {topic}")
        self.topic = str(topic)
        self._around = around
        self._start = checkpoint_of(start)
        self._budget = budget
        self._creates = creates
        self._view: TopicView = around.layouts.take(topic)
        self._state: TopicState | None = None
        """As it is read; None before it begins."""
        self._positions: dict[int, MessageId | None] = {}
        """Of segments that are not read at the moment: where reading goes on."""
        self._readings: dict[int, Reading] = {}
        self._drained: set[int] = set()
        self._changes = 0
        """How often there was something to do that the layout does not say."""
        self._seeking = asyncio.Lock()
        self._bell = Bell()
        self._task = asyncio.create_task(self._run(), name=self._what)
        self._task.add_done_callback(self._end)

    def checkpoint(self) -> Checkpoint:
        """Behind everything that was received. Who begins there receives what comes after that, and all of it."""
        if self._state is None:
            return self._start
        return Checkpoint(
            {segment_id: self._position(segment_id) for segment_id in sorted(self._state.layout.segments)}
        )

    async def seek(self, to: Checkpoint | Edge) -> None:
        """Goes on from there."""
        self._check_open()
        self._intake.pause()
        try:
            async with self._seeking:
                await self._begin(checkpoint_of(to))
        finally:
            self._intake.resume()
            self._change()

    async def wait_opened(self) -> None:
        await self._bell.until(lambda: self._state is not None or self._task.done())
        if self._task.done():
            self._task.result()

    async def close(self) -> None:
        """Reads no more."""
        await self._close_once(self._close)

    # -- reading

    def _position(self, segment_id: int) -> MessageId | None:
        reading = self._readings.get(segment_id)
        return self._positions.get(segment_id) if reading is None else reading.after

    async def _run(self) -> None:
        await self._view.found(self._creates, self._around.caller.request_timeout_s)
        async with self._seeking:
            await self._begin(self._start)
        while True:
            known, changes = self._view.news, self._changes
            async with self._seeking:
                await self._read_on()
            await first_of(self._view.wait_news(known), self._wait_change(changes))

    async def _begin(self, start: Checkpoint) -> None:
        """Reading begins there, and nowhere else."""
        state = self._known_state()
        positions, drained = dict(start.positions), set[int]()
        if start.edge is LATEST:
            positions = await self._ends(state)
            drained = {each.segment_id for each in state.layout.sealed}
        await self._stop_reading(list(self._readings))
        self._state, self._positions, self._drained = state, positions, drained
        self._bell.ring()

    async def _read_on(self) -> None:
        """Reads what can be read by now."""
        self._state = state = self._known_state()
        layout = state.layout
        await self._stop_reading([each for each in self._readings if each in self._drained])
        gone = [each for each in self._readings if each not in layout.segments]
        await self._stop_reading(gone)
        self._drained &= layout.segments.keys()
        for segment_id in [each for each in self._positions if each not in layout.segments]:
            del self._positions[segment_id]
        for segment in servable(layout, self._drained):
            segment_id = segment.segment_id
            if segment_id not in self._readings:
                self._readings[segment_id] = Reading(
                    self._around,
                    self._budget,
                    self._intake,
                    state,
                    segment_id,
                    self._positions.get(segment_id),
                    self._read_through,
                    self._fail,
                )

    async def _stop_reading(self, segment_ids: list[int]) -> None:
        for segment_id in segment_ids:
            reading = self._readings.pop(segment_id)
            self._positions[segment_id] = reading.after
            await reading.close()

    def _read_through(self, segment_id: int) -> None:
        self._drained.add(segment_id)
        self._change()

    async def _wait_change(self, seen: int) -> None:
        await self._bell.until(lambda: self._changes != seen)

    def _change(self) -> None:
        self._changes += 1
        self._bell.ring()

    async def _ends(self, state: TopicState) -> dict[int, MessageId | None]:
        """Behind everything that there is, in every segment."""
        names = {each.segment_id: state.name_of(each) for each in state.layout.segments.values()}
        ends = await asyncio.gather(*(last_of(self._around, name) for name in names.values()))
        return dict(zip(names, ends, strict=True))

    def _known_state(self) -> TopicState:
        if self._view.state is None:
            raise TopicNotFound(f"there is no topic {self.topic} any more")
        return self._view.state

    # -- the end

    async def _close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        await self._stop_reading(list(self._readings))
        await self._around.layouts.give_back(self._view)

    def _end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)
        self._bell.ring()


def checkpoint_of(start: Checkpoint | Edge) -> Checkpoint:
    """Where to begin, as a checkpoint."""
    if isinstance(start, Edge):
        return Checkpoint.at(start)
    if not isinstance(start, Checkpoint):
        raise InvalidRequest(f"{start!r} is no place to begin: EARLIEST, LATEST or a checkpoint is expected")
    return start


async def last_of(around: Surroundings, segment: str) -> MessageId | None:
    """The end of what is written of a segment; None if nothing is."""
    request = pb.SegmentStatsRequest(segment=segment)
    told = await around.caller.call(SEGMENT_STATS, request, f"look for the end of {segment}", segment=segment)
    return MessageId(position_of(told.last_confirmed), INDEX_LAST) if told.HasField("last_confirmed") else None
