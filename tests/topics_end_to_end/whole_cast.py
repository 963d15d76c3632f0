"""All applications of a run, on the topics that it begins with, and what befalls them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

from controller.client import EARLIEST, Access, Client, TopicSubscriptionKind
from controller.client.consumers import DeadLetters
from controller.client.consumers.queue import QueueReceiving
from controller.layout import NamespaceName
from controller.topics.errors import TopicExists
from topics_end_to_end.whole_claimants import Claimant, DoomedClaimant
from topics_end_to_end.whole_groups import GroupMember
from topics_end_to_end.whole_members import Member, Reader, Streaming, StreamMember
from topics_end_to_end.whole_notebook import Line, Notebook
from topics_end_to_end.whole_plan import MEMBERS, WholePlan
from topics_end_to_end.whole_producers import KeyedProducer, PlainProducer
from topics_end_to_end.whole_queues import WITH_DEAD_LETTERS, WITHOUT, QueueMember
from topics_end_to_end.whole_rework import Rework
from topics_simulation.topic_notes import Reading
from txn.model.errors import TxnRetriable

NAMESPACE = NamespaceName("public", "default")
ORDERS = "topic://public/default/orders"
OUT = "topic://public/default/out"
VAULT = "topic://public/default/vault"
EXTRA = "topic://public/default/extra"
DEAD = DeadLetters(0).topic_of(ORDERS)
CLASS = {"class": "watched"}

BILLING, SOUGHT, REWORK, WORK, READER, TALLY = "billing", "sought", "rework", "work", "reader", "tally"
"""Of orders."""
WATCH, SWEEP = "watch", "sweep"
"""Of all topics of the class."""
STREAMS = (BILLING, SOUGHT, REWORK)
DELAY_MS_MAX = 3_000
AWAY = 30
"""So many messages are confirmed while a topic is not of the class."""
FENCING_BURSTS = 3


class Cast:
    """Those of one run."""

    def __init__(self, plan: WholePlan, book: Notebook, url: str, clients: list[Client]) -> None:
        self.noted = {ORDERS, OUT, VAULT}
        """The topics that are judged."""
        self.dead: list[str] = []
        """All dead letters."""
        self.sending: list[asyncio.Task[None]] = []
        self._book = book
        self._url = url
        self._clients = clients
        repeats = plan.retention_minutes < 0
        self._named = [
            KeyedProducer(book, clients[each], ORDERS, f"named-{each}", repeats=repeats) for each in range(2)
        ]
        self._plain = [
            PlainProducer(book, clients[2], ORDERS, "plain"),
            PlainProducer(book, clients[0], ORDERS, "late", DELAY_MS_MAX),
        ]
        self._claimants = [Claimant(book, clients[each], VAULT, f"vault-{each}", Access.WAIT) for each in range(2)]
        self._intruder = Claimant(book, clients[2], VAULT, "intruder", Access.SHARED)
        self._usurper = Claimant(book, clients[2], VAULT, "usurper", Access.FENCING)
        self._billing = [
            StreamMember(book, clients[each % len(clients)], self._stream(each, BILLING)) for each in range(MEMBERS)
        ]
        self._sought = StreamMember(book, clients[0], self._stream(0, SOUGHT))
        self._queue = [QueueMember(book, clients[each], self._work(each), has_dead_letters=True) for each in range(2)]
        self.reworks = [Rework(book, clients[each], ORDERS, REWORK, OUT, f"rework-{each}") for each in (1, 2)]
        self.reader = Reader(book, clients[1], ORDERS, READER)
        self._tally = [GroupMember(book, clients[each], ORDERS, TALLY, f"tally-{each}") for each in range(2)]
        self._watch = StreamMember(book, clients[2], self.open_watch)
        self._sweep = QueueMember(book, clients[1], self.open_sweep, has_dead_letters=False)
        self._changing = asyncio.Lock()

    # -- how they come

    def _stream(self, number: int, subscription: str) -> Callable[[], Awaitable[Streaming]]:
        client = self._clients[number % len(self._clients)]
        return lambda: client.stream_consumer(ORDERS, subscription, name=f"{subscription}-{number}", start=EARLIEST)

    def _work(self, number: int) -> Callable[[], Awaitable[QueueReceiving]]:
        client = self._clients[number]
        return lambda: client.queue_consumer(ORDERS, WORK, start=EARLIEST, options=WITH_DEAD_LETTERS)

    async def open_watch(self) -> Streaming:
        """Another consumer of the stream of all topics of the class."""
        return await self._clients[2].namespace_stream_consumer(
            str(NAMESPACE), WATCH, properties=CLASS, name=WATCH, start=EARLIEST
        )

    async def open_sweep(self) -> QueueReceiving:
        """Another consumer of their queue."""
        return await self._clients[1].namespace_queue_consumer(
            str(NAMESPACE), SWEEP, properties=CLASS, start=EARLIEST, options=WITHOUT
        )

    @property
    def _senders(self) -> list[KeyedProducer | PlainProducer | Claimant]:
        return [*self._named, *self._plain, *self._claimants, self._intruder]

    @property
    def members(self) -> list[Member]:
        """All who receive."""
        return [
            *self._billing[:2],
            self._sought,
            *self._queue,
            *self.reworks,
            self.reader,
            *self._tally,
            self._watch,
            self._sweep,
        ]

    @property
    def beside(self) -> list[asyncio.Task[None]]:
        """What they do."""
        return [*self.sending, *(each.task for each in self.members if each.is_there)]

    async def begin(self) -> None:
        """There are topics, and everybody comes."""
        topics, book = self._clients[0].topics, self._book
        await topics.create(ORDERS, segments=2)
        await topics.create(OUT, properties=CLASS)
        await topics.create(VAULT, properties=CLASS)
        await topics.create(DEAD)
        for name in STREAMS:
            await topics.create_subscription(ORDERS, name, TopicSubscriptionKind.STREAM, EARLIEST)
            book.subscribed(ORDERS, name, Reading.STREAM)
        await topics.create_subscription(ORDERS, WORK, TopicSubscriptionKind.QUEUE, EARLIEST)
        book.subscribed(ORDERS, WORK, Reading.QUEUE)
        for name in (READER, TALLY):
            book.subscribed(ORDERS, name, Reading.CHECKPOINT)
        for topic in (OUT, VAULT):
            self._note_class(topic)
        for member in self.members:
            member.start()
        self.sending = [asyncio.create_task(each.run()) for each in self._senders]

    def _note_class(self, topic: str) -> None:
        self._book.subscribed(topic, WATCH, Reading.STREAM)
        self._book.subscribed(topic, SWEEP, Reading.QUEUE)

    async def read_dead_letters(self) -> None:
        """Until cancelled."""
        async with await self._clients[0].checkpoint_consumer(DEAD, start=EARLIEST) as consumer:
            async for message in consumer:
                name = message.payload.decode()
                self.dead.append(name)
                self._book.settle((ORDERS, WORK), [name])

    # -- how they go

    @property
    def of_class(self) -> list[str]:
        """The topics that are consumed for their properties."""
        return sorted(self.noted - {ORDERS})

    @property
    def accesses(self) -> dict[str, Access]:
        """By which access whoever comes can send to each topic. Where the right to produce is claimed he has to wait
        for it, also while nobody has had it yet: who only tries again never finds it free."""
        return {topic: Access.WAIT if topic == VAULT else Access.SHARED for topic in sorted(self.noted)}

    def lines(self, names: Iterable[str]) -> list[Line]:
        """Subscriptions of orders."""
        return [(ORDERS, each) for each in names]

    async def stop_sending(self) -> None:
        """Everybody ends when all that he has sent is confirmed."""
        for each in self._senders:
            each.is_over = True
        await asyncio.gather(*self.sending)

    async def stop_receiving(self) -> None:
        """All but the reader."""
        for member in [each for each in self.members if each is not self.reader and each.is_there]:
            await member.stop()

    # -- troubles

    async def leave(self, which: int) -> None:
        """One member leaves, another one comes."""
        async with self._changing:
            at = which % 2
            await self._billing[at].stop()
            self._billing[at], self._billing[2] = self._billing[2], self._billing[at]
            self._billing[at].start()

    async def die(self, which: int) -> None:
        """One goes without a word, and comes back by its name."""
        async with self._changing:
            victims: list[Member] = [self.reworks[which % 2], self._billing[which % 2], self._tally[which % 2]]
            victim = victims[which // 2 % len(victims)]
            await victim.stop(leave=False)
            victim.start()

    async def reopen(self) -> None:
        """Named producers begin anew."""
        for each in self._named:
            each.reopen()

    async def restart_reader(self) -> None:
        """The reader goes on from its checkpoint, and one of the group leaves and comes back."""
        async with self._changing:
            await self.reader.stop()
            self.reader.start()
            await self._tally[0].stop()
            self._tally[0].start()

    async def seek(self) -> None:
        """A subscription begins anew."""
        self._sought.seek()
        await self._sought.sought.wait()

    async def fence(self) -> None:
        """The right is taken from whoever has it."""
        await self._usurper.live(Access.FENCING, FENCING_BURSTS)

    async def kill_claimant(self) -> None:
        """Who has the right dies with it."""
        await DoomedClaimant(self._book, self._url, VAULT).run()

    async def reclass(self, which: int) -> None:
        """A topic is not consumed by the class any more, and then it is."""
        topic = (OUT, VAULT)[which % 2]
        await self._set_properties(topic, {})
        wanted = self._book.confirmed + AWAY
        await self._book.news.until(lambda: self._book.confirmed >= wanted)
        await self._set_properties(topic, CLASS)

    async def _set_properties(self, topic: str, properties: dict[str, str]) -> None:
        while True:
            try:
                await self._clients[0].topics.set_properties(topic, properties)
            except TxnRetriable as error:
                self._book.counts[f"properties: {type(error).__name__}"] += 1
            else:
                return

    async def add_topic(self) -> None:
        """There is another topic of the class, and somebody sends to it."""
        with suppress(TopicExists):  # the first attempt may have been one, although nobody answered
            await self._clients[1].topics.create(EXTRA, segments=2, properties=CLASS)
        self.noted.add(EXTRA)
        self._note_class(EXTRA)
        self._plain.append(PlainProducer(self._book, self._clients[1], EXTRA, "extra"))
        self.sending.append(asyncio.create_task(self._plain[-1].run()))
