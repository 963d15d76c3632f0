"""Topics in a world, and clients that put together what their sessions are told."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from controller.layout import Layout, NamespaceName, TopicName, TopicRecord
from controller.topics import Topics, paths
from controller.watches import (
    Diff,
    NamespaceSession,
    NamespaceWatches,
    SnapshotPage,
    StoredOwners,
    TopicSession,
    TopicState,
    TopicWatches,
    hash_of,
)
from controller.watches.namespaces import NamespaceEvent
from controller.watches.topics import TopicEvent
from metastore.coordination import Election, Grant
from metastore.interface import ABSENT
from support.world import Process, World, settle
from txn.hosting import Owner
from txn.model import paths as segment_paths

NAMESPACE = NamespaceName("tenant", "ns")
TOPIC = TopicName.parse("topic://tenant/ns/t1")
WINDOW_MS = 50


def topic(local: str) -> TopicName:
    return TopicName.parse(f"topic://tenant/ns/{local}")


class Broker:
    """A process that serves watches."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.process: Process = world.process()
        self.topics = Topics(self.process.store, self.process.pace)
        self.owners = StoredOwners(self.process.store, self.process.pace)
        world.tasks.append(asyncio.ensure_future(self.owners.follow()))
        self.topic_watches = TopicWatches(self.process.store, self.owners, self.process.pace)
        self.namespace_watches = NamespaceWatches(self.process.store, self.process.pace)

    async def create(self, name: str, **properties: str) -> None:
        await self.topics.create(topic(name), TopicRecord(Layout.initial(1, 0), properties))

    async def change(self, name: str, **properties: str) -> None:
        await self.topics.update(topic(name), lambda before: replace(before, properties=properties))

    async def delete(self, name: str) -> None:
        await self.topics.remove(topic(name), (await self.topics.read(topic(name))).version_id)

    def watch_topic(
        self, name: TopicName = TOPIC, *, seen: int = ABSENT, otherwise: Layout | None = None
    ) -> TopicClient:
        return TopicClient(self, self.topic_watches.open(name, seen=seen, otherwise=otherwise))

    def watch(self, filters: Mapping[str, str] | None = None, known: str | None = None) -> SetClient:
        return SetClient(self, self.namespace_watches.open(NAMESPACE, filters, known=known))

    async def tell(self) -> None:
        """All that has happened so far is on its way to those who watch."""
        await settle()
        await self.world.pass_ms(WINDOW_MS)


async def granted(process: Process, key: str, partition: str, address: str) -> Grant:
    """A role that somebody has from now on."""
    value = Owner.value(process.name, address)
    return await Election(process.store, key, value, partition_key=partition, pace=process.pace).campaign()


async def lead(process: Process, address: str) -> Grant:
    return await granted(process, paths.controller_key(TOPIC), paths.partition(TOPIC), address)


async def own(process: Process, segment: str, address: str) -> Grant:
    return await granted(process, segment_paths.owner_key(segment), segment, address)


async def split(broker: Broker, segment_id: int) -> None:
    await broker.topics.update(TOPIC, lambda before: before.with_layout(before.layout.split(segment_id, 1_000)))


class TopicClient:
    """Takes what a session says at once."""

    def __init__(self, broker: Broker, session: TopicSession) -> None:
        self.events: list[TopicEvent] = []
        self.session = session
        self.task = broker.process.start(self._take())

    async def _take(self) -> None:
        async for event in self.session:
            self.events.append(event)

    @property
    def state(self) -> TopicState:
        last = self.events[-1]
        assert isinstance(last, TopicState)
        return last


class SetClient:
    """Puts a set together; takes what comes by itself, or only when it is told to."""

    def __init__(self, broker: Broker, session: NamespaceSession) -> None:
        self.session = session
        self.topics: set[str] = set()
        self.snapshots = 0
        self.events: list[NamespaceEvent] = []
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self.task = broker.process.start(self._take())

    async def _take(self) -> None:
        async for event in self.session:
            self.apply(event)
            await self.may_go_on.wait()

    def apply(self, event: NamespaceEvent) -> None:
        self.events.append(event)
        match event:
            case SnapshotPage(topics, is_first, is_last):
                self.topics = set(topics) if is_first else self.topics | set(topics)
                self.snapshots += is_last
            case Diff(added, removed):
                assert added or removed, "nothing is not told"
                assert self.topics >= set(removed), "what goes was there"
                self.topics -= set(removed)
                assert self.topics.isdisjoint(added), "what comes was not there"
                self.topics |= set(added)

    @property
    def locals(self) -> set[str]:
        return {TopicName.parse(name).local for name in self.topics}

    @property
    def hash(self) -> str:
        return hash_of(self.topics)
