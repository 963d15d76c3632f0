"""A topic that splits by itself when it is hot and merges when it is cold, with transactions running through it."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from controller.client import EARLIEST, Client, Transaction, connect
from controller.client.consumers import StreamConsumer
from controller.client.topics.descriptions import ScalingDecision
from controller.client.topics.layouts import TopicState
from controller.console.drawing import draw
from controller.demo.stage import Everything
from metastore.stagecraft import begin_chapter, say

TOPIC = "readings"
SUBSCRIPTION = "dashboard"
PRODUCERS = 2
KEYS = 12
"""Of each producer, and of each transaction."""
TOGETHER_MAX = 100
"""Messages that a consumer takes and acknowledges at once."""
SEGMENTS_MAX = 4
FINISHED_WITHIN_S = 60.0
ASKED_AGAIN_AFTER_S = 0.05

SETTINGS: Mapping[str, float] = {
    "scalable-topic-max-segments": SEGMENTS_MAX,
    "scalable-topic-split-msg-rate-in-threshold": 50,
    "scalable-topic-merge-msg-rate-in-threshold": 10,
    "scalable-topic-split-cooldown-s": 0.5,
    "scalable-topic-merge-cooldown-s": 0.2,
    "scalable-topic-merge-window-s": 0.5,
    "scalable-topic-load-report-interval-s": 0.2,
    "scalable-topic-auto-scale-interval-s": 0.2,
    "scalable-topic-retention-minutes": -1,
}
"""Hot with 50 messages a second, cold after half a second; what was drained is kept, so that it can be drawn."""

Numbers = dict[str, list[int]]
"""The numbers of messages by their key, in order."""


def show_a_topic_that_breathes(folder: Path) -> int:
    """Returns the exit code: 1 if a message was lost, doubled, out of its key's order, or of an aborted transaction."""
    begin_chapter("A topic that splits by itself when it is hot, and merges when it is cold")
    options = [text for name, value in SETTINGS.items() for text in (f"--{name}", f"{value:g}")]
    with Everything(folder, *options) as everything:
        return asyncio.run(_run(everything.url))


async def _run(url: str) -> int:
    sent: Numbers = defaultdict(list)
    seen = _Seen()
    async with asyncio.timeout(FINISHED_WITHIN_S), await connect(url) as client:
        say(f"{TOPIC} begins with one segment:")
        _draw(await client.topics.create(TOPIC))
        async with _receiving(client, seen, "one"):
            await _heat(client, sent, seen)
            state = await _until_active(client, 1)
            say(f"nothing comes any more, and after {state.layout.epoch} changes one segment is left:")
            _draw(state)
            await _tell_why(client, state.layout.epoch)
            await _send_once_more(client, sent)
            await seen.wait_for(sent)
        return await _judge(client, sent, seen)


# -- load


async def _heat(client: Client, sent: Numbers, seen: _Seen) -> None:
    """Returns when the topic was split as often as it may be, and everything was received."""
    deal = await _Deal.begin(client, sent)
    is_over = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        loads = [group.create_task(_load(client, number, sent, is_over)) for number in range(PRODUCERS)]
        await _until_active(client, 2)
        say("it is hot and was split, while two transactions are open; a second consumer comes")
        async with _receiving(client, seen, "two"):
            await deal.end(sent)
            state = await _until_active(client, SEGMENTS_MAX)
            is_over.set()
            await asyncio.gather(*loads)
            say(f"{_count(sent)} messages later there are {SEGMENTS_MAX} segments, as many as are allowed:")
            _draw(state)
            await seen.wait_for(sent)
            say(f"both consumers together have received all of them: {', '.join(sorted(seen.consumers))}; two leaves")


async def _load(client: Client, number: int, sent: Numbers, is_over: asyncio.Event) -> None:
    """Sends numbers, as fast as they are confirmed."""
    async with await client.producer(TOPIC) as producer:
        keys = [f"sensor {number}-{place}" for place in range(KEYS)]
        while not is_over.is_set():
            await asyncio.gather(*(producer.send(b"%d" % len(sent[key]), key=key) for key in keys))
            for key in keys:
                sent[key].append(len(sent[key]))


async def _send_once_more(client: Client, sent: Numbers) -> None:
    """What comes after the merges stands behind what came before the splits."""
    async with await client.producer(TOPIC) as producer:
        await asyncio.gather(*(producer.send(b"%d" % len(numbers), key=key) for key, numbers in sent.items()))
    for numbers in sent.values():
        numbers.append(len(numbers))


