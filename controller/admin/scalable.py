"""`/admin/v2/scalable`: topics. The paths, the codes and the JSON are those of Pulsar 5, and there is more of each."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Body, Query

from controller.admin.asking import TopicsAsked
from controller.admin.bodies import ExplanationBody, RecordBody, SegmentCountsBody, StatsBody, record_body
from controller.admin.names import OfNamespace, OfTopic, Properties, SegmentId, properties_of
from controller.admin.problems import problems
from controller.admin.words import counts_of, explanation_of, stats_of
from controller.errors import InvalidRequest
from controller.topics import TopicExists, TopicNotFound

SEGMENTS_MAX = 1_000
MERGED_MAX = 1_000
NO_CONTENT = HTTPStatus.NO_CONTENT
READS, CHANGES = problems(HTTPStatus.NOT_FOUND), problems(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)

PropertiesBody = Annotated[
    dict[str, str] | None, Body(description="The topic's properties.", examples=[{"team": "billing"}])
]
Force = Annotated[bool, Query(description="Taken for Pulsar's sake: what is connected is cut off either way.")]


def scalable(topics: TopicsAsked) -> APIRouter:
    """The routes, in front of these topics."""
    router = APIRouter(prefix="/admin/v2/scalable/{tenant}/{namespace}", tags=["topics"])
    _add_topics(router, topics)
    _add_layout(router, topics)
    _add_views(router, topics)
    return router


def _add_topics(router: APIRouter, topics: TopicsAsked) -> None:
    @router.get("", summary="List topics", responses=problems())
    async def list_topics(namespace: OfNamespace, property: Properties = None) -> list[str]:
        """The names of a namespace's topics, in order: all, or those that have all these properties."""
        wanted = properties_of(property or ())
        return [name async for name in topics.list(str(namespace), wanted)]

    @router.put("/{topic}", summary="Create a topic", status_code=NO_CONTENT, responses=problems(HTTPStatus.CONFLICT))
    async def create_topic(
        topic: OfTopic,
        properties: PropertiesBody = None,
        numInitialSegments: Annotated[
            int, Query(ge=1, le=SEGMENTS_MAX, description="How many segments it begins with.")
        ] = 1,
    ) -> None:
        """When this is answered, its segments are there."""
        if topic.local != topic.local.strip():
            raise InvalidRequest(f"{topic.local[:80]!r}: a topic's name neither begins nor ends with blanks")
        await topics.create(str(topic), segments=numInitialSegments, properties=properties)

    @router.get("/{topic}", summary="A topic's record", response_model_exclude_unset=True, responses=READS)
    async def get_topic(topic: OfTopic) -> RecordBody:
        """Its segments, its properties and its own policy, as they stand in the store."""
        return record_body((await topics.describe(str(topic))).record)

    @router.delete("/{topic}", summary="Delete a topic", status_code=NO_CONTENT, responses=CHANGES)
    async def delete_topic(topic: OfTopic, force: Force = False) -> None:
        """All that belongs to it goes with it."""
        await topics.delete(str(topic))

    @router.get("/{topic}/properties", summary="A topic's properties", responses=READS)
    async def get_properties(topic: OfTopic) -> dict[str, str]:
        """As they are now."""
        return dict((await topics.describe(str(topic))).record.properties)

    @router.put("/{topic}/properties", summary="Change properties", status_code=NO_CONTENT, responses=CHANGES)
    async def set_properties(
        topic: OfTopic,
        properties: Annotated[dict[str, str], Body(description="All properties.", examples=[{"team": "billing"}])],
    ) -> None:
        """These are put in place of those that it has."""
        await topics.set_properties(str(topic), properties)

    @router.post("/{topic}/migrate", summary="Migrate a topic", status_code=NO_CONTENT, responses=CHANGES)
    async def migrate(topic: OfTopic, force: Force = False) -> None:
        """There are no topics of the old kind here: who asks is told what stands under the name instead."""
        try:
            await topics.describe(str(topic))
        except TopicNotFound:
            raise TopicNotFound(f"there is no topic persistent://{topic.parent}/{topic.local} to be migrated") from None
        raise TopicExists(f"{topic} is a scalable topic already")


def _add_layout(router: APIRouter, topics: TopicsAsked) -> None:
    @router.post(
        "/{topic}/split/{segmentId}",
        summary="Split a segment",
        status_code=NO_CONTENT,
        responses=CHANGES,
    )
    async def split(topic: OfTopic, segmentId: SegmentId) -> None:
        """Two segments in place of one."""
        await topics.split(str(topic), segmentId)

    @router.post(
        "/{topic}/merge/{segmentId1}/{segmentId2}",
        summary="Merge two segments",
        status_code=NO_CONTENT,
        responses=CHANGES,
    )
    async def merge(topic: OfTopic, segmentId1: SegmentId, segmentId2: SegmentId) -> None:
        """One segment in place of two neighbours."""
        await topics.merge(str(topic), [segmentId1, segmentId2])

    @router.post(
        "/{topic}/merge",
        summary="Merge several segments",
        status_code=NO_CONTENT,
        responses=CHANGES,
    )
    async def merge_many(
        topic: OfTopic,
        segmentId: Annotated[
            list[Annotated[int, Query(ge=0, le=(1 << 63) - 1)]],
            Query(description="A segment's number, any number of times.", min_length=2, max_length=MERGED_MAX),
        ],
    ) -> None:
        """One segment in place of any number of neighbours."""
        await topics.merge(str(topic), segmentId)


def _add_views(router: APIRouter, topics: TopicsAsked) -> None:
    @router.get("/{topic}/stats", summary="A topic in numbers", responses=READS)
    async def stats(topic: OfTopic) -> StatsBody:
        """Its segments with loads and backlogs, its subscriptions with their consumers, and what policy holds."""
        return stats_of(await topics.stats(str(topic)))

    @router.get("/{topic}/segmentCounts", summary="How many segments a topic has", responses=READS)
    async def segment_counts(topic: OfTopic) -> SegmentCountsBody:
        """For whoever starts as many consumers as there are segments; any broker tells, and it costs one read."""
        return counts_of((await topics.describe(str(topic))).layout)

    @router.get("/{topic}/explain", summary="Why a topic did or did not scale", responses=READS)
    async def explain(topic: OfTopic) -> ExplanationBody:
        """What splitting and merging by itself would do now, and what it has considered."""
        return explanation_of(await topics.explain(str(topic)))
