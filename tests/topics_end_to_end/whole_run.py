"""A whole run: applications and troubles for a while, then peace, then everything is read once more, and judged."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any

from controller.client import Client, connect
from topics_end_to_end.whole_cast import (
    DEAD,
    EXTRA,
    NAMESPACE,
    ORDERS,
    OUT,
    READER,
    STREAMS,
    SWEEP,
    TALLY,
    VAULT,
    WATCH,
    WORK,
    Cast,
)
from topics_end_to_end.whole_cluster import Cluster, clustered, watch_shapes
from topics_end_to_end.whole_evidence import Evidence, judge
from topics_end_to_end.whole_notebook import Notebook
from topics_end_to_end.whole_plan import WholePlan
from topics_end_to_end.whole_rest import MARKS, Rest
from topics_end_to_end.whole_troubles import Troubles
from topics_simulation.topic_notes import Gone, Shape
from txn.coordinator.waiting import first_of
from txn_histories.violations import Findings


class WholeRun:
    """One run."""

    def __init__(self, plan: WholePlan, cluster: Cluster, clients: list[Client]) -> None:
        self._plan = plan
        self._cluster = cluster
        self._clients = clients
        self._book = Notebook()
        self._book.topics.rest.pruned_without = plan.retention_minutes >= 0
        self._rest = Rest(self._book, clients[0])
        self._cast = Cast(plan, self._book, cluster.url, clients)
        self._background: list[asyncio.Task[None]] = []
        self._read: dict[str, list[str]] | None = None
        self._troubles = Troubles(self._book, cluster, clients[0], [ORDERS, OUT, VAULT], self._cast)

    async def run(self) -> Findings:
        """What is wrong, with what was done as a note on whatever is raised."""
        self._background = [
            asyncio.create_task(watch_shapes(self._cluster.store, NAMESPACE, self._book.tick, self._note_shape)),
        ]
        try:
            await self._cast.begin()
            self._background.append(asyncio.create_task(self._cast.read_dead_letters()))
            for planned in self._plan.troubles:
                await self._while_well(self._troubles.make(planned))
            writable_ms = await self._come_to_peace()
            return await self._come_to_rest(writable_ms)
        except BaseException as error:
            error.add_note(f"{self._plan}; {dict(self._book.counts)}; confirmed: {self._book.confirmed}")
            raise
        finally:
            beside = [*self._background, *self._cast.beside, *self._troubles.tasks]
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    @property
    def evidence(self) -> Evidence:
        """What it is judged by; so far, as long as it runs."""
        origins = {name: origin for each in self._cast.reworks for name, origin in each.origins.items()}
        return Evidence(self._book, self._cast.dead, origins, self._read)

    async def wait_confirmed(self, more: int) -> None:
        """Returns when so many more messages have been confirmed."""
        wanted = self._book.confirmed + more
        await self._book.news.until(lambda: self._book.confirmed >= wanted)

    async def remove(self) -> None:
        """Deletes all topics, once it has run."""
        for topic in [*sorted(self._cast.noted), DEAD]:
            await self._clients[0].topics.delete(topic)

    async def _while_well(self, work: Coroutine[Any, Any, Any]) -> None:
        """Unless something fails meanwhile that goes on beside it."""
        await first_of(work, *(_failure(task) for task in [*self._background, *self._cast.beside]))
        self._troubles.check()

    async def _come_to_peace(self) -> int:
        """Everything can be written to again, and is done; how long it took from the last fault on."""
        cast, keeps = self._cast, not self._book.topics.rest.pruned_without
        writable_ms = await self._rest.probe(cast.accesses, self._troubles.last_s)
        await self._while_well(self._troubles.wait())
        await cast.stop_sending()
        await self._rest.be_still(sorted(cast.noted))
        await self._while_well(self._rest.drain(cast.lines([*STREAMS, WORK, *((READER, TALLY) if keeps else ())])))
        await self._while_well(self._rest.drain([(each, name) for each in cast.of_class for name in (WATCH, SWEEP)]))
        await cast.stop_receiving()
        return writable_ms

    async def _come_to_rest(self, writable_ms: int) -> Findings:
        book, rest, client, cast = self._book, self._rest, self._clients[0], self._cast
        topics = sorted(cast.noted)
        async with AsyncExitStack() as stack:
            last: list[Coroutine[Any, Any, None]] = []
            for name in STREAMS:
                consumer = await client.stream_consumer(ORDERS, name, name="last", start=None)
                last.append(rest.read_again(await stack.enter_async_context(consumer), [ORDERS]))
            if not book.topics.rest.pruned_without:
                group = await client.checkpoint_group_consumer(ORDERS, TALLY, name="last", create=False)
                last.append(rest.read_group_again(await stack.enter_async_context(group), [ORDERS]))
            queue = await stack.enter_async_context(await client.queue_consumer(ORDERS, WORK, start=None))
            last.append(rest.read_queue_again(queue, [ORDERS]))
            watch = await stack.enter_async_context(await cast.open_watch())
            last.append(rest.read_again(watch, cast.of_class))
            sweep = await stack.enter_async_context(await cast.open_sweep())
            last.append(rest.read_queue_again(sweep, cast.of_class))
            for topic in topics:
                await rest.mark(topic, MARKS)
            await asyncio.gather(*last)
            await rest.note_division(ORDERS, STREAMS)
        if not book.topics.rest.pruned_without:
            await rest.drain(cast.lines([READER]))
        await cast.reader.stop()
        read = await rest.read_logs(topics)
        book.may_be_settled((ORDERS, WORK), cast.dead)
        self._read = read
        return self._judge(writable_ms)

    def _judge(self, writable_ms: int) -> Findings:
        findings = judge(self.evidence)
        findings.counts["writable ms"] = writable_ms
        findings.counts["moved ms at most"] = max(self._cluster.moved_ms, default=0)
        return findings

    def _note_shape(self, shape: Shape | Gone) -> None:
        if shape.topic in {*self._cast.noted, EXTRA}:
            self._book.topics.shapes += [shape] if isinstance(shape, Shape) else []
            self._book.topics.gone += [shape] if isinstance(shape, Gone) else []


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
