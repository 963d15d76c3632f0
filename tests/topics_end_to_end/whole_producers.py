"""Applications that send: by key, under a name by which they go on where they were; or without any key."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import deque
from collections.abc import Iterator

from controller.client import Client, Compression, Producer, ProducerOptions
from controller.client.errors import ClientClosed
from controller.layout import key_hash, segment_hash
from metastore.clock import SystemClock
from topics_end_to_end.whole_notebook import Attempt, Notebook
from topics_simulation.topic_notes import Written
from txn.model.errors import TxnError

BURST_MAX = 8
REPEATED = 6
PACE_S = 0.1
"""Between bursts: a run is about troubles, not about speed."""


def keys_of_ring(places: int) -> list[str]:
    """Keys, one for each of so many equal parts of the ring."""
    found: dict[int, str] = {}
    for number in itertools.count():
        key = f"k{number}"
        found.setdefault(segment_hash(key_hash(key)) * places >> 16, key)
        if len(found) == places:
            return [found[place] for place in sorted(found)]
    raise AssertionError("every place has a key")


KEYS = keys_of_ring(16)


class KeyedProducer:
    """Sends by key. What is not confirmed when it is opened again it sends again, under the number that it had."""

    def __init__(self, book: Notebook, client: Client, topic: str, name: str, *, repeats: bool) -> None:
        self._book = book
        self._client = client
        self._topic = topic
        self._name = name
        self._repeats = repeats
        """Whether it sends also the last confirmed ones again, which the application may not have heard of."""
        self._random = random.Random(name)
        self._number = 0
        self._confirmed: deque[Written] = deque(maxlen=REPEATED)
        self._open: dict[int, Written] = {}
        """What is not confirmed, by number."""
        self._is_given_up = asyncio.Event()
        self.is_over = False

    def reopen(self) -> None:
        """The application dies, and is started again."""
        self._is_given_up.set()

    async def run(self) -> None:
        """Sends until it is over, and everything is confirmed."""
        options = ProducerOptions(compression=self._random.choice(list(Compression)))
        while True:
            self._is_given_up.clear()
            producer = await self._client.producer(self._topic, name=self._name, options=options)
            try:
                if await self._send(producer):
                    return
            finally:
                closing = asyncio.create_task(producer.close())
                if not self._is_given_up.is_set():
                    await closing
                else:
                    producer.running.cancel()
                    await closing
            self._book.counts["producers opened again"] += 1

    async def _send(self, producer: Producer) -> bool:
        """Whether it has come to its end."""
        again = {each.number: each for each in self._confirmed if self._repeats} | self._open
        self._confirmed.clear()
        waiting = [self._sent(producer, again[number]) for number in sorted(again)]
        while not self._is_given_up.is_set():
            await asyncio.gather(*waiting)
            if self.is_over and not self._open:
                return True
            burst = [] if self.is_over else list(self._wanted(self._random.randint(1, BURST_MAX)))
            waiting = [self._sent(producer, each) for each in burst or self._open.values()]
            await asyncio.sleep(PACE_S)
        await asyncio.gather(*waiting)
        return False

    def _wanted(self, count: int) -> Iterator[Written]:
        for _ in range(count):
            self._number += 1
            key = self._random.choice(KEYS)
            written = self._book.want_keyed(self._topic, key, self._name, self._number)
            self._open[self._number] = written
            yield written

    def _sent(self, producer: Producer, written: Written) -> asyncio.Task[None]:
        attempt = self._book.attempt(written)
        return asyncio.ensure_future(self._confirm(producer, attempt))

    async def _confirm(self, producer: Producer, attempt: Attempt) -> None:
        written = attempt.written
        try:
            confirmation = producer.send(written.message.encode(), key=written.key, sequence_id=written.number)
            sent = await confirmation
        except TxnError as error:
            self._book.counts[f"sends: {type(error).__name__}"] += 1
            self._is_given_up.set()  # the application does what is right then: it begins anew with what is open
        else:
            self._book.sent(attempt, sent)
            self._book.counts["duplicates told"] += sent.is_duplicate
            self._open.pop(written.number, None)
            self._confirmed.append(written)


class PlainProducer:
    """Sends by key, under no name, maybe for later; what is not confirmed it does not send again."""

    def __init__(self, book: Notebook, client: Client, topic: str, name: str, delay_ms_max: int = 0) -> None:
        self._book = book
        self._client = client
        self._topic = topic
        self._name = name
        self._random = random.Random(name)
        self._delay_ms_max = delay_ms_max
        self._clock = SystemClock()
        self.is_over = False

    async def run(self) -> None:
        """Sends until it is over."""
        number = 0
        async with await self._client.producer(self._topic) as producer:
            while not self.is_over:
                sends = []
                for _ in range(self._random.randint(1, BURST_MAX)):
                    number += 1
                    sends.append(self._send(producer, self._random.choice(KEYS), number))
                await asyncio.gather(*sends)
                await asyncio.sleep(PACE_S)

    async def _send(self, producer: Producer, key: str, number: int) -> None:
        due_ms = 0
        if self._delay_ms_max:
            due_ms = self._clock.wall_ms() + self._random.randint(1, self._delay_ms_max)
        await send_one(self._book, producer, self._topic, key, self._name, number, due_ms)


async def send_one(
    book: Notebook, producer: Producer, topic: str, key: str, name: str, number: int, due_ms: int = 0
) -> bool:
    """Sends one message, for that time if there is one; whether it is confirmed."""
    attempt = book.attempt(book.want_keyed(topic, key, name, number, due_ms=due_ms))
    try:
        confirmation = producer.send(attempt.written.message.encode(), key=key, deliver_at_ms=due_ms)
        book.sent(attempt, await confirmation)
    except ClientClosed:
        raise
    except TxnError as error:
        book.counts[f"sends: {type(error).__name__}"] += 1
        return False
    return True
