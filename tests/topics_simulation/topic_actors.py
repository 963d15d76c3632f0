"""What the clients of a simulation do with topics all the time: they write, and consume in all the ways there are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from controller.layout import TopicName
from topics_simulation.topic_clients import TopicClient, TopicView
from topics_simulation.topic_lanes import Checkpoint
from topics_simulation.topic_members import CheckpointMember, DividedMember, Member, QueueMember, StreamMember
from topics_simulation.topic_notes import Reading, TopicNotes
from topics_simulation.topic_producers import Key, TopicProducer
from txn.hosting import NoSuchSegment
from txn.model.errors import SegmentUnavailable, TxnRetriable
from txn.model.header import TxnState
from txn.segment.cursor import Ack
from txn.segment.subscription import Delivery
from txn_histories.clients import Transaction
from txn_histories.consumers import Taking

KEYS = [Key.of(f"key-{number}") for number in range(12)]
BURST_MAX = 4
COMMITS, ABORTS = 0.65, 0.9
"""Up to which chance a transaction is committed, is aborted; the rest is left to its deadline."""
LIFE_S_MAX = 12.0
"""Of a member, before it leaves, dies, or is replaced."""

STREAM, QUEUE, GROUP = "stream", "queue", "group"
READINGS = {STREAM: Reading.STREAM, QUEUE: Reading.QUEUE, GROUP: Reading.CHECKPOINT}
"""The subscriptions that every topic has from its beginning."""


@dataclass
class Topic:
    """A topic that clients use."""

    name: TopicName
    view: TopicView
    checkpoint: Checkpoint
    finishing: list[Member] = field(default_factory=list)
    """Those who read what is left in the end."""


class TopicActors:
    """All of them; they end when `is_over` is set, each when it is through with what it is doing."""

    def __init__(self, notes: TopicNotes, make_client: Callable[[str], TopicClient], new_name: Callable[[str], str]):
        self.topics: list[Topic] = []
        """Those there are."""
        self.is_over = False
        self.tasks: list[asyncio.Future[None]] = []
        self._notes = notes
        self._make_client = make_client
        self._new_name = new_name
        self._breathers: list[TopicProducer] = []

    def add(self, name: TopicName) -> Topic:
        """Another topic is there, and is used from now on."""
        client = self._make_client(self._new_name("viewer"))
        topic = Topic(name, TopicView(client, name), Checkpoint(str(name), GROUP))
        self.topics.append(topic)
        streams = ["s0", "s1", "s2"][: client.random.randint(1, 3)]
        works = [
            self._write(topic),
            *(self._keep(topic, self._stream_member, each) for each in streams),
            self._keep(topic, self._queue_member, ""),
            *(self._keep(topic, self._checkpoint_member, each) for each in ("g0", "g1")),
        ]
        self.tasks += [asyncio.ensure_future(each) for each in works]
        return topic

    # -- who writes

    async def _write(self, topic: Topic) -> None:
        client = self._make_client(self._new_name("writer"))
        producer = TopicProducer(client, topic.view, self._notes, client.name)
        while not self.is_over and not topic.view.is_gone:
            transaction = await client.begin() if client.random.random() < 0.5 else None
            for _ in range(client.random.randint(1, 3)):
                await producer.send(client.random.choices(KEYS, k=client.random.randint(1, BURST_MAX)), transaction)
            if transaction is not None:
                await self._finish(client, transaction)
            await client.pause()

    async def _finish(self, client: TopicClient, transaction: Transaction) -> None:
        """Ends a transaction in one of the ways in which clients do it, or do not."""
        chance = client.random.random()
        if self.is_over or chance < ABORTS:
            is_good = chance < COMMITS and not transaction.has_failed
            await client.end(transaction, TxnState.COMMITTED if is_good else TxnState.ABORTED)

    # -- who reads

    async def _keep(self, topic: Topic, make: Callable[[Topic, str], Member], name: str) -> None:
        """One member after another, which go in all the ways in which members go."""
        client = self._make_client(self._new_name("keeper"))
        member: Member | None = None
        counts = self._notes.counts
        while not self.is_over and not topic.view.is_gone:
            if member is None:
                counts["members came"] += 1
                member = make(topic, name)
            await self._live(topic, client, client.random.random() * LIFE_S_MAX)
            chance = client.random.random()
            if chance < 0.4:
                counts["members left"] += 1
                member.is_ending = True
                await member.task
                member = None
            elif chance < 0.7:
                counts["members died"] += 1
                member.break_off()
                with suppress(asyncio.CancelledError):
                    await member.task
                member = None
                await self._live(topic, client, client.random.random() * 2 * LIFE_S_MAX)
            elif isinstance(member, DividedMember):
                counts["members were replaced by their name"] += 1
                former, member = member, make(topic, name)
                former.is_ending = client.random.random() < 0.5
                await self._live(topic, client, 2.0)
                former.break_off()
                with suppress(asyncio.CancelledError):
                    await former.task
        if member is not None:
            member.is_ending = True
            await member.task

    async def _live(self, topic: Topic, client: TopicClient, seconds: float) -> None:
        """So long, unless all is over before."""
        until_s = client.stage.pace.clock.monotonic_s() + seconds
        while client.stage.pace.clock.monotonic_s() < until_s and not self.is_over and not topic.view.is_gone:
            await client.pause(1.0)

    def _stream_member(self, topic: Topic, name: str) -> StreamMember:
        client = self._make_client(self._new_name("stream"))
        return StreamMember(client, topic.name, STREAM, name, self._stream_handle(client))

    def _queue_member(self, topic: Topic, name: str) -> QueueMember:
        client = self._make_client(self._new_name("queue"))
        return QueueMember(client, topic.view, QUEUE, self._queue_handle(client))

    def _checkpoint_member(self, topic: Topic, name: str) -> CheckpointMember:
        client = self._make_client(self._new_name("reader"))
        return CheckpointMember(client, topic.name, GROUP, name, topic.checkpoint)

    def finish(self, topic: Topic) -> None:
        """From now on everything that comes is acknowledged, by members that stay."""
        client = self._make_client(self._new_name("finisher"))
        topic.finishing = [
            StreamMember(client, topic.name, STREAM, "last-0", _acknowledge_all),
            StreamMember(client, topic.name, STREAM, "last-1", _acknowledge_all),
            QueueMember(client, topic.view, QUEUE, _acknowledge_each),
            self._checkpoint_member(topic, "last-0"),
            self._checkpoint_member(topic, "last-1"),
        ]

    # -- what they do with what they get

    def _stream_handle(self, client: TopicClient) -> Callable[[Taking, list[Delivery]], asyncio.Future[None]]:
        async def handle(taking: Taking, deliveries: list[Delivery]) -> None:
            chance = client.random.random()
            if chance < 0.15:
                return  # it forgets to acknowledge: whoever comes next gets them again
            transaction = await client.begin() if chance < 0.5 else None
            if transaction is not None and client.random.random() < 0.5:
                await self._send_on(client, transaction)
            acks = _acks(client, deliveries, taking.consumer.kind.is_ordered)
            await taking.acknowledge(acks, transaction)
            if transaction is not None:
                await self._finish(client, transaction)

        return lambda taking, deliveries: asyncio.ensure_future(handle(taking, deliveries))

    def _queue_handle(self, client: TopicClient) -> Callable[[Taking, list[Delivery]], asyncio.Future[None]]:
        async def handle(taking: Taking, deliveries: list[Delivery]) -> None:
            mine = [each for each in deliveries if client.random.random() < 0.8]
            given_back = [each.position for each in deliveries if each not in mine]
            if given_back:
                taking.give_back(given_back)
            if mine:
                transaction = await client.begin() if client.random.random() < 0.3 else None
                await taking.acknowledge([Ack(each.position) for each in mine], transaction)
                if transaction is not None:
                    await self._finish(client, transaction)

        return lambda taking, deliveries: asyncio.ensure_future(handle(taking, deliveries))

    async def _send_on(self, client: TopicClient, transaction: Transaction) -> None:
        """What it has received becomes a message of another topic, or of the same one."""
        topic = client.random.choice(self.topics)
        producer = TopicProducer(client, topic.view, self._notes, client.recorder.new_name(client.name))
        with suppress(NoSuchSegment, TxnRetriable):
            await producer.send([client.random.choice(KEYS)], transaction)


def _acks(client: TopicClient, deliveries: Sequence[Delivery], is_whole: bool) -> list[Ack]:
    """Where a segment is read as a whole everything up to one of them, or some of them."""
    if is_whole and client.random.random() < 0.7:
        return [Ack(client.random.choice(deliveries).position, True)]
    chosen = [each for each in deliveries if client.random.random() < 0.8] or deliveries[:1]
    return [Ack(each.position) for each in chosen]


async def _acknowledge_all(taking: Taking, deliveries: list[Delivery]) -> None:
    if taking.consumer.kind.is_ordered:
        await _insist(taking, [Ack(deliveries[-1].position, True)])
    else:
        await _acknowledge_each(taking, deliveries)


async def _acknowledge_each(taking: Taking, deliveries: list[Delivery]) -> None:
    await _insist(taking, [Ack(each.position) for each in deliveries])


async def _insist(taking: Taking, acks: Sequence[Ack]) -> None:
    """What cannot be acknowledged, because a transaction holds it or its owner has gone, is to come again."""
    if not (await taking.acknowledge(acks, None)).is_done:
        raise SegmentUnavailable("once more, from the beginning")
