"""What entries are good for: consumers that share a segment by the keys in them, and compression."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from controller.client import LATEST, Compression, ProducerOptions, StreamConsumer
from loadtest.bench.bench import Bench, Group
from loadtest.bench.model import AtLeast, Better, Line, Metric, Sample, Turn
from loadtest.bench.settings import VALUE_BYTES
from loadtest.bench.topic_rates import BATCHED, PAYLOAD, PLAIN, Keyed, drain, publish
from loadtest.bench.topic_stage import Application, Stage, staged

SHARING, COMPRESSING = "topics-sharing", "topics-compression"
TOPIC = "shared"
SHARERS = 4
SEVERAL, ALONE = f"{SHARERS} consumers", "one"
DOCUMENT_FIELDS = 16
NUMBERS_MAX = 100
SEED = 4


class Readers(Application):
    """So many consumers of a topic that has one segment, all in this process."""

    def __init__(self, url: str, messages: int, consumers: int) -> None:
        super().__init__(url)
        self._messages = messages
        self._consumers = consumers
        self._sent: dict[int, int] = {}

    def fill(self, batch: int) -> None:
        """With messages that have keys, in entries of so many."""
        self.run(self._fill(batch))

    async def _fill(self, batch: int) -> None:
        options = ProducerOptions(batch_messages_max=batch)
        async with await self.client.producer(self._topic(batch), options=options) as producer:
            sample = await publish([Keyed(producer)], PAYLOAD, most=self._messages)
        self._sent[batch] = int(sample["sent"])

    def consume(self, turn: Turn, batch: int) -> Sample:
        """From the beginning on, for the turn's time or until all is received."""
        return self.run(self._consume(turn, batch))

    async def _consume(self, turn: Turn, batch: int) -> Sample:
        topic, subscription = self._topic(batch), f"readers-{turn.number}-{turn.is_warm_up}"
        consumers = await asyncio.gather(
            *(
                self.client.stream_consumer(topic, subscription, name=f"reader-{number}", start=LATEST)
                for number in range(self._consumers)
            )
        )
        # What was delivered to some before the others had come would be theirs: so it comes when all are there.
        await self.client.topics.seek(topic, subscription, 0)
        return await drain([_opened(each) for each in consumers], turn.seconds, self._sent[batch])

    def _topic(self, batch: int) -> str:
        return f"{TOPIC}-{self._consumers}-{batch}"


async def _opened(consumer: StreamConsumer) -> StreamConsumer:
    return consumer


class Compressor(Application):
    """A producer that compresses."""

    def __init__(self, url: str, compression: Compression) -> None:
        super().__init__(url)
        options = ProducerOptions(batch_messages_max=BATCHED, compression=compression)
        self._producer = self.run(self.client.producer(f"compressed-{compression.name}", options=options))

    def publish(self, turn: Turn) -> Sample:
        """For the turn's time."""
        return self.run(publish([self._producer], DOCUMENT, seconds=turn.seconds, most=float("inf")))


def document() -> bytes:
    """A payload like those that applications send: names that come again and again, and numbers that do not."""
    chance = random.Random(SEED)
    fields = {f"measured_quantity_{number}": chance.randrange(NUMBERS_MAX) for number in range(DOCUMENT_FIELDS)}
    return json.dumps({"kind": "measurement", "unit": "millimetre", "fields": fields}).encode()


DOCUMENT = document()


def groups(messages: int) -> Sequence[Group[Any]]:
    """The two groups."""
    return [_sharing(messages), _compressing()]


def _sharing(messages: int) -> Group[Readers]:
    rate = Metric("rate", "", "messages/s", Better.HIGHER, (AtLeast(ALONE),))
    lines = [
        Line(
            f"consume-shared-{batch}",
            f"consume, up to {batch:,} in an entry",
            (rate,),
            partial(Readers.consume, batch=batch),
            partial(Readers.fill, batch=batch),
        )
        for batch in (PLAIN, BATCHED)
    ]
    title = f"Consumers that share one segment by keys, messages of {VALUE_BYTES} bytes, beside one that has it alone"
    return Group(SHARING, title, (SEVERAL, ALONE), lines, partial(_open_readers, messages=messages))


def _compressing() -> Group[Compressor]:
    line = Line(
        "publish-compressed",
        f"publish batched, documents of {len(DOCUMENT)} bytes",
        (Metric("rate", "", "messages/s", Better.HIGHER, (AtLeast(Compression.NONE.name.lower()),)),),
        Compressor.publish,
    )
    kinds = (Compression.ZSTD, Compression.ZLIB, Compression.NONE)
    sides = tuple(each.name.lower() for each in kinds)
    return Group(COMPRESSING, "Compression of entries by the producer", sides, [line], _open_compressors)


@contextmanager
def _open_readers(bench: Bench, messages: int) -> Iterator[Mapping[str, Readers]]:
    def readers(stage: Stage, stack: ExitStack, count: int) -> Readers:
        found = Readers(stage.url, messages, count)
        stack.callback(found.close)
        return found

    with ExitStack() as stack:
        stage = stack.enter_context(staged(bench, SHARING))
        yield {SEVERAL: readers(stage, stack, SHARERS), ALONE: readers(stage, stack, 1)}


@contextmanager
def _open_compressors(bench: Bench) -> Iterator[Mapping[str, Compressor]]:
    with ExitStack() as stack:
        stage = stack.enter_context(staged(bench, COMPRESSING))
        found: dict[str, Compressor] = {}
        for compression in (Compression.ZSTD, Compression.ZLIB, Compression.NONE):
            compressor = found[compression.name.lower()] = Compressor(stage.url, compression)
            stack.callback(compressor.close)
        yield found
