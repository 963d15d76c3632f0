"""Consumers of all topics of a namespace that have certain properties: topics come and go, the consumer stays.

Each topic is consumed as if by a consumer of its own; all share one buffer and one door. What does not work for one
topic is tried again, after longer and longer pauses, and keeps no other from being consumed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Generic, Protocol, TypeVar

from controller.client.consumers.assignments import Books
from controller.client.consumers.attachments import Place
from controller.client.consumers.deadletters import is_dead_letter_topic
from controller.client.consumers.queue import QueueOptions, QueueReceiving
from controller.client.consumers.queues import QueuePlace, QueueTopic
from controller.client.consumers.stream import CumulativeStream
from controller.client.consumers.streams import StreamTopic
from controller.client.consumers.surroundings import Surroundings
from controller.client.segment.credits import Budget
from controller.client.topics.namespaces import TopicSet
from controller.client.values import Edge
from controller.layout import NamespaceName, TopicName
from controller.pb import topics_pb2 as pb
from controller.subscriptions.errors import MemberReplaced
from metastore.coordination import Pace
from txn.coordinator.waiting import first_of
from txn.model.errors import TxnError

logger = logging.getLogger("tidemark.client")

TOPICS_MAX = 10_000
"""Of one consumer; those beyond are not consumed until others go."""
PAUSE_FIRST_S = 0.1
PAUSE_MAX_S = 60.0
"""Between attempts at one topic that fail one after another."""


class Part(Protocol):
    """One topic that is consumed."""

    async def wait_opened(self) -> None: ...

    async def close(self) -> None: ...


P = TypeVar("P", bound=Part)


class Parts(Generic[P]):
    """Keeps one part open for each topic of a set."""

    def __init__(
        self,
        wanted: TopicSet,
        pace: Pace,
        make: Callable[[TopicName, Callable[[BaseException], None]], P],
        is_left_out: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._wanted = wanted
        self._pace = pace
        self._make = make
        self._is_left_out = is_left_out
        self.open: dict[str, P] = {}
        """By topic: those that are consumed at the moment."""
        self._tasks: dict[tuple[str, int], asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Follows the set until cancelled."""
        try:
            while True:
                known = self._wanted.news
                names = sorted(each for each in self._wanted.names if not self._is_left_out(each))
                if len(names) > TOPICS_MAX:
                    logger.warning("%d topics: %d are consumed (TOPICS_MAX)", len(names), TOPICS_MAX)
                wanted = {(name, self._wanted.generations.get(name, 0)) for name in names[:TOPICS_MAX]}
                await self._stop([each for each in self._tasks if each not in wanted])
                for each in wanted - self._tasks.keys():
                    self._tasks[each] = asyncio.create_task(self._keep(each[0]), name=f"consume {each[0]}")
                await self._wanted.wait_news(known)
        finally:
            await self._stop(list(self._tasks))

    async def _stop(self, gone: list[tuple[str, int]]) -> None:
        tasks = [self._tasks.pop(each) for each in gone]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _keep(self, name: str) -> None:
        """Consumes one topic, and again when that has failed."""
        pause_s = PAUSE_FIRST_S
        while True:
            failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

            def fail(error: BaseException, failed: asyncio.Future[BaseException] = failed) -> None:
                if not failed.done():
                    failed.set_result(error)

            part = self._make(TopicName.parse(name), fail)
            try:
                await first_of(part.wait_opened(), _raised(failed))
                self.open[name] = part
                pause_s = PAUSE_FIRST_S
                await _raised(failed)
            except MemberReplaced:
                return  # it is somebody else's now, who has the same name
            except TxnError as error:
                logger.info("%s is consumed later: %s", name, error)
            finally:
                self.open.pop(name, None)
                await part.close()
            await self._pace.sleep(pause_s * (1 + self._pace.random.random()) / 2)
            pause_s = min(2 * pause_s, PAUSE_MAX_S)


async def _raised(failed: asyncio.Future[BaseException]) -> None:
    raise await asyncio.shield(failed)


