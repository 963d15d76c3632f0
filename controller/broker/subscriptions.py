"""The methods about subscriptions; the owner of their segment serves them."""

from __future__ import annotations

from controller.broker.desk import Desk
from controller.broker.messages import start_of
from controller.errors import InvalidRequest
from controller.pb import broker_pb2 as pb
from txn.segment.subscription import InitialPosition


class Subscriptions:
    """Created, deleted, put somewhere else."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def create(
        self, request: pb.CreateSubscriptionRequest, principal: str | None
    ) -> pb.CreateSubscriptionResponse:
        """One that exists already is left as it is."""
        name = self._desk.checked("subscription", request.subscription)
        start = start_of(request.start) if request.HasField("start") else InitialPosition.LATEST
        segment = await self._desk.segment(request.segment)
        is_old = name in segment.subscriptions
        await segment.subscribe(name, start)
        return pb.CreateSubscriptionResponse(is_old=is_old)

    async def delete(
        self, request: pb.DeleteSubscriptionRequest, principal: str | None
    ) -> pb.DeleteSubscriptionResponse:
        """One that does not exist is deleted already."""
        name = self._desk.checked("subscription", request.subscription)
        await (await self._desk.segment(request.segment)).unsubscribe(name)
        return pb.DeleteSubscriptionResponse()

    async def seek(self, request: pb.SeekRequest, principal: str | None) -> pb.SeekResponse:
        """Its consumers go on from there."""
        name = self._desk.checked("subscription", request.subscription)
        if not request.HasField("bound"):
            raise InvalidRequest("a seek without a bound")
        segment = await self._desk.segment(request.segment)
        await segment.subscription(name).seek(start_of(request.bound))
        self._desk.sought.ring()
        return pb.SeekResponse()
