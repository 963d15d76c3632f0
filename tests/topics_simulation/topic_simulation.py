"""A whole simulation: clients and chaos for a while, then peace, then everything is read to its end, and judged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

from controller.autoscale import Action, AutoScaleConfig
from controller.layout import TopicName
from controller.leading import TopicLeader
from controller.operations import data_name, has_cursors
from controller.topics import OperationUnderWay, TopicNotFound
from support.world import World, running
from topics_simulation.topic_actors import READINGS, Topic, TopicActors
from topics_simulation.topic_chaos import EAGER, POINTS, TopicChaos
from topics_simulation.topic_checker import check_topics
from topics_simulation.topic_clients import TopicClient
from topics_simulation.topic_history import TopicHistory
from topics_simulation.topic_members import DividedMember
from topics_simulation.topic_notes import Probe, Told, TopicNotes
from topics_simulation.topic_observer import Observer
from topics_simulation.topic_producers import Key, TopicProducer
from topics_simulation.topic_shapes import HASHES
from topics_simulation.topic_stage import TopicOptions, TopicStage
from txn.hosting import HostOptions, Segment
from txn_histories.consumers import read
from txn_histories.notes import START, Rest
from txn_histories.recorder import Recorder, history_of
from txn_histories.violations import Findings

TIMEOUT_MS_MAX = 15_000
"""Of transactions."""
PROBES = 8
"""Places of the ring that are written to in the end."""
PROBING_MS_MAX = 120_000
REST_MS_MAX = 300_000
QUIET_MS_MAX = 120_000
SETTLING_MS = 3_000
PATIENCE_S = 2.0
STEP_MS = 300


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """What kind of simulation; the same plan takes the same course each time."""

    seed: int
    shards: int = 1
    lacks: tuple[str, ...] = ()
    steps: int = 60

    @property
    def is_eager(self) -> bool:
        """Whether topics split and merge by themselves."""
        return self.seed % 2 == 1

    @property
    def retention_minutes(self) -> int:
        """How long sealed segments are kept."""
        return -1 if self.seed % 3 == 0 else 0

    @property
    def point(self) -> str:
        """Where a leader is lost for certain, if one comes there."""
        return POINTS[self.seed % len(POINTS)]

    @property
    def options(self) -> TopicOptions:
        """What brokers are told."""
        return TopicOptions(
            HostOptions(session_timeout_ms=10_000, retention_ms=5_000),
            EAGER if self.is_eager else AutoScaleConfig(enabled=False),
            self.retention_minutes,
        )

    def __str__(self) -> str:
        return f"seed {self.seed}, {self.shards} shards, lacks {', '.join(self.lacks) or 'nothing'}"


class TopicSimulation:
    """One run."""

    def __init__(self, plan: TopicPlan, world: World) -> None:
        self._plan = plan
        self._recorder = Recorder()
        self._notes = TopicNotes()
        self._notes.rest.pruned_without = plan.retention_minutes >= 0
        self._stage = TopicStage(world, plan.seed, plan.options)
        self._stage.timeout_ms_max = TIMEOUT_MS_MAX
        self._observer = Observer(world, self._recorder, self._notes, has_transact="transact" not in plan.lacks)
        self._actors = TopicActors(self._notes, self._client, self._recorder.new_name)
        self._last = self._client("last")
        self._chaos = TopicChaos(self._stage, self._client("chaos"), self._notes, self._actors)

    def _client(self, name: str) -> TopicClient:
        return TopicClient(self._stage, self._recorder, name)

    @property
    def _tasks(self) -> list[asyncio.Future[None]]:
        views = [each.view.task for each in self._actors.topics]
        return [*self._actors.tasks, *self._chaos.tasks, *views]

    async def run(self) -> Findings:
        """What is wrong, with the plan as a note on whatever is raised."""
        history = TopicHistory(self._notes)
        try:
            await self._begin()
            for _ in range(self._plan.steps):
                await self._chaos.step()
                await self._step()
            await self._come_to_peace()
            rest = await self._come_to_rest()
        except BaseException as error:
            error.add_note(f"{self._plan}; {self._chaos.events[-20:]}")
            raise
        finally:
            for task in self._tasks:
                task.cancel()
            await self._stage.close()
        history.segments = history_of(self._recorder.lines)
        history.segments.rest = rest
        history.groups = {
            name: group for each in self._actors.topics for name, group in each.checkpoint.sightings.items()
        }
        self._notes.counts.update(each.lstrip("_") for each in self._chaos.events)
        self._notes.counts["schedules"] += 1
        self._notes.counts["points"] += len({point for each in self._stage.started for point in each.trap.reached})
        return check_topics(history)

    async def _step(self, milliseconds: int | None = None) -> None:
        await self._stage.step(milliseconds)
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()

    async def _wait(self, is_so: Callable[[], bool], limit_ms: int) -> bool:
        """Lets time pass until something is so; whether it was, within that time."""
        since_ms = self._stage.clock.wall_ms()
        while not is_so():
            if self._stage.clock.wall_ms() - since_ms > limit_ms:
                return False
            await self._step(STEP_MS)
        return True

    async def _finish(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.ensure_future(work)
        assert await self._wait(task.done, REST_MS_MAX), "it does not come to its end"
        task.result()

    async def _begin(self) -> None:
        for _ in range(3):
            self._stage.start_broker()
        assert await self._wait(lambda: len(self._stage.serving) == 3, QUIET_MS_MAX)
        self._chaos.aim(self._plan.point)
        self._chaos.create_topic(1)
        self._chaos.create_topic(2)
        assert await self._wait(lambda: len(self._actors.topics) == 2, QUIET_MS_MAX)

    # -- peace

    async def _come_to_peace(self) -> None:
        """Nothing goes wrong any more: first of all everything can be written to again."""
        self._chaos.heal()
        self._actors.is_over = True
        topics = [each for each in self._actors.topics if not each.view.is_gone]
        probing = [self._probe(each, number) for each in topics for number in range(PROBES)]
        await self._wait_all(probing, PROBING_MS_MAX)
        works = [*self._actors.tasks, *self._chaos.tasks]
        assert await self._wait(lambda: all(task.done() for task in works), REST_MS_MAX), "clients do not end"
        self._chaos.heal()

    async def _probe(self, topic: Topic, number: int) -> None:
        place = HASHES * number // PROBES
        producer = TopicProducer(self._client(f"probe-{place}"), topic.view, self._notes, f"probe-{place}")
        since_ms = self._stage.clock.wall_ms()
        probe = Probe(str(topic.name), place, None)
        self._notes.rest.probes.append(probe)
        is_there = await producer.send([Key.at(place)])
        self._notes.rest.probes.remove(probe)
        if is_there:
            after_ms = self._stage.clock.wall_ms() - since_ms
            self._notes.rest.probes.append(Probe(str(topic.name), place, after_ms))

    async def _wait_all(self, works: list[Coroutine[Any, Any, None]], limit_ms: int) -> None:
        tasks = [asyncio.ensure_future(each) for each in works]
        await self._wait(lambda: all(each.done() for each in tasks), limit_ms)
        for task in tasks:
            task.result() if task.done() else task.cancel()

    # -- rest

    async def _come_to_rest(self) -> Rest:
        rest = Rest()
        there = [each for each in self._actors.topics if await self._is_there(each.name)]
        await self._finish(self._stop_scaling(there))
        for topic in there:
            self._actors.finish(topic)
        await self._wait_settled(there)
        rest.unanswered = [why for each in there if (why := self._undrained(each))]
        for topic in there:
            self._note_told(topic)
        await self._wait_clean()
        for member in [member for each in there for member in each.finishing]:
            member.is_ending = True
            await self._finish(_ended(member.task))
        for topic in there:
            layout = topic.view.layout
            assert layout is not None
            for each in layout.segments.values():
                await self._read(data_name(topic.name, each), rest)
        await self._wait_clean()
        self._notes.rest.leftovers = await self._observer.leftovers()
        return rest

    async def _wait_settled(self, topics: list[Topic]) -> None:
        """Until everybody has been told what to read, and has read it, for a while."""
        now_ms = self._stage.clock.wall_ms
        begun_ms = since_ms = now_ms()
        while now_ms() - since_ms < SETTLING_MS and now_ms() - begun_ms < REST_MS_MAX:
            await self._step(STEP_MS)
            if not all(self._is_told(each) and not self._undrained(each) for each in topics):
                since_ms = now_ms()

    async def _stop_scaling(self, topics: list[Topic]) -> None:
        """From now on nothing splits or merges by itself."""
        broker = self._stage.leading[0]
        for topic in topics:
            await broker.topics.update(topic.name, lambda record: replace(record, auto_scale_policy={"enabled": False}))
            await self._last.ask(topic.name, _is_quiet)

    async def _is_there(self, topic: TopicName) -> bool:
        task = asyncio.ensure_future(self._last.leader(topic))
        assert await self._wait(task.done, QUIET_MS_MAX), f"nobody leads {topic}"
        try:
            task.result()
        except TopicNotFound:
            return False
        return True

    def _owned(self, segment: str) -> Segment | None:
        for broker in self._stage.leading:
            if broker.host is not None and segment in broker.host.owned:
                return broker.host.owned[segment]
        return None

    def _undrained(self, topic: Topic) -> str:
        """What has not been read to its end by some subscription, and why; nothing if all has."""
        layout = topic.view.layout
        if topic.view.is_gone or layout is None:
            return ""
        for each in layout.segments.values():
            name = data_name(topic.name, each)
            owned = self._owned(name)
            if owned is None:
                return f"nobody serves {name}"
            for subscription in READINGS:
                found = owned.subscriptions.get(subscription)
                if found is not None and (found.stats.unacked or found.stats.to_redeliver):
                    return f"{subscription} of {name}: {found.stats}"
            bound, end = owned.stats.bound, owned.stats.end
            at = topic.checkpoint.passed.get(name, START)
            is_read = name in topic.checkpoint.ended or (each.is_active and (at >= bound or owned.first is None))
            if bound < end or not is_read:
                return f"{name} was read up to {at} by checkpoint, may be up to {bound}, and ends at {end}"
        return ""

    def _is_told(self, topic: Topic) -> bool:
        """Whether those who are the last members have heard of it, and nobody else is awaited any more."""
        lead = [each for each in self._stage.leading if topic.name.path in each.leaders.led]
        if len(lead) != 1:
            return False
        leader = lead[0].leaders.led[topic.name.path]
        if leader.is_busy or leader.layout != topic.view.layout:
            return False
        for member in _divided(topic):
            coordinator = leader.subscriptions.coordinator(member.subscription)
            names = {each.name for each in _divided(topic) if each.subscription == member.subscription}
            if set(coordinator.sessions.names) != names or coordinator.group.assignment.keys() != names:
                return False
            shares = () if member.assigned is None else member.assigned.segments
            if [(each.segment_id, each.buckets) for each in shares] != [
                (each.segment_id, each.buckets) for each in coordinator.group.assignment[member.name]
            ]:
                return False
            if not self._drained(topic, member) <= {*leader.drained.get(member.subscription, ())}:
                return False
        return True

    def _note_told(self, topic: Topic) -> None:
        name, rest = str(topic.name), self._notes.rest
        for member in _divided(topic):
            key = (name, member.subscription)
            rest.members[key] = rest.members.get(key, frozenset()) | {member.name}
            shares = () if member.assigned is None else member.assigned.segments
            segments = {each.segment_id: not each.buckets for each in shares}
            rest.told.append(Told(name, member.subscription, member.name, segments))
            rest.drained[key] = self._drained(topic, member)

    def _drained(self, topic: Topic, member: DividedMember) -> frozenset[int]:
        """The sealed segments that a member's subscription has read to their ends, by their owners."""
        assert topic.view.layout is not None
        found: set[int] = set()
        for each in topic.view.layout.sealed:
            name = data_name(topic.name, each)
            owned = self._owned(name)
            if not has_cursors(member.kind.value):
                is_drained = name in topic.checkpoint.ended
            else:
                is_drained = owned is not None and owned.subscriptions[member.subscription].is_drained
            found |= {each.segment_id} if is_drained else set()
        return frozenset(found)

    async def _wait_clean(self) -> None:
        since_ms = self._stage.clock.wall_ms()
        while await self._observer.leftovers() and self._stage.clock.wall_ms() - since_ms < QUIET_MS_MAX:
            await self._step(500)

    async def _read(self, segment: str, rest: Rest) -> None:
        await self._finish(read(self._last, segment, is_final=True, entries_max=1_000, patience_s=PATIENCE_S))
        owned = self._owned(segment)
        assert owned is not None
        rest.ends[segment] = (owned.stats.bound, owned.stats.end)


def _divided(topic: Topic) -> list[DividedMember]:
    return [each for each in topic.finishing if isinstance(each, DividedMember)]


async def _is_quiet(leader: TopicLeader) -> None:
    """It has heard that it is to change nothing by itself, and has done what it had begun."""
    is_told = leader.record.auto_scale_policy == {"enabled": False}
    if leader.is_busy or not is_told or leader.scaler.dry_run().action is not Action.NONE:
        raise OperationUnderWay(f"{leader.topic} is being changed")


async def _ended(task: asyncio.Task[None]) -> None:
    await task


async def simulate_topics(plan: TopicPlan) -> Findings:
    """Runs a plan in a world of its own."""
    async with running(plan.lacks, plan.shards) as world:
        return await TopicSimulation(plan, world).run()
