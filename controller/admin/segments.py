"""`/admin/v2/segments`: single segments, without their topics.

This is for repairs, and for data without a topic: what changes a topic is asked of the topic.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Body, Query

from controller.admin.names import OfSegment, Subscription, Timestamp
from controller.admin.problems import problems
from controller.client import EARLIEST, LATEST, Edge
from controller.client.cursors import Cursors
from controller.client.segments import Segments
from controller.layout import SegmentName
from controller.topics import SubscriptionNotFound

NO_CONTENT = HTTPStatus.NO_CONTENT
READS, CHANGES = problems(HTTPStatus.NOT_FOUND), problems(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)
CURSORS_MAX = 1_000

Names = Annotated[
    list[Annotated[str, Body(min_length=1)]] | None,
    Body(description="Subscriptions that begin at its beginning.", max_length=CURSORS_MAX, examples=[["billing"]]),
]


def segments(owned: Segments, cursors: Cursors) -> APIRouter:
    """The routes, in front of these segments."""
    router = APIRouter(prefix="/admin/v2/segments/{tenant}/{namespace}/{topic}/{descriptor}", tags=["segments"])
    _add_segments(router, owned, cursors)
    _add_cursors(router, cursors)
    _add_moves(router, cursors)
    return router


def _add_segments(router: APIRouter, owned: Segments, cursors: Cursors) -> None:
    @router.put("", summary="Create a segment", status_code=NO_CONTENT, responses=CHANGES)
    async def create_segment(segment: OfSegment, subscriptions: Names = None) -> None:
        """One that is there stays as it is, and gets the subscriptions that it has not."""
        await cursors.create_segment(str(segment), subscriptions or ())

    @router.post("/terminate", summary="Seal a segment", status_code=NO_CONTENT, responses=CHANGES)
    async def terminate_segment(segment: OfSegment) -> None:
        """It takes no more messages."""
        await owned.seal(str(segment))

    @router.delete("", summary="Delete a segment", status_code=NO_CONTENT, responses=problems(HTTPStatus.CONFLICT))
    async def delete_segment(
        segment: OfSegment,
        force: Annotated[bool, Query(description="Taken for Pulsar's sake: whoever is connected is cut off.")] = False,
    ) -> None:
        """It goes for good, with its subscriptions. One that is not there is deleted already."""
        await owned.delete(str(segment))


def _add_cursors(router: APIRouter, cursors: Cursors) -> None:
    path = "/subscription/{subscription}"

    @router.put(path, summary="Create a cursor", status_code=NO_CONTENT, responses=CHANGES)
    async def create_cursor(segment: OfSegment, subscription: Subscription) -> None:
        """It begins at the beginning. One that is there stays where it is."""
        await cursors.create(str(segment), subscription)

    @router.delete(path, summary="Delete a cursor", status_code=NO_CONTENT, responses=CHANGES)
    async def delete_cursor(segment: OfSegment, subscription: Subscription) -> None:
        """One that is not there is deleted already."""
        await cursors.delete(str(segment), subscription)


def _add_moves(router: APIRouter, cursors: Cursors) -> None:
    path = "/subscription/{subscription}"

    @router.get(f"{path}/backlog", summary="A cursor's backlog", responses=READS)
    async def backlog(segment: OfSegment, subscription: Subscription) -> int:
        """Entries that are not acknowledged."""
        return await _there(cursors, segment, subscription)

    @router.post(f"{path}/seek", summary="Set a cursor", status_code=NO_CONTENT, responses=CHANGES)
    async def seek_cursor(
        segment: OfSegment,
        subscription: Subscription,
        timestamp: Timestamp,
    ) -> None:
        """To the first entry that was published since then."""
        await _move(cursors, segment, subscription, timestamp)

    @router.post(f"{path}/skip-all", summary="Set a cursor to the end", status_code=NO_CONTENT, responses=CHANGES)
    async def skip_cursor(segment: OfSegment, subscription: Subscription) -> None:
        """All that there is counts as acknowledged."""
        await _move(cursors, segment, subscription, LATEST)


async def _move(cursors: Cursors, segment: SegmentName, subscription: str, to: int | Edge) -> None:
    await _there(cursors, segment, subscription)
    await cursors.seek(str(segment), subscription, EARLIEST if to == 0 else to)


async def _there(cursors: Cursors, segment: SegmentName, subscription: str) -> int:
    entries = await cursors.backlog(str(segment), subscription)
    if entries is None:
        raise SubscriptionNotFound(f"{segment} has no subscription {subscription!r}, or is not there itself")
    return entries