class _Following:
    """What both consumers of namespaces do: follow the set, and keep its parts."""

    def __init__(self, wanted: TopicSet, parts: Parts[P], ended: Callable[[BaseException], None], what: str) -> None:
        self._wanted = wanted
        self._task = asyncio.create_task(self._run(parts), name=what)
        self._task.add_done_callback(lambda task: None if task.cancelled() else ended(_failure(task)))

    async def _run(self, parts: Parts[P]) -> None:
        await first_of(self._wanted.run(), parts.run())

    async def wait_known(self) -> None:
        """Returns when the set is known; raises what it is refused for."""
        await first_of(self._wanted.wait_news(0), asyncio.shield(self._task))

    async def stop(self) -> None:
        """Ends it, and all parts."""
        self._task.cancel()
        await asyncio.wait([self._task])


def _failure(task: asyncio.Task[None]) -> BaseException:
    error = task.exception()
    assert error is not None, "it runs until it is cancelled or fails"
    return error


class StreamPart(StreamTopic):
    """One topic of a namespace's stream consumer."""

    async def wait_opened(self) -> None:
        """Returns when it is on the books."""
        await self.membership.wait_opened()

    async def close(self, *, leave: bool = True) -> None:
        await super().close(leave=leave)


class NamespaceStreamConsumer(CumulativeStream):
    """Receives from all topics of a namespace that have these properties. One acknowledgement covers all of them."""

    def __init__(
        self,
        around: Surroundings,
        namespace: NamespaceName,
        properties: Mapping[str, str],
        subscription: str,
        name: str,
        budget: Budget,
        start: Edge | None,
    ) -> None:
        what = f"stream consumer {name!r} of {subscription!r} of the topics of {namespace}"
        super().__init__(around, subscription, name, budget, what)
        self.namespace = str(namespace)
        self._set = TopicSet(around.caller, namespace, properties)
        place: Place = self._place

        def make(topic: TopicName, ended: Callable[[BaseException], None]) -> StreamPart:
            books = Books(topic, subscription, name, pb.STREAM, start)
            return StreamPart(place, books, lambda error: self._part_ended(error, ended))

        self._parts: Parts[StreamPart] = Parts(self._set, around.caller.pace, make)
        self._following = _Following(self._set, self._parts, self._fail, what)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that it consumes at the moment."""
        return tuple(sorted(self._parts.open))

    async def wait_opened(self) -> None:
        await self._following.wait_known()

    async def close(self) -> None:
        """Ends when acknowledgements under way are answered; leaves every topic."""
        await self._close_once(self._following.stop)

    def _part_ended(self, error: BaseException, ended: Callable[[BaseException], None]) -> None:
        if isinstance(error, MemberReplaced):
            self._fail(error)
        ended(error)


class NamespaceQueueConsumer(QueueReceiving):
    """Receives from all topics of a namespace that have these properties, message by message."""

    def __init__(
        self,
        around: Surroundings,
        namespace: NamespaceName,
        properties: Mapping[str, str],
        subscription: str,
        name: str,
        budget: Budget,
        options: QueueOptions,
        start: Edge | None,
    ) -> None:
        what = f"queue consumer {name!r} of {subscription!r} of the topics of {namespace}"
        super().__init__(around, subscription, name, budget, options, what)
        self.namespace = str(namespace)
        self._set = TopicSet(around.caller, namespace, properties)
        place: QueuePlace = self._place

        def make(topic: TopicName, ended: Callable[[BaseException], None]) -> QueueTopic:
            return QueueTopic(place, topic, start, False, ended)

        has_dead_letters = options.dead_letters is not None
        self._parts: Parts[QueueTopic] = Parts(
            self._set, around.caller.pace, make, lambda each: has_dead_letters and is_dead_letter_topic(each)
        )
        self._following = _Following(self._set, self._parts, self._fail, what)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that it consumes at the moment."""
        return tuple(sorted(self._parts.open))

    async def wait_opened(self) -> None:
        await self._following.wait_known()

    async def close(self) -> None:
        """Ends when acknowledgements under way are answered."""
        await self._close_once(self._close)

    async def _close(self) -> None:
        await self._stop()
        await self._following.stop()
