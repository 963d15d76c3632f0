"""Troubles as they are planned, made one after the other, each when its time has come by the messages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

from controller.client import Client, TopicState
from controller.layout import LayoutError, Segment
from support.broker_process import BrokerProcess
from topics_end_to_end.whole_cluster import Cluster
from topics_end_to_end.whole_notebook import Notebook
from topics_end_to_end.whole_plan import BROKERS, RING, Planned, Trouble
from txn.model.errors import TxnError, TxnRetriable

PAUSE_S = 0.05
"""Between attempts at a change of a layout."""


class Applications(Protocol):
    """What else troubles befall."""

    async def leave(self, which: int) -> None: ...

    async def die(self, which: int) -> None: ...

    async def reopen(self) -> None: ...

    async def restart_reader(self) -> None: ...

    async def seek(self) -> None: ...

    async def fence(self) -> None: ...

    async def kill_claimant(self) -> None: ...

    async def reclass(self, which: int) -> None: ...

    async def add_topic(self) -> None: ...


class Troubles:
    """Makes them. What takes its time goes on beside what comes next, but for brokers: one is down at a time."""

    def __init__(
        self, book: Notebook, cluster: Cluster, client: Client, topics: list[str], applications: Applications
    ) -> None:
        self._book = book
        self._cluster = cluster
        self._client = client
        self._topics = topics
        self._applications = applications
        self.tasks: list[asyncio.Task[None]] = []
        """All that were made, be they over or not."""
        self._fault: asyncio.Task[None] | None = None
        self.last_s = 0.0
        """When the last fault of a broker began."""

    async def make(self, planned: Planned) -> None:
        """When so many more messages have been confirmed."""
        wanted = self._book.confirmed + planned.after
        await self._book.news.until(lambda: self._book.confirmed >= wanted)
        self._book.counts[planned.trouble.name] += 1
        work = self._work(planned)
        task = asyncio.create_task(work, name=planned.trouble.name)
        self.tasks.append(task)

    async def wait(self) -> None:
        """Returns when all is healed."""
        await asyncio.gather(*self.tasks)

    def check(self) -> None:
        """Raises what one has failed with."""
        for task in self.tasks:
            if task.done():
                task.result()

    def _work(self, planned: Planned) -> Coroutine[Any, Any, None]:
        which, applications = planned.which, self._applications
        match planned.trouble:
            case Trouble.SPLIT:
                return self._split(self._topics[which % len(self._topics)], which)
            case Trouble.MERGE:
                return self._merge(self._topics[which % len(self._topics)], which)
            case Trouble.LEAVE:
                return applications.leave(which)
            case Trouble.DIE:
                return applications.die(which)
            case Trouble.REOPEN:
                return applications.reopen()
            case Trouble.RESTART_READER:
                return applications.restart_reader()
            case Trouble.SEEK:
                return applications.seek()
            case Trouble.FENCE:
                return applications.fence()
            case Trouble.KILL_CLAIMANT:
                return applications.kill_claimant()
            case Trouble.RECLASS:
                return applications.reclass(which)
            case Trouble.EXTRA_TOPIC:
                return applications.add_topic()
            case Trouble.KILL_STORE:
                return asyncio.to_thread(self._cluster.kill_store)
            case _:
                return self._break(planned.trouble, self._cluster.brokers[which % BROKERS])

    # -- brokers

    async def _break(self, trouble: Trouble, broker: BrokerProcess) -> None:
        before, self._fault = self._fault, asyncio.current_task()
        if before is not None:
            await asyncio.wait([before])
        self.last_s = time.monotonic()
        had = self._cluster.has(broker)
        self._book.counts["taken over"] += len(had)
        match trouble:
            case Trouble.KILL:
                await asyncio.to_thread(broker.kill)
                await self._cluster.wait_moved(broker)
                await self._cluster.start(broker)
            case Trouble.KILL_BRIEFLY:
                await asyncio.to_thread(broker.kill)
                await self._cluster.start(broker)
            case Trouble.STOP:
                assert await asyncio.to_thread(broker.terminate) == 0, broker.log
                await self._cluster.start(broker)
            case _:
                broker.freeze()
                try:
                    await self._cluster.wait_moved(broker)
                finally:
                    broker.thaw()
                await self._cluster.wait_present(broker)

    # -- layouts

    async def _split(self, topic: str, place: int) -> None:
        def chosen(active: list[Segment]) -> Callable[[], Awaitable[TopicState]]:
            at = next(each for each in active if place in each.range)
            return lambda: self._client.topics.split(topic, at.segment_id)

        await self._change(topic, chosen)

    async def _merge(self, topic: str, place: int) -> None:
        def chosen(active: list[Segment]) -> Callable[[], Awaitable[TopicState]]:
            count = min(2 + place % 3, len(active))
            first = place * (len(active) - count + 1) // RING
            ids = [each.segment_id for each in active[first : first + count]]
            return lambda: self._client.topics.merge(topic, ids)

        await self._change(topic, chosen)

    async def _change(self, topic: str, chosen: Callable[[list[Segment]], Callable[[], Awaitable[TopicState]]]) -> None:
        """Insists while that may help; what cannot be is counted."""
        while True:
            try:
                state = await self._client.topics.describe(topic)
                change = chosen(sorted(state.layout.active, key=lambda each: each.range.start))
                await change()
            except TxnRetriable as error:
                self._book.counts[f"changes: {type(error).__name__}"] += 1
                await asyncio.sleep(PAUSE_S)
            except (LayoutError, TxnError) as error:
                self._book.counts[f"changes refused: {type(error).__name__}"] += 1
                return
            else:
                self._book.counts["changes done"] += 1
                return
