"""One topic of a queue subscription: all its segments, parents and children alike, shared with all other consumers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from controller.client.confirmations import Confirmation, all_of
from controller.client.consumers.attachments import parts
from controller.client.consumers.deadletters import Undertaker
from controller.client.consumers.intake import Intake
from controller.client.consumers.messages import QueueMessage
from controller.client.consumers.surroundings import Surroundings
from controller.client.consumers.works import Came, Due, Works
from controller.client.errors import AckTooLate, ClientClosed
from controller.client.segment.consumer import SegmentConsumer
from controller.client.segment.consuming import SegmentConsumerOptions
from controller.client.segment.credits import Budget
from controller.client.topics.descriptions import TopicSubscriptionKind
from controller.client.topics.layouts import TopicState, TopicView
from controller.client.transaction import Transaction
from controller.client.values import Edge, GivenBack, Message, MessageId, SubscriptionKind
from controller.layout import Segment, TopicName
from controller.topics.errors import TopicNotFound
from metastore.coordination import Backoff
from txn.hosting.errors import NoSuchSegment
from txn.model.errors import TxnRetriable
from txn.segment.bell import Bell

WorkKey = tuple["QueueSource", MessageId]


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """What all segments of one consumer share."""

    around: Surroundings
    subscription: str
    consumer: str
    budget: Budget
    intake: Intake[QueueMessage]
    works: Works[WorkKey]
    undertaker: Undertaker | None
    changed: Callable[[], None]
    """Told when something has a time to be looked at, or there may be room again."""
    blocked: dict[QueueSource, None] = field(default_factory=dict)
    """Segments of which something waits for room."""

    @property
    def now_s(self) -> float:
        """The time by which works are due."""
        return self.around.caller.pace.clock.monotonic_s()


class QueueSource:
    """One segment. It is there until the segment is not, or the consumer is closed."""

    def __init__(self, place: QueuePlace, topic: str, name: str, segment_id: int, attached: Callable[[], None]) -> None:
        self.topic = topic
        self.segment = name
        self.segment_id = segment_id
        self._place = place
        self._attached = attached
        self._consumer: SegmentConsumer | None = None
        self._turns_before = 0
        """Of the consumers that it had before."""
        self._is_closing = False
        self._task = asyncio.create_task(self._run(), name=f"{place.subscription!r} of {name}")

    @property
    def task(self) -> asyncio.Task[None]:
        """Ends with it: with an error, if that is for the consumer to know."""
        return self._task

    @property
    def is_attached(self) -> bool:
        """Whether something can come from it."""
        return self._consumer is not None

    def is_of(self, place: QueuePlace) -> bool:
        """Whether it belongs to that consumer."""
        return self._place is place

    # -- messages

    def take(self, messages_max: int) -> list[QueueMessage]:
        """The next messages that are there, and that the application does not have, up to so many."""
        consumer = self._consumer
        if consumer is None:
            return []
        while (room := min(messages_max, self._room)) and (messages := consumer.take(room)):
            turn = self._turns_before + consumer.turn
            taken = [each for each in (self._begin(turn, found) for found in messages) if each is not None]
            self._place.changed()
            if taken:
                return taken
        if not room:
            self._place.blocked[self] = None
        return []

    @property
    def _room(self) -> int:
        """How many messages may be taken, all of which may be dead letters."""
        works, undertaker = self._place.works, self._place.undertaker
        return works.room if undertaker is None else min(works.room, undertaker.room)

    def _begin(self, turn: int, found: Message) -> QueueMessage | None:
        """A message for the application; None if it has it, has given it back for some time, or is not to have it."""
        place, key, came = self._place, (self, found.id), Came(turn, found.redeliveries, found.part)
        if key in place.works:
            place.works.came_again(key, came)
            return None
        message = QueueMessage(self.topic, self.segment_id, found, self)
        place.works.begin(key, came, place.now_s)
        if place.undertaker is None or not place.undertaker.policy.takes(found.redeliveries):
            return message
        place.undertaker.take(message, partial(self.acknowledge, [found]), partial(self.give_back, found))
        return None

    def acknowledge(self, messages: Sequence[Message], txn: Transaction | None) -> Confirmation[None]:
        """Acknowledges these messages."""
        if self._consumer is None:
            raise ClientClosed(f"{self.segment} is not received from any more")
        works = self._place.works
        limit = self._place.around.limits.acks_per_request_max
        outcomes = []
        for part in parts(messages, limit):
            outcomes.append(self._consumer.acknowledge(*part, txn=txn))
            for each in part:
                works.acknowledge((self, each.id))
            outcomes[-1].listen(partial(self._settle, part, txn))
        return all_of(outcomes)

    def _settle(self, messages: Sequence[Message], txn: Transaction | None, failure: BaseException | None) -> None:
        works = self._place.works
        # Outside of a transaction all is acknowledged then but what others have been given: it is theirs.
        is_done = failure is None or (isinstance(failure, AckTooLate) and txn is None)
        for each in messages:
            if is_done:
                works.forget((self, each.id))
            else:
                works.not_acknowledged((self, each.id), self._place.now_s)
        self._place.changed()

    def give_back(self, message: Message) -> None:
        """It is to be delivered again, some time later."""
        self._place.works.give_back((self, message.id), message.redeliveries, self._place.now_s)
        self._place.changed()

    def ask_again(self, due: Sequence[Due[WorkKey]]) -> None:
        """These are to be delivered again now. What came over an earlier stream is on its way, or others have it."""
        consumer = self._consumer
        if consumer is not None and not consumer.running.done():
            turn = self._turns_before + consumer.turn
            found = [(id, came) for (_, id), came in due if came is not None and came.turn == turn]
            consumer.ask_again([GivenBack(id, came.redeliveries, came.part) for id, came in found])
            self.announce()

    def announce(self) -> None:
        """There may be something to take."""
        if self._consumer is not None and not self._is_closing:
            self._place.intake.announce(self)

    def restart(self) -> None:
        """The subscription was put elsewhere."""
        if self._consumer is not None:
            self._consumer.renew()

    # -- from beginning to end

    async def close(self) -> None:
        """Ends when the acknowledgements under way are answered."""
        self._is_closing = True
        self._place.intake.withdraw(self)
        if self._consumer is not None:
            await self._consumer.close()
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        backoff = Backoff(self._place.around.caller.pace)
        while not self._is_closing:
            consumer = self._new_consumer()
            try:
                await consumer.wait_opened()
                self._turns_before += 0 if self._consumer is None else self._consumer.turn
                self._consumer = consumer
                self._attached()
                self.announce()
                await asyncio.wait([consumer.running])
                if consumer.running.cancelled():
                    return
                consumer.running.result()
            except NoSuchSegment:
                return  # it was pruned: the layout will say so
            except TxnRetriable:
                pass  # consumers of another kind may be in the way
            finally:
                await consumer.close()
            await backoff.pause()

    def _new_consumer(self) -> SegmentConsumer:
        place = self._place
        options = SegmentConsumerOptions(SubscriptionKind.SHARED, name=place.consumer)
        return SegmentConsumer(
            place.around.caller,
            place.around.limits,
            self.segment,
            place.subscription,
            options,
            budget=place.budget,
            arrived=self.announce,
        )


class QueueTopic:
    """Follows the layout of a topic, and receives from each of its segments. `ended` is told when that is over."""

    def __init__(
        self,
        place: QueuePlace,
        topic: TopicName,
        start: Edge | None,
        creates: bool,
        ended: Callable[[BaseException], None],
    ) -> None:
        self.topic = topic
        self._place = place
        self._start = start
        self._creates = creates
        self._ended = ended
        self._view: TopicView = place.around.layouts.take(topic)
        self._sources: dict[int, QueueSource] = {}
        self._is_closing = False
        self._bell = Bell()
        self._task = asyncio.create_task(self._run(), name=f"{place.subscription!r} of {topic}")
        self._task.add_done_callback(self._end)

    @property
    def segments(self) -> tuple[str, ...]:
        """The segments that something can come from."""
        return tuple(each.segment for each in self._sources.values() if each.is_attached)

    async def wait_opened(self) -> None:
        """Returns when something can come; raises what is in the way."""
        await self._bell.until(lambda: self._task.done() or any(each.is_attached for each in self._sources.values()))
        if self._task.done():
            self._task.result()

    async def wait_attached(self) -> None:
        """Returns when messages of all segments that there are can come."""
        await self._bell.until(
            lambda: self._task.done()
            or (bool(self._sources) and all(each.is_attached or each.task.done() for each in self._sources.values()))
        )

    def restart(self) -> None:
        """The subscription was put elsewhere."""
        for each in self._sources.values():
            each.restart()

    async def close(self) -> None:
        """Ends when the acknowledgements under way are answered."""
        self._is_closing = True
        self._task.cancel()
        await asyncio.wait([self._task])
        await asyncio.gather(*(each.close() for each in self._sources.values()))
        await self._place.around.layouts.give_back(self._view)

    async def _run(self) -> None:
        caller = self._place.around.caller
        state = await self._view.found(self._creates, caller.request_timeout_s)
        if self._start is not None:
            await self._place.around.topics.create_subscription(
                str(self.topic), self._place.subscription, TopicSubscriptionKind.QUEUE, self._start
            )
        while True:
            known = self._view.news
            await self._receive_from_all(state)
            await self._view.wait_news(known)
            if self._view.state is None:
                raise TopicNotFound(f"there is no topic {self.topic} any more")
            state = self._view.state

    async def _receive_from_all(self, state: TopicState) -> None:
        for segment in state.layout.segments.values():
            if segment.segment_id not in self._sources:
                self._receive_from(state, segment)
        for segment_id in self._sources.keys() - state.layout.segments.keys():
            await self._sources.pop(segment_id).close()
        self._bell.ring()

    def _receive_from(self, state: TopicState, segment: Segment) -> None:
        source = QueueSource(self._place, str(self.topic), state.name_of(segment), segment.segment_id, self._bell.ring)
        self._sources[segment.segment_id] = source
        source.task.add_done_callback(self._source_ended)

    def _source_ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._is_closing:
            self._ended(error)
        self._bell.ring()

    def _end(self, task: asyncio.Task[None]) -> None:
        if not self._is_closing and not task.cancelled():
            failure = task.exception()
            assert failure is not None, "it runs until it is cancelled"
            self._ended(failure)
        self._bell.ring()
