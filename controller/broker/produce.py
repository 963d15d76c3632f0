"""The stream of a producer: entries come in requests, are published in their order, and are answered in their order.

Two tasks share a line of entries without an answer. One takes requests and publishes what they hold, at once: the
segment keeps the order of its calls. The other waits for the first of the line, takes all behind it that are ready as
well, and answers them together: so a busy stream costs few messages.

An entry that may be tried again must not be overtaken by what its producer sends behind it. The segment sees to that as
far as the others wait in it; here it ends the stream, and nothing that comes behind it is published. The client opens
another one, and sends again, in order, whatever has no answer. Of a producer without a name nobody knows an order: it
gets the error, and the stream goes on.

A sealed segment is opened like any other: it tells what it has of a producer, and what is new to it is refused. Whoever
may not produce, because somebody else has claimed the topic, has no stream; if the claim comes later, none any more.

Where nobody needs what a segment has it can be gone right after it was sealed, with entries of its producers still on
their way. The stream goes on then for a while and refuses them as the sealed segment would have: if nobody did, their
producers could not know that they are not stored. That holds for what is certainly new; anything else ends the stream.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from controller.broker.desk import Desk
from controller.broker.messages import checked_count, entry_of, position_message
from controller.broker.status import error_message, foreseen
from controller.broker.streams import Stream
from controller.broker.usage import Usage
from controller.errors import InvalidRequest, WindowExceeded
from controller.pb import broker_pb2 as pb
from metastore.coordination import Backoff
from metastore.interface import StoreError
from txn.coordinator.waiting import first_of
from txn.hosting import Segment
from txn.model.errors import TxnError, TxnRetriable
from txn.segment.buffer import Published
from txn.segment.errors import GroupTooLarge, SegmentBusy, SegmentSealed

SEALED_ANSWERS_S = 5.0
"""How long a stream goes on to refuse what comes for a segment that was sealed, and is served here no longer."""


@dataclass(slots=True)
class Waiting:
    """An entry without an answer."""

    send: pb.Send
    outcome: asyncio.Future[Published]

    @property
    def failure(self) -> BaseException | None:
        """Why it failed, if it has."""
        return self.outcome.exception() if self.outcome.done() else None


async def serve_producer(desk: Desk, stream: Stream) -> None:
    """A Produce stream from its first request to its end."""
    request = await stream.first(pb.ProduceRequest)
    if request.WhichOneof("request") != "open":
        raise InvalidRequest("the first request of a producer's stream is `open`")
    producer = request.open.producer
    if producer:
        desk.checked("producer", producer)
    segment = await desk.segment(request.open.segment)
    segment.check_claim(request.open.claim)
    served = ProducerStream(desk, stream, segment, producer, request.open.claim)
    with desk.streams.claimed(segment.name, producer, stream):
        await served.run()


class ProducerStream:
    """One producer on one segment."""

    def __init__(self, desk: Desk, stream: Stream, segment: Segment, producer: str, claim: int) -> None:
        self._desk = desk
        self._limits = desk.limits
        self._stream = stream
        self._segment = segment
        self._producer = producer
        self._claim = claim
        self._usage = Usage(desk.host.coordinator, stream.principal)
        self._line: deque[Waiting] = deque()
        self._line_bytes = 0
        self._last_published: asyncio.Future[Published] | None = None
        """If one before it fails and may be tried again, so does this one."""
        self._greatest: int | None = -1
        """Greater numbers are certainly new to the segment; None: nobody knows."""
        self._news = asyncio.Event()
        self._is_half_closed = False

    async def run(self) -> None:
        """Serves until the client has had enough, or the segment is not to be had here any longer."""
        window = pb.Window(entries_max=self._limits.window_entries_max, bytes_max=self._limits.window_bytes_max)
        opened = pb.ProducerOpened(term=self._segment.term, window=window)
        if self._producer:
            last = self._segment.last_sequence_id(self._producer)
            if last is not None:
                opened.last_sequence_id = self._greatest = last
            opened.is_undecided = self._segment.is_undecided(self._producer)
            if opened.is_undecided:
                self._greatest = None
        await self._stream.send(pb.ProduceResponse(opened=opened))
        try:
            fenced = self._segment.wait_fenced(self._claim)
            await first_of(self._answer(), self._take(), fenced, self._lost())
        finally:
            for waiting in self._line:
                waiting.outcome.add_done_callback(_look_away)

    async def _lost(self) -> None:
        """Raises when the segment is served here no longer; where it was sealed, a while after that."""
        await self._segment.wait_ended()
        if self._segment.is_sealed:
            await self._desk.pace.sleep(SEALED_ANSWERS_S)
        self._segment.check()

    # -- taking

    async def _take(self) -> None:
        async for request in self._stream.requests(pb.ProduceRequest):
            if request.WhichOneof("request") != "sends":
                raise InvalidRequest("a producer's stream is opened once; `sends` are expected now")
            sends = request.sends.sends
            checked_count("entries", len(sends), self._limits.sends_per_request_max, "sends_per_request_max")
            for send in sends:
                self._check_window(send)
                refusal = await self._refusal(send) if self._usage.is_checked else None
                outcome = await self._publish(send) if refusal is None else _failed(refusal)
                self._line.append(Waiting(send, outcome))
                self._line_bytes += len(send.payload)
            self._news.set()
        self._is_half_closed = True
        self._news.set()
        await asyncio.get_running_loop().create_future()  # the other task answers what is left, and ends the stream

    def _check_window(self, send: pb.Send) -> None:
        entries, size = len(self._line) + 1, self._line_bytes + len(send.payload)
        limits = self._limits
        if entries > limits.window_entries_max or (size > limits.window_bytes_max and entries > 1):
            raise WindowExceeded(
                f"{entries} entries of {size} bytes are without an answer: at most {limits.window_entries_max} "
                f"(window_entries_max) of together {limits.window_bytes_max} bytes (window_bytes_max); "
                "send more when these are answered"
            )

    async def _refusal(self, send: pb.Send) -> Exception | None:
        try:
            await self._usage.check(send.txn_id)
        except (TxnError, StoreError) as error:
            return error
        return None

    async def _publish(self, send: pb.Send) -> asyncio.Future[Published]:
        """Publishes an entry; it waits only where the segment has no room."""
        try:
            entry = entry_of(send, self._producer, self._desk.clock.wall_ms())
            size, most = send.ByteSize(), self._limits.entry_bytes_max
            if size > most:
                raise GroupTooLarge(f"an entry of {size} bytes: at most {most} (entry_bytes_max)")
            await self._check_order()
            backoff: Backoff | None = None
            while True:
                try:
                    self._segment.check_claim(self._claim)
                    self._last_published = asyncio.ensure_future(self._segment.publish(entry))
                    self._note_published(send)
                    return self._last_published
                except SegmentBusy:
                    backoff = backoff or Backoff(self._desk.pace)
                    await self._wait_for_room(backoff)
                    await self._check_order()
        except TxnError as error:
            return _failed(self._came_too_late(send) or error)

    def _note_published(self, send: pb.Send) -> None:
        if self._greatest is not None:
            self._greatest = max(self._greatest, send.sequence_id + max(1, send.message_count) - 1)

    def _came_too_late(self, send: pb.Send) -> SegmentSealed | None:
        """How the segment would have refused an entry, had that come before it was gone; None: nobody knows."""
        is_new = not self._producer or (self._greatest is not None and send.sequence_id > self._greatest)
        if not (is_new and self._segment.has_ended and self._segment.is_sealed):
            return None
        return SegmentSealed(f"{self._segment.name!r} was sealed, and is gone by now: publish to one of its successors")

    async def _check_order(self) -> None:
        """Stays here if what is before failed and may be tried again: the other task is about to end the stream."""
        last = self._last_published
        if last is not None and last.done() and self._ends_stream(last.exception()):
            self._news.set()
            await asyncio.get_running_loop().create_future()

    async def _wait_for_room(self, backoff: Backoff) -> None:
        self._news.set()
        under_way = next((each.outcome for each in self._line if not each.outcome.done()), None)
        if under_way is None:
            await backoff.pause()
        else:
            await asyncio.wait({under_way})

    # -- answering

    async def _answer(self) -> None:
        while True:
            if not self._line:
                if self._is_half_closed:
                    return
                self._news.clear()
                await self._news.wait()
                continue
            await asyncio.wait({self._line[0].outcome})
            answers = self._take_answers()
            if answers:
                await self._stream.send(pb.ProduceResponse(answers=pb.SendAnswers(answers=answers)))
            if self._line and (failure := self._line[0].failure) is not None and self._ends_stream(failure):
                raise failure

    def _take_answers(self) -> list[pb.SendAnswer]:
        """Answers what is ready at the head of the line."""
        answers = []
        while self._line and self._line[0].outcome.done():
            send, failure = self._line[0].send, self._line[0].failure
            if failure is None:
                answers.append(self._stored(send, self._line[0].outcome.result()))
            elif self._ends_stream(failure):
                break
            else:
                answers.append(self._refused(send, failure))
            self._line.popleft()
            self._line_bytes -= len(send.payload)
        return answers

    def _ends_stream(self, failure: BaseException | None) -> bool:
        """Whether what is behind an entry that has failed so must not overtake it; or whether nobody foresaw it."""
        if failure is None:
            return False
        known = foreseen(failure) if isinstance(failure, Exception) else None
        return known is None or (self._producer != "" and isinstance(known, TxnRetriable))

    def _stored(self, send: pb.Send, published: Published) -> pb.SendAnswer:
        metrics = self._desk.metrics
        if not published.is_duplicate:
            metrics.published.inc()
            metrics.published_bytes.inc(len(send.payload))
            self._desk.meter.count_in(self._segment.name, send.message_count or 1, len(send.payload))
            if send.txn_id:
                metrics.writes_recorded.inc()
        position = None if published.position is None else position_message(published.position)
        return pb.SendAnswer(sequence_id=send.sequence_id, position=position, is_duplicate=published.is_duplicate)

    def _refused(self, send: pb.Send, failure: BaseException) -> pb.SendAnswer:
        assert isinstance(failure, Exception), "nobody foresaw it"
        known = foreseen(failure)
        assert known is not None, "nobody foresaw it"
        self._desk.metrics.refused.labels(type(known).__name__).inc()
        return pb.SendAnswer(sequence_id=send.sequence_id, error=error_message(known))


def _failed(error: Exception) -> asyncio.Future[Published]:
    future: asyncio.Future[Published] = asyncio.get_running_loop().create_future()
    future.set_exception(error)
    return future


def _look_away(outcome: asyncio.Future[Published]) -> None:
    """The stream is gone, and nobody is to be told how this has ended."""
    if not outcome.cancelled():
        outcome.exception()
