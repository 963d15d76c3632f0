"""What the admin service asks about topics. The client's `topics` answer it: they find the broker that can."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol

from controller.client.topics.descriptions import Explanation, Policy, TopicStats, TopicSubscriptionKind
from controller.client.topics.layouts import TopicState
from controller.client.values import Edge


class TopicsAsked(Protocol):
    """Topics by their names, wherever they are led. What is refused is raised as the broker raised it."""

    async def create(
        self,
        topic: str,
        *,
        segments: int = 1,
        properties: Mapping[str, str] | None = None,
        subscriptions: Mapping[str, TopicSubscriptionKind] | None = None,
    ) -> TopicState:
        """Creates a topic; TopicExists if there is one."""

    async def describe(self, topic: str) -> TopicState:
        """A topic as it is now."""

    def list(self, namespace: str, properties: Mapping[str, str] | None = None) -> AsyncIterator[str]:
        """The names of a namespace's topics that have all these properties, in order."""

    async def set_properties(self, topic: str, properties: Mapping[str, str]) -> TopicState:
        """Puts other properties in place of those that it has."""

    async def delete(self, topic: str) -> None:
        """Deletes it with all that belongs to it."""

    async def split(self, topic: str, segment_id: int) -> TopicState:
        """Two segments in place of one."""

    async def merge(self, topic: str, segment_ids: Sequence[int]) -> TopicState:
        """One segment in place of neighbours."""

    async def policy(self, topic: str) -> Policy:
        """What a topic says of scaling, and what holds."""

    async def set_policy(self, topic: str, auto_scale: Mapping[str, Any] | None) -> Policy:
        """Says something else of scaling; None: nothing."""

    async def namespace_policy(self, namespace: str) -> Policy:
        """What a namespace says of scaling and retention, and what holds."""

    async def set_namespace_policy(self, namespace: str, auto_scale: Mapping[str, Any] | None) -> Policy:
        """Says something else of scaling; None: nothing."""

    async def set_retention(self, namespace: str, minutes: int | None) -> Policy:
        """Says something else of retention; None: nothing."""

    async def create_subscription(
        self, topic: str, subscription: str, kind: TopicSubscriptionKind, start: Edge
    ) -> None:
        """One that is there stays as it is."""

    async def delete_subscription(self, topic: str, subscription: str) -> None:
        """One that is not there is deleted already."""

    async def seek(self, topic: str, subscription: str, time_ms: int) -> None:
        """Everything since then is delivered again."""

    async def skip_all(self, topic: str, subscription: str) -> None:
        """All that there is counts as acknowledged."""

    async def stats(self, topic: str) -> TopicStats:
        """In numbers."""

    async def explain(self, topic: str) -> Explanation:
        """Why it did or did not scale."""
