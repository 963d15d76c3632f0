"""The stream of a producer that has the exclusive right to produce, and how the right is given back."""

from __future__ import annotations

from controller.broker.streams import Stream
from controller.broker.topics.desk import TopicDesk
from controller.errors import InvalidRequest
from controller.leading import ClaimMode
from controller.pb import topics_pb2 as pb

_MODES = {
    pb.ClaimTopicRequest.EXCLUSIVE: ClaimMode.EXCLUSIVE,
    pb.ClaimTopicRequest.FENCING: ClaimMode.FENCING,
    pb.ClaimTopicRequest.WAIT: ClaimMode.WAIT,
}


class ClaimDesk:
    """Serves those who claim."""

    def __init__(self, desk: TopicDesk) -> None:
        self._desk = desk

    async def serve(self, stream: Stream) -> None:
        """A ClaimTopic stream, from its one request to its end."""
        request = await stream.first(pb.ClaimTopicRequest)
        mode = _MODES.get(request.mode)
        if mode is None:
            raise InvalidRequest(f"a claim by mode {request.mode}: EXCLUSIVE, FENCING, WAIT are there")
        leader = await self._desk.leader(request.topic)
        if request.claim:
            hold = await leader.claims.keep(request.producer, request.claim)
        else:
            hold = await leader.claims.take(request.producer, mode)
        try:
            await stream.send(pb.ClaimTopicResponse(claim=hold.number))
            await hold.wait_over()
        finally:
            hold.disconnect()

    async def release(self, request: pb.ReleaseClaimRequest, principal: str | None) -> pb.ReleaseClaimResponse:
        """Nobody waits for a grace; what is somebody else's by now stays as it is."""
        leader = await self._desk.leader(request.topic)
        await leader.claims.release(request.producer, request.claim)
        return pb.ReleaseClaimResponse()
