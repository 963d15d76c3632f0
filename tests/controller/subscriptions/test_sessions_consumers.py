"""Consumers come, go, come back, and are told what they have."""

from __future__ import annotations

import asyncio

import pytest
from sessions_stage import GRACE_S, NAME, STREAM, TOPIC, Client, Leader

from controller.layout import InvalidName, Layout
from controller.subscriptions import Ended, EndReason, LimitReached, MemberReplaced, Options, Strategy, WrongKind
from controller.subscriptions import coordinator as coordinator_module
from controller.subscriptions.records import SubscriptionKind
from controller.topics import SubscriptionNotFound, paths
from metastore.interface import Unavailable
from support.world import World, run, settle

FOUR = Layout.initial(4, 0)
GRACE_MS = int(GRACE_S * 1000)


def test_segments_are_divided_among_those_who_come() -> None:
    async def scenario(world: World) -> None:
        leader = await Leader.elected(world, FOUR)
        one = await leader.join("consumer-1")
        assert one.segments == [0, 1, 2, 3]
        two = await leader.join("consumer-2")
        assert (len(one.segments), len(two.segments)) == (2, 2)
        three = await leader.join("consumer-3")
        assert sorted(one.segments + two.segments + three.segments) == [0, 1, 2, 3]
        assert {each.last.term for each in (one, two, three)} == {leader.grant.term}
        assert await leader.recorded() == ["consumer-1", "consumer-2", "consumer-3"]
        assert leader.subscriptions.consumers() == {NAME: 3}

    run(scenario)


def test_only_those_are_told_for_whom_something_is_different() -> None:
    async def scenario(world: World) -> None:
        leader = await Leader.elected(world, FOUR)
        clients = [await leader.join(f"c{number}") for number in range(4)]
        counts = [len(each.messages) for each in clients]
        fifth = await leader.join("c4")  # there is nothing left to share
        assert fifth.segments == []
        assert [len(each.messages) for each in clients] == counts
        leader.subscriptions.on_layout(FOUR.split(0, 1))  # the parent stays where it is, its children have to wait
        await leader.subscriptions.settled()
        assert [len(each.messages) for each in clients] == counts

    run(scenario)


def test_a_burst_of_consumers_is_one_division() -> None:
    async def scenario(world: World) -> None:
        leader = await Leader.elected(world, FOUR)
        first = await leader.join("c0")
        gate = leader.process.script.hold("transact")
        joins = [leader.process.start(leader.join("c1"))]
        await settle()
        joins += [leader.process.start(leader.join(f"c{number}")) for number in range(2, 10)]
        await settle()
        gate.release()
        await asyncio.gather(*joins)
        assert leader.generation == 3  # c0, then c1 whose write was held up, then all others
        assert len(first.messages) == 3

    run(scenario)


def test_who_comes_back_in_time_moves_nothing() -> None:
    async def scenario(world: World) -> None:
        leader = await Leader.elected(world, FOUR)
        one, two = await leader.join("c1"), await leader.join("c2")
        generation, had = leader.generation, one.segments
        one.disconnect()
        await world.pass_ms(GRACE_MS - 1)
        again = await leader.join("c1")
        assert again.segments == had
        assert (again.last.generation, leader.generation) == (generation, generation)
        assert len(two.messages) == 1
        await world.pass_ms(GRACE_MS)
        assert set(leader.assignment) == {"c1", "c2"}

    run(scenario)


def test_who_does_not_come_back_is_given_up() -> None:
    async def scenario(world: World) -> None:
        leader = await Leader.elected(world, FOUR)
        one, two = await leader.join("c1"), await leader.join("c2")
        one.disconnect()
        await world.pass_ms(GRACE_MS - 1)
        assert len(two.segments) == 2
        await world.pass_ms(1)
        assert two.segments == [0, 1, 2, 3]
        assert await leader.recorded() == ["c2"]
        assert len(one.messages) == 2  # its own arrival, and that of the other one

    run(scenario)


