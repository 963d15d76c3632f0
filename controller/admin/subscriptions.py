"""`/admin/v2/scalable/…/subscriptions`: the subscriptions of topics."""

from __future__ import annotations

from enum import Enum
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query

from controller.admin.asking import TopicsAsked
from controller.admin.names import OfTopic, Subscription, Timestamp
from controller.admin.problems import problems
from controller.client import Edge
from controller.subscriptions import SubscriptionKind

NO_CONTENT = HTTPStatus.NO_CONTENT
CHANGES = problems(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)


class Kind(Enum):
    """How a subscription is consumed."""

    STREAM = "STREAM"
    QUEUE = "QUEUE"
    CHECKPOINT = "CHECKPOINT"


class Beginning(Enum):
    """Where a subscription begins."""

    EARLIEST = "earliest"
    LATEST = "latest"


def subscriptions(topics: TopicsAsked) -> APIRouter:
    """The routes, in front of these topics."""
    prefix = "/admin/v2/scalable/{tenant}/{namespace}/{topic}/subscriptions/{subscription}"
    router = APIRouter(prefix=prefix, tags=["subscriptions"])

    @router.put("", summary="Create a subscription", status_code=NO_CONTENT, responses=CHANGES)
    async def create_subscription(
        topic: OfTopic,
        subscription: Subscription,
        type: Annotated[Kind, Query(description="How it is consumed.")] = Kind.STREAM,
        start: Annotated[Beginning, Query(description="Where it begins.")] = Beginning.EARLIEST,
    ) -> None:
        """It has a cursor in every segment afterwards. One that is there stays as it is."""
        await topics.create_subscription(str(topic), subscription, SubscriptionKind[type.name], Edge[start.name])

    @router.delete("", summary="Delete a subscription", status_code=NO_CONTENT, responses=CHANGES)
    async def delete_subscription(topic: OfTopic, subscription: Subscription) -> None:
        """Its cursors and its consumers' sessions go with it. One that is not there is deleted already."""
        await topics.delete_subscription(str(topic), subscription)

    @router.post("/seek", summary="Go to a time", status_code=NO_CONTENT, responses=CHANGES)
    async def seek(topic: OfTopic, subscription: Subscription, timestamp: Timestamp) -> None:
        """Everything that was published since then is delivered again, and nothing before it."""
        await topics.seek(str(topic), subscription, timestamp)

    @router.post("/skip-all", summary="Skip all that there is", status_code=NO_CONTENT, responses=CHANGES)
    async def skip_all(topic: OfTopic, subscription: Subscription) -> None:
        """It counts as acknowledged."""
        await topics.skip_all(str(topic), subscription)

    return router
