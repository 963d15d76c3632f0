"""Whatever happens to topics and to the store's watches: what sessions are told adds up to what there is."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from watches_stage import TOPIC, Broker, SetClient, TopicClient

from controller.topics import paths
from controller.watches import TopicGone, TopicState
from metastore.providers.memory import Part
from support.world import World, running, settle

OWNERS = ["alice", "bob"]
TOPICS = ["t1", "t2", "t3"]
COMMANDS = ["create", "delete", "change", "split", "recreate", "watch", "pause", "resume", "reconnect"]
TROUBLES = ["cut", "mend", "trim", "wait", "settle"]
steps: Any = st.tuples(st.sampled_from(COMMANDS + TROUBLES), st.sampled_from(TOPICS), st.sampled_from(OWNERS))


class Run:
    """Topics that come and go by one broker, and are watched by another whose watches break."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.writer, self.broker = Broker(world), Broker(world)
        self.truth: dict[str, str] = {}
        self.sets: list[tuple[SetClient, str | None]] = []
        self.topic_clients: list[TopicClient] = []

    def watch(self, owner: str | None, known: SetClient | None = None) -> None:
        filters = {} if owner is None else {"owner": owner}
        client = self.broker.watch(filters, known=None if known is None else known.hash)
        client.topics = set() if known is None else set(known.topics)
        self.sets.append((client, owner))

    async def do(self, command: str, name: str, owner: str) -> None:
        line = self.broker.process.store.line
        match command:
            case "create" if name not in self.truth:
                await self.writer.create(name, owner=owner)
                self.truth[name] = owner
            case "delete" if name in self.truth:
                await self.writer.delete(name)
                del self.truth[name]
            case "recreate" if name in self.truth:
                await self.writer.delete(name)
                await self.writer.create(name, owner=owner)
                self.truth[name] = owner
            case "change" if name in self.truth:
                await self.writer.change(name, owner=owner)
                self.truth[name] = owner
            case "split" if "t1" in self.truth:
                await self.writer.topics.update(
                    TOPIC, lambda before: before.with_layout(before.layout.split(before.layout.active[0].segment_id, 1))
                )
            case "watch":
                self.watch(owner if name == "t1" else None)
                self.topic_clients.append(self.broker.watch_topic())
            case "pause" | "resume":
                for client, of in self.sets:
                    if of == owner:
                        (client.may_go_on.clear if command == "pause" else client.may_go_on.set)()
            case "reconnect":
                await self.reconnect(owner)
            case "cut":
                line.cut(Part.WATCHES)
            case "mend":
                line.mend()
            case "trim":
                self.world.data.trim()
            case "wait":
                await self.world.pass_ms(30)
            case "settle":
                await settle()

    async def reconnect(self, owner: str) -> None:
        """Clients that come again with what they have."""
        for client, of in [each for each in self.sets if each[1] == owner]:
            client.task.cancel()
            await client.session.close()
            self.sets.remove((client, of))
            self.watch(of, client)

    async def judge(self) -> None:
        self.broker.process.store.line.mend()
        for client, _ in self.sets:
            client.may_go_on.set()
        for _ in range(12):
            await self.world.pass_ms(1_000)
        for client, owner in self.sets:
            assert not client.task.done()
            wanted = {name for name, each in self.truth.items() if owner in (None, each)}
            assert client.locals == wanted
        for each in self.topic_clients:
            await self.judge_topic(each)

    async def judge_topic(self, client: TopicClient) -> None:
        assert not client.task.done()
        record = await self.writer.process.store.get(TOPIC.path, partition_key=paths.partition(TOPIC))
        if record is None:
            assert client.events[-1] == TopicGone()
        else:
            assert client.state.version_id == record.version.version_id
        last: TopicState | None = None
        for event in client.events:
            if isinstance(event, TopicState):
                assert last is None or (
                    event.version_id >= last.version_id and event.layout.epoch >= last.layout.epoch
                ), "nothing older comes later, but behind a deletion"
                assert last != event
                last = event
            else:
                assert last is not None or event is client.events[0], "what is gone is said to be so once"
                last = None


@given(course=st.lists(steps, min_size=5, max_size=50))
@settings(max_examples=80, deadline=None)
def test_what_is_told_adds_up(course: list[tuple[str, str, str]]) -> None:
    async def scenario() -> None:
        async with running() as world:
            whole = Run(world)
            whole.watch(None)
            whole.watch(OWNERS[0])
            whole.topic_clients.append(whole.broker.watch_topic())
            for command, name, owner in course:
                await whole.do(command, name, owner)
            await whole.judge()

    asyncio.run(scenario())