def test_each_has_a_grace_of_its_own() -> None:
    async def scenario(world: World) -> None:
        leader = await Leader.elected(world, FOUR)
        clients = [await leader.join(f"c{number}") for number in range(3)]
        clients[0].disconnect()
        await world.pass_ms(GRACE_MS // 2)
        clients[1].disconnect()
        await world.pass_ms(GRACE_MS // 2)
        assert set(leader.assignment) == {"c1", "c2"}
        await world.pass_ms(GRACE_MS // 2)
        assert set(leader.assignment) == {"c2"}

    run(scenario)


def test_it_is_said_when_there_are_more_or_fewer_consumers() -> None:
    """By that the topic is scaled; those in grace count."""

    async def scenario(world: World) -> None:
        leader = await Leader.elected(world, FOUR)
        one = await leader.join("c1")
        two = await leader.join("c2")
        one.disconnect()
        await leader.join("c1")
        await two.leave()
        leader.subscriptions.on_drained(NAME, {0})
        await leader.subscriptions.settled()
        assert leader.counts == [1, 2, 1]

    run(scenario)


def test_h10_who_leaves_frees_its_segments_at_once() -> None:
    """In Pulsar no message says it: a closed consumer keeps them until its connection goes, and for a grace more."""

    async def scenario(world: World) -> None:
        leader = await Leader.elected(world, FOUR)
        one, two = await leader.join("c1"), await leader.join("c2")
        await one.leave()
        assert two.segments == [0, 1, 2, 3]
        assert await leader.recorded() == ["c2"]
        await two.leave()
        assert leader.assignment == {}
        assert leader.subscriptions.consumers() == {NAME: 0}

    run(scenario)


def test_h10_a_late_word_of_an_old_connection_changes_nothing() -> None:
    """In Pulsar the late end of the old connection has the new one taken for gone."""

    async def scenario(world: World) -> None:
        leader = await Leader.elected(world, FOUR)
        old = await leader.join("c1")
        new = await leader.join("c1")
        old.disconnect()
        await old.leave()
        session = leader.subscriptions.coordinator(NAME).sessions.by_name["c1"]
        assert session.is_connected
        await world.pass_ms(2 * GRACE_MS)
        assert leader.assignment == {"c1": [0, 1, 2, 3]}
        assert new.segments == [0, 1, 2, 3]

    run(scenario)


def test_h10_a_consumer_that_is_replaced_is_told_so() -> None:
    """In Pulsar it goes on reading."""

    async def scenario(world: World) -> None:
        leader = await Leader.elected(world, FOUR)
        old = await leader.join("c1")
        await leader.join("c1")
        assert old.end == Ended(EndReason.REPLACED)
        count = len(old.messages)
        await leader.join("c2")
        assert len(old.messages) == count

    run(scenario)


def test_h10_of_two_who_come_at_once_the_newer_one_stays() -> None:
    async def scenario(world: World) -> None:
        leader = await Leader.elected(world, FOUR)
        gate = leader.process.script.hold("transact")
        old, new = Client("c1"), Client("c1")
        joins = [leader.process.start(leader.join(each)) for each in (old, new)]
        await settle()
        gate.release()
        with pytest.raises(MemberReplaced, match="c1"):
            await joins[0]
        await joins[1]
        assert old.messages == [Ended(EndReason.REPLACED)]
        assert new.segments == [0, 1, 2, 3]

    run(scenario)


def test_who_gives_up_while_it_joins_is_awaited_like_one_that_has_joined() -> None:
    async def scenario(world: World) -> None:
        leader = await Leader.elected(world, FOUR)
        gate = leader.process.script.hold("transact")
        client = Client("c1")
        join = leader.process.start(leader.join(client))
        await settle()
        join.cancel()
        await settle()
        gate.release()
        await leader.subscriptions.settled()
        assert client.messages == []
        assert leader.assignment == {"c1": [0, 1, 2, 3]}
        await world.pass_ms(GRACE_MS)
        assert leader.assignment == {}

    run(scenario)


def test_parents_are_read_before_their_children() -> None:
    async def scenario(world: World) -> None:
        leader = await Leader.elected(world, FOUR)
        client = await leader.join("c1")
        leader.subscriptions.on_layout(FOUR.split(0, 1))
        await leader.subscriptions.settled()
        assert sorted(client.segments) == [0, 1, 2, 3]
        leader.subscriptions.on_drained(NAME, {0})
        await leader.subscriptions.settled()
        assert sorted(client.segments) == [1, 2, 3, 4, 5]
        assert client.last.epoch == 1

    run(scenario)


def test_h6_a_seek_makes_what_was_drained_be_read_again() -> None:
    """In Pulsar what was drained once stays so, and is not read again in its place."""

    async def scenario(world: World) -> None:
        leader = await Leader.elected(world, FOUR.split(0, 1), {NAME: [0]})
        client = await leader.join("c1")
        assert sorted(client.segments) == [1, 2, 3, 4, 5]
        leader.subscriptions.on_drained(NAME, ())
        await leader.subscriptions.settled()
        assert sorted(client.segments) == [0, 1, 2, 3]

    run(scenario)


def test_nothing_is_told_before_it_is_durable() -> None:
    async def scenario(world: World) -> None:
        leader = await Leader.elected(world, FOUR)
        one = await leader.join("c1")
        gate = leader.process.script.hold("transact")
        join = leader.process.start(leader.join("c2"))
        await settle()
        assert one.segments == [0, 1, 2, 3]
        gate.release()
        await join
        assert one.segments == [0, 1]

    run(scenario)


def test_the_other_strategy_takes_turns() -> None:
    async def scenario(world: World) -> None:
        leader = await Leader.elected(world, FOUR, options=Options(Strategy.ROUND_ROBIN))
        for name in ("c1", "c2", "c3"):
            await leader.join(name)
        assert leader.assignment == {"c1": [0, 3], "c2": [1], "c3": [2]}

    run(scenario)


@pytest.mark.parametrize("kind", [SubscriptionKind.QUEUE, SubscriptionKind.CHECKPOINT])
def test_a_subscription_is_joined_as_what_it_is(kind: SubscriptionKind) -> None:
    async def scenario(world: World) -> None:
        leader = await Leader.elected(world, FOUR)
        await leader.create("other", kind)
        with pytest.raises(WrongKind, match=kind.value):
            await leader.join("c1", "other")
        with pytest.raises(WrongKind, match="STREAM"):
            await leader.subscriptions.join(NAME, "c1", SubscriptionKind.CHECKPOINT, print)

    run(scenario)


def test_what_is_not_there_cannot_be_joined() -> None:
    async def scenario(world: World) -> None:
        leader = await Leader.elected(world, FOUR)
        with pytest.raises(SubscriptionNotFound, match="nothing"):
            await leader.join("c1", "nothing")
        with pytest.raises(InvalidName):
            await leader.join(" ")

    run(scenario)


def test_there_is_room_for_so_many_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator_module, "CONSUMERS_MAX", 3)

    async def scenario(world: World) -> None:
        leader = await Leader.elected(world, FOUR)
        for number in range(3):
            await leader.join(f"c{number}")
        with pytest.raises(LimitReached, match="CONSUMERS_MAX"):
            await leader.join("c3")
        assert len(leader.assignment) == 3
        assert (await leader.join("c0")).segments  # who is a member may always come back

    run(scenario)


def test_names_have_room_for_so_many_bytes_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator_module, "NAMES_BYTES_MAX", 10)

    async def scenario(world: World) -> None:
        leader = await Leader.elected(world, FOUR)
        await leader.join("a" * 5)
        await leader.join("b" * 5)
        with pytest.raises(LimitReached, match="NAMES_BYTES_MAX"):
            await leader.join("c")

    run(scenario)


def test_h20_names_are_what_they_are() -> None:
    async def scenario(world: World) -> None:
        leader = await Leader.elected(world, FOUR)
        await leader.create("a/b %2F")
        await leader.join("c/d %2F", "a/b %2F")
        assert await leader.recorded("a/b %2F") == ["c/d %2F"]
        assert paths.consumer_key(TOPIC, "a/b %2F", "c/d %2F") in await world.keys()

    run(scenario)


def test_a_store_that_is_away_delays_and_changes_nothing() -> None:
    async def scenario(world: World) -> None:
        leader = await Leader.elected(world, FOUR)
        one, two = await leader.join("c1"), await leader.join("c2")
        had = two.segments
        leader.process.script.fail("transact", Unavailable("away"), times=None)
        leader.process.script.fail("get", Unavailable("away"), times=None)
        await_two = leader.process.start(one.leave())
        for _ in range(5):
            await world.pass_ms(1_000)
        assert two.segments == had
        assert not await_two.done()
        leader.process.script.clear()
        while not await_two.done():
            await world.pass_ms(1_000)
        assert two.segments == [0, 1, 2, 3]
        assert leader.subscriptions.kinds == {NAME: STREAM}

    run(scenario)
