"""How many messages a second go into topics and out of them, beside bare segments, which topics are made of."""

from __future__ import annotations

import asyncio
import itertools
import time
from abc import abstractmethod
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Protocol

from controller.client import (
    EARLIEST,
    ClientBusy,
    Confirmation,
    ProducerOptions,
    SegmentProducerOptions,
)
from loadtest.bench.bench import Bench, Group
from loadtest.bench.model import AtLeast, BenchError, Better, Line, Metric, Sample, Turn
from loadtest.bench.settings import VALUE_BYTES
from loadtest.bench.topic_stage import PATIENCE_S, Application, staged

GROUP = "topics"
TOPIC, SEGMENT = "topic", "segments"
COUNTS = (1, 2, 4, 8)
PLAIN, BATCHED = 1, 1_000
"""Messages in one entry, at most."""
PUBLISH_FLOOR, CONSUME_FLOOR = 0.5, 0.7
PENDING = 10_000
"""Messages that are not confirmed, over all segments, on either side."""
AHEAD = 1_000
"""Entries that come ahead of being asked for, over all segments, on either side."""
LOOK_EVERY = 100
"""Sends between two looks at the clock, after which others have their turn."""
RECEIVE_MAX = 1_000
MESSAGES_MIN = 2 * RECEIVE_MAX
KEYS = 1_000
PAYLOAD = bytes(VALUE_BYTES)


class Outlet(Protocol):
    """A producer."""

    def send(self, payload: bytes) -> object:
        """Sends; ClientBusy where there is no room."""

    async def wait_room(self) -> None:
        """Returns when there is."""

    async def flush(self) -> None:
        """Returns when everything is confirmed."""


class Inlet(Protocol):
    """A consumer."""

    async def receive_many(self, messages_max: int) -> Sequence[Any]:
        """Messages, at least one."""

    def acknowledge_cumulative(self, message: Any) -> Confirmation[None]:
        """All up to this one."""

    async def unsubscribe(self) -> None:
        """Ends, and the subscription with it."""

    async def close(self) -> None:
        """Ends."""


class Keyed:
    """Gives messages keys by turns."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer
        self._keys = itertools.cycle([f"key-{number}" for number in range(KEYS)])
        self.wait_room = producer.wait_room
        self.flush = producer.flush

    def send(self, payload: bytes) -> object:
        """With the next key."""
        return self._producer.send(payload, key=next(self._keys))


async def publish(outlets: Sequence[Outlet], payload: bytes, *, seconds: float = PATIENCE_S, most: float) -> Sample:
    """As fast as they go, for so long or so many; the time ends with the last confirmation."""
    began_s = time.perf_counter()
    sent = 0

    async def pour(outlet: Outlet) -> None:
        nonlocal sent
        while time.perf_counter() - began_s < seconds and sent < most:
            try:
                for _ in range(LOOK_EVERY):
                    outlet.send(payload)
                    sent += 1
            except ClientBusy:
                await outlet.wait_room()
            await asyncio.sleep(0)
        await outlet.flush()

    await asyncio.gather(*map(pour, outlets))
    return {"rate": sent / (time.perf_counter() - began_s), "sent": sent}


async def drain(openings: Sequence[Awaitable[Inlet]], seconds: float, most: int) -> Sample:
    """Opens consumers, receives and acknowledges as fast as it goes, for so long or so many, and unsubscribes.

    The time begins behind the first messages that any of them has received, and these do not count: how long it takes
    to open consumers is another matter.
    """
    drained = Drained(seconds, most)
    tasks = [asyncio.create_task(drained.take(each)) for each in openings]
    try:
        async with asyncio.timeout(PATIENCE_S):
            await drained.is_enough.wait()
    finally:
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
    await asyncio.gather(*drained.confirmations.values())
    if drained.received > most:
        raise BenchError(f"{drained.received} messages were received of {most}")
    await asyncio.gather(*(each.close() for each in drained.inlets))
    await asyncio.gather(*(each.unsubscribe() for each in drained.inlets))
    return drained.sample()


class Drained:
    """What consumers have received together."""

    def __init__(self, seconds: float, most: int) -> None:
        self._seconds = seconds
        self._most = most
        self._began_s: float | None = None
        self._ended_s = 0.0
        self._first = 0
        """Messages that do not count."""
        self.received = 0
        self.inlets: list[Inlet] = []
        self.confirmations: dict[Inlet, Confirmation[None]] = {}
        """The last one of each."""
        self.is_enough = asyncio.Event()

    async def take(self, opening: Awaitable[Inlet]) -> None:
        """One consumer, until cancelled."""
        inlet = await opening
        self.inlets.append(inlet)
        while not self.is_enough.is_set():
            messages = await inlet.receive_many(RECEIVE_MAX)
            self.confirmations[inlet] = inlet.acknowledge_cumulative(messages[-1])
            self._note(len(messages), time.perf_counter())

    def _note(self, count: int, now_s: float) -> None:
        self.received += count
        if self._began_s is None:
            self._began_s, self._first = now_s, count
        elif self.received >= self._most or now_s - self._began_s >= self._seconds:
            self._ended_s = now_s
            self.is_enough.set()

    def sample(self) -> Sample:
        """The rate."""
        assert self._began_s is not None, "it was enough"
        rate = (self.received - self._first) / (self._ended_s - self._began_s)
        return {"rate": rate, "received": self.received, "consumers_at_work": len(self.confirmations)}


class Side(Application):
    """A way to send and receive, over any number of segments, in entries of any number of messages."""

    def __init__(self, url: str, messages: int) -> None:
        super().__init__(url)
        assert messages >= MESSAGES_MIN, "the first ones that are received do not count"
        self._messages = messages
        """What there is at least to be consumed."""
        self._outlets: dict[str, Sequence[Outlet]] = {}
        self._sent: dict[str, int] = {}

    def publish(self, turn: Turn, segments: int, batch: int) -> Sample:
        """For the turn's time."""
        return self.run(self._publish(segments, batch, turn.seconds, float("inf")))

    async def _publish(self, segments: int, batch: int, seconds: float, most: float) -> Sample:
        place = _place(segments, batch)
        if place not in self._outlets:
            self._outlets[place] = await self._open_outlets(place, segments, batch)
        sample = await publish(self._outlets[place], PAYLOAD, seconds=seconds, most=most)
        self._sent[place] = self._sent.get(place, 0) + int(sample["sent"])
        return {**sample, "rate_per_segment": sample["rate"] / segments}

    def fill(self, segments: int, batch: int) -> None:
        """Sees to it that there is enough to be consumed."""
        missing = self._messages - self._sent.get(_place(segments, batch), 0)
        if missing > 0:
            self.run(self._publish(segments, batch, PATIENCE_S, missing))

    def consume(self, turn: Turn, segments: int, batch: int) -> Sample:
        """From the beginning on, for the turn's time or until all is received."""
        return self.run(self._consume(turn, segments, batch))

    async def _consume(self, turn: Turn, segments: int, batch: int) -> Sample:
        place = _place(segments, batch)
        subscription = f"readers-{turn.number}-{turn.is_warm_up}"
        openings = self._openings(place, segments, subscription)
        sample = await drain(openings, turn.seconds, self._sent[place])
        return {**sample, "rate_per_segment": sample["rate"] / segments}

    @abstractmethod
    async def _open_outlets(self, place: str, segments: int, batch: int) -> Sequence[Outlet]:
        """Producers."""

    @abstractmethod
    def _openings(self, place: str, segments: int, subscription: str) -> Sequence[Awaitable[Inlet]]:
        """Of consumers."""


