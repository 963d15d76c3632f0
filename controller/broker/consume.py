"""The stream of a consumer: permits, acknowledgements and refusals come, deliveries and answers go.

Deliveries and answers are put together by two tasks, each taking what is there when the one before has gone: a busy
stream costs few messages, and a client that takes nothing is sent nothing. Acknowledgements are carried out side by
side, so that they share the writes of the cursor; of each the answer goes when it is durable.
"""

from __future__ import annotations

import asyncio

from controller.broker.deliveries import delivery_message, in_responses
from controller.broker.desk import Desk
from controller.broker.messages import (
    ack_of,
    assigned_of,
    bucket_starts_of,
    checked_count,
    nack_of,
    position_of,
    start_of,
    txn_id_of,
)
from controller.broker.status import error_message, foreseen
from controller.broker.streams import Stream
from controller.broker.usage import Usage
from controller.errors import InvalidRequest, PermitsExceeded
from controller.pb import broker_pb2 as pb
from txn.coordinator.waiting import first_of
from txn.hosting import Segment
from txn.segment.subscription import Consumer, EndOfSegment, Nack, Subscription, SubscriptionKind

KINDS = {
    pb.EXCLUSIVE: SubscriptionKind.EXCLUSIVE,
    pb.SHARED: SubscriptionKind.SHARED,
    pb.FAILOVER: SubscriptionKind.FAILOVER,
    pb.KEY_SHARED: SubscriptionKind.KEY_SHARED,
}


async def serve_consumer(desk: Desk, stream: Stream) -> None:
    """A Consume stream from its first request to its end."""
    request = await stream.first(pb.ConsumeRequest)
    if request.WhichOneof("request") != "open":
        raise InvalidRequest("the first request of a consumer's stream is `open`")
    opening = request.open
    name = desk.checked("subscription", opening.subscription)
    if opening.consumer:
        desk.checked("consumer", opening.consumer)
    kind = KINDS.get(opening.kind)
    if kind is None:
        raise InvalidRequest(f"subscriptions of kind {opening.kind} are unknown")
    starts = bucket_starts_of(opening.buckets) if kind is SubscriptionKind.KEY_SHARED else [0]
    segment = await desk.segment(opening.segment)
    if opening.HasField("start"):
        await segment.subscribe(name, start_of(opening.start))
    subscription = segment.subscription(name)
    consumer = subscription.attach(
        opening.consumer,
        kind,
        starts=starts,
        assigned=assigned_of(opening),
        replaces=opening.replaces,
        instance=opening.instance,
    )
    try:
        await ConsumerStream(desk, stream, segment, subscription, consumer).run()
    finally:
        await consumer.close()


