"""A topic's leader and its consumers, in a world whose time passes when a test says so."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from controller.layout import Layout, TopicName
from controller.subscriptions import Assigned, Attachment, Ended, Message, Options, SubscriptionKind, Subscriptions
from controller.topics import paths
from metastore.coordination import Election, Grant
from metastore.providers.memory import Part
from support.world import Process, World, settle

TOPIC = TopicName.parse("topic://tenant/ns/my-topic")
NAME = "sub"
STREAM = SubscriptionKind.STREAM
GRACE_S = 60.0


def shown(assignment: Mapping[str, Any]) -> dict[str, list[Any]]:
    """In the form of the vectors."""
    return {
        name: [
            each.segment_id if each.is_whole else [each.segment_id, [[b.start, b.end] for b in each.buckets]]
            for each in shares
        ]
        for name, shares in assignment.items()
    }


def ids(assignment: Mapping[str, Any]) -> dict[str, list[int]]:
    """Only which segments."""
    return {name: [each.segment_id for each in shares] for name, shares in assignment.items()}


class Client:
    """A consumer's connection, and what it was told."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.messages: list[Message] = []
        self.attachment: Attachment | None = None

    @property
    def last(self) -> Assigned:
        """What it was told last, which is what it reads."""
        last = self.messages[-1]
        assert isinstance(last, Assigned)
        return last

    @property
    def segments(self) -> list[int]:
        return [each.segment_id for each in self.last.segments]

    @property
    def end(self) -> Ended:
        last = self.messages[-1]
        assert isinstance(last, Ended)
        return last

    def disconnect(self) -> None:
        assert self.attachment is not None
        self.attachment.disconnect()

    async def leave(self) -> None:
        assert self.attachment is not None
        await self.attachment.leave()


class Leader:
    """A process that leads the topic."""

    def __init__(
        self, world: World, process: Process, grant: Grant, subscriptions: Subscriptions, counts: list[int]
    ) -> None:
        self.world = world
        self.process = process
        self.grant = grant
        self.subscriptions = subscriptions
        self.counts = counts
        """How many consumers there were whenever that was said to have changed."""

    @classmethod
    async def elected(
        cls,
        world: World,
        layout: Layout,
        drained: Mapping[str, Collection[int]] | None = None,
        *,
        create: bool = True,
        options: Options | None = None,
    ) -> Leader:
        """Another process, as soon as it leads; with a stream subscription, unless there are to be none."""
        process = world.process()
        election = Election(
            process.store, paths.controller_key(TOPIC), partition_key=paths.partition(TOPIC), pace=process.pace
        )
        campaign = process.start(election.campaign())
        await settle()
        grant = await campaign
        counts: list[int] = []
        subscriptions = Subscriptions(
            grant,
            TOPIC,
            layout,
            drained,
            pace=process.pace,
            options=options,
            members_changed=lambda: counts.append(sum(subscriptions.consumers().values())),
        )
        await subscriptions.__aenter__()
        world.tasks += subscriptions._tasks.values()
        leader = cls(world, process, grant, subscriptions, counts)
        if create:
            await leader.create(NAME)
        return leader

    async def create(self, name: str, kind: SubscriptionKind = STREAM) -> None:
        await self.subscriptions.create(name, kind)
        self.world.tasks += self.subscriptions._tasks.values()

    async def join(self, consumer: str | Client, name: str = NAME) -> Client:
        """A consumer on a new connection."""
        client = consumer if isinstance(consumer, Client) else Client(consumer)
        client.attachment = await self.subscriptions.join(name, client.name, STREAM, client.messages.append)
        return client

    async def resign(self) -> None:
        """Leads no more, and says so."""
        await self.subscriptions.__aexit__(None, None, None)
        await self.grant.release()

    async def freeze(self) -> None:
        """The process stops, until the others take it for dead; it wakes up with clocks that stood still."""
        self.process.store.line.cut(Part.HEARTBEATS, Part.WATCHES)
        await self.world.pass_ms(20_000, frozen=(self.process,))

    @property
    def assignment(self) -> dict[str, list[Any]]:
        return shown(self.subscriptions.coordinator(NAME).group.assignment)

    @property
    def generation(self) -> int:
        return self.subscriptions.coordinator(NAME).group.generation

    async def recorded(self, prefix: str = NAME) -> list[str]:
        """The consumers that have a record."""
        path = paths.consumers_path(TOPIC, prefix) + "/"
        return [paths.consumer_of_key(key) for key in await self.world.keys() if key.startswith(path)]
