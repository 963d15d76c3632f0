"""Administration of topics: what there is, how it is divided, who reads it, and what it shall do by itself."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import Any, TypeVar

from google.protobuf.message import Message

from controller.client.caller import Caller
from controller.client.errors import InvalidRequest
from controller.client.protocol import (
    CREATE_TOPIC,
    CREATE_TOPIC_SUBSCRIPTION,
    DELETE_TOPIC,
    DELETE_TOPIC_SUBSCRIPTION,
    DESCRIBE_TOPIC,
    EXPLAIN_SCALING,
    GET_POLICY,
    LIST_TOPICS,
    MERGE_SEGMENTS,
    SEEK_TOPIC_SUBSCRIPTION,
    SET_POLICY,
    SET_PROPERTIES,
    SPLIT_SEGMENT,
    TOPIC_STATS,
)
from controller.client.topics.descriptions import (
    KIND_MESSAGES,
    Explanation,
    Policy,
    TopicStats,
    TopicSubscriptionKind,
    explanation_of,
    policy_of,
    stats_of,
)
from controller.client.topics.layouts import Layouts, TopicState, state_of
from controller.client.topics.names import namespace_of, topic_of
from controller.client.topics.namespaces import TopicSet, TopicSetChange
from controller.client.values import EARLIEST, LATEST, Edge
from controller.pb import topics_pb2 as pb
from controller.topics.errors import TopicNotFound
from metastore.dialling import Method

Q = TypeVar("Q", bound=Message)
A = TypeVar("A", bound=Message)


class Topics:
    """Topics are named as `topic://TENANT/NAMESPACE/NAME`, `TENANT/NAMESPACE/NAME` or `NAME`.

    What is asked again because an answer was lost may have been done the first time: then creating tells TopicExists.
    Deleting succeeds all the same.
    """

    def __init__(self, caller: Caller, layouts: Layouts) -> None:
        self._caller = caller
        self._layouts = layouts

    # -- topics

    async def create(
        self,
        topic: str,
        *,
        segments: int = 1,
        properties: Mapping[str, str] | None = None,
        subscriptions: Mapping[str, TopicSubscriptionKind] | None = None,
    ) -> TopicState:
        """Creates a topic; when this returns its segments and subscriptions are there. TopicExists if there was one."""
        if segments < 1:
            raise InvalidRequest(f"{segments} segments: at least 1")
        name = str(topic_of(topic))
        request = pb.CreateTopicRequest(
            topic=name,
            segments=segments,
            properties=properties or {},
            subscriptions={each: KIND_MESSAGES[kind] for each, kind in (subscriptions or {}).items()},
        )
        return state_of(await self._caller.call(CREATE_TOPIC, request, f"create {name}"))

    async def describe(self, topic: str) -> TopicState:
        """A topic as it is now. TopicNotFound if there is none."""
        name = str(topic_of(topic))
        return state_of(await self._caller.call(DESCRIBE_TOPIC, pb.DescribeTopicRequest(topic=name), f"look at {name}"))

    async def list(self, namespace: str, properties: Mapping[str, str] | None = None) -> AsyncIterator[str]:
        """The names of a namespace's topics that have all these properties, in order."""
        parent, after = str(namespace_of(namespace)), ""
        while True:
            request = pb.ListTopicsRequest(namespace=parent, properties=properties or {}, after=after)
            page = await self._caller.call(LIST_TOPICS, request, f"list the topics of {parent}")
            for each in page.topics:
                yield each
            if not page.has_more or not page.topics:
                return
            after = page.topics[-1]

    async def delete(self, topic: str) -> None:
        """Deletes a topic with all that belongs to it. TopicNotFound if there is none.

        Behind an answer that was lost it is as well that there is none: then this may be what has deleted it.
        """
        name = str(topic_of(topic))
        way = self._caller.way(name)
        try:
            await self._caller.call_by(way, DELETE_TOPIC, pb.DeleteTopicRequest(topic=name), f"delete {name}")
        except TopicNotFound:
            if not way.is_in_doubt:
                raise

    async def set_properties(self, topic: str, properties: Mapping[str, str]) -> TopicState:
        """Puts other properties in place of those that a topic has."""
        name = str(topic_of(topic))
        request = pb.SetPropertiesRequest(topic=name, properties=properties)
        return state_of(await self._caller.call(SET_PROPERTIES, request, f"set the properties of {name}"))

    # -- segments

    async def split(self, topic: str, segment_id: int) -> TopicState:
        """Two segments in place of one. OperationUnderWay while the layout is just being changed."""
        name = str(topic_of(topic))
        request = pb.SplitSegmentRequest(topic=name, segment_id=_checked(segment_id))
        return state_of(await self._at_leader(SPLIT_SEGMENT, request, name, f"split segment {segment_id} of"))

    async def merge(self, topic: str, segment_ids: Sequence[int]) -> TopicState:
        """One segment in place of several that lie side by side. OperationUnderWay as in `split`."""
        name = str(topic_of(topic))
        request = pb.MergeSegmentsRequest(topic=name, segment_ids=[_checked(each) for each in segment_ids])
        return state_of(await self._at_leader(MERGE_SEGMENTS, request, name, f"merge segments {segment_ids} of"))

    # -- policies

    async def policy(self, topic: str) -> Policy:
        """What a topic says about scaling, and what holds for it."""
        request = pb.GetPolicyRequest(topic=str(topic_of(topic)))
        return policy_of(await self._caller.call(GET_POLICY, request, f"look at the policy of {topic}"))

    async def set_policy(self, topic: str, auto_scale: Mapping[str, Any] | None) -> Policy:
        """What a topic says about scaling from now on: overrides, or None for nothing."""
        request = pb.SetPolicyRequest(topic=str(topic_of(topic)), auto_scale=_said(auto_scale))
        return policy_of(await self._caller.call(SET_POLICY, request, f"set the policy of {topic}"))

    async def namespace_policy(self, namespace: str) -> Policy:
        """What a namespace says about scaling and retention."""
        request = pb.GetPolicyRequest(namespace=str(namespace_of(namespace)))
        return policy_of(await self._caller.call(GET_POLICY, request, f"look at the policy of {namespace}"))

    async def set_namespace_policy(self, namespace: str, auto_scale: Mapping[str, Any] | None) -> Policy:
        """What a namespace says about scaling from now on: overrides, or None for nothing."""
        request = pb.SetPolicyRequest(namespace=str(namespace_of(namespace)), auto_scale=_said(auto_scale))
        return policy_of(await self._caller.call(SET_POLICY, request, f"set the policy of {namespace}"))

    async def set_retention(self, namespace: str, minutes: int | None) -> Policy:
        """How long what is drained is kept in a namespace. Negative: for ever. None: as the broker says."""
        parent = str(namespace_of(namespace))
        request = pb.SetPolicyRequest(namespace=parent, retention_minutes=minutes, clears_retention=minutes is None)
        return policy_of(await self._caller.call(SET_POLICY, request, f"set the retention of {parent}"))

    # -- subscriptions

    async def create_subscription(
        self, topic: str, subscription: str, kind: TopicSubscriptionKind, start: Edge = LATEST
    ) -> None:
        """Creates a subscription. One that is there stays as it is; WrongKind if that is of another kind."""
        name = str(topic_of(topic))
        request = pb.CreateTopicSubscriptionRequest(
            topic=name,
            subscription=subscription,
            kind=KIND_MESSAGES[kind],
            start=pb.EARLIEST if start is EARLIEST else pb.LATEST,
        )
        await self._at_leader(CREATE_TOPIC_SUBSCRIPTION, request, name, f"create subscription {subscription!r} of")

    async def delete_subscription(self, topic: str, subscription: str) -> None:
        """Deletes a subscription. One that is not there is deleted already."""
        name = str(topic_of(topic))
        request = pb.DeleteTopicSubscriptionRequest(topic=name, subscription=subscription)
        await self._at_leader(DELETE_TOPIC_SUBSCRIPTION, request, name, f"delete subscription {subscription!r} of")

    async def seek(self, topic: str, subscription: str, time_ms: int) -> None:
        """Delivers everything again that was published since a time, in ms since the epoch."""
        if time_ms < 0:
            raise InvalidRequest(f"time_ms={time_ms}: 0 or more")
        name = str(topic_of(topic))
        request = pb.SeekTopicSubscriptionRequest(topic=name, subscription=subscription, time_ms=time_ms)
        await self._at_leader(SEEK_TOPIC_SUBSCRIPTION, request, name, f"seek in {subscription!r} of")

    async def skip_all(self, topic: str, subscription: str) -> None:
        """Acknowledges all that there is."""
        name = str(topic_of(topic))
        request = pb.SeekTopicSubscriptionRequest(topic=name, subscription=subscription, end=True)
        await self._at_leader(SEEK_TOPIC_SUBSCRIPTION, request, name, f"skip what is in {subscription!r} of")

    # -- looking

    async def stats(self, topic: str) -> TopicStats:
        """A topic in numbers: loads, backlogs, consumers and what each of them has."""
        name = str(topic_of(topic))
        return stats_of(await self._at_leader(TOPIC_STATS, pb.TopicStatsRequest(topic=name), name, "count what is in"))

    async def explain(self, topic: str) -> Explanation:
        """What scaling by itself would do now, and what it has considered. Nothing is done by this."""
        name = str(topic_of(topic))
        request = pb.ExplainScalingRequest(topic=name)
        return explanation_of(await self._at_leader(EXPLAIN_SCALING, request, name, "explain the scaling of"))

    async def watch(self, topic: str) -> AsyncGenerator[TopicState | None, None]:
        """A topic as it is, and each time it is different; None while there is none. Several changes may be told as
        one."""
        view = self._layouts.take(topic_of(topic))
        try:
            while True:
                known = view.news
                if view.state is not None or view.is_gone:
                    yield view.state
                await view.wait_news(known)
        finally:
            await self._layouts.give_back(view)

    async def watch_namespace(
        self, namespace: str, properties: Mapping[str, str] | None = None
    ) -> AsyncGenerator[TopicSetChange, None]:
        """The topics of a namespace that have all these properties, and how that changes: first all of them as added.

        A name that is both removed and added is of another topic now. Several changes may be told as one.
        """
        topics = TopicSet(self._caller, namespace_of(namespace), properties or {})
        async for change in topics.changes():
            yield change

    async def _at_leader(self, method: Method[Q, A], request: Q, topic: str, doing: str) -> A:
        return await self._caller.call(method, request, f"{doing} {topic}", segment=topic)


def _checked(segment_id: int) -> int:
    if not 0 <= segment_id < 1 << 63:
        raise InvalidRequest(f"{segment_id} is no segment's id")
    return segment_id


def _said(overrides: Mapping[str, Any] | None) -> str:
    return "" if overrides is None else json.dumps(dict(overrides))
