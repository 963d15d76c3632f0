"""Groups of checkpoint consumers: several read a topic together, each some segments, and hand over where they are.

The leader divides the segments, as it does for streams. Where the group is in a segment is written down beside that
segment, as a cursor of the group's name, and moved by `commit`. So a member hands a segment over by giving it up: it
receives no more, waits until what it has received is committed (for no longer than RELEASE_S), and closes; whoever has
the segment next goes on behind the last commit. A member that dies hands over what it had committed. A sealed segment
is read to its end when that is committed, and then its children are assigned: parents come before children (H18), and
what nobody has begun yet is begun at its beginning (H17).

A group that is new begins where its first member says: then, before anybody joins, every segment that there is gets its
cursor there.
"""

from __future__ import annotations

import asyncio

from controller.client.caller import Caller
from controller.client.confirmations import Confirmation
from controller.client.consumers.assignments import Books
from controller.client.consumers.checkpoint import checkpoint_of
from controller.client.consumers.checkpoints import INDEX_LAST, Checkpoint, behind
from controller.client.consumers.stream import StreamReceiving
from controller.client.consumers.streams import StreamTopic
from controller.client.consumers.surroundings import Surroundings
from controller.client.protocol import CREATE_SUBSCRIPTION, DELETE_SUBSCRIPTION, SEEK
from controller.client.segment.credits import Budget
from controller.client.topics.layouts import TopicState
from controller.client.transaction import Transaction
from controller.client.values import EARLIEST, Edge, Start, bound_of
from controller.layout import TopicName
from controller.pb import broker_pb2 as pb
from controller.pb import topics_pb2 as topics
from txn.model.position import Position


class CheckpointGroupConsumer(StreamReceiving):
    """Reads its part of a topic. It commits where it is, alone or in a transaction with what came of it."""

    def __init__(
        self, around: Surroundings, topic: TopicName, group: str, name: str, start: Checkpoint | Edge, budget: Budget
    ) -> None:
        what = f"checkpoint consumer {name!r} of group {group!r} of {topic}"
        super().__init__(around, group, name, budget, what, start=EARLIEST)
        self.topic = str(topic)
        self._start = checkpoint_of(start)
        self._books = Books(topic, group, name, topics.CHECKPOINT, EARLIEST)
        self._stream: StreamTopic | None = None

    @property
    def segments(self) -> tuple[str, ...]:
        """The segments that it has at the moment."""
        return () if self._stream is None else self._stream.segments

    def commit(self, *, txn: Transaction | None = None) -> Confirmation[None]:
        """All that this member has received is done with: whoever comes next begins behind it.

        AckTooLate, once, if some of it was given up before: then others have it, and it cannot be done here.
        """
        return self._acknowledge(self._reached, txn)

    def checkpoint(self) -> Checkpoint:
        """Where this member is in its segments; those of all members joined are where the group is."""
        return Checkpoint(
            {
                each.share.segment_id: behind(reached.message)
                for each, reached in self._reached.items()
                if each.is_attached
            }
        )

    async def seek(self, to: Checkpoint | Edge) -> None:
        """Puts the whole group there, segment by segment. Its members go on from there."""
        self._check_open()
        self._intake.pause()
        try:
            await _put(self._around.caller, await self._described(), self.subscription, checkpoint_of(to))
        finally:
            self._forget_reached()
            if self._stream is not None:
                self._stream.restart()
            self._intake.resume()

    async def unsubscribe(self) -> None:
        """Deletes the group, and closes the consumer."""
        await self.close()
        state = await self._described()
        await self._around.topics.delete_subscription(self.topic, self.subscription)
        await asyncio.gather(*(self._forget(name) for name in _names(state).values()))

    async def wait_opened(self) -> None:
        """Joins the group, which is begun before that if there is none yet."""
        if self._stream is None:
            state = await self._described()
            if not await self._is_there():
                await _begin(self._around.caller, state, self.subscription, self._start)
            self._stream = StreamTopic(self._place, self._books, self._fail)
        await self._stream.membership.wait_opened()

    async def wait_attached(self) -> None:
        """Returns when it has all segments that were assigned to it."""
        await self.wait_opened()
        assert self._stream is not None, "it was opened"
        await self._stream.wait_attached()

    async def close(self, *, leave: bool = True) -> None:
        """Ends when commits under way are answered; see `StreamConsumer.close`."""
        await self._close_once(lambda: self._close(leave))

    async def _close(self, leave: bool) -> None:
        if self._stream is not None:
            await self._stream.close(leave=leave)

    async def _described(self) -> TopicState:
        view = self._around.layouts.take(TopicName.parse(self.topic))
        try:
            return await view.found(False, self._around.caller.request_timeout_s)
        finally:
            await self._around.layouts.give_back(view)

    async def _is_there(self) -> bool:
        return self.subscription in (await self._around.topics.stats(self.topic)).subscriptions

    async def _forget(self, segment: str) -> None:
        request = pb.DeleteSubscriptionRequest(segment=segment, subscription=self.subscription)
        what = f"delete {self.subscription!r} of {segment}"
        await self._around.caller.call(DELETE_SUBSCRIPTION, request, what, segment=segment)


def _names(state: TopicState) -> dict[int, str]:
    return {each.segment_id: state.name_of(each) for each in state.layout.segments.values()}


def _beginning(checkpoint: Checkpoint, segment_id: int) -> Start:
    """Where a segment is begun; of a batch that was received in part all messages come again."""
    if checkpoint.edge is not None:
        return checkpoint.edge
    last = checkpoint.positions.get(segment_id)
    if last is None:
        return EARLIEST
    return Position(last.position.ledger, last.position.entry + (last.batch_index == INDEX_LAST))


async def _begin(caller: Caller, state: TopicState, group: str, checkpoint: Checkpoint) -> None:
    """Cursors where there are none."""

    async def create(segment_id: int, name: str) -> None:
        bound = bound_of(_beginning(checkpoint, segment_id))
        request = pb.CreateSubscriptionRequest(segment=name, subscription=group, start=bound)
        await caller.call(CREATE_SUBSCRIPTION, request, f"begin {name} for {group!r}", segment=name)

    await asyncio.gather(*(create(segment_id, name) for segment_id, name in _names(state).items()))


async def _put(caller: Caller, state: TopicState, group: str, checkpoint: Checkpoint) -> None:
    """Cursors, wherever they were."""
    await _begin(caller, state, group, checkpoint)

    async def put(segment_id: int, name: str) -> None:
        bound = bound_of(_beginning(checkpoint, segment_id))
        request = pb.SeekRequest(segment=name, subscription=group, bound=bound)
        await caller.call(SEEK, request, f"put {group!r} elsewhere in {name}", segment=name)

    await asyncio.gather(*(put(segment_id, name) for segment_id, name in _names(state).items()))
