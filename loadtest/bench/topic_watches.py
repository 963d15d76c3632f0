"""A topic that very many watch: the time from the call that changes it until the last of them knows."""

from __future__ import annotations

import asyncio
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import grpc

from controller.client.protocol import WATCH_TOPIC
from controller.layout import Layout, TopicName, TopicRecord
from controller.pb import topics_pb2 as pb
from controller.topics import Topics
from controller.watches import StoredOwners, TopicSession, TopicState, TopicWatches
from loadtest.bench import proc
from loadtest.bench.bench import Bench, Group
from loadtest.bench.figures import percentile
from loadtest.bench.model import Better, Line, Metric, Sample, Summary, Turn
from loadtest.bench.servers import Server, tidemark
from loadtest.bench.topic_stage import PATIENCE_S, SIDE, Application, Player, Stage, staged
from metastore.coordination import Pace
from metastore.interface import MetadataStore, open_store

SESSIONS, STREAMS = "topics-watch", "topics-watch-streams"
TOPIC = TopicName.parse("topic://public/default/watched")
KIBI = 1 << 10


class Audience(ABC):
    """Counts who has been told of a change."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._wanted = 0
        self._told: set[int] = set()
        self._all_told = asyncio.Event()
        self._changes = 0

    def tell(self, number: int, version_id: int) -> None:
        """One of them has been told of this version."""
        if version_id >= self._wanted:
            self._told.add(number)
            if len(self._told) == self._size:
                self._all_told.set()

    async def wait_told(self) -> None:
        """Returns when all have been told since `expect`."""
        async with asyncio.timeout(PATIENCE_S):
            await self._all_told.wait()

    def expect(self, version_id: int) -> None:
        """From now on it counts who is told of this version, or a later one."""
        self._wanted = version_id
        self._told.clear()
        self._all_told.clear()

    async def measure(self, seconds: float) -> Sample:
        """Changes, one after the other."""
        waits_ms: list[float] = []
        end_s = time.perf_counter() + seconds
        while not waits_ms or time.perf_counter() < end_s:
            self._changes += 1
            self.expect(await self._version_id() + 1)
            began_s = time.perf_counter()
            await self._change({"change": str(self._changes)})
            await self.wait_told()
            waits_ms.append(1000 * (time.perf_counter() - began_s))
        waits_ms.sort()
        return {"p50_ms": percentile(waits_ms, 0.50), "max_ms": waits_ms[-1], "changes": len(waits_ms)}

    @abstractmethod
    async def _version_id(self) -> int:
        """Of the topic, as it is."""

    @abstractmethod
    async def _change(self, properties: Mapping[str, str]) -> None:
        """Changes the topic."""


class SessionAudience(Audience):
    """Sessions of a broker's watches, in this process, on a metastore process."""

    def __init__(self, size: int, store: MetadataStore, stack: AsyncExitStack) -> None:
        super().__init__(size)
        self._stack = stack
        self._topics = Topics(store, Pace())
        self._owners = StoredOwners(store, Pace())
        self._watches = TopicWatches(store, self._owners, Pace())
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """The topic, and all sessions; each has been told how it is."""
        await self._stack.enter_async_context(self._watches)
        self._stack.push_async_callback(self._end)
        await self._topics.create(TOPIC, TopicRecord(Layout.initial(1, 0)))
        self._tasks.add(asyncio.create_task(self._owners.follow()))
        for number in range(self._size):
            self._tasks.add(asyncio.create_task(self._follow(number, self._watches.open(TOPIC))))
        await self.wait_told()

    async def _follow(self, number: int, session: TopicSession) -> None:
        async with session:
            async for event in session:
                if isinstance(event, TopicState):
                    self.tell(number, event.version_id)

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _version_id(self) -> int:
        return (await self._topics.read(TOPIC)).version_id

    async def _change(self, properties: Mapping[str, str]) -> None:
        await self._topics.update(TOPIC, lambda before: replace(before, properties=properties))


