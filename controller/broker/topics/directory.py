"""Topics made, read, listed, and their properties: what any broker does."""

from __future__ import annotations

from dataclasses import replace
from heapq import nsmallest

from controller.broker.topics.desk import TopicDesk, named
from controller.broker.topics.words import description, kinds_of, owners_of
from controller.layout import NamespaceName, TopicName, TopicRecord
from controller.pb import topics_pb2 as pb
from controller.topics import StoredTopic
from controller.topics.records import check_properties

TOPICS_PER_PAGE_MAX = 1_000


class Directory:
    """The records of topics."""

    def __init__(self, desk: TopicDesk) -> None:
        self._desk = desk

    async def create(self, request: pb.CreateTopicRequest, principal: str | None) -> pb.TopicDescription:
        """It has its segments, and these subscriptions their cursors, when this returns."""
        topic = named(request.topic)
        subscriptions = kinds_of(request.subscriptions)
        await self._desk.leaders.create(topic, request.segments or 1, dict(request.properties), subscriptions)
        return await self.described(topic)

    async def describe(self, request: pb.DescribeTopicRequest, principal: str | None) -> pb.TopicDescription:
        """As it is now."""
        return await self.described(named(request.topic))

    async def described(self, topic: TopicName) -> pb.TopicDescription:
        """A topic as it stands in the store."""
        return self._told(topic, await self._desk.topics.read(topic))

    def _told(self, topic: TopicName, stored: StoredTopic) -> pb.TopicDescription:
        owners = owners_of(topic, stored.record, self._desk.owners)
        return description(topic, stored.record, stored.version_id, self._desk.leaders.leader(topic), owners)

    async def list(self, request: pb.ListTopicsRequest, principal: str | None) -> pb.ListTopicsResponse:
        """A page, in the order of names."""
        limit = min(request.limit or TOPICS_PER_PAGE_MAX, TOPICS_PER_PAGE_MAX)
        namespace, wanted = NamespaceName.parse(request.namespace), dict(request.properties)
        check_properties(wanted)
        names = [str(each) async for each in self._desk.topics.names(namespace, wanted)]
        page = nsmallest(limit + 1, (each for each in names if each > request.after))
        return pb.ListTopicsResponse(topics=page[:limit], has_more=len(page) > limit)

    async def set_properties(self, request: pb.SetPropertiesRequest, principal: str | None) -> pb.TopicDescription:
        """Others in place of those that there are."""
        topic, properties = named(request.topic), dict(request.properties)

        def change(record: TopicRecord) -> TopicRecord:
            return replace(record, properties=properties)

        return self._told(topic, await self._desk.topics.update(topic, change))
