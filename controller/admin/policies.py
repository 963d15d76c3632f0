"""What topics and namespaces say about scaling and retention.

`…/autoScalePolicy` of a topic; `scalableTopicAutoScalePolicy` and `retention` of a namespace. Where nothing is said the
answer has no body. What holds then is in a topic's stats.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Body, Response
from fastapi.responses import JSONResponse

from controller.admin.asking import TopicsAsked
from controller.admin.bodies import RetentionBody
from controller.admin.names import OfNamespace, OfTopic
from controller.admin.problems import problems
from controller.admin.words import retention_of
from controller.client.topics.descriptions import Policy
from controller.topics import InvalidTopic

NO_CONTENT = HTTPStatus.NO_CONTENT
ABOVE_CHANGES = problems(HTTPStatus.CONFLICT)
CHANGES = problems(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)

POLICY = {"$ref": "#/components/schemas/AutoScalePolicy"}
Overrides = Annotated[
    dict[str, Any],
    Body(description="What is said here.", json_schema_extra=POLICY, examples=[{"maxSegments": 8, "enabled": True}]),
]
FOUND: dict[int | str, dict[str, Any]] = {
    200: {"description": "What is said here.", "content": {"application/json": {"schema": POLICY}}},
    204: {"description": "Nothing is said here."},
}
KEPT: dict[int | str, dict[str, Any]] = {
    200: {"description": "What is said here.", "model": RetentionBody},
    204: {"description": "Nothing is said here."},
}


def policies(topics: TopicsAsked) -> APIRouter:
    """The routes, in front of these topics."""
    router = APIRouter(tags=["policies"])
    _add_topic_policy(router, topics)
    _add_namespace_policy(router, topics)
    _add_retention(router, topics)
    return router


def _said(policy: Policy) -> Response:
    if policy.auto_scale is None:
        return Response(status_code=NO_CONTENT)
    return JSONResponse(dict(policy.auto_scale))


def _add_topic_policy(router: APIRouter, topics: TopicsAsked) -> None:
    path = "/admin/v2/scalable/{tenant}/{namespace}/{topic}/autoScalePolicy"

    @router.get(path, summary="A topic's policy", response_model=None, responses=FOUND | problems(HTTPStatus.NOT_FOUND))
    async def get_topic_policy(topic: OfTopic) -> Response:
        """What the topic says of scaling by itself."""
        return _said(await topics.policy(str(topic)))

    @router.post(path, summary="Set a topic's policy", status_code=NO_CONTENT, responses=CHANGES)
    async def set_topic_policy(topic: OfTopic, policy: Overrides) -> None:
        """In place of what it has said. It has to make sense with what namespace and broker say."""
        await topics.set_policy(str(topic), policy)

    @router.delete(path, summary="Clear a topic's policy", status_code=NO_CONTENT, responses=CHANGES)
    async def clear_topic_policy(topic: OfTopic) -> None:
        """What its namespace says holds again."""
        await topics.set_policy(str(topic), None)


def _add_namespace_policy(router: APIRouter, topics: TopicsAsked) -> None:
    path = "/admin/v2/namespaces/{tenant}/{namespace}/scalableTopicAutoScalePolicy"

    @router.get(path, summary="A namespace's policy", response_model=None, responses=FOUND | problems())
    async def get_namespace_policy(namespace: OfNamespace) -> Response:
        """What the namespace says of how its topics scale by themselves."""
        return _said(await topics.namespace_policy(str(namespace)))

    @router.post(path, summary="Set a namespace's policy", status_code=NO_CONTENT, responses=ABOVE_CHANGES)
    async def set_namespace_policy(namespace: OfNamespace, policy: Overrides) -> None:
        """In place of what it has said. It has to make sense with what the broker says."""
        await topics.set_namespace_policy(str(namespace), policy)

    @router.delete(path, summary="Clear a namespace's policy", status_code=NO_CONTENT, responses=ABOVE_CHANGES)
    async def clear_namespace_policy(namespace: OfNamespace) -> None:
        """What the broker says holds again."""
        await topics.set_namespace_policy(str(namespace), None)


def _add_retention(router: APIRouter, topics: TopicsAsked) -> None:
    path = "/admin/v2/namespaces/{tenant}/{namespace}/retention"

    @router.get(path, summary="A namespace's retention", response_model=None, responses=KEPT | problems())
    async def get_retention(namespace: OfNamespace) -> Response:
        """How long its topics keep sealed segments that nobody needs."""
        minutes = (await topics.namespace_policy(str(namespace))).retention_minutes
        if minutes is None:
            return Response(status_code=NO_CONTENT)
        return JSONResponse(retention_of(minutes).model_dump())

    @router.post(path, summary="Set a namespace's retention", status_code=NO_CONTENT, responses=ABOVE_CHANGES)
    async def set_retention(namespace: OfNamespace, retention: RetentionBody) -> None:
        """In place of what it has said."""
        if retention.retentionSizeInMB == 0 and retention.retentionTimeInMinutes != 0:
            raise InvalidTopic("retentionSizeInMB 0 keeps nothing: beside a time -1 is expected, for any size")
        await topics.set_retention(str(namespace), retention.retentionTimeInMinutes)

    @router.delete(path, summary="Clear a namespace's retention", status_code=NO_CONTENT, responses=ABOVE_CHANGES)
    async def clear_retention(namespace: OfNamespace) -> None:
        """What the broker says holds again."""
        await topics.set_retention(str(namespace), None)
