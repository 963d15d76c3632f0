"""Work on segments that another broker owns, as leaders of topics ask for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol, TypeVar

from google.protobuf.message import Message

from controller.operations import Bound, Start
from controller.pb import topics_pb2 as pb
from metastore.dialling import Method

Q = TypeVar("Q", bound=Message)
A = TypeVar("A", bound=Message)

_SERVICE = f"/{pb.DESCRIPTOR.services_by_name['SegmentWork'].full_name}"
_CREATE = Method(f"{_SERVICE}/CreateWithCursors", pb.CreateWithCursorsRequest, pb.WorkDone)
_SEAL = Method(f"{_SERVICE}/Seal", pb.SealRequest, pb.WorkDone)
_CREATE_CURSOR = Method(f"{_SERVICE}/CreateCursor", pb.CreateCursorRequest, pb.WorkDone)
_DELETE_CURSOR = Method(f"{_SERVICE}/DeleteCursor", pb.DeleteCursorRequest, pb.WorkDone)
_SET_CURSOR = Method(f"{_SERVICE}/SetCursor", pb.SetCursorRequest, pb.WorkDone)
_SET_CLAIM = Method(f"{_SERVICE}/SetClaim", pb.SetClaimRequest, pb.WorkDone)
_BACKLOG = Method(f"{_SERVICE}/Backlog", pb.BacklogRequest, pb.BacklogResponse)
_BACKLOGS = Method(f"{_SERVICE}/Backlogs", pb.BacklogsRequest, pb.BacklogsResponse)

_STARTS = {Start.EARLIEST: pb.EARLIEST, Start.LATEST: pb.LATEST}
_ENDS = {Bound.BEGINNING: pb.EARLIEST, Bound.END: pb.LATEST}


class Calls(Protocol):
    """How a broker is asked."""

    async def call(self, address: str, method: Method[Q, A], request: Q) -> A:
        """Asks the broker at an address once."""


class RemoteWork:
    """`OwnedWork` at one broker. OwnedElsewhere says who owns the segment, if it is not that one."""

    def __init__(self, calls: Calls, address: str) -> None:
        self._calls = calls
        self._address = address

    async def create(self, segment: str, subscriptions: Collection[str]) -> None:
        """There is such a segment afterwards, with these cursors at its beginning."""
        await self._ask(_CREATE, pb.CreateWithCursorsRequest(segment=segment, subscriptions=subscriptions))

    async def seal(self, segment: str) -> None:
        """It takes no more entries."""
        await self._ask(_SEAL, pb.SealRequest(segment=segment))

    async def subscribe(self, segment: str, subscription: str, start: Start) -> None:
        """It has such a cursor afterwards; one that is there stays where it is."""
        request = pb.CreateCursorRequest(segment=segment, subscription=subscription, start=_STARTS[start])
        await self._ask(_CREATE_CURSOR, request)

    async def unsubscribe(self, segment: str, subscription: str) -> None:
        """It has no such cursor afterwards."""
        await self._ask(_DELETE_CURSOR, pb.DeleteCursorRequest(segment=segment, subscription=subscription))

    async def seek(self, segment: str, subscription: str, to: int | Bound) -> None:
        """Sets a cursor to a time in milliseconds, or to an end. Nothing if there is no such segment or cursor."""
        request = pb.SetCursorRequest(segment=segment, subscription=subscription)
        if isinstance(to, Bound):
            request.end = _ENDS[to]
        else:
            request.time_ms = to
        await self._ask(_SET_CURSOR, request)

    async def set_claim(self, segment: str, claim: int, is_released: bool) -> None:
        """It has heard of this claim to produce; nothing if there is no such segment."""
        await self._ask(_SET_CLAIM, pb.SetClaimRequest(segment=segment, claim=claim, is_released=is_released))

    async def backlog(self, segment: str, subscription: str) -> int | None:
        """Entries that are not acknowledged; None if there is no such segment or cursor."""
        told = await self._ask(_BACKLOG, pb.BacklogRequest(segment=segment, subscription=subscription))
        return told.entries if told.HasField("entries") else None

    async def backlogs(self, segment: str) -> Mapping[str, int]:
        """The same of all its cursors, by subscription; nothing if there is no such segment."""
        return dict((await self._ask(_BACKLOGS, pb.BacklogsRequest(segment=segment))).entries)

    async def _ask(self, method: Method[Q, A], request: Q) -> A:
        return await self._calls.call(self._address, method, request)
