"""What a leader leaves behind, and what the next one makes of it."""

from __future__ import annotations

import asyncio

import pytest
from sessions_stage import GRACE_S, NAME, STREAM, TOPIC, Leader

from controller.layout import Layout
from controller.subscriptions import (
    DamagedSubscription,
    Ended,
    EndReason,
    LimitReached,
    SubscriptionKind,
    SubscriptionRecord,
    WrongKind,
)
from controller.subscriptions import subscriptions as subscriptions_module
from controller.topics import NotLeader, SubscriptionNotFound, paths
from metastore.coordination import Deposed
from metastore.interface import OutcomeUnknown, Unavailable
from support.world import World, run, settle

FOUR = Layout.initial(4, 0)
GRACE_MS = int(GRACE_S * 1000)
STORES = pytest.mark.parametrize("lacks", [(), ("transact",)], ids=["transact", "plain"])


@STORES
def test_h6_a_new_leader_withdraws_nothing_from_anybody(lacks: tuple[str, ...]) -> None:
    """In Pulsar the drained set is lost with the leader, and children are withdrawn until their parents are polled."""

    async def scenario(world: World) -> None:
        layout = FOUR.split(0, 1)
        old = await Leader.elected(world, layout, {NAME: [0]})
        for name in ("c1", "c2", "c3"):
            await old.join(name)
        had, generation = old.assignment, old.generation
        await old.resign()
        new = await Leader.elected(world, layout, {NAME: [0]}, create=False)
        await new.subscriptions.settled()
        assert new.assignment == had
        assert new.generation == generation
        assert new.grant.term > old.grant.term
        clients = [await new.join(name) for name in had]
        assert [each.segments for each in clients] == list(had.values())
        assert {len(each.messages) for each in clients} == {1}
        assert await new.recorded() == list(had)

    run(scenario, lacks=lacks)


@STORES
def test_who_does_not_come_to_the_new_leader_has_a_whole_grace(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World) -> None:
        old = await Leader.elected(world, FOUR)
        gone = await old.join("c1")
        await old.join("c2")
        gone.disconnect()
        await world.pass_ms(GRACE_MS - 1)
        await old.resign()
        new = await Leader.elected(world, FOUR, create=False)
        two = await new.join("c2")
        await world.pass_ms(GRACE_MS - 1)
        assert set(new.assignment) == {"c1", "c2"}
        await world.pass_ms(1)
        assert two.segments == [0, 1, 2, 3]
        assert await new.recorded() == ["c2"]

    run(scenario, lacks=lacks)


def test_consumers_are_told_to_go_elsewhere() -> None:
    async def scenario(world: World) -> None:
        leader = await Leader.elected(world, FOUR)
        client = await leader.join("c1")
        gate = leader.process.script.hold("transact")
        join = leader.process.start(leader.join("c2"))
        await settle()
        await leader.resign()
        assert client.end == Ended(EndReason.MOVED)
        with pytest.raises(NotLeader):
            await join
        with pytest.raises(NotLeader):  # and not that there is no such subscription, which nobody would ask again
            await leader.join("c3")
        client.disconnect()
        gate.release()

    run(scenario)


@STORES
def test_h1_a_deposed_leader_divides_nothing(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World) -> None:
        old = await Leader.elected(world, FOUR)
        client = await old.join("c1")
        # It is stopped right between asking whether it leads and writing, and so are its clocks.
        gate = old.process.script.hold("put" if lacks else "transact")
        old.subscriptions.on_drained(NAME, {0})
        await settle()
        await old.freeze()
        new = await Leader.elected(world, FOUR, create=False)
        again = await new.join("c1")
        await new.subscriptions.settled()
        gate.release()
        await settle()
        while client.messages[-1] != Ended(EndReason.MOVED):
            await world.pass_ms(1_000, frozen=(new.process,))
        with pytest.raises(Deposed):
            await old.subscriptions.wait_failed()
        assert client.end == Ended(EndReason.MOVED)
        assert again.segments == [0, 1, 2, 3]
        record = await new.process.store.get(paths.subscription_key(TOPIC, NAME), partition_key=paths.partition(TOPIC))
        assert record is not None
        assert SubscriptionRecord.decode(record.value or b"") == new.subscriptions.coordinator(NAME).group.record

    run(scenario, lacks=lacks)