class ConsumerStream:
    """One consumer of one subscription."""

    def __init__(
        self, desk: Desk, stream: Stream, segment: Segment, subscription: Subscription, consumer: Consumer
    ) -> None:
        self._desk = desk
        self._limits = desk.limits
        self._stream = stream
        self._segment = segment
        self._subscription = subscription
        self._consumer = consumer
        self._usage = Usage(desk.host.coordinator, stream.principal)
        self._permits = 0
        """Entries that the client has asked for and was not sent."""
        self._slots = asyncio.Semaphore(self._limits.acknowledges_under_way_max)
        self._under_way: set[asyncio.Task[None]] = set()
        self._answers: list[pb.Acknowledged] = []
        self._have_answers = asyncio.Event()
        self._answering = asyncio.Lock()

    async def run(self) -> None:
        """Serves until the client has had enough, or the segment is not to be had here any longer."""
        await self._stream.send(pb.ConsumeResponse(opened=pb.ConsumerOpened(term=self._segment.term)))
        try:
            ended = self._consumer.wait_ended()
            await first_of(self._take(), self._deliver(), self._answer(), ended, self._desk.lost(self._segment))
        finally:
            for task in self._under_way:
                task.cancel()

    # -- what comes

    async def _take(self) -> None:
        async for request in self._stream.requests(pb.ConsumeRequest):
            match request.WhichOneof("request"):
                case "permit":
                    self._permit(request.permit.entries, request.permit.bytes)
                case "acknowledge":
                    await self._begin_acknowledge(request.acknowledge)
                case "negative_acknowledge":
                    self._refuse(request.negative_acknowledge)
                case _:
                    raise InvalidRequest("a consumer's stream is opened once; then come permits and acknowledgements")
        if self._under_way:
            await asyncio.wait(self._under_way)
        await self._send_answers()

    def _permit(self, entries: int, payload_bytes: int) -> None:
        if not entries and not payload_bytes:
            raise InvalidRequest("a permit for no entries and no bytes")
        if self._permits + entries > self._limits.permits_max:
            raise PermitsExceeded(
                f"the consumer has asked for {self._permits} entries that it has not got, and asks for {entries} more: "
                f"at most {self._limits.permits_max} (permits_max)"
            )
        self._permits += entries
        self._consumer.permit(entries, payload_bytes)

    def _refuse(self, refusal: pb.NegativeAcknowledge) -> None:
        count = len(refusal.positions) + len(refusal.nacks)
        checked_count("positions", count, self._limits.acks_per_request_max, "acks_per_request_max")
        whole = [Nack(position_of(each)) for each in refusal.positions]
        self._consumer.give_back([*whole, *map(nack_of, refusal.nacks)])

    # -- acknowledgements

    async def _begin_acknowledge(self, request: pb.Acknowledge) -> None:
        checked_count("acknowledgements", len(request.acks), self._limits.acks_per_request_max, "acks_per_request_max")
        await self._slots.acquire()  # with so many under way the stream is not read
        task = asyncio.ensure_future(self._acknowledge(request))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _acknowledge(self, request: pb.Acknowledge) -> None:
        answer = pb.Acknowledged(request_id=request.request_id)
        try:
            if request.txn_id:
                await self._usage.check(request.txn_id)
            acks = [ack_of(each) for each in request.acks]
            if not acks:
                raise InvalidRequest("an acknowledgement of nothing")
            era = request.era if request.HasField("era") else None
            await self._subscription.acknowledge(acks, txn_id_of(request.txn_id), self._consumer, era)
            self._desk.metrics.acknowledged.inc(len(acks))
            if request.txn_id:
                self._desk.metrics.acks_recorded.inc(len(acks))
        except Exception as error:
            known = foreseen(error)
            if known is None:
                self._stream.end(error)
                return
            answer.error.CopyFrom(error_message(known))
        finally:
            self._slots.release()
        self._answers.append(answer)
        self._have_answers.set()

    async def _answer(self) -> None:
        while True:
            await self._have_answers.wait()
            await self._send_answers()

    async def _send_answers(self) -> None:
        """Returns when every answer that there is has been sent, by whomever."""
        async with self._answering:
            self._have_answers.clear()
            answers, self._answers = self._answers, []
            if answers:
                acknowledgements = pb.Acknowledgements(acknowledged=answers)
                await self._stream.send(pb.ConsumeResponse(acknowledgements=acknowledgements))

    # -- deliveries

    async def _deliver(self) -> None:
        while True:
            try:
                await self._deliver_some()
            except EndOfSegment:
                await self._stream.send(pb.ConsumeResponse(end=pb.SegmentEnd()))
                await self._desk.sought.wait()

    async def _deliver_some(self) -> None:
        found = await self._consumer.receive(self._limits.deliveries_per_response_max)
        self._permits -= len(found)
        # The client counts entries, and the subscription the messages in them.
        surplus = sum(each.entry.message_count for each in found) - len(found)
        if surplus > 0:
            self._consumer.permit(surplus)
        messages = (delivery_message(*each) for each in found)
        # What was taken before an acknowledgement was carried out goes before the answer to that, all of it: the client
        # holds back copies of what it acknowledges until then, and no longer.
        responses = in_responses(messages, self._limits)
        await self._stream.send_together(pb.ConsumeResponse(deliveries=each) for each in responses)
        self._desk.count_delivered(self._segment.name, [each.entry for each in found])
