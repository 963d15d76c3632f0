"""A leader dies, or is deposed, at any point of any operation: whoever leads next finishes it (H1, H2, H9, V17)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from leading_world import TOPIC, Admin, Lead, check_rest, leads, pass_session, put_drained, record_of, within

from controller.leading import TopicLeader
from controller.subscriptions import SubscriptionKind
from controller.topics import NotLeader, TopicExists
from metastore.faults import Faults
from metastore.interface import OutcomeUnknown, StoreClosed
from metastore.providers.memory import Gate
from support.segments_at_work import Cluster
from support.world import World, run, settle

STREAM = SubscriptionKind.STREAM
STEPS = {
    "split": ["begin", "children", "decide", "seal", "commit"],
    "merge": ["begin", "children", "decide", "seal", "commit"],
    "delete": ["begin", "unrecord", "data", "unsubscribe", "reports", "finish"],
    "subscribe": ["begin", "cursors", "record", "finish"],
    "unsubscribe": ["begin", "unsubscribe", "uncursor", "finish"],
    "prune": ["begin", "commit", "data", "reports", "finish"],
    "create": ["children", "record", "commit"],
}
POINTS = [
    f"topic.{kind}.{step}.{side}" for kind, steps in STEPS.items() for step in steps for side in ("before", "after")
]
every_store = pytest.mark.parametrize("lacks", [(), ("transact",)], ids=["transact", "plain"])


class Death(Faults):
    """Whoever comes to the point first is cut off there, for ever."""

    def __init__(self, point: str) -> None:
        self.point = point
        self.is_reached = False
        self.lead: Lead | None = None
        self.others: list[Death] = []

    def reach(self, point: str) -> None:
        if point == self.point and not any(each.is_reached for each in self.others) and self.lead is not None:
            self.is_reached = True
            self.lead.process.store.line.close()


async def mortal(world: World, cluster: Cluster, point: str, count: int = 3, **around: Any) -> list[Lead]:
    deaths = [Death(point) for _ in range(count)]
    made = []
    for death in deaths:
        death.others = deaths
        death.lead = Lead(world, cluster, death, **around)
        made.append(await death.lead.start())
    return made


def reached(made: list[Lead]) -> bool:
    return any(each.process.store.line.is_closed for each in made)


ACTIONS: dict[str, Callable[[TopicLeader], Awaitable[Any]]] = {
    "split": lambda leader: leader.split(0),
    "merge": lambda leader: leader.merge(0, 1),
    "delete": lambda leader: leader.delete(),
    "subscribe": lambda leader: leader.create_subscription("new", STREAM),
    "unsubscribe": lambda leader: leader.delete_subscription("s"),
}


async def attempt(world: World, admin: Admin, action: Callable[[TopicLeader], Awaitable[Any]]) -> bool:
    """Asks once; whether it was answered."""
    try:
        await admin.ask(action)
    except (NotLeader, StoreClosed):
        return False
    return True


@every_store
@pytest.mark.parametrize("point", POINTS)
def test_h2_a_leader_dies_at_any_point_and_the_next_one_finishes(point: str, lacks: tuple[str, ...]) -> None:
    async def scenario(world: World) -> None:
        cluster = Cluster()
        kind = point.split(".")[1]
        admin = Admin(world, await mortal(world, cluster, point, retention_minutes=0 if kind == "prune" else -1))
        await create(world, admin)
        if kind == "prune":
            await attempt(world, admin, lambda leader: leader.split(0))
            await put_drained(world, 0, "s")
        elif kind != "create":
            await attempt(world, admin, ACTIONS[kind])
        await world.pass_ms(1_000)
        assert reached(admin.made), f"{point} was reached"
        await admin.bury()
        assert len(admin.living) == 2
        await pass_session(world)
        await world.pass_ms(5_000)
        await check_rest(world, cluster)
        await check_effect(world, admin, cluster, kind, is_begun=not point.endswith("begin.before"))

    run(scenario, lacks)


async def create(world: World, admin: Admin) -> None:
    process = admin.made[0].process
    creating = process.start(admin.made[0].leaders.create(TOPIC, 2, subscriptions={"s": STREAM}))
    await settle()
    if not creating.done():
        await pass_session(world)
    await world.pass_ms(1_000)


async def check_effect(world: World, admin: Admin, cluster: Cluster, kind: str, *, is_begun: bool) -> None:
    """What was begun is done; what was not even written down is not; and the topic can be changed again."""
    record = await record_of(world)
    if kind == "delete" and is_begun:
        assert record is None
        assert not [key for key in await world.keys() if key.startswith("/topics")]
        return
    assert record is not None
    active = {"split": 3, "prune": 3, "merge": 1}.get(kind, 2) if is_begun or kind == "prune" else 2
    assert len(record.layout.active) == active
    if kind == "prune":
        assert len(record.layout.sealed) == 0, "what was not even begun is begun again, for nobody needs it"
    names = set((await admin.leader()).subscriptions.names)
    expected = {"subscribe": {"s", "new"}, "unsubscribe": set()}.get(kind, {"s"}) if is_begun else {"s"}
    assert names == expected
    assert len(cluster.open) == active, "every range takes messages"
    after = await admin.ask(lambda leader: leader.split(leader.layout.active[0].segment_id))
    assert len(after.active) == active + 1
    await check_rest(world, cluster)


class Freeze(Faults):
    """From a point on what a leader writes is on its way, and arrives much later."""

    def __init__(self, point: str, method: str) -> None:
        self._point = point
        self._method = method
        self.lead: Lead | None = None
        self.gate: Gate | None = None

    def reach(self, point: str) -> None:
        if point == self._point and self.gate is None and self.lead is not None:
            self.gate = self.lead.process.script.hold(self._method, prefix=TOPIC.path)
            self.lead.cut()


@every_store
@pytest.mark.parametrize("step", ["begin", "decide", "commit"])
def test_h1_a_frozen_leader_is_deposed_and_changes_nothing_any_more(step: str, lacks: tuple[str, ...]) -> None:
    """H1: its clock stands still, its calls arrive late, and another one leads: what it writes is refused."""

    async def scenario(world: World) -> None:
        cluster = Cluster()
        freeze = Freeze(f"topic.split.{step}.before", "put" if lacks else "transact")
        freeze.lead = await Lead(world, cluster, freeze).start()
        admin = Admin(world, [freeze.lead])
        await admin.create(2, subscriptions={"s": STREAM})
        leader = await admin.leader()
        other, first = await Lead(world, cluster).start(), freeze.lead.process
        splitting = first.start(leader.split(0))
        await settle()
        assert freeze.gate is not None
        for _ in range(6):
            await pass_session(world, frozen=(first,))
        second = other.leaders.led[TOPIC.path]
        assert second.term > leader.term
        before = await record_of(world)
        assert before is not None
        assert len(before.layout.active) == (2 if step == "begin" else 3), "what was begun is finished by the other one"
        freeze.gate.release()
        await settle()
        assert await record_of(world) == before, "the deposed one has changed nothing"
        first.store.line.mend()
        for _ in range(6):
            await world.pass_ms(2_000)
        with pytest.raises(NotLeader):
            await splitting
        with pytest.raises(NotLeader):
            await leader.split(1)
        assert await record_of(world) == before
        await within(world, second.split(1))
        after = await record_of(world)
        assert after is not None
        # What it had written down before it could know may be finished, where only versions keep it from writing.
        assert len(after.layout.active) == (3 if step == "begin" and not lacks else 4)
        await check_rest(world, cluster)

    run(scenario, lacks)


@every_store
def test_a_topic_changes_leaders_again_and_again(lacks: tuple[str, ...]) -> None:
    """H1: a follower that wins leads, whatever it did before; and one that has lost can win again."""

    async def scenario(world: World) -> None:
        cluster = Cluster()
        admin = Admin(world, await leads(world, cluster, 3))
        await admin.create(1, subscriptions={"s": STREAM})
        terms = []
        for _ in range(4):
            broker = await admin.broker()
            leader = broker.leaders.led[TOPIC.path]
            terms.append(leader.term)
            await admin.ask(lambda leader: leader.split(leader.layout.active[0].segment_id))
            broker.cut()
            await pass_session(world)
            assert TOPIC.path not in broker.leaders.led
            broker.process.store.line.mend()
            await world.pass_ms(10_000)
        assert terms == sorted(set(terms))
        record = await record_of(world)
        assert record is not None
        assert len(record.layout.active) == 5
        await check_rest(world, cluster)

    run(scenario, lacks)


@every_store
@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("skip", range(4))
def test_an_answer_that_is_lost_changes_nothing_of_the_outcome(
    skip: int, applied: bool, lacks: tuple[str, ...]
) -> None:
    async def scenario(world: World) -> None:
        cluster = Cluster()
        admin = Admin(world, await leads(world, cluster, 1))
        await admin.create(2, subscriptions={"s": STREAM})
        script = admin.made[0].process.script
        method = "put" if lacks else "transact"
        script.fail(method, OutcomeUnknown("lost"), after=applied, skip=skip)
        after = await admin.ask(lambda leader: leader.split(0))
        assert after.epoch == 1
        await check_rest(world, cluster)

    run(scenario, lacks)


@every_store
def test_two_brokers_create_the_same_topic_and_one_of_them_is_told_that_it_exists(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World) -> None:
        cluster = Cluster()
        made = await leads(world, cluster, 2)
        tasks = [
            each.process.start(each.leaders.create(TOPIC, 1 + number, {"by": each.name}))
            for number, each in enumerate(made)
        ]
        for _ in range(20):
            await world.pass_ms(500)
        failures = [task.exception() for task in tasks]
        assert [type(each) for each in failures if each is not None] == [TopicExists]
        await check_rest(world, cluster)

    run(scenario, lacks)
