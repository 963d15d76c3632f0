"""What is so in the end, when nothing moves any more: everything is read once more, and judged with all the notes."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from controller.client import EARLIEST, Access, CheckpointGroupConsumer, Client, Confirmation, Producer, ProducerOptions
from controller.client.consumers import StreamMessage
from controller.client.consumers.queue import QueueReceiving
from controller.client.consumers.stream import CumulativeStream, StreamReceiving
from metastore.clock import SystemClock
from topics_end_to_end.whole_members import Hand
from topics_end_to_end.whole_notebook import Line, Notebook
from topics_end_to_end.whole_producers import KEYS, send_one
from topics_simulation.topic_history import TopicHistory
from topics_simulation.topic_notes import Told

DRAINED_WITHIN_S = 100.0
TRAILS_MAX = 4
"""Of so many missing messages it is told all that is known."""
PAUSE_S = 0.05
"""Between looks at what nobody tells of by itself."""
MARKS = "marks"
"""Who sends what is sent when applications are gone."""


class Rest:
    """Of one run."""

    def __init__(self, book: Notebook, client: Client) -> None:
        self._book = book
        self._client = client
        self._clock = SystemClock()
        self._marks = 0

    # -- writable

    async def probe(self, topics: Mapping[str, Access], since_s: float) -> int:
        """Sends to every part of every topic, by that access; how long after that moment the last one was confirmed."""
        await asyncio.gather(*(self.mark(topic, "probe", access) for topic, access in topics.items()))
        return round((time.monotonic() - since_s) * 1000)

    async def mark(self, topic: str, who: str, access: Access = Access.SHARED) -> None:
        """A message to every place of the ring, each until it is there."""
        missing = list(KEYS)
        while missing:
            async with await self._client.producer(topic, options=ProducerOptions(access=access)) as producer:
                there = await asyncio.gather(*(self._send(producer, topic, key, who) for key in missing))
            missing = [key for key, is_there in zip(missing, there, strict=True) if not is_there]

    async def _send(self, producer: Producer, topic: str, key: str, who: str) -> bool:
        self._marks += 1
        return await send_one(self._book, producer, topic, key, who, self._marks)

    # -- drained

    async def drain(self, lines: Iterable[Line]) -> None:
        """Returns when all that is accepted is done with."""
        for line in lines:
            try:
                async with asyncio.timeout(DRAINED_WITHIN_S):
                    await self._drained(line)
            except TimeoutError:
                missing = sorted(self._book.missing(line))
                trails = "\n".join(self._book.trail(line, each) for each in missing[:TRAILS_MAX])
                stats = await self._client.topics.stats(line[0])
                raise AssertionError(f"{line}: {len(missing)} are missing, {missing[:20]}; {stats}\n{trails}") from None

    async def _drained(self, line: Line) -> None:
        await self._book.news.until(lambda: not self._book.missing(line))
        topic, subscription = line
        while (found := (await self._client.topics.stats(topic)).subscriptions.get(subscription)) is not None:
            if not found.backlog_entries:
                return
            await asyncio.sleep(PAUSE_S)

    async def be_still(self, topics: Iterable[str]) -> None:
        """From now on nothing splits or merges by itself, and nothing is under way."""
        for topic in topics:
            await self._client.topics.set_policy(topic, {"enabled": False})
            while not await self._is_still(topic):
                await asyncio.sleep(PAUSE_S)

    async def _is_still(self, topic: str) -> bool:
        """Whether its leader has heard of it, and has done what it had begun."""
        stats = await self._client.topics.stats(topic)
        return not stats.is_busy and not stats.effective_auto_scale["enabled"]

    # -- read again

    async def read_again(self, consumer: CumulativeStream, topics: list[str]) -> None:
        """A consumer that is new gets what comes from now on, and nothing else."""
        await self._read_again(consumer, topics, consumer.acknowledge_cumulative)

    async def read_group_again(self, consumer: CheckpointGroupConsumer, topics: list[str]) -> None:
        """The same of a group."""
        await self._read_again(consumer, topics, lambda last: consumer.commit())

    async def _read_again(
        self,
        consumer: StreamReceiving,
        topics: list[str],
        acknowledge: Callable[[StreamMessage], Confirmation[None]],
    ) -> None:
        hand = Hand(self._book, consumer.subscription, is_final=True)
        while any(self._book.missing((topic, consumer.subscription)) for topic in topics):
            messages = await consumer.receive_many(100)
            for each in messages:
                hand.take(each)
            calls = hand.begin(messages[-1])
            await acknowledge(messages[-1])
            hand.done(calls)

    async def read_queue_again(self, consumer: QueueReceiving, topics: list[str]) -> None:
        """The same of a queue."""
        while any(self._book.missing((topic, consumer.subscription)) for topic in topics):
            message = await consumer.receive()
            topic = message.topic
            segment, name = message.in_segment.segment, message.payload.decode()
            at = self._book.show(
                (consumer, segment),
                segment,
                message.in_segment.id,
                name,
                topic=topic,
                subscription=consumer.subscription,
                is_shared=True,
                is_final=True,
                shown_ms=self._clock.wall_ms(),
            )
            call = self._book.acknowledge(topic, segment, consumer.subscription, {at: name})
            await consumer.acknowledge(message)
            self._book.acknowledged([call])

    async def read_logs(self, topics: Iterable[str]) -> dict[str, list[str]]:
        """Every segment from its beginning to its end; by topic what is in it."""
        found: dict[str, list[str]] = {}
        for topic in topics:
            found[topic] = []
            state = await self._client.topics.describe(topic)
            for each in state.layout.segments.values():
                segment = state.name_of(each)
                self._book.look(("final", segment), segment)
                async with await self._client.segment_reader(segment, start=EARLIEST, follow=False) as reader:
                    async for message in reader:
                        name = message.payload.decode()
                        found[topic].append(name)
                        self._book.show(
                            ("final", segment),
                            segment,
                            message.id,
                            name,
                            topic=topic,
                            subscription=None,
                            is_final=True,
                        )
        return found

    async def note_division(self, topic: str, subscriptions: Iterable[str]) -> None:
        """Who reads what."""
        stats, rest = await self._client.topics.stats(topic), self._book.topics.rest
        for name in subscriptions:
            found = stats.subscriptions[name]
            rest.members[topic, name] = frozenset(each.consumer for each in found.consumers)
            rest.drained[topic, name] = frozenset(each.segment_id for each in stats.topic.layout.sealed)
            for each in found.consumers:
                told = {share.segment_id: not share.buckets for share in each.segments}
                rest.told.append(Told(topic, name, each.consumer, told))


def judge_rework(
    history: TopicHistory,
    read: Mapping[str, Iterable[str]],
    source: str,
    found: Iterable[str],
    origins: Mapping[str, str],
) -> list[str]:
    """Each message that is there was worked on once, and only those; `found` is what was found of the results."""
    done = Counter(origins[name] for name in set(found) if name in origins)
    there = {name for name in read[source] if history.written[name].producer != MARKS}
    wrong = [f"{name} was worked on {times} times" for name, times in done.items() if times > 1]
    if not history.notes.rest.pruned_without:
        wrong += [f"{name} was worked on, and is not there" for name in done.keys() - there]
    return wrong + [f"{name} was not worked on" for name in there - done.keys()]


def judge_dead_letters(read: Iterable[str], refused: Iterable[str]) -> list[str]:
    """What was always given back is among the dead letters, and nothing is there twice."""
    times = Counter(read)
    wrong = [f"{name} is {count} times among the dead letters" for name, count in times.items() if count > 1]
    return wrong + [f"{name} is not among the dead letters" for name in set(refused) - times.keys()]