@STORES
@pytest.mark.parametrize("is_applied", [True, False])
def test_a_write_whose_answer_is_lost_is_looked_up(lacks: tuple[str, ...], is_applied: bool) -> None:
    async def scenario(world: World) -> None:
        leader = await Leader.elected(world, FOUR)
        await leader.join("c1")
        method = "put" if lacks else "transact"
        leader.process.script.fail(
            method, OutcomeUnknown("lost"), prefix=paths.subscription_key(TOPIC, NAME), after=is_applied
        )
        join = leader.process.start(leader.join("c2"))
        while not join.done():
            await world.pass_ms(1_000)
        assert (await join).last.generation == leader.generation == 2
        assert await leader.recorded() == ["c1", "c2"]
        record = await leader.process.store.get(
            paths.subscription_key(TOPIC, NAME), partition_key=paths.partition(TOPIC)
        )
        assert record is not None
        assert record.version.modifications == 2  # it is not written again where it was

    run(scenario, lacks=lacks)


def test_what_others_write_is_overwritten() -> None:
    async def scenario(world: World) -> None:
        leader = await Leader.elected(world, FOUR)
        await leader.join("c1")
        store = leader.process.store
        key = paths.subscription_key(TOPIC, NAME)
        await store.put(key, b'{"type":"STREAM"}', partition_key=paths.partition(TOPIC))
        join = leader.process.start(leader.join("c2"))
        while not join.done():
            await world.pass_ms(1_000)
        record = await store.get(key, partition_key=paths.partition(TOPIC))
        assert record is not None
        assert set(SubscriptionRecord.decode(record.value or b"").assignment or {}) == {"c1", "c2"}

    run(scenario)


def test_h1_on_a_plain_store_what_others_write_is_a_later_leaders() -> None:
    """There the record's version is all the fence there is."""

    async def scenario(world: World) -> None:
        leader = await Leader.elected(world, FOUR)
        client = await leader.join("c1")
        key = paths.subscription_key(TOPIC, NAME)
        await leader.process.store.put(key, b'{"type":"STREAM"}', partition_key=paths.partition(TOPIC))
        leader.subscriptions.on_drained(NAME, {0})
        while leader.grant.is_held:
            await world.pass_ms(1_000)
        with pytest.raises(Deposed, match="somebody else"):
            await leader.subscriptions.wait_failed()
        assert client.end == Ended(EndReason.MOVED)

    run(scenario, lacks=("transact",))


def test_a_subscription_whose_record_is_taken_away_is_gone() -> None:
    async def scenario(world: World) -> None:
        leader = await Leader.elected(world, FOUR)
        client = await leader.join("c1")
        await leader.process.store.delete(paths.subscription_key(TOPIC, NAME), partition_key=paths.partition(TOPIC))
        join = leader.process.start(leader.join("c2"))
        while not join.done():
            await world.pass_ms(1_000)
        with pytest.raises(SubscriptionNotFound):
            await join
        assert client.end == Ended(EndReason.DELETED)
        assert leader.subscriptions.names == frozenset()
        await leader.create(NAME)
        assert (await leader.join("c1")).segments == [0, 1, 2, 3]

    run(scenario)


@STORES
def test_h4_subscriptions_of_every_kind_are_recorded(lacks: tuple[str, ...]) -> None:
    """In Pulsar queue subscriptions that clients make are in no record, and children of a split lack their cursors."""

    async def scenario(world: World) -> None:
        old = await Leader.elected(world, FOUR, create=False)
        for kind in SubscriptionKind:
            await old.create(kind.value, kind)
            await old.create(kind.value, kind)  # is so already
        with pytest.raises(WrongKind, match="STREAM"):
            await old.create("STREAM", SubscriptionKind.QUEUE)
        await old.resign()
        new = await Leader.elected(world, FOUR, create=False)
        assert new.subscriptions.names == {"STREAM", "QUEUE", "CHECKPOINT"}
        assert new.subscriptions.consumers() == {"STREAM": 0, "CHECKPOINT": 0}

    run(scenario, lacks=lacks)


