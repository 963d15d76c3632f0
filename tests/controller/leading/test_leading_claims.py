"""The exclusive right to produce, at the leader: numbers, graces, who waits, who hears of it, and deaths in between."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from leading_world import TOPIC, Admin, leads, pass_session, until, within

from controller.layout import LayoutError
from controller.leading import ClaimMode, Hold, ProducerBusy, TopicLeader
from controller.leading.claims import CLAIM_GRACE_S, CLAIMS_WAITING_MAX
from controller.subscriptions import LimitReached
from controller.topics import NotLeader, paths
from controller.topics.claims import Claim
from metastore.interface import StoreClosed
from support.segments_at_work import Cluster
from support.world import World, run, settle
from txn.model.errors import SegmentUnavailable
from txn.segment.errors import ProducerFenced

EXCLUSIVE, FENCING, WAIT = ClaimMode.EXCLUSIVE, ClaimMode.FENCING, ClaimMode.WAIT
GRACE_MS = int(CLAIM_GRACE_S * 1000)
every_store = pytest.mark.parametrize("lacks", [(), ("transact",)], ids=["transact", "plain"])


def heard(cluster: Cluster) -> set[tuple[int, bool]]:
    """What the segments that take messages have heard."""
    return {each.claim for each in cluster.segments.values() if not each.is_sealed}


async def take(world: World, leader: TopicLeader, producer: str, mode: ClaimMode = EXCLUSIVE) -> Hold:
    return await within(world, leader.claims.take(producer, mode))


async def keep(world: World, leader: TopicLeader, producer: str, number: int) -> Hold:
    return await within(world, leader.claims.keep(producer, number))


async def ended(taking: asyncio.Future[Hold]) -> Hold:
    return await taking


async def over(world: World, hold: Hold) -> None:
    await within(world, hold.wait_over())


@every_store
def test_numbers_grow_and_all_segments_hear_of_them(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World) -> None:
        cluster = Cluster()
        admin = Admin(world, await leads(world, cluster, 1))
        await admin.create(3)
        leader = await admin.leader()
        first = await take(world, leader, "one")
        assert (first.number, heard(cluster)) == (1, {(1, False)})
        with pytest.raises(ProducerBusy, match="'one'"):
            await take(world, leader, "two")
        second = await take(world, leader, "two", FENCING)
        assert (second.number, heard(cluster)) == (2, {(2, False)})
        with pytest.raises(ProducerFenced):
            await over(world, first)
        first.disconnect()  # says nothing about who came after it
        await world.pass_ms(2 * GRACE_MS)
        assert not second.is_over
        await within(world, leader.claims.release("two", 2))
        await over(world, second)
        assert heard(cluster) == {(2, True)}
        assert (await take(world, leader, "two")).number == 3

    run(scenario, lacks)


def test_the_grace_is_as_long_as_it_is() -> None:
    async def scenario(world: World) -> None:
        cluster = Cluster()
        admin = Admin(world, await leads(world, cluster, 1))
        await admin.create(2)
        leader = await admin.leader()
        first = await take(world, leader, "one")
        first.disconnect()
        await world.pass_ms(GRACE_MS - 1)
        again = await keep(world, leader, "one", first.number)
        assert again.number == first.number, "it has never lost the right"
        again.disconnect()
        await world.pass_ms(GRACE_MS - 1)
        with pytest.raises(ProducerBusy):
            await take(world, leader, "two")
        await world.pass_ms(1_000)
        assert heard(cluster) == {(1, True)}
        with pytest.raises(ProducerFenced, match="lost"):
            await keep(world, leader, "one", first.number)
        assert (await take(world, leader, "one")).number == 2

    run(scenario)


def test_who_comes_back_to_what_others_had_meanwhile_has_lost_it() -> None:
    async def scenario(world: World) -> None:
        cluster = Cluster()
        admin = Admin(world, await leads(world, cluster, 1))
        await admin.create(2)
        leader = await admin.leader()
        first = await take(world, leader, "one")
        first.disconnect()
        await world.pass_ms(GRACE_MS + 1_000)
        second = await take(world, leader, "two")
        await within(world, leader.claims.release("two", second.number))
        with pytest.raises(ProducerFenced, match="lost"):
            await keep(world, leader, "one", first.number)
        assert heard(cluster) == {(second.number, True)}, "nobody has it"

    run(scenario)


def test_who_comes_by_a_name_that_is_away_is_somebody_else() -> None:
    async def scenario(world: World) -> None:
        cluster = Cluster()
        admin = Admin(world, await leads(world, cluster, 1))
        await admin.create(2)
        leader = await admin.leader()
        first = await take(world, leader, "one")
        first.disconnect()
        second = await take(world, leader, "one")
        assert (second.number, heard(cluster)) == (2, {(2, False)})
        with pytest.raises(ProducerFenced, match="lost"):
            await keep(world, leader, "one", first.number)
        assert not second.is_over

    run(scenario)


def test_who_comes_back_before_its_end_was_noticed_keeps_its_number() -> None:
    async def scenario(world: World) -> None:
        admin = Admin(world, await leads(world, Cluster(), 1))
        await admin.create()
        leader = await admin.leader()
        first = await take(world, leader, "one")
        again = await keep(world, leader, "one", first.number)
        assert (again.number, first.is_over) == (first.number, True)
        first.disconnect()
        await world.pass_ms(2 * GRACE_MS)
        assert not again.is_over

    run(scenario)


def test_who_waits_has_it_when_it_is_free_and_only_so_many_wait() -> None:
    async def scenario(world: World) -> None:
        admin = Admin(world, await leads(world, Cluster(), 1))
        await admin.create()
        leader = await admin.leader()
        first = await take(world, leader, "one")
        waiting = [
            asyncio.ensure_future(leader.claims.take(f"p{number}", WAIT)) for number in range(CLAIMS_WAITING_MAX)
        ]
        await settle()
        with pytest.raises(LimitReached, match="CLAIMS_WAITING_MAX"):
            await take(world, leader, "one too many", WAIT)
        first.disconnect()
        await world.pass_ms(GRACE_MS + 1_000)
        (winner,) = [each for each in waiting if each.done()]
        assert winner.result().number == 2
        back = winner.result()
        back.disconnect()
        assert (await take(world, leader, "p0", WAIT)).number == 3, "who comes again waits behind nobody"
        for each in waiting:
            each.cancel()
        await settle()

    run(scenario)


def test_a_claim_that_nobody_waits_for_any_more_is_given_back() -> None:
    async def scenario(world: World) -> None:
        cluster = Cluster()
        admin = Admin(world, await leads(world, cluster, 1))
        await admin.create()
        leader = await admin.leader()
        cluster.failures += [("claim", SegmentUnavailable("its owner has died"))] * 3
        taking = asyncio.ensure_future(leader.claims.take("one", EXCLUSIVE))
        await settle()
        taking.cancel()
        await settle()
        assert leader.claims.claim == Claim(1, "one")
        await until(world, lambda: heard(cluster) == {(1, True)})
        assert leader.claims.claim == Claim(1, None)

    run(scenario)


def test_segments_that_cannot_be_asked_are_asked_again_before_anybody_is_told() -> None:
    async def scenario(world: World) -> None:
        cluster = Cluster()
        admin = Admin(world, await leads(world, cluster, 1))
        await admin.create(4)
        leader = await admin.leader()
        cluster.failures += [("claim", SegmentUnavailable("its owner has died"))] * 5
        assert (await take(world, leader, "one")).number == 1
        assert heard(cluster) == {(1, False)}

    run(scenario)


def test_children_have_heard_before_they_are_in_the_layout() -> None:
    async def scenario(world: World) -> None:
        cluster = Cluster()
        admin = Admin(world, await leads(world, cluster, 1))
        await admin.create()
        leader = await admin.leader()
        await take(world, leader, "one")
        cluster.calls.clear()
        await admin.ask(lambda leader: leader.split(0))
        methods = [call[0] for call in cluster.calls]
        assert methods == ["create", "create", "claim", "claim", "seal"]
        assert heard(cluster) == {(1, False)}
        await within(world, leader.claims.release("one", 1))
        await admin.ask(lambda leader: leader.merge(1, 2))
        assert heard(cluster) == {(1, True)}, "who is late is late there as well"

    run(scenario)


@every_store
def test_the_next_leader_goes_on(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World) -> None:
        cluster = Cluster()
        admin = Admin(world, await leads(world, cluster, 2))
        await admin.create(2)
        first = await admin.broker()
        hold = await take(world, await admin.leader(), "one")
        await first.kill()
        assert hold.is_over
        with pytest.raises((NotLeader, StoreClosed)):
            await over(world, hold)
        await pass_session(world)
        leader = await admin.leader()
        with pytest.raises(ProducerBusy):
            await take(world, leader, "two")
        assert (await keep(world, leader, "one", 1)).number == 1
        assert leader.claims.claim == Claim(1, "one")

    run(scenario, lacks)


def test_what_one_leader_has_not_told_the_next_one_tells() -> None:
    async def scenario(world: World) -> None:
        cluster = Cluster()
        admin = Admin(world, await leads(world, cluster, 2))
        await admin.create(2)
        first = await admin.broker()
        leader = await admin.leader()
        cluster.failures += [("claim", SegmentUnavailable("not now"))] * 50
        taking = asyncio.ensure_future(leader.claims.take("one", EXCLUSIVE))
        await settle()
        assert leader.claims.claim == Claim(1, "one")
        await first.kill()
        cluster.failures.clear()
        with pytest.raises((NotLeader, StoreClosed)):
            await within(world, ended(taking))
        await pass_session(world)
        await admin.leader()
        await until(world, lambda: heard(cluster) == {(1, False)}, 100)
        await until(world, lambda: heard(cluster) == {(1, True)})

    run(scenario)


@every_store
def test_a_deposed_leader_gives_nothing_out(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World) -> None:
        cluster = Cluster()
        admin = Admin(world, await leads(world, cluster, 2))
        await admin.create()
        first = await admin.broker()
        old = await admin.leader()
        first.cut()
        gate = first.process.script.hold("transact" if not lacks else "put")
        taking = asyncio.ensure_future(old.claims.take("late", EXCLUSIVE))
        await settle()
        first.is_dead = True
        await pass_session(world, frozen=(first.process,))
        new = await admin.leader()
        hold = await take(world, new, "one")
        gate.release()
        with pytest.raises((NotLeader, ProducerFenced)):
            await within(world, ended(taking))
        assert new.claims.claim == Claim(hold.number, "one")
        assert {each.claim[1] for each in cluster.segments.values()} == {False}
        assert not hold.is_over

    run(scenario, lacks)


def test_a_topic_that_goes_takes_its_claim_along() -> None:
    async def scenario(world: World) -> None:
        admin = Admin(world, await leads(world, Cluster(), 1))
        await admin.create()
        await take(world, await admin.leader(), "one")
        await admin.ask(lambda leader: leader.delete())
        assert [key for key in await world.keys() if key == paths.claim_key(TOPIC)] == []
        await admin.create()
        assert (await take(world, await admin.leader(), "two")).number == 1

    run(scenario)


@given(st.integers(0, 1 << 62), st.none() | st.text(min_size=1))
def test_a_claim_comes_back_from_its_record(number: int, producer: str | None) -> None:
    claim = Claim(number, producer)
    assert Claim.decode(claim.encode()) == claim


@pytest.mark.parametrize("value", [b"", b"{}", b"[]", b'{"claim": "x", "producer": null}', b"1"])
def test_what_is_no_claim(value: bytes) -> None:
    with pytest.raises(LayoutError, match="claim"):
        Claim.decode(value)
