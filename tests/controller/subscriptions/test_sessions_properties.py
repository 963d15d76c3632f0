"""Whatever consumers, layouts, drains and leaders do, in whatever order: what is promised of divisions holds."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sessions_rules import check_division, check_succession
from sessions_stage import GRACE_S, NAME, STREAM, TOPIC, Client, Leader

from controller.layout import Layout
from controller.subscriptions import Assigned, Ended, EndReason, Group, Strategy, SubscriptionRecord
from controller.topics import paths
from metastore.interface import OutcomeUnknown, Unavailable
from support.world import World, running

NAMES = ["c1", "c2", "c3", "c4", "c5", "c6", "c10"]
SEGMENTS_MAX = 12
names = st.sampled_from(NAMES)


def with_split(layout: Layout, pick: int) -> Layout:
    active = layout.active
    return layout.split(active[pick % len(active)].segment_id, 1) if len(active) < SEGMENTS_MAX else layout


def with_merge(layout: Layout, pick: int) -> Layout:
    pairs = layout.adjacent_pairs()
    return layout.merge([each.segment_id for each in pairs[pick % len(pairs)]], 1) if pairs else layout


def drainable(layout: Layout, drained: frozenset[int]) -> list[int]:
    """Sealed segments that are next to be read to their end."""
    return [
        each.segment_id for each in layout.sealed if each.segment_id not in drained and set(each.parents) <= drained
    ]


class Divisions(RuleBasedStateMachine):
    """The values alone."""

    @initialize(segments=st.integers(1, 5), budget=st.integers(1, 8))
    def begin(self, segments: int, budget: int) -> None:
        self.layout = Layout.initial(segments, 0, bucket_budget=budget)
        self.drained: frozenset[int] = frozenset()
        self.members: set[str] = set()
        self.group = Group.restored(SubscriptionRecord(STREAM, 0, {}), (), self.layout, ())

    def regroup(self) -> None:
        before = self.group
        self.group = before.regrouped(self.members, self.layout, self.drained, Strategy.STICKY)
        check_succession(before, self.group)

    @rule(name=names)
    def join(self, name: str) -> None:
        self.members.add(name)
        self.regroup()

    @rule(name=names)
    def leave(self, name: str) -> None:
        self.members.discard(name)
        self.regroup()

    @rule(pick=st.integers(0, 99))
    def split(self, pick: int) -> None:
        self.layout = with_split(self.layout, pick)
        self.regroup()

    @rule(pick=st.integers(0, 99))
    def merge(self, pick: int) -> None:
        self.layout = with_merge(self.layout, pick)
        self.regroup()

    @precondition(lambda self: bool(drainable(self.layout, self.drained)))
    @rule(pick=st.integers(0, 99))
    def drain(self, pick: int) -> None:
        found = drainable(self.layout, self.drained)
        self.drained |= {found[pick % len(found)]}
        self.regroup()

    @precondition(lambda self: bool(self.drained))
    @rule(pick=st.integers(0, 99))
    def prune(self, pick: int) -> None:
        gone = [each for each in sorted(self.drained) if not self.layout.segment(each).parents]
        if gone:
            self.layout = self.layout.prune([gone[pick % len(gone)]])
            self.drained &= frozenset(self.layout.segments)
            before = self.group.assignment
            self.regroup()
            assert self.group.assignment == before, "what is drained and goes is missed by nobody"

    @rule()
    def seek(self) -> None:
        self.drained = frozenset()
        self.regroup()

    @rule()
    def fail_over(self) -> None:
        record = SubscriptionRecord.decode(self.group.record.encode())
        restored = Group.restored(record, record.assignment or (), self.layout, self.drained)
        again = restored.regrouped(self.members, self.layout, self.drained, Strategy.STICKY)
        assert (again.assignment, again.generation) == (self.group.assignment, self.group.generation)
        self.group = again

    @invariant()
    def what_is_promised_holds(self) -> None:
        if hasattr(self, "group"):
            check_division(self.group)
            assert set(self.group.assignment) == self.members


TestDivisions = Divisions.TestCase
TestDivisions.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


class Run:
    """A topic with leaders that come and go, and consumers that do as they like."""

    def __init__(self, world: World, seed: int, layout: Layout) -> None:
        self.world = world
        self.random = random.Random(seed)
        self.layout = layout
        self.drained: frozenset[int] = frozenset()
        self.clients: dict[str, Client] = {}
        self.in_grace: dict[str, float] = {}
        self.generation = 0
        self.leader: Leader

    @property
    def now_s(self) -> float:
        return self.leader.process.clock.monotonic_s()

    async def begin(self) -> None:
        self.leader = await Leader.elected(self.world, self.layout)

    async def do(self, command: str, name: str) -> None:
        match command:
            case "join":
                await self.join(name)
            case "disconnect" | "leave":
                await self.part(name, command)
            case "trouble":
                await self.trouble(name)
            case "grace":
                await self.pass_ms(int(self.random.uniform(0.1, 1.2) * GRACE_S * 1000))
            case "resign" | "freeze":
                await self.fail_over(command)
            case _:
                await self.change(command)
        await self.check()

    async def join(self, name: str) -> None:
        before = self.clients.get(name)
        self.clients[name] = await self.leader.join(name)
        self.in_grace.pop(name, None)
        if before is not None:
            assert before.end.reason is EndReason.REPLACED
            before.disconnect()  # late

    async def part(self, name: str, command: str) -> None:
        client = self.clients.pop(name, None)
        if client is None:
            return
        if command == "leave":
            await client.leave()
        else:
            client.disconnect()
            self.in_grace[name] = self.now_s + GRACE_S

    async def trouble(self, name: str) -> None:
        """A store that fails while somebody joins; what it was told to do may have been done."""
        script = self.leader.process.script
        if self.random.random() < 0.5:
            script.fail("transact", OutcomeUnknown("lost"), after=self.random.random() < 0.5)
        else:
            script.fail("transact", Unavailable("away"), times=2)
        join = self.leader.process.start(self.join(name))
        while not join.done():
            await self.pass_ms(500)
        script.clear()
        await join

    async def change(self, command: str) -> None:
        pick = self.random.randrange(99)
        if command == "split":
            self.layout = with_split(self.layout, pick)
        elif command == "merge":
            self.layout = with_merge(self.layout, pick)
        elif command == "drain":
            self.drained |= set(drainable(self.layout, self.drained)[:2])
        else:
            self.drained = frozenset()
        if command in ("split", "merge"):
            self.leader.subscriptions.on_layout(self.layout)
        else:
            self.leader.subscriptions.on_drained(NAME, self.drained)
        await self.leader.subscriptions.settled()

    async def fail_over(self, command: str) -> None:
        had = self.leader.assignment
        old = self.leader
        await (old.resign() if command == "resign" else old.freeze())
        self.leader = await Leader.elected(self.world, self.layout, {NAME: self.drained}, create=False)
        await self.leader.subscriptions.settled()
        assert self.leader.assignment == had, "nobody is withdrawn"
        assert self.leader.grant.term > old.grant.term
        gone, self.clients = self.clients, {}
        self.in_grace = {name: self.now_s + GRACE_S for name in had}
        for name in gone:
            if self.random.random() < 0.7:
                await self.join(name)
                assert self.leader.assignment == had

    async def pass_ms(self, milliseconds: int) -> None:
        await self.world.pass_ms(milliseconds)
        self.in_grace = {name: until_s for name, until_s in self.in_grace.items() if until_s > self.now_s}

    async def check(self) -> None:
        await self.leader.subscriptions.settled()
        group = self.leader.subscriptions.coordinator(NAME).group
        check_division(group)
        assert group.layout == self.layout
        assert set(group.assignment) == self.clients.keys() | self.in_grace.keys()
        assert group.generation >= self.generation
        self.generation = group.generation
        for name, client in self.clients.items():
            assert client.segments == [share.segment_id for share in group.assignment[name]]
            order = [(each.term, each.generation) for each in client.messages if isinstance(each, Assigned)]
            assert order == sorted(order)
            assert not any(isinstance(each, Ended) for each in client.messages)
        record = await self.leader.process.store.get(
            paths.subscription_key(TOPIC, NAME), partition_key=paths.partition(TOPIC)
        )
        assert record is not None
        assert record.value == group.record.encode()
        assert set(await self.leader.recorded()) == set(group.assignment)


COMMANDS = ["join"] * 4 + ["disconnect", "leave", "trouble", "grace", "split", "merge", "drain", "drain", "seek"]
commands: Any = st.tuples(st.sampled_from([*COMMANDS, "resign", "freeze"]), names)


@given(seed=st.integers(0, 1 << 30), segments=st.integers(1, 4), course=st.lists(commands, min_size=5, max_size=30))
@settings(max_examples=60, deadline=None)
def test_promises_hold_over_all_that_can_happen(seed: int, segments: int, course: list[tuple[str, str]]) -> None:
    async def scenario() -> None:
        async with running() as world:
            whole = Run(world, seed, Layout.initial(segments, 0))
            await whole.begin()
            for command, name in course:
                await whole.do(command, name)

    asyncio.run(scenario())