@STORES
def test_h11_a_subscription_leaves_nothing_behind(lacks: tuple[str, ...]) -> None:
    """In Pulsar on Oxia what is below it stays, and the topic cannot be deleted."""

    async def scenario(world: World) -> None:
        leader = await Leader.elected(world, FOUR)
        before = set(await world.keys())
        await leader.create("s")
        clients = [await leader.join(name, "s") for name in ("c1", "c2")]
        await leader.subscriptions.delete("s")
        assert set(await world.keys()) == before
        assert {each.end.reason for each in clients} == {EndReason.DELETED}
        await leader.subscriptions.delete("s")
        with pytest.raises(SubscriptionNotFound):
            await leader.join("c1", "s")
        await leader.create("s")
        assert (await leader.join("c1", "s")).last.generation == 1

    run(scenario, lacks=lacks)


@STORES
def test_h11_a_deletion_goes_on_where_the_store_failed(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World) -> None:
        leader = await Leader.elected(world, FOUR)
        await leader.join("c1")
        method = "delete" if lacks else "transact"
        leader.process.script.fail(method, OutcomeUnknown("lost"), after=True)
        leader.process.script.fail("delete_range", Unavailable("away"))
        deletion = leader.process.start(leader.subscriptions.delete(NAME))
        while not deletion.done():
            await world.pass_ms(1_000)
        await deletion
        assert not [key for key in await world.keys() if key.startswith(paths.subscriptions_path(TOPIC))]

    run(scenario, lacks=lacks)


@STORES
def test_records_of_consumers_are_set_right(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World) -> None:
        old = await Leader.elected(world, FOUR)
        await old.join("c1")
        await old.resign()
        store, partition = old.process.store, paths.partition(TOPIC)
        await store.put(paths.consumer_key(TOPIC, NAME, "stray"), b"{}", partition_key=partition)
        await store.delete(paths.consumer_key(TOPIC, NAME, "c1"), partition_key=partition)
        new = await Leader.elected(world, FOUR, create=False)
        assert await new.recorded() == ["c1"]

    run(scenario, lacks=lacks)


def test_a_subscription_that_pulsar_has_written_goes_on() -> None:
    async def scenario(world: World) -> None:
        store, partition = world.process().store, paths.partition(TOPIC)
        await store.put(paths.subscription_key(TOPIC, NAME), b'{"type":"STREAM"}', partition_key=partition)
        for name in ("c1", "c2"):
            await store.put(paths.consumer_key(TOPIC, NAME, name), b"{}", partition_key=partition)
        leader = await Leader.elected(world, FOUR, create=False)
        await leader.subscriptions.settled()
        assert leader.assignment == {"c1": [0, 2], "c2": [1, 3]}
        assert await leader.recorded() == ["c1", "c2"]

    run(scenario)


def test_a_damaged_record_keeps_no_others_from_being_read() -> None:
    async def scenario(world: World) -> None:
        store, partition = world.process().store, paths.partition(TOPIC)
        await store.put(paths.subscription_key(TOPIC, "bad"), b"{", partition_key=partition)
        leader = await Leader.elected(world, FOUR)
        assert (await leader.join("c1")).segments == [0, 1, 2, 3]
        assert leader.subscriptions.names == {"bad", NAME}
        with pytest.raises(DamagedSubscription):
            await leader.join("c1", "bad")
        with pytest.raises(DamagedSubscription):
            await leader.create("bad")
        await leader.subscriptions.delete("bad")
        await leader.create("bad")
        assert (await leader.join("c1", "bad")).segments == [0, 1, 2, 3]

    run(scenario)


def test_there_are_so_many_subscriptions_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions_module, "SUBSCRIPTIONS_MAX", 2)

    async def scenario(world: World) -> None:
        leader = await Leader.elected(world, FOUR)
        await leader.create("second")
        with pytest.raises(LimitReached, match="SUBSCRIPTIONS_MAX"):
            await leader.create("third")
        await leader.create("second")

    run(scenario)


def test_what_is_created_while_it_is_deleted_is_there_afterwards() -> None:
    async def scenario(world: World) -> None:
        leader = await Leader.elected(world, FOUR)
        gate = leader.process.script.hold("transact")
        deletion = leader.process.start(leader.subscriptions.delete(NAME))
        await settle()
        creation = leader.process.start(leader.subscriptions.create(NAME, STREAM))
        await settle()
        gate.release()
        await asyncio.gather(deletion, creation)
        leader.world.tasks += leader.subscriptions._tasks.values()
        assert (await leader.join("c1")).segments == [0, 1, 2, 3]

    run(scenario)