class SessionPlayer(Player):
    """The sessions, on a loop of their own."""

    def __init__(self, store: Server, sessions: int) -> None:
        super().__init__()
        self._url = f"oxia://{store.address}"
        self._sessions = sessions
        self._stack = AsyncExitStack()
        self._audience: SessionAudience | None = None
        self._memory_kib = 0.0

    def open(self) -> None:
        """All sessions."""
        before = proc.private_bytes_of(os.getpid())
        self._audience = self.run(self._open())
        self._memory_kib = (proc.private_bytes_of(os.getpid()) - before) / self._sessions / KIBI

    async def _open(self) -> SessionAudience:
        store = await self._stack.enter_async_context(await open_store(self._url))
        audience = SessionAudience(self._sessions, store, self._stack)
        await audience.open()
        return audience

    def measure(self, turn: Turn) -> Sample:
        """Changes, for the turn's time."""
        assert self._audience is not None, "a line is prepared before it is measured"
        return {**self.run(self._audience.measure(turn.seconds)), "memory_kib": self._memory_kib}

    async def _leave(self) -> None:
        await self._stack.aclose()


class StreamAudience(Audience):
    """Streams of a broker process."""

    def __init__(self, size: int, application: Application, address: str) -> None:
        super().__init__(size)
        self._topics = application.client.topics
        self._channel = grpc.aio.insecure_channel(address)
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """The topic, and all streams; each has been told how it is."""
        await self._topics.create(str(TOPIC))
        watch: Any = self._channel.unary_stream(WATCH_TOPIC.path)
        request = pb.WatchTopicRequest(topic=str(TOPIC)).SerializeToString()
        for number in range(self._size):
            self._tasks.add(asyncio.create_task(self._follow(number, watch(request))))
        await self.wait_told()

    async def _follow(self, number: int, call: Any) -> None:
        async for message in call:
            update = pb.TopicUpdate.FromString(message)
            if update.HasField("state"):
                self.tell(number, update.state.version_id)

    async def close(self) -> None:
        """Ends the streams."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._channel.close()

    async def _version_id(self) -> int:
        return (await self._topics.describe(str(TOPIC))).version_id

    async def _change(self, properties: Mapping[str, str]) -> None:
        await self._topics.set_properties(str(TOPIC), properties)


class StreamPlayer(Application):
    """The streams, and a client that changes the topic."""

    def __init__(self, stage: Stage, streams: int) -> None:
        super().__init__(stage.url)
        self._address = stage.brokers[0].address
        self._streams = streams
        self._audience: StreamAudience | None = None

    def open(self) -> None:
        """All streams."""
        self.run(self._open())

    async def _open(self) -> None:
        self._audience = StreamAudience(self._streams, self, self._address)
        await self._audience.open()

    def measure(self, turn: Turn) -> Sample:
        """Changes, for the turn's time."""
        assert self._audience is not None, "a line is prepared before it is measured"
        return self.run(self._audience.measure(turn.seconds))

    async def _leave(self) -> None:
        if self._audience is not None:
            await self._audience.close()
        await super()._leave()


def groups(sessions: int, streams: int) -> Sequence[Group[Any]]:
    """Watches in this process, and over the wire."""
    times = (
        Metric("p50_ms", "until the last one knows, p50", "ms", Better.LOWER),
        Metric("max_ms", "until the last one knows, longest", "ms", Better.LOWER, summary=Summary.WORST),
    )
    memory = Metric("memory_kib", "private memory of each", "KiB", Better.LOWER)
    inside = Line(
        f"sessions-{sessions}",
        f"{sessions:,} sessions of one topic,",
        (*times, memory),
        SessionPlayer.measure,
        SessionPlayer.open,
    )
    outside = Line(
        f"streams-{streams}", f"{streams:,} streams of one topic,", times, StreamPlayer.measure, StreamPlayer.open
    )
    return [
        Group(
            SESSIONS,
            "A change of a topic, from the call, to watch sessions in this process",
            (SIDE,),
            [inside],
            partial(_open_sessions, sessions=sessions),
        ),
        Group(
            STREAMS,
            "A change of a topic, from the call, to gRPC streams that this process reads",
            (SIDE,),
            [outside],
            partial(_open_streams, streams=streams),
        ),
    ]


@contextmanager
def _open_sessions(bench: Bench, sessions: int) -> Iterator[Mapping[str, SessionPlayer]]:
    with ExitStack() as stack:
        folder = stack.enter_context(bench.fresh_folder(SESSIONS))
        store = stack.enter_context(Server(tidemark(), folder, bench.generator))
        player = SessionPlayer(store, sessions)
        stack.callback(player.close)
        yield {SIDE: player}


@contextmanager
def _open_streams(bench: Bench, streams: int) -> Iterator[Mapping[str, StreamPlayer]]:
    with ExitStack() as stack:
        stage = stack.enter_context(staged(bench, STREAMS))
        player = StreamPlayer(stage, streams)
        stack.callback(player.close)
        yield {SIDE: player}