class TopicSide(Side):
    """One producer, one consumer, and a topic of so many segments."""

    async def _open_outlets(self, place: str, segments: int, batch: int) -> Sequence[Outlet]:
        await self.client.topics.create(place, segments=segments)
        options = ProducerOptions(batch_messages_max=batch, pending_messages_max=PENDING)
        return [await self.client.producer(place, options=options)]

    def _openings(self, place: str, segments: int, subscription: str) -> Sequence[Awaitable[Inlet]]:
        return [self.client.stream_consumer(place, subscription, start=EARLIEST, buffer_entries=AHEAD)]


class SegmentSide(Side):
    """A producer and a consumer for each of so many segments."""

    async def _open_outlets(self, place: str, segments: int, batch: int) -> Sequence[Outlet]:
        options = SegmentProducerOptions(batch_messages_max=batch, pending_messages_max=PENDING // segments)
        return [await self.client.segment_producer(f"{place}-{n}", options=options) for n in range(segments)]

    def _openings(self, place: str, segments: int, subscription: str) -> Sequence[Awaitable[Inlet]]:
        names = [f"{place}-{number}" for number in range(segments)]
        ahead = AHEAD // segments
        return [self.client.segment_consumer(each, subscription, start=EARLIEST, prefetch=ahead) for each in names]


def _place(segments: int, batch: int) -> str:
    return f"{'plain' if batch == PLAIN else 'batched'}-{segments}"


EACH = Metric("rate_per_segment", "of each segment", "messages/s", Better.HIGHER)


def name(verb: str, segments: int, batch: int) -> str:
    """A line's."""
    return f"{verb}-{_place(segments, batch)}"


def rate(floor: float) -> Metric:
    """Held to what bare segments do."""
    return Metric("rate", "", "messages/s", Better.HIGHER, (AtLeast(SEGMENT, floor),))


def group(messages: int, counts: Sequence[int]) -> Group[Side]:
    """The group of these lines."""
    lines = []
    for batch, segments in itertools.product((PLAIN, BATCHED), counts):
        how = f"{'one by one' if batch == PLAIN else 'batched'}, {segments} segment{'s' * (segments > 1)}"
        each = (EACH,) if segments > 1 else ()
        sent, received = (rate(PUBLISH_FLOOR), *each), (rate(CONSUME_FLOOR), *each)
        work: dict[str, Any] = {"segments": segments, "batch": batch}
        sending, receiving = partial(Side.publish, **work), partial(Side.consume, **work)
        lines.append(Line(name("publish", segments, batch), f"publish {how}", sent, sending))
        filling = partial(Side.fill, **work)
        lines.append(Line(name("consume", segments, batch), f"consume {how}", received, receiving, filling))
    title = f"Messages of {VALUE_BYTES} bytes through a topic's producer and consumer, and through bare segments"
    return Group(GROUP, title, (TOPIC, SEGMENT), lines, partial(_open, messages=messages))


@contextmanager
def _open(bench: Bench, messages: int) -> Iterator[Mapping[str, Side]]:
    with ExitStack() as stack:
        stage = stack.enter_context(staged(bench, GROUP))
        sides: dict[str, Side] = {TOPIC: TopicSide(stage.url, messages)}
        stack.callback(sides[TOPIC].close)
        sides[SEGMENT] = SegmentSide(stage.url, messages)
        stack.callback(sides[SEGMENT].close)
        yield sides
