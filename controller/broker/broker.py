"""One broker, whole: the store, the logs, the host of segments, and the server in front of them.

At the beginning everything below is there before a client can come. At the end the clients go first, each stream with
an error that sends it to another broker; then the segments are let go, so that others take them over at once; and what
is still under way has a moment to be answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from types import TracebackType
from typing import Self

from controller.broker.calls import Calls
from controller.broker.config import BrokerConfig
from controller.broker.desk import Desk
from controller.broker.front import Front
from controller.broker.limits import BrokerLimits
from controller.broker.metrics import BrokerMetrics
from controller.broker.readings import OnLoop, Readings
from controller.broker.security import Authenticator, TokenAuthenticator
from controller.broker.service import SERVICE, broker_service
from controller.broker.streams import Streams
from controller.broker.topics.metrics import TopicsCollector
from controller.broker.topics.readings import TopicReadings
from controller.broker.topics.running import RunningTopics
from controller.broker.topics.service import SEGMENT_WORK, TOPICS, topics_service, work_service
from controller.errors import BrokerStopping
from controller.leading import Leaders, Meter
from metastore.coordination import Pace
from metastore.faults import NO_FAULTS, Faults
from metastore.interface import Environment, MetadataStore, open_store
from metastore.metrics_server import MetricsServer
from txn.coordinator.waiting import first_of
from txn.hosting import Host, HostOptions, local_place_of
from txn.hosting.places import STORED
from txn.model.errors import TxnError
from txn.segment.bell import Bell
from txn.segment.log import LocalLogs, SegmentLogs, StoredLogs

STREAMS_END_S = 2.0
"""How long streams have to end by themselves, when the broker ends. Those whose clients take nothing need longer, and
are cut off."""


class Broker:
    """A broker in this process: `async with Broker(config) as broker` serves at `broker.address`.

    With a store that is already open the broker uses that one, and leaves it open. If the store fails for good, the
    block is cancelled and the error raised.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        store: MetadataStore | None = None,
        pace: Pace | None = None,
        faults: Faults = NO_FAULTS,
        limits: BrokerLimits | None = None,
        options: HostOptions | None = None,
    ) -> None:
        self.config = config.check(has_store=store is not None)
        self.limits = limits or BrokerLimits()
        self.metrics = BrokerMetrics()
        self.address = ""
        """HOST:PORT by which clients are sent here; known once it serves."""
        self.name = ""
        """By which other brokers know it; known once it serves."""
        self.metrics_port: int | None = None
        """Where /metrics is, if it is anywhere; known once it serves."""
        self.topics: Leaders | None = None
        """The topics that it leads; known once it serves."""
        self._store = store
        self._pace = pace or Pace()
        self._faults = faults
        self._options = replace(options or HostOptions(), session_timeout_ms=config.session_timeout_ms)
        self._streams = Streams(self.limits.streams_max, "streams_max")
        self._sessions = Streams(self.limits.sessions_max, "sessions_max")
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException as error:
            await self._stack.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._stack.__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            if list(_leaves(group)) != [error]:
                raise
            # What the block itself has raised is raised as it is.

    async def _start(self) -> None:
        stack = self._stack
        authenticator = self._authenticator()
        front = Front(self.config, self.limits)
        stopping = _Stopping(front, (self._streams, self._sessions), self._pace)
        stack.push_async_callback(front.stop)
        self.address = self.config.advertise or front.address
        self.name = self.config.name or self.address
        if self.config.metrics_port is not None:
            metrics = MetricsServer(front.host, self.config.metrics_port, self.metrics.registry)
            stack.push_async_callback(asyncio.to_thread, metrics.close)
            self.metrics_port = metrics.port
        store = await self._open_store()
        host = Host(
            store,
            await self._open_logs(store),
            self.name,
            self.address,
            pace=self._pace,
            options=self._options,
            faults=self._faults,
            measures=self.metrics,
        )
        stack.push_async_callback(stopping.end)
        desk = Desk(host, self._streams, self.limits, self._pace, self.metrics, Meter(), Bell())
        topics = self._make_topics(desk, store)
        await stack.enter_async_context(host)
        await stack.enter_async_context(topics)
        self.topics = topics.leaders
        readings = Readings(host, self._streams, self._sessions, self._pace.clock)
        self.metrics.read_from(OnLoop(readings.state).read)
        of_topics = TopicReadings(host, topics.leaders, desk.meter)
        self.metrics.registry.register(TopicsCollector(OnLoop(of_topics.state).read))
        stack.push_async_callback(stopping.begin)
        streams = Calls(authenticator, self._streams, self.metrics)
        sessions = Calls(authenticator, self._sessions, self.metrics)
        services = {
            SERVICE: broker_service(desk, streams),
            TOPICS: topics_service(topics.desk, sessions),
            SEGMENT_WORK: work_service(topics.here, sessions),
        }
        await front.start(services)

    def _make_topics(self, desk: Desk, store: MetadataStore) -> RunningTopics:
        return RunningTopics(
            desk.host,
            store,
            self.config.topics,
            self.config.peer_security,
            self.limits,
            desk.meter,
            self._pace,
            self._faults,
        )

    def _authenticator(self) -> Authenticator:
        if self.config.tokens_file is None:
            return Authenticator()
        return TokenAuthenticator(self.config.tokens_file, self._pace.clock)

    async def _open_store(self) -> MetadataStore:
        if self._store is not None:
            return self._store
        environment = Environment(self._pace.clock, self._faults, self._pace.random)
        return await self._stack.enter_async_context(await open_store(self.config.store, environment))

    async def _open_logs(self, store: MetadataStore) -> dict[str, SegmentLogs]:
        """The places of logs that this broker serves; the first is where new segments go."""
        stored = StoredLogs(store, pace=self._pace, faults=self._faults, synced=self.metrics.stored_synced)
        logs: dict[str, SegmentLogs] = {}
        if self.config.log == "local":
            root = self.config.data_dir
            place = await asyncio.to_thread(local_place_of, root, self._pace)
            logs[place] = LocalLogs(root, pace=self._pace, faults=self._faults, synced=self.metrics.local_synced)
        logs[STORED] = stored
        for each in logs.values():
            await self._stack.enter_async_context(each)
        return logs


class _Stopping:
    """The end of the clients: begun before the segments are let go, and over when all of them are."""

    def __init__(self, front: Front, streams: Sequence[Streams], pace: Pace) -> None:
        self._front = front
        self._streams = streams
        self._pace = pace
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Sends the streams elsewhere, and takes no more calls."""
        await self._front.say_stopping()
        error = BrokerStopping("the broker is stopping, and lets go of its segments: ask another one")
        await first_of(self._end_all(error), _sleep(self._pace, STREAMS_END_S))
        self._task = asyncio.ensure_future(self._front.stop())

    async def _end_all(self, error: TxnError) -> None:
        await asyncio.gather(*(each.end_all(error) for each in self._streams))

    async def end(self) -> None:
        """Returns when nothing is under way any more."""
        if self._task is not None:
            await self._task


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    """The errors in a group, however deep."""
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _leaves(each)
        else:
            yield each


async def _sleep(pace: Pace, seconds: float) -> None:
    await pace.sleep(seconds)
