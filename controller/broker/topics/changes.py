"""What changes a topic: its layout, its subscriptions, what is drained. Its leader does it."""

from __future__ import annotations

from collections.abc import Sequence

from controller.broker.messages import checked_count
from controller.broker.topics.desk import TopicDesk, named
from controller.broker.topics.directory import Directory
from controller.broker.topics.words import considered_message, decision_message, kind_of, start_of
from controller.errors import InvalidRequest
from controller.pb import topics_pb2 as pb

SEGMENTS_PER_REQUEST_MAX = 1_000


class Changes:
    """The methods that only a topic's leader serves."""

    def __init__(self, desk: TopicDesk, directory: Directory) -> None:
        self._desk = desk
        self._directory = directory

    # -- the layout

    async def delete(self, request: pb.DeleteTopicRequest, principal: str | None) -> pb.DeleteTopicResponse:
        """With all that belongs to it."""
        await self._desk.leaders.delete(named(request.topic))
        return pb.DeleteTopicResponse()

    async def split(self, request: pb.SplitSegmentRequest, principal: str | None) -> pb.TopicDescription:
        """Two segments in place of one."""
        await (await self._desk.leader(request.topic)).split(request.segment_id)
        return await self._directory.described(named(request.topic))

    async def merge(self, request: pb.MergeSegmentsRequest, principal: str | None) -> pb.TopicDescription:
        """One segment in place of neighbours."""
        _check_segments(request.segment_ids)
        await (await self._desk.leader(request.topic)).merge(*request.segment_ids)
        return await self._directory.described(named(request.topic))

    # -- subscriptions

    async def subscribe(
        self, request: pb.CreateTopicSubscriptionRequest, principal: str | None
    ) -> pb.CreateTopicSubscriptionResponse:
        """One that is there stays as it is."""
        kind, start = kind_of(request.kind), start_of(request.start)
        await (await self._desk.leader(request.topic)).create_subscription(request.subscription, kind, start)
        return pb.CreateTopicSubscriptionResponse()

    async def unsubscribe(
        self, request: pb.DeleteTopicSubscriptionRequest, principal: str | None
    ) -> pb.DeleteTopicSubscriptionResponse:
        """One that is not there is deleted already."""
        await (await self._desk.leader(request.topic)).delete_subscription(request.subscription)
        return pb.DeleteTopicSubscriptionResponse()

    async def seek(
        self, request: pb.SeekTopicSubscriptionRequest, principal: str | None
    ) -> pb.SeekTopicSubscriptionResponse:
        """To a time, or behind everything."""
        to = request.WhichOneof("to")
        if to is None or (to == "end" and not request.end):
            raise InvalidRequest("a seek to nowhere: a time or the end is expected")
        leader = await self._desk.leader(request.topic)
        if to == "end":
            await leader.skip_all(request.subscription)
        else:
            await leader.seek(request.subscription, request.time_ms)
        return pb.SeekTopicSubscriptionResponse()

    async def note_drained(self, request: pb.NoteDrainedRequest, principal: str | None) -> pb.NoteDrainedResponse:
        """A group of checkpoints has read these to their end."""
        _check_segments(request.segment_ids)
        leader = await self._desk.leader(request.topic)
        for segment_id in request.segment_ids:
            await leader.note_drained(request.subscription, segment_id)
        return pb.NoteDrainedResponse()

    # -- by itself

    async def explain(self, request: pb.ExplainScalingRequest, principal: str | None) -> pb.ExplainScalingResponse:
        """What would be done now, and what was considered."""
        scaler = (await self._desk.leader(request.topic)).scaler
        log = [considered_message(each) for each in scaler.log.entries]
        return pb.ExplainScalingResponse(now=decision_message(scaler.dry_run()), log=log)


def _check_segments(segment_ids: Sequence[int]) -> None:
    checked_count("segments", len(segment_ids), SEGMENTS_PER_REQUEST_MAX, "SEGMENTS_PER_REQUEST_MAX")
