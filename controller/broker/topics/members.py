"""The stream of a consumer to whom segments are assigned, for as long as it lasts; behind it the consumer's grace."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from controller.broker.streams import Stream
from controller.broker.topics.desk import TopicDesk
from controller.broker.topics.words import assigned_message, kind_of, start_of
from controller.errors import InvalidRequest
from controller.leading import TopicLeader
from controller.pb import topics_pb2 as pb
from controller.subscriptions import (
    Assigned,
    Attachment,
    Ended,
    EndReason,
    MemberReplaced,
    Message,
    SubscriptionKind,
    WrongKind,
)
from txn.coordinator.waiting import first_of

_REASONS = {
    EndReason.REPLACED: pb.MemberEnded.REPLACED,
    EndReason.DELETED: pb.MemberEnded.DELETED,
    EndReason.MOVED: pb.MemberEnded.MOVED,
}


class Mailbox:
    """What is still to be told to a consumer: the newest assignment, and that it has ended. Nothing else is kept."""

    def __init__(self) -> None:
        self._assigned: Assigned | None = None
        self._ended: pb.MemberEnded.Reason.ValueType | None = None
        self._has_mail = asyncio.Event()

    def put(self, message: Message) -> None:
        """Takes a message; of two assignments the later one is enough."""
        if isinstance(message, Ended):
            self.end(_REASONS[message.reason])
        else:
            self._assigned = message
            self._has_mail.set()

    def end(self, reason: pb.MemberEnded.Reason.ValueType) -> None:
        """Nothing comes behind this; the first reason stays."""
        self._ended = reason if self._ended is None else self._ended
        self._has_mail.set()

    async def take(self) -> pb.SubscribeResponse:
        """What is to be told next, waited for. At the end an assignment is of no use any more."""
        await self._has_mail.wait()
        if self._ended is not None:
            return pb.SubscribeResponse(ended=pb.MemberEnded(reason=self._ended))
        found, self._assigned = self._assigned, None
        assert found is not None, "there is mail"
        self._has_mail.clear()
        return pb.SubscribeResponse(assignment=_assignment(found))


class Members:
    """Serves the streams of consumers."""

    def __init__(self, desk: TopicDesk) -> None:
        self._desk = desk

    async def serve(self, stream: Stream) -> None:
        """A Subscribe stream, from its first request to its end."""
        request = await stream.first(pb.SubscribeRequest)
        if request.WhichOneof("request") != "open":
            raise InvalidRequest("the first request of a consumer's stream is `open`")
        opening = request.open
        kind = kind_of(opening.kind)
        if not kind.is_divided:
            raise WrongKind(f"consumers of a {kind.value} do not register: each of them reads all segments")
        leader = await self._desk.leader(opening.topic)
        if opening.HasField("start"):
            await leader.create_subscription(opening.subscription, kind, start_of(opening.start))
        await self._attend(stream, leader, opening, kind)

    async def _attend(
        self, stream: Stream, leader: TopicLeader, opening: pb.OpenMember, kind: SubscriptionKind
    ) -> None:
        mailbox = Mailbox()
        attachment: Attachment | None = None
        try:
            with suppress(MemberReplaced):  # it is told so, as anybody who has been replaced
                attachment = await leader.join(opening.subscription, opening.consumer, kind, mailbox.put)
            if attachment is None:
                await _tell(stream, mailbox)
            else:
                await first_of(_tell(stream, mailbox), _listen(stream, attachment, mailbox))
        finally:
            if attachment is not None:
                attachment.disconnect()


async def _tell(stream: Stream, mailbox: Mailbox) -> None:
    """Sends what there is to be told, until the end."""
    while True:
        response = await mailbox.take()
        await stream.send(response)
        if response.HasField("ended"):
            return


async def _listen(stream: Stream, attachment: Attachment, mailbox: Mailbox) -> None:
    """Returns when the consumer has closed its side without leaving; when it leaves, it is told the end."""
    async for request in stream.requests(pb.SubscribeRequest):
        if request.WhichOneof("request") != "leave":
            raise InvalidRequest("a consumer's stream is opened once; `leave` is all that can follow")
        await attachment.leave()
        mailbox.end(pb.MemberEnded.LEFT)
        await asyncio.get_running_loop().create_future()  # the other task says so, and ends the stream


def _assignment(message: Assigned) -> pb.Assignment:
    return pb.Assignment(
        term=message.term,
        generation=message.generation,
        layout_epoch=message.epoch,
        segments=[assigned_message(each) for each in message.segments],
    )
