"""The stream of a reader: entries from somewhere on, and nothing comes back."""

from __future__ import annotations

from controller.broker.deliveries import delivery_message, in_responses
from controller.broker.desk import Desk
from controller.broker.messages import start_of
from controller.broker.streams import Stream
from controller.pb import broker_pb2 as pb
from txn.coordinator.waiting import first_of
from txn.segment.subscription import EndOfSegment, InitialPosition, Reader


async def serve_reader(desk: Desk, stream: Stream) -> None:
    """A Read stream, from its one request to its end."""
    request = await stream.first(pb.ReadRequest)
    segment = await desk.segment(request.segment)
    start = start_of(request.start) if request.HasField("start") else InitialPosition.EARLIEST
    if not request.is_following:
        await segment.catch_up()  # it ends with what there is, and its client may have been told of a commit just now
    reader = segment.reader(start, is_following=request.is_following)
    await stream.send(pb.ReadResponse(opened=pb.ReaderOpened(term=segment.term)))
    await first_of(_read(desk, stream, segment.name, reader, request.entries_max), desk.lost(segment))


async def _read(desk: Desk, stream: Stream, segment: str, reader: Reader, entries_max: int) -> None:
    left = entries_max
    while not entries_max or left:
        most = desk.limits.deliveries_per_response_max
        try:
            found = await reader.read(min(most, left) if entries_max else most)
        except EndOfSegment:
            await stream.send(pb.ReadResponse(end=pb.SegmentEnd()))
            return
        if not found:
            return  # that is all for now
        left -= len(found)
        messages = (delivery_message(each.position, each.entry) for each in found)
        for deliveries in in_responses(messages, desk.limits):
            await stream.send(pb.ReadResponse(deliveries=deliveries))
        desk.count_delivered(segment, [each.entry for each in found])
