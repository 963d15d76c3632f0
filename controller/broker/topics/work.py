"""What leaders of topics at other brokers ask of the segments that are owned here. Nobody else is asked for them."""

from __future__ import annotations

from controller.broker.messages import checked_count
from controller.broker.topics.words import start_of
from controller.errors import InvalidRequest
from controller.operations import Bound, SegmentWork, Start
from controller.pb import topics_pb2 as pb

CURSORS_PER_REQUEST_MAX = 1_000

_ENDS = {Start.EARLIEST: Bound.BEGINNING, Start.LATEST: Bound.END}


class WorkHere:
    """The methods that brokers ask of each other."""

    def __init__(self, work: SegmentWork) -> None:
        self._work = work

    async def create(self, request: pb.CreateWithCursorsRequest, principal: str | None) -> pb.WorkDone:
        """A segment with cursors at its beginning."""
        checked_count("subscriptions", len(request.subscriptions), CURSORS_PER_REQUEST_MAX, "CURSORS_PER_REQUEST_MAX")
        await self._work.create(_segment(request.segment), list(request.subscriptions))
        return pb.WorkDone()

    async def seal(self, request: pb.SealRequest, principal: str | None) -> pb.WorkDone:
        """It takes no more entries."""
        await self._work.seal(_segment(request.segment))
        return pb.WorkDone()

    async def subscribe(self, request: pb.CreateCursorRequest, principal: str | None) -> pb.WorkDone:
        """One that is there stays where it is."""
        await self._work.subscribe(_segment(request.segment), request.subscription, start_of(request.start))
        return pb.WorkDone()

    async def unsubscribe(self, request: pb.DeleteCursorRequest, principal: str | None) -> pb.WorkDone:
        """It has no such cursor afterwards."""
        await self._work.unsubscribe(_segment(request.segment), request.subscription)
        return pb.WorkDone()

    async def seek(self, request: pb.SetCursorRequest, principal: str | None) -> pb.WorkDone:
        """To a time, or to an end."""
        match request.WhichOneof("to"):
            case "time_ms":
                to: int | Bound = request.time_ms
            case "end":
                to = _ENDS[start_of(request.end)]
            case _:
                raise InvalidRequest("a cursor that is set nowhere: a time or an end is expected")
        await self._work.seek(_segment(request.segment), request.subscription, to)
        return pb.WorkDone()

    async def set_claim(self, request: pb.SetClaimRequest, principal: str | None) -> pb.WorkDone:
        """Who produces without the newest claim is refused from now on."""
        await self._work.set_claim(_segment(request.segment), request.claim, request.is_released)
        return pb.WorkDone()

    async def backlog(self, request: pb.BacklogRequest, principal: str | None) -> pb.BacklogResponse:
        """Of one cursor."""
        return pb.BacklogResponse(entries=await self._work.backlog(_segment(request.segment), request.subscription))

    async def backlogs(self, request: pb.BacklogsRequest, principal: str | None) -> pb.BacklogsResponse:
        """Of all of them."""
        return pb.BacklogsResponse(entries=await self._work.backlogs(_segment(request.segment)))


def _segment(name: str) -> str:
    if not name:
        raise InvalidRequest("a segment without a name")
    return name
