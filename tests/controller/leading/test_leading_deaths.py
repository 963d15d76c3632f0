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
def test_a_leader_dies_at_any_point_and_the_next_one_finishes(point: str, lacks: tuple[str, ...]) -> None:
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


@every_store
@pytest.mark.parametrize("step", ["children", "decide", "seal", "commit"])
def test_a_frozen_leader_is_deposed_and_changes_nothing_any_more(step: str, lacks: tuple[str, ...]) -> None:
    """H1: its clock stands still, its calls arrive, and another one leads: what it writes is refused."""

    class Freeze(Faults):
        """Makes the world go on, around a leader that has come to a point and stops there."""

        def reach(self, point: str) -> None:
            if point == f"topic.split.{step}.before" and not frozen:
                frozen.append(point)
                made[0].cut()
                made[0].process.script.hold("get", prefix=TOPIC.path)

    frozen: list[str] = []
    made: list[Lead] = []

    async def scenario(world: World) -> None:
        cluster = Cluster()
        made.append(await Lead(world, cluster, Freeze()).start())
        admin = Admin(world, made)
        await admin.create(2, subscriptions={"s": STREAM})
        leader = await admin.leader()
        made.append(await Lead(world, cluster).start())
        first = made[0].process
        gate = first.script.hold("transact" if not lacks else "put", prefix=TOPIC.path)
        splitting = first.start(leader.split(0))
        await settle()
        await pass_session(world, frozen=(first,))
        await world.pass_ms(5_000, frozen=(first,))
        assert TOPIC.path in made[1].leaders.led
        second = made[1].leaders.led[TOPIC.path]
        assert second.term > leader.term
        before = await record_of(world)
        first.script.clear()
        gate.open()
        await settle()
        first.store.line.mend()
        await world.pass_ms(1_000)
        with pytest.raises(NotLeader):
            await splitting
        with pytest.raises(NotLeader):
            await leader.split(1)
        after = await record_of(world)
        assert after == before, "the deposed one has changed nothing"
        assert (await within(world, second.split(1))).active
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
        await world.pass_ms(5_000)
        failures = [task.exception() for task in tasks]
        assert sorted(type(each) for each in failures if each is not None) == [TopicExists]
        await check_rest(world, cluster)

    run(scenario, lacks)