class _Deal:
    """Two transactions, each with messages from before and from after a split. One is committed, one is aborted."""

    def __init__(self, client: Client, kept: Transaction, dropped: Transaction) -> None:
        self._client = client
        self._kept = kept
        self._dropped = dropped

    @classmethod
    async def begin(cls, client: Client, sent: Numbers) -> _Deal:
        """The first half of both."""
        deal = cls(client, await client.begin(), await client.begin())
        await deal._send(sent)
        return deal

    async def end(self, sent: Numbers) -> None:
        """The second half, and the outcomes."""
        await self._send(sent)
        await self._kept.commit()
        await self._dropped.abort()
        say(f"one transaction with {2 * KEYS} messages from before and after is committed, another one aborted")

    async def _send(self, sent: Numbers) -> None:
        async with await self._client.producer(TOPIC) as producer:
            for place in range(KEYS):
                key = f"deal {place}"
                await producer.send(b"%d" % len(sent[key]), key=key, txn=self._kept)
                await producer.send(b"0", key=f"dropped {place}", txn=self._dropped)
                sent[key].append(len(sent[key]))


# -- receiving


class _Seen:
    """What has been received."""

    def __init__(self) -> None:
        self.numbers: Numbers = defaultdict(list)
        self.consumers: set[str] = set()
        self._acknowledged = 0
        self._news = asyncio.Event()

    async def receive(self, consumer: StreamConsumer) -> None:
        """Whatever comes, until this is cancelled."""
        while True:
            messages = await consumer.receive_many(TOGETHER_MAX)
            for message in messages:
                assert message.key is not None
                self.numbers[message.key].append(int(message.payload))
            self.consumers.add(consumer.name)
            await consumer.acknowledge_cumulative(messages[-1])
            self._acknowledged += len(messages)
            self._news.set()

    async def wait_for(self, sent: Numbers) -> None:
        """Returns when as many messages as were sent are received and acknowledged, or more."""
        while self._acknowledged < _count(sent):
            self._news.clear()
            await self._news.wait()


@contextlib.asynccontextmanager
async def _receiving(client: Client, seen: _Seen, name: str) -> AsyncIterator[None]:
    async with (
        await client.stream_consumer(TOPIC, SUBSCRIPTION, name=name, start=EARLIEST) as consumer,
        asyncio.TaskGroup() as group,
    ):
        task = group.create_task(seen.receive(consumer))
        yield
        task.cancel()


# -- looking


async def _until_active(client: Client, count: int) -> TopicState:
    """The topic, as soon as it has so many active segments."""
    async with contextlib.aclosing(client.topics.watch(TOPIC)) as states:
        async for state in states:
            if state is not None and len(state.layout.active) == count:
                return state
    raise AssertionError("a watch has no end")


def _draw(state: TopicState) -> None:
    for line in draw(state.layout):
        say(f"   {line}")


async def _tell_why(client: Client, changes: int) -> None:
    """Whoever watches the topic may see a change before the one who made it has written down that it is done."""
    while len(done := await _done(client)) < changes:
        await asyncio.sleep(ASKED_AGAIN_AFTER_S)
    for decision in done:
        numbers = " and ".join(map(str, decision.segment_ids))
        say(f"{decision.action} of {numbers}: {decision.reason}")


async def _done(client: Client) -> list[ScalingDecision]:
    return [each.decision for each in (await client.topics.explain(TOPIC)).log if each.outcome == "done"]


async def _judge(client: Client, sent: Numbers, seen: _Seen) -> int:
    received = seen.numbers
    lost = sum(len(set(numbers) - set(received[key])) for key, numbers in sent.items())
    doubled = sum(len(numbers) - len(set(numbers)) for numbers in received.values())
    disordered = sum(numbers != sorted(numbers) for numbers in received.values())
    dropped = sum(key not in sent for key in received)
    backlog = (await client.topics.stats(TOPIC)).subscriptions[SUBSCRIPTION].backlog_entries
    say(f"{_count(sent)} messages of {len(sent)} keys: lost {lost}, doubled {doubled}, keys out of order {disordered}")
    say(f"of the aborted transaction: {dropped}; not acknowledged: {backlog}")
    is_right = not backlog and received == sent
    verdict = "Every message came once, and every key in order."
    print(f"\n{verdict}" if is_right else "\nWRONG", flush=True)
    return 0 if is_right else 1


def _count(numbers: Numbers) -> int:
    return sum(map(len, numbers.values()))
