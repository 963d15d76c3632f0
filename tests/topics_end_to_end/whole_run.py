"""A whole run: applications and troubles for a while, then peace, then everything is read once more, and judged."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from typing import Any

from controller.client import EARLIEST, Client, TopicSubscriptionKind, connect
from controller.client.consumers import DeadLetters
from controller.layout import NamespaceName
from controller.topics.errors import TopicExists
from topics_end_to_end.whole_cluster import Cluster, clustered, watch_shapes
from topics_end_to_end.whole_members import Member, QueueMember, Reader, Streaming, StreamMember
from topics_end_to_end.whole_notebook import Notebook
from topics_end_to_end.whole_plan import MEMBERS, WholePlan
from topics_end_to_end.whole_producers import KeyedProducer, PlainProducer
from topics_end_to_end.whole_rest import MARKS, Rest, Wrong, judge_dead_letters, judge_rework
from topics_end_to_end.whole_rework import Rework
from topics_end_to_end.whole_troubles import Troubles
from topics_simulation.topic_checker import check_topics
from topics_simulation.topic_notes import Gone, Reading, Shape
from txn.coordinator.waiting import first_of
from txn_histories.violations import Findings

NAMESPACE = NamespaceName("public", "default")
ORDERS = "topic://public/default/orders"
OUT = "topic://public/default/out"
EXTRA = "topic://public/default/extra"
DEAD = DeadLetters(0).topic_of(ORDERS)
CLASS = {"class": "watched"}

BILLING, SOUGHT, REWORK, WORK, READER, WATCH = "billing", "sought", "rework", "work", "reader", "watch"


class WholeRun:
    """One run."""

    def __init__(self, plan: WholePlan, cluster: Cluster, clients: list[Client]) -> None:
        self._plan = plan
        self._cluster = cluster
        self._clients = clients
        self._book = Notebook()
        self._book.topics.rest.pruned_without = plan.retention_minutes >= 0
        self._noted = {ORDERS, OUT}
        self._rest = Rest(self._book, clients[0])
        self._producers = [KeyedProducer(self._book, clients[each], ORDERS, f"named-{each}") for each in range(2)]
        self._plain = [PlainProducer(self._book, clients[2], ORDERS, "plain")]
        self._billing = [
            StreamMember(self._book, clients[each % len(clients)], self._stream(each, ORDERS, BILLING))
            for each in range(MEMBERS)
        ]
        self._sought = StreamMember(self._book, clients[0], self._stream(0, ORDERS, SOUGHT))
        self._queue = [QueueMember(self._book, clients[each], ORDERS, WORK) for each in range(2)]
        self._reworks = [Rework(self._book, clients[each], ORDERS, REWORK, OUT, f"rework-{each}") for each in (1, 2)]
        self._reader = Reader(self._book, clients[1], ORDERS, READER)
        self._watch = StreamMember(self._book, clients[2], self._open_watch)
        self._changing = asyncio.Lock()
        self._sending: list[asyncio.Task[None]] = []
        self._dead: list[str] = []
        self._background: list[asyncio.Task[None]] = []
        self._troubles = Troubles(self._book, cluster, clients[0], [ORDERS, OUT], self)

    def _stream(self, number: int, topic: str, subscription: str) -> Callable[[], Awaitable[Streaming]]:
        client = self._clients[number % len(self._clients)]
        return lambda: client.stream_consumer(topic, subscription, name=f"{subscription}-{number}", start=EARLIEST)

    async def _open_watch(self) -> Streaming:
        return await self._clients[2].namespace_stream_consumer(
            str(NAMESPACE), WATCH, properties=CLASS, name=WATCH, start=EARLIEST
        )

    @property
    def _senders(self) -> list[KeyedProducer | PlainProducer]:
        return [*self._producers, *self._plain]

    @property
    def _members(self) -> list[Member]:
        return [*self._billing[:2], self._sought, *self._queue, *self._reworks, self._reader, self._watch]

    # -- from beginning to end

    async def run(self) -> Findings:
        """What is wrong, with what was done as a note on whatever is raised."""
        self._background = [
            asyncio.create_task(watch_shapes(self._cluster.store, NAMESPACE, self._book.tick, self._note_shape)),
        ]
        try:
            await self._begin()
            for planned in self._plan.troubles:
                await self._while_well(self._troubles.make(planned))
            writable_ms = await self._come_to_peace()
            return await self._come_to_rest(writable_ms)
        except BaseException as error:
            error.add_note(f"{self._plan}; {dict(self._book.counts)}; confirmed: {self._book.confirmed}")
            raise
        finally:
            beside = [*self._background, *self._sending, *(each.task for each in self._members if each.is_there)]
            for task in [*beside, *self._troubles.tasks]:
                task.cancel()
            await asyncio.gather(*beside, *self._troubles.tasks, return_exceptions=True)

    async def _begin(self) -> None:
        topics = self._clients[0].topics
        await topics.create(ORDERS, segments=2)
        await topics.create(OUT, properties=CLASS)
        await topics.create(DEAD)
        for name, reading in ((BILLING, Reading.STREAM), (SOUGHT, Reading.STREAM), (REWORK, Reading.STREAM)):
            await topics.create_subscription(ORDERS, name, TopicSubscriptionKind.STREAM, EARLIEST)
            self._book.subscribed(ORDERS, name, reading)
        await topics.create_subscription(ORDERS, WORK, TopicSubscriptionKind.QUEUE, EARLIEST)
        self._book.subscribed(ORDERS, WORK, Reading.QUEUE)
        self._book.subscribed(ORDERS, READER, Reading.CHECKPOINT)
        self._book.subscribed(OUT, WATCH, Reading.STREAM)
        self._background.append(asyncio.create_task(self._read_dead_letters()))
        for member in self._members:
            member.start()
        self._sending = [asyncio.create_task(each.run()) for each in self._senders]

    async def _while_well(self, work: Coroutine[Any, Any, Any]) -> None:
        """Unless something fails meanwhile that goes on beside it."""
        beside = [*self._sending, *self._background, *(each.task for each in self._members if each.is_there)]
        await first_of(work, *(_failure(task) for task in beside))
        self._troubles.check()

    async def _come_to_peace(self) -> int:
        """Everything can be written to again, and is done; how long it took from the last fault on."""
        writable_ms = await self._rest.probe(sorted(self._noted), self._troubles.last_s)
        await self._while_well(self._troubles.wait())
        topics = sorted(self._noted)
        for each in self._senders:
            each.is_over = True
        await asyncio.gather(*self._sending)
        await self._rest.be_still(topics)
        lines = [(ORDERS, each) for each in (BILLING, SOUGHT, REWORK, WORK)]
        if not self._book.topics.rest.pruned_without:
            lines.append((ORDERS, READER))
        await self._while_well(self._rest.drain(lines))
        await self._while_well(self._rest.drain([(each, WATCH) for each in topics if each != ORDERS]))
        for member in [each for each in self._members if each is not self._reader and each.is_there]:
            await member.stop()
        return writable_ms

    async def _come_to_rest(self, writable_ms: int) -> Findings:
        book, rest, client = self._book, self._rest, self._clients[0]
        watched = sorted(self._noted - {ORDERS})
        topics = sorted(self._noted)
        async with AsyncExitStack() as stack:
            last: list[Coroutine[Any, Any, None]] = []
            for name in (BILLING, SOUGHT, REWORK):
                consumer = await client.stream_consumer(ORDERS, name, name="last", start=None)
                last.append(rest.read_again(await stack.enter_async_context(consumer), [ORDERS]))
            queue = await stack.enter_async_context(await client.queue_consumer(ORDERS, WORK, start=None))
            last.append(rest.read_queue_again(queue, ORDERS))
            watch = await stack.enter_async_context(await self._open_watch())
            last.append(rest.read_again(watch, watched))
            for topic in topics:
                await rest.mark(topic, MARKS)
            await asyncio.gather(*last)
            await rest.note_division(ORDERS, (BILLING, SOUGHT, REWORK))
        if not book.topics.rest.pruned_without:
            await rest.drain([(ORDERS, READER)])
        await self._reader.stop()
        read = await rest.read_logs(topics)
        book.may_be_settled((ORDERS, WORK), self._dead)
        return self._judge(read, writable_ms)

    def _judge(self, read: dict[str, list[str]], writable_ms: int) -> Findings:
        book = self._book
        history = book.judged()
        findings = check_topics(history)
        origins = {name: origin for each in self._reworks for name, origin in each.origins.items()}
        wrong = judge_rework(history, read, ORDERS, [*read[OUT], *book.settled[OUT, WATCH]], origins)
        refused = [name for name in book.accepted[ORDERS] if int(name[1:]) % 23 == 0]
        marks = {each.message for each in book.topics.written if each.producer == MARKS}
        wrong += judge_dead_letters(self._dead, set(refused) - marks)
        for each in wrong:
            findings.add(Wrong.APPLIED, "applications", each)
        findings.counts.update(book.counts)
        findings.counts["writable ms"] = writable_ms
        findings.counts["moved ms at most"] = max(self._cluster.moved_ms, default=0)
        findings.counts["dead letters"] = len(self._dead)
        return findings

    # -- what goes on beside

    def _note_shape(self, shape: Shape | Gone) -> None:
        if shape.topic in {*self._noted, EXTRA}:
            self._book.topics.shapes += [shape] if isinstance(shape, Shape) else []
            self._book.topics.gone += [shape] if isinstance(shape, Gone) else []

    async def _read_dead_letters(self) -> None:
        async with await self._clients[0].checkpoint_consumer(DEAD, start=EARLIEST) as consumer:
            async for message in consumer:
                name = message.payload.decode()
                self._dead.append(name)
                self._book.settle((ORDERS, WORK), [name])

    # -- troubles of applications

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
            victim = self._reworks[which % 2] if which % 4 < 2 else self._billing[which % 2]
            await victim.stop(leave=False)
            victim.start()

    async def reopen(self) -> None:
        """Named producers begin anew."""
        for each in self._producers:
            each.reopen()

    async def restart_reader(self) -> None:
        """The reader goes on from its checkpoint."""
        async with self._changing:
            await self._reader.stop()
            self._reader.start()

    async def seek(self) -> None:
        """A subscription begins anew."""
        self._sought.seek()
        await self._sought.sought.wait()

    async def add_topic(self) -> None:
        """There is another topic that is watched, and somebody sends to it."""
        with suppress(TopicExists):  # the first attempt may have been one, although nobody answered
            await self._clients[1].topics.create(EXTRA, segments=2, properties=CLASS)
        self._noted.add(EXTRA)
        self._book.subscribed(EXTRA, WATCH, Reading.STREAM)
        self._plain.append(PlainProducer(self._book, self._clients[1], EXTRA, "extra"))
        self._sending.append(asyncio.create_task(self._plain[-1].run()))


async def _failure(task: asyncio.Task[None]) -> None:
    """Returns never, unless the task fails."""
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()
    await asyncio.Event().wait()


async def run_whole(plan: WholePlan) -> Findings:
    """Runs a plan, with processes of its own."""
    async with clustered(plan) as cluster, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(await connect(cluster.url)) for _ in range(3)]
        return await WholeRun(plan, cluster, clients).run()
