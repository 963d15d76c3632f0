"""Subscriptions of single segments. Those of topics are their leaders' to make, in all segments at once.

Every method takes a topic's name, which means its first segment, or a segment's own.
"""

from __future__ import annotations

from collections.abc import Collection

from controller.client.caller import Caller
from controller.client.names import segment_of
from controller.client.protocol import BACKLOG, CREATE_CURSOR, CREATE_WITH_CURSORS, DELETE_CURSOR, SET_CURSOR
from controller.client.values import EARLIEST, LATEST, Edge
from controller.pb import topics_pb2 as pb

_STARTS = {EARLIEST: pb.EARLIEST, LATEST: pb.LATEST}


class Cursors:
    """The owners of segments do it, whoever is asked first."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def create_segment(self, topic: str, subscriptions: Collection[str] = ()) -> None:
        """There is such a segment afterwards, and these subscriptions begin at its beginning."""
        segment = segment_of(topic)
        request = pb.CreateWithCursorsRequest(segment=segment, subscriptions=subscriptions)
        await self._caller.call(CREATE_WITH_CURSORS, request, f"create {segment}", segment=segment)

    async def create(self, topic: str, subscription: str, start: Edge = EARLIEST) -> None:
        """One that is there stays where it is."""
        segment = segment_of(topic)
        request = pb.CreateCursorRequest(segment=segment, subscription=subscription, start=_STARTS[start])
        await self._caller.call(CREATE_CURSOR, request, f"create a subscription of {segment}", segment=segment)

    async def delete(self, topic: str, subscription: str) -> None:
        """One that is not there is deleted already."""
        segment = segment_of(topic)
        request = pb.DeleteCursorRequest(segment=segment, subscription=subscription)
        await self._caller.call(DELETE_CURSOR, request, f"delete a subscription of {segment}", segment=segment)

    async def seek(self, topic: str, subscription: str, to: int | Edge) -> None:
        """To a time in milliseconds, or to an end. One that is not there stays so."""
        segment = segment_of(topic)
        if isinstance(to, Edge):
            request = pb.SetCursorRequest(segment=segment, subscription=subscription, end=_STARTS[to])
        else:
            request = pb.SetCursorRequest(segment=segment, subscription=subscription, time_ms=to)
        await self._caller.call(SET_CURSOR, request, f"set a subscription of {segment}", segment=segment)

    async def backlog(self, topic: str, subscription: str) -> int | None:
        """Entries that are not acknowledged; None if there is no such segment or subscription."""
        segment = segment_of(topic)
        request = pb.BacklogRequest(segment=segment, subscription=subscription)
        told = await self._caller.call(BACKLOG, request, f"look at a subscription of {segment}", segment=segment)
        return told.entries if told.HasField("entries") else None
