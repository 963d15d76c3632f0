"""What is known here of topics: their segments, their leaders, who serves what; told by any broker as it changes.

A topic is watched once for all its producers and consumers of a client. Of what is told only the newest counts: a
broker that is behind says nothing here. Where something does not fit what is known, as when a segment says that it is
sealed and the layout has no successors for it, `refresh` asks another broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from controller.client.caller import Caller
from controller.client.errors import BrokerFailed, ClientClosed
from controller.client.protocol import CREATE_TOPIC, DESCRIBE_TOPIC, WATCH_TOPIC
from controller.client.topics.following import Following
from controller.layout import Layout, Segment, TopicName, TopicRecord
from controller.layout.errors import LayoutError
from controller.pb import topics_pb2 as pb
from controller.topics.errors import TopicExists, TopicNotFound
from txn.model.errors import TxnError
from txn.segment.bell import Bell

REFRESH_AFTER_S = 1.0
"""How long to wait to be told what must have happened before somebody is asked."""


@dataclass(frozen=True, slots=True)
class Broker:
    """Who leads a topic, or serves a segment, and since which term."""

    name: str
    address: str
    term: int


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic at one moment."""

    topic: TopicName
    record: TopicRecord
    version_id: int
    """Grows with every change, over all topics of that name. -1: a topic of the old kind, which has no record."""
    leader: Broker | None
    owners: Mapping[int, Broker]
    """By segment; one that is missing has no owner at the moment."""

    @property
    def layout(self) -> Layout:
        """Its segments."""
        return self.record.layout

    def name_of(self, segment: Segment) -> str:
        """The name of one of its segments."""
        return segment.legacy_topic or str(self.topic.segment(segment.range, segment.segment_id))


def state_of(told: pb.TopicDescription) -> TopicState:
    """A topic as a broker describes it."""
    try:
        topic, record = TopicName.parse(told.topic), TopicRecord.decode(told.record)
    except LayoutError as error:
        raise BrokerFailed(f"what a broker says of {told.topic[:200]!r} makes no sense: {error}") from None
    leader = _broker(told.leader) if told.HasField("leader") else None
    owners = {segment_id: _broker(owner) for segment_id, owner in told.owners.items()}
    return TopicState(topic, record, told.version_id, leader, owners)


def _broker(told: pb.BrokerAddress) -> Broker:
    return Broker(told.broker, told.address, told.term)


class TopicView:
    """One topic, as far as it is known."""

    def __init__(self, caller: Caller, topic: TopicName) -> None:
        self.topic = topic
        self.state: TopicState | None = None
        """None while nothing is known, or there is no such topic."""
        self.is_gone = False
        """Whether a broker has said that there is no such topic, or not any more."""
        self.news = 0
        """How often something was told."""
        self.failure: BaseException | None = None
        """Why nothing more will be told."""
        self._caller = caller
        self._bell = Bell()
        self._newest = -1
        """The greatest version that was told."""
        self._following = Following(caller, f"watch {topic}")
        self._task = asyncio.create_task(self._watch(), name=f"watch {topic}")
        self._task.add_done_callback(self._end)

    @property
    def trouble(self) -> TxnError:
        """What was in the way of being told, the last time."""
        return self._following.trouble

    # -- asking

    async def found(self, create: bool, timeout_s: float) -> TopicState:
        """The topic, which is created if that is wanted and there is none. TopicNotFound if there is none."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._until(lambda: self.state is not None or self.is_gone)
                if self.state is None and create:
                    await self._create()
        except TimeoutError:
            raise self._caller.out_of_time(f"look for {self.topic}", timeout_s, self._following.trouble) from None
        if self.state is None:
            raise TopicNotFound(f"there is no topic {self.topic}: create it, or let it be created")
        return self.state

    async def _create(self) -> None:
        request = pb.CreateTopicRequest(topic=str(self.topic))
        try:
            self.learn(state_of(await self._caller.call(CREATE_TOPIC, request, f"create {self.topic}")))
        except TopicExists:
            self.is_gone = False
            await self._until(lambda: self.state is not None or self.is_gone)

    async def wait_news(self, known: int) -> None:
        """Returns when more than that has been told. Raises what has ended the watch."""
        await self._until(lambda: self.news != known)

    async def refresh(self, known: int) -> None:
        """Returns when more than that has been told, or another broker was asked because it was not."""
        try:
            async with asyncio.timeout(REFRESH_AFTER_S):
                await self.wait_news(known)
        except TimeoutError:
            request = pb.DescribeTopicRequest(topic=str(self.topic))
            try:
                self.learn(state_of(await self._caller.call(DESCRIBE_TOPIC, request, f"look at {self.topic}")))
            except TopicNotFound:
                self._lose()

    async def _until(self, is_so: Callable[[], bool]) -> None:
        await self._bell.until(lambda: is_so() or self.failure is not None)
        if self.failure is not None and not is_so():
            raise self.failure

    # -- the end

    async def close(self) -> None:
        """Nothing more is told."""
        self._task.cancel()
        await asyncio.wait([self._task])

    def _end(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        self.failure = error or ClientClosed(f"{self.topic} is not watched any more")
        self._bell.ring()

    # -- being told

    async def _watch(self) -> None:
        await self._following.run(WATCH_TOPIC, self._opening, self._hear)

    def _opening(self) -> pb.WatchTopicRequest:
        seen = None if self._newest < 0 else self._newest
        return pb.WatchTopicRequest(topic=str(self.topic), seen_version_id=seen)

    async def _hear(self, update: pb.TopicUpdate) -> None:
        if update.HasField("state"):
            self.learn(state_of(update.state))
        elif update.HasField("gone"):
            self._lose()

    def learn(self, state: TopicState) -> None:
        """Something was told of the topic; what is older than what is known says nothing."""
        if state.version_id < self._newest:
            return
        self._newest = state.version_id
        self.state, self.is_gone = state, False
        for segment_id, owner in state.owners.items():
            segment = state.layout.segments.get(segment_id)
            if segment is not None and owner.address:
                self._caller.routes.learn_owner(state.name_of(segment), owner.address, owner.term)
        if state.leader is not None and state.leader.address:
            self._caller.routes.learn_leader(str(self.topic), state.leader.address)
        self._note()

    def _lose(self) -> None:
        self.state, self.is_gone = None, True
        self._note()

    def _note(self) -> None:
        self.news += 1
        self._bell.ring()


class Layouts:
    """The views of one client: one for each topic that anybody is interested in."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._views: dict[TopicName, TopicView] = {}
        self._users: dict[TopicName, int] = {}

    def take(self, topic: TopicName) -> TopicView:
        """The view of a topic, to be given back."""
        view = self._views.get(topic)
        if view is None or view.failure is not None:
            view = self._views[topic] = TopicView(self._caller, topic)
            self._users[topic] = 0
        self._users[topic] += 1
        return view

    async def give_back(self, view: TopicView) -> None:
        """One user less; without any it ends."""
        if self._views.get(view.topic) is not view:
            return  # it has ended by itself, and there is another one
        self._users[view.topic] -= 1
        if not self._users[view.topic]:
            del self._views[view.topic], self._users[view.topic]
            await view.close()

    async def close(self) -> None:
        """All of them end."""
        views = list(self._views.values())
        self._views.clear()
        self._users.clear()
        await asyncio.gather(*(view.close() for view in views))
