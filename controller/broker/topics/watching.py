"""The streams that follow a topic, or the topics of a namespace. Any broker serves them, from what it follows anyway.

Nothing is queued for a client: while it takes nothing, nothing is looked up for it, and then it is told the newest.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress

from controller.broker.streams import Stream
from controller.broker.topics.desk import TopicDesk, named
from controller.broker.topics.words import description
from controller.layout import NamespaceName, TopicName
from controller.pb import topics_pb2 as pb
from controller.topics import TopicExists
from controller.watches import Diff, SnapshotPage, TopicState
from metastore.interface import ABSENT

MESSAGES_KEPT_MAX = 1_000
"""Topics of which the newest state is kept as a message, so that all who watch one are sent the same."""


class Watching:
    """Serves the watches."""

    def __init__(self, desk: TopicDesk) -> None:
        self._desk = desk
        self._messages: OrderedDict[TopicName, tuple[TopicState, pb.TopicUpdate]] = OrderedDict()

    async def topic(self, stream: Stream) -> None:
        """A WatchTopic stream, from its one request on."""
        request = await stream.first(pb.WatchTopicRequest)
        seen = request.seen_version_id if request.HasField("seen_version_id") else ABSENT
        if request.creates:
            await self._create(named(request.topic))
        async with self._desk.topic_watches.open(TopicName.parse(request.topic), seen=seen) as session:
            is_awaited = request.creates
            async for event in session:
                if isinstance(event, TopicState):
                    await stream.send(self._message(event))
                    is_awaited = False
                elif not is_awaited:
                    await stream.send(pb.TopicUpdate(gone=pb.TopicIsGone()))

    async def _create(self, topic: TopicName) -> None:
        if await self._desk.topics.find(topic) is None:
            with suppress(TopicExists):  # somebody else was faster
                await self._desk.leaders.create(topic)

    def _message(self, state: TopicState) -> pb.TopicUpdate:
        known = self._messages.get(state.topic)
        if known is not None and known[0] is state:
            return known[1]
        told = description(state.topic, state.record, state.version_id, state.leader, state.owners)
        update = pb.TopicUpdate(state=told)
        self._messages[state.topic] = state, update
        self._messages.move_to_end(state.topic)
        if len(self._messages) > MESSAGES_KEPT_MAX:
            self._messages.popitem(last=False)
        return update

    async def namespace(self, stream: Stream) -> None:
        """A WatchNamespace stream, from its one request on."""
        request = await stream.first(pb.WatchNamespaceRequest)
        namespace, properties = NamespaceName.parse(request.namespace), dict(request.properties)
        known = request.known_hash or None
        async with self._desk.namespace_watches.open(namespace, properties, known=known) as session:
            if await session.is_known():
                await stream.send(pb.NamespaceUpdate(unchanged=pb.SetUnchanged()))
            async for event in session:
                await stream.send(_namespace_update(event))


def _namespace_update(event: SnapshotPage | Diff) -> pb.NamespaceUpdate:
    if isinstance(event, Diff):
        return pb.NamespaceUpdate(diff=pb.SetDiff(removed=event.removed, added=event.added))
    page = pb.SnapshotPage(topics=event.topics, is_first=event.is_first, is_last=event.is_last)
    return pb.NamespaceUpdate(page=page)
