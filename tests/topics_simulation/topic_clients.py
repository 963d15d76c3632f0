"""What all clients of topics can do: find a topic's leader, follow its layout."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from controller.layout import Layout, TopicName
from controller.leading import TopicLeader
from controller.topics import NotLeader, TopicNotFound
from controller.watches import TopicState
from controller.watches.errors import WatchesEnded
from metastore.interface import StoreError
from topics_simulation.topic_stage import TopicBroker, TopicStage
from txn.model.errors import TxnRetriable
from txn_histories.clients import Client
from txn_histories.recorder import Recorder

LOOKS_MAX = 400
"""How often somebody looks for a leader, before a simulation fails."""

T = TypeVar("T")


class TopicClient(Client):
    """A client, which knows where brokers are."""

    def __init__(self, stage: TopicStage, recorder: Recorder, name: str) -> None:
        super().__init__(stage, recorder, name)
        self.topics = stage

    def any_topic_broker(self) -> TopicBroker | None:
        """One that may be there."""
        found = [each for each in self.topics.leading if each.is_reachable]
        return self.random.choice(found) if found else None

    async def leader(self, topic: TopicName) -> tuple[TopicBroker, TopicLeader]:
        """Whoever leads a topic, and the broker that does. TopicNotFound."""
        wanted: TopicBroker | None = None
        for _ in range(LOOKS_MAX):
            broker, wanted = wanted or self.any_topic_broker(), None
            if broker is not None:
                try:
                    return broker, await broker.call(broker.leaders.get, topic)
                except NotLeader as error:
                    wanted = self.topics.at(error.leader)
                except (TxnRetriable, StoreError):
                    pass  # nobody leads it at the moment, or that broker cannot tell
            if wanted is None:
                await self.pause()
        raise AssertionError(f"nobody leads {topic} in {LOOKS_MAX} attempts")

    async def ask(self, topic: TopicName, call: Callable[[TopicLeader], Awaitable[T]]) -> T:
        """Asks whoever leads a topic, again and again while that may help."""
        for _ in range(LOOKS_MAX):
            broker, leader = await self.leader(topic)
            with suppress(TxnRetriable, StoreError):
                return await broker.call(_asked, call, leader)
            await self.pause()
        raise AssertionError(f"the leader of {topic} does not answer in {LOOKS_MAX} attempts")


async def _asked(call: Callable[[TopicLeader], Awaitable[T]], leader: TopicLeader) -> T:
    return await call(leader)


class TopicView:
    """A topic as its clients see it: the newest layout that some broker's watch has told."""

    def __init__(self, client: TopicClient, topic: TopicName) -> None:
        self.topic = topic
        self.layout: Layout | None = None
        self.is_gone = False
        self._client = client
        self._seen = -1
        self.task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        while not self.is_gone:
            broker = self._client.any_topic_broker()
            if broker is not None:
                with suppress(TxnRetriable, StoreError, WatchesEnded):
                    await self._follow(broker)
            await self._client.pause()

    async def _follow(self, broker: TopicBroker) -> None:
        async with broker.watches.open(self.topic, seen=max(self._seen, -1)) as session:
            while not self.is_gone:
                event = await broker.call(session.__anext__)
                if isinstance(event, TopicState):
                    assert event.version_id >= self._seen, "nothing older than what was told is told"
                    self._seen, self.layout = event.version_id, event.layout
                else:
                    self.is_gone = True

    async def known(self) -> Layout | None:
        """The layout, once there is one; None if there is no such topic any more."""
        while self.layout is None and not self.is_gone:
            await self._client.pause()
        return None if self.is_gone else self.layout


async def exists(client: TopicClient, topic: TopicName) -> bool:
    """Whether there is such a topic."""
    try:
        await client.leader(topic)
    except TopicNotFound:
        return False
    return True
