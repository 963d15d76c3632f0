"""What goes wrong with topics, at random: all that goes wrong anyway, deaths at every step, and what users do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any

from controller.autoscale import AutoScaleConfig
from controller.layout import LayoutError, TopicName
from controller.operations import Start
from controller.subscriptions import SubscriptionKind
from controller.topics import TopicError, TopicExists, TopicNotFound
from controller.topics.policies import NamespacePolicy
from metastore.interface import StoreError
from topics_simulation.topic_actors import READINGS, Topic, TopicActors
from topics_simulation.topic_clients import TopicClient, exists
from topics_simulation.topic_notes import Subscribed, TopicNotes
from topics_simulation.topic_stage import TopicBroker, TopicStage
from txn.model.errors import TxnRetriable
from txn_histories.chaos import Chaos, Event

TOPICS_MIN, TOPICS_MAX = 1, 3
SEGMENTS_MAX = 7
ACTIVE_MAX = 4
STEPS_TO_TRAP_MAX = 12
NAMESPACE = "topic://tenant/ns"
KINDS = {
    "stream": SubscriptionKind.STREAM,
    "queue": SubscriptionKind.QUEUE,
    "group": SubscriptionKind.CHECKPOINT,
}
STEPS = {
    "create": ("children", "record", "commit"),
    "split": ("begin", "children", "decide", "seal", "commit"),
    "merge": ("begin", "children", "decide", "seal", "commit"),
    "prune": ("begin", "commit", "data", "reports", "finish"),
    "delete": ("begin", "unrecord", "data", "unsubscribe", "reports", "finish"),
    "subscribe": ("begin", "cursors", "record", "finish"),
    "unsubscribe": ("begin", "unsubscribe", "uncursor", "finish"),
}
"""Of what a leader does to a topic."""
POINTS = (
    *(f"topic.lead.{point}" for point in ("granted", "finished", "restored")),
    *(f"topic.{kind}.{step}.{edge}" for kind, found in STEPS.items() for step in found for edge in ("before", "after")),
)
"""Where leaders are lost: in each simulation at one of them for certain, if anybody comes there."""
LOSSES = ("dies at ", "freezes at ", "loses its session at ")
CHAOS = (
    *("kill", "stop", "start", "freeze", "thaw", "cut", "mend", "fail", "lose", "arrive", "hold", "release"),
    *("forget_changes", "expire_session", "jump", "set_trap", "split", "merge", "create_topic", "delete_topic"),
    *("subscribe", "seek", "change_policy", "change_namespace"),
)
"""By name, all that may happen in a step."""
PROVOKED = 0.2
"""How likely it is in a step that something is done on the way to the point at which somebody is to be lost."""
SHORT_S, LONG_S = 0.5, 20.0
"""How long subscriptions stay: some go while things go wrong, others when there is peace."""
SEEKER = "seeker"
"""A queue that nobody consumes from: its cursors are set to and fro."""


class TopicChaos(Chaos):
    """One step at a time; `heal` ends everything that goes on going wrong."""

    prefixes = ("", "", "/txn/", "/txn-op/", "/segments/", "/topics/", "/topics/", "/namespace-policies/")

    def __init__(self, stage: TopicStage, client: TopicClient, notes: TopicNotes, actors: TopicActors) -> None:
        super().__init__(stage, client, [])
        self._topic_stage = stage
        self._topic_client = client
        self._notes = notes
        self._actors = actors
        self._created = 0
        self._aim: str | None = None
        """The point at which somebody is to be lost yet."""

    def aim(self, point: str) -> None:
        """Whoever comes to that point first dies there, or freezes, or loses its session."""
        self._aim = point
        self._arm()

    async def step(self) -> None:
        self._arm()
        await self._provoke()
        await super().step()

    async def _provoke(self) -> None:
        """While somebody is to be lost at a point of what is rare, that is not left to chance alone."""
        rare = {
            "delete": self._delete_topic,
            "prune": self._split,
            "subscribe": self._subscribe,
            "unsubscribe": self._subscribe,
        }
        event = None if self._aim is None else rare.get(self._aim.split(".")[1])
        if event is not None and self._random.random() < PROVOKED:
            self.events.append(event.__name__)
            await event()

    def _arm(self) -> None:
        if self._aim is None:
            return
        for broker in self._topic_stage.started:
            if not broker.is_dead and not broker.trap.is_set:
                broker.trap.set(0, partial(self._hit, broker), prefix=self._aim)

    def _hit(self, broker: TopicBroker, point: str) -> None:
        before = len(self.events)
        if self._aim == point:
            self._lose_broker(broker, point)
        if len(self.events) > before:
            self._aim = None

    def _particular(self) -> list[Event]:
        return [
            *(self._set_trap,) * 4,
            *(self._split,) * 5,
            *(self._merge,) * 4,
            self._create_topic,
            self._delete_topic,
            *(self._subscribe,) * 2,
            self._seek,
            self._change_policy,
            self._change_namespace,
        ]

    # -- brokers

    async def _set_trap(self) -> None:
        """A broker will die, or freeze, or lose its session, at some point of what it does for topics."""
        broker = self._random.choice(self._topic_stage.leading or self._topic_stage.started)
        broker.trap.set(self._random.randint(0, STEPS_TO_TRAP_MAX), partial(self._lose_broker, broker))

    def _lose_broker(self, broker: TopicBroker, point: str) -> None:
        self._random.choice([self._die, self._die, self._stand_still, self._fall_out])(broker, point)

    def _die(self, broker: TopicBroker, point: str) -> None:
        if broker in self._topic_stage.brokers and len(self._topic_stage.brokers) > 1:
            self.events.append(f"dies at {point}")
            self._topic_stage.end_broker(broker, kill=True)

    def _stand_still(self, broker: TopicBroker, point: str) -> None:
        awake = [each for each in self._topic_stage.leading if not each.is_frozen]
        if broker in awake and len(awake) > 1:
            self.events.append(f"freezes at {point}")
            broker.freeze()

    def _fall_out(self, broker: TopicBroker, point: str) -> None:
        mine = [
            each.session_id for each in self._topic_stage.world.data.sessions.values() if each.identity == broker.name
        ]
        self.events.append(f"loses its session at {point}")
        for session_id in mine:
            self._topic_stage.world.data.expire(session_id)

    # -- topics

    def _topic(self) -> Topic | None:
        found = [each for each in self._actors.topics if not each.view.is_gone and each.view.layout is not None]
        return self._random.choice(found) if found else None

    async def _split(self) -> None:
        topic = self._topic()
        layout = None if topic is None else topic.view.layout
        if topic is None or layout is None or len(layout.active) >= ACTIVE_MAX or len(layout.segments) >= SEGMENTS_MAX:
            return
        segment_id = self._random.choice(layout.active).segment_id
        self._ask(topic.name, lambda leader: leader.split(segment_id))

    async def _merge(self) -> None:
        topic = self._topic()
        layout = None if topic is None else topic.view.layout
        if topic is None or layout is None or len(layout.active) < 2 or len(layout.segments) >= SEGMENTS_MAX:
            return
        active = [each.segment_id for each in layout.active]
        count = self._random.randint(2, min(3, len(active)))
        start = self._random.randint(0, len(active) - count)
        chosen = active[start : start + count]
        self._random.shuffle(chosen)
        self._ask(topic.name, lambda leader: leader.merge(*chosen))

    async def _create_topic(self) -> None:
        if len(self._actors.topics) < TOPICS_MAX:
            self.create_topic(self._random.randint(1, 3))

    def create_topic(self, segments: int) -> None:
        """Another topic; their names begin with each other."""
        self._created += 1
        name = TopicName.parse(f"{NAMESPACE}/{'t/' * (self._created % 2)}{'x' * self._created}")

        async def create() -> None:
            client = self._topic_client
            while not self._actors.is_over:
                broker = client.any_topic_broker()
                if broker is not None:
                    try:
                        subscriptions = {**KINDS, SEEKER: SubscriptionKind.QUEUE}
                        await broker.call(broker.leaders.create, name, segments, {}, subscriptions)
                        break
                    except TopicExists:
                        if await exists(client, name):
                            break
                    except (TxnRetriable, StoreError):
                        pass
                await client.pause()
            else:
                if not await exists(client, name):
                    return
            self._notes.subscribed += [Subscribed(str(name), each, reading, 0) for each, reading in READINGS.items()]
            self._actors.add(name)

        self._beside(create())

    async def _delete_topic(self) -> None:
        if len(self._actors.topics) > TOPICS_MIN and self._random.random() < 0.5:
            topic = self._random.choice(self._actors.topics)
            self._actors.topics.remove(topic)

            async def delete() -> None:
                await self._topic_client.ask(topic.name, lambda leader: leader.delete())

            self._beside(delete())

    async def _subscribe(self) -> None:
        """A subscription that was not there comes, and goes some time later."""
        topic = self._topic()
        if topic is None:
            return
        name, kind = self._client.recorder.new_name("sub/%"), self._random.choice(list(SubscriptionKind))
        start, stays_s = self._random.choice(list(Start)), self._random.choice([SHORT_S, LONG_S])

        async def come_and_go() -> None:
            client = self._topic_client
            await client.ask(topic.name, lambda leader: leader.create_subscription(name, kind, start))
            await client.pause(stays_s)
            await client.ask(topic.name, lambda leader: leader.delete_subscription(name))

        self._beside(come_and_go())

    async def _seek(self) -> None:
        topic = self._topic()
        if topic is not None:
            if self._random.random() < 0.6:
                self._ask(topic.name, lambda leader: leader.skip_all(SEEKER))
            else:
                time_ms = self._topic_stage.clock.wall_ms() - self._random.randint(0, 20_000)
                self._ask(topic.name, lambda leader: leader.seek(SEEKER, time_ms))

    # -- policies

    async def _change_policy(self) -> None:
        topic, broker = self._topic(), self._topic_client.any_topic_broker()
        if topic is not None and broker is not None:
            name, policy = topic.name, self._random.choice([None, {"enabled": True}, {"maxSegments": 2}])
            change = lambda record: replace(record, auto_scale_policy=policy)  # noqa: E731
            self._beside(_to_end(broker.call(broker.topics.update, name, change)))

    async def _change_namespace(self) -> None:
        broker = self._topic_client.any_topic_broker()
        if broker is not None:
            namespace = TopicName.parse(f"{NAMESPACE}/x").parent
            policy = NamespacePolicy(self._random.choice([None, {"enabled": False}, {"minSegments": 2}]))
            self._beside(_to_end(broker.call(broker.policies.update, namespace, lambda before: policy)))

    def _ask(self, topic: TopicName, call: Callable[[Any], Coroutine[Any, Any, Any]]) -> None:
        """Once: who is refused, or is not answered, does not insist."""

        async def ask() -> None:
            broker, leader = await self._topic_client.leader(topic)
            await broker.call(call, leader)

        self._beside(ask())

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        async def tried() -> None:
            try:
                await work
            except (TopicError, LayoutError, StoreError) as error:
                self.events.append(f"refused: {type(error).__name__}")

        super()._beside(tried())

    # -- the end

    def heal(self) -> None:
        """Nothing goes wrong any more."""
        self._aim = None
        for broker in self._topic_stage.started:
            broker.trap.clear()
        super().heal()


async def _to_end(work: Coroutine[Any, Any, object]) -> None:
    await work


EAGER = AutoScaleConfig(
    max_segments=ACTIVE_MAX, split_cooldown_ms=4_000, merge_cooldown_ms=6_000, merge_window_ms=2_000
)


async def gone(client: TopicClient, topic: TopicName) -> None:
    """Deletes a topic, and returns when there is none."""
    try:
        await client.ask(topic, lambda leader: leader.delete())
    except TopicNotFound:
        return
    while await exists(client, topic):
        await asyncio.sleep(0)
        await client.pause()
