"""Who owns a segment: one at a time, by itself, in turn; whoever dies, freezes or fails."""

from __future__ import annotations

import pytest
from hosting_world import TURN_S, Keeper, brokers, in_line, pass_session

from metastore.interface import OutcomeUnknown, Unavailable
from support.world import World, run, settle
from txn.hosting.descriptor import SegmentState
from txn.model import paths
from txn.model.errors import SegmentUnavailable
from txn.model.position import Position

every_kind = pytest.mark.parametrize("lacks", [(), ("transact", "every_change", "index_order")], ids=["full", "plain"])
every_size = pytest.mark.parametrize("shards", [1, 3, 8])


@every_size
@every_kind
def test_a_new_segment_is_taken_by_the_first_in_line(lacks: tuple[str, ...], shards: int) -> None:
    async def scenario(world: World) -> None:
        made = await brokers(world, 3)
        names = [f"segment://t/{number}" for number in range(12)]
        for name in names:
            await made[0].descriptors.create(name, "stored")
        await settle()
        await settle()
        for name in names:
            assert [each for each in made if name in each.owned] == in_line(name, made)[:1]
        owners = {each.chart.owners[name].broker for each in made for name in names}
        assert owners == {each.name for each in made}

    run(scenario, lacks, shards)


@every_size
@every_kind
def test_a_killed_owner_is_followed_by_the_next_in_line_under_a_greater_term(
    lacks: tuple[str, ...], shards: int
) -> None:
    async def scenario(world: World) -> None:
        made = await brokers(world, 3)
        await made[0].descriptors.create("s", "stored")
        await settle()
        first, second, third = in_line("s", made)
        await first.opened[0].log.append([b"one"])
        first.process.store.line.cut()
        await pass_session(world)
        assert (first.owned, second.owned, third.owned) == ([], ["s"], [])
        assert second.opened[0].grant.term > first.opened[0].grant.term
        last = second.opened[0].log.last_confirmed
        assert last == Position(first.opened[0].grant.term, 0)

    run(scenario, lacks, shards)


def test_an_owner_that_resigns_is_followed_at_once() -> None:
    async def scenario(world: World) -> None:
        made = await brokers(world, 3)
        await made[0].descriptors.create("s", "stored")
        await settle()
        first, second, _ = in_line("s", made)
        await first.stop()
        await settle()
        assert first.opened[0].is_closed
        assert second.owned == ["s"]

    run(scenario)


def test_what_is_owned_stays_where_it_is_when_others_come() -> None:
    async def scenario(world: World) -> None:
        (one,) = await brokers(world, 1)
        for number in range(8):
            await one.descriptors.create(f"s-{number}", "stored")
        await settle()
        others = await brokers(world, 2)
        await pass_session(world)
        assert len(one.owned) == 8
        assert all(not each.owned for each in others)

    run(scenario)


def test_who_stands_first_and_does_nothing_is_passed_over() -> None:
    async def scenario(world: World) -> None:
        made = await brokers(world, 3)
        first, second, third = in_line("s", made)
        first.process.script.fail("put", Unavailable("no way"), prefix=paths.OWNERS, times=None)
        await third.descriptors.create("s", "stored")
        await settle()
        assert not any(each.owned for each in made)
        await world.pass_ms(int(TURN_S * 1000))
        await settle()
        assert (first.owned, second.owned, third.owned) == ([], ["s"], [])

    run(scenario)


def test_who_is_wanted_does_not_wait_for_its_turn() -> None:
    async def scenario(world: World) -> None:
        made = await brokers(world, 3)
        first, _, third = in_line("s", made)
        first.process.script.hold("put", prefix=paths.OWNERS)
        await third.descriptors.create("s", "stored")
        await settle()
        third.takeover.hurry("s")
        await settle()
        assert third.owned == ["s"]

    run(scenario)


def test_a_segment_that_cannot_be_opened_is_let_go_and_tried_again_under_other_terms() -> None:
    async def scenario(world: World) -> None:
        (one,) = await brokers(world, 1)
        one.failures += [SegmentUnavailable("not now")] * 3
        await one.descriptors.create("s", "stored")
        await settle()
        assert one.owned == []
        for _ in range(3):
            await world.pass_ms(1_000)
            await settle()
        assert one.owned == ["s"]
        assert await one.opened[0].log.append([b"one"]) == Position(one.opened[0].grant.term, 0)

    run(scenario)


def test_one_that_fails_for_long_leaves_the_segment_to_the_others() -> None:
    async def scenario(world: World) -> None:
        made = await brokers(world, 2)
        first, second = in_line("s", made)
        first.failures += [SegmentUnavailable("no disk")] * 100
        await second.descriptors.create("s", "stored")
        for _ in range(30):
            await world.pass_ms(500)
            await settle()
        assert second.owned == ["s"]

    run(scenario)


def test_an_error_that_nobody_has_thought_of_stops_neither_the_broker_nor_the_segment() -> None:
    async def scenario(world: World) -> None:
        (one,) = await brokers(world, 1)
        one.failures.append(ZeroDivisionError("oops"))
        for name in ("s", "t"):
            await one.descriptors.create(name, "stored")
        await settle()
        assert len(one.owned) == 1
        await world.pass_ms(1_000)
        await settle()
        assert one.owned == ["s", "t"]

    run(scenario)


def test_a_segment_that_ends_by_itself_is_opened_again() -> None:
    async def scenario(world: World) -> None:
        (one,) = await brokers(world, 1)
        await one.descriptors.create("s", "stored")
        await settle()
        one.opened[0].ended.set()
        await settle()
        assert one.opened[0].is_closed
        await world.pass_ms(1_000)
        await settle()
        assert one.owned == ["s"]
        assert one.opened[1].grant.term > one.opened[0].grant.term

    run(scenario)


@pytest.mark.parametrize("applies", [False, True])
def test_a_lost_answer_to_a_claim_costs_the_session_at_most(applies: bool) -> None:
    async def scenario(world: World) -> None:
        (one,) = await brokers(world, 1)
        one.process.script.fail("put", OutcomeUnknown("cut off"), prefix=paths.OWNERS, after=applies)
        await one.descriptors.create("s", "stored")
        for _ in range(5):
            await world.pass_ms(2_000)
            await settle()
        assert one.owned == ["s"]
        assert one.takeover.find("s") is one.opened[-1]
        assert one.opened[-1].grant.is_held

    run(scenario)


def test_a_frozen_owner_is_deposed_and_closes_as_soon_as_it_wakes() -> None:
    async def scenario(world: World) -> None:
        made = await brokers(world, 2)
        await made[0].descriptors.create("s", "stored")
        await settle()
        first, second = in_line("s", made)
        first.process.store.line.cut()
        await pass_session(world, frozen=(first.process,))
        assert second.owned == ["s"]
        assert first.owned == ["s"], "its clock stands still: it knows of nothing"
        refused = first.opened[0].log.append([b"late"])
        first.process.clock.advance_ms(40_000)
        assert not first.opened[0].grant.is_held, "it knows the moment it looks at the clock"
        first.process.store.line.mend()
        await world.pass_ms(1_000)
        await settle()
        assert first.opened[0].is_closed
        assert first.owned == []
        with pytest.raises(SegmentUnavailable):
            await refused
        assert second.opened[0].log.last_confirmed is None

    run(scenario)


def test_a_grant_that_was_removed_by_force_ends_the_tenure() -> None:
    async def scenario(world: World) -> None:
        (one,) = await brokers(world, 1)
        await one.descriptors.create("s", "stored")
        await settle()
        await one.process.store.delete(paths.owner_key("s"), partition_key="s")
        await settle()
        assert one.opened[0].is_closed
        await world.pass_ms(1_000)
        await settle()
        assert one.owned == ["s"]

    run(scenario)


@every_kind
def test_a_segment_on_its_way_out_is_deleted_by_its_owner_under_another_term(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World) -> None:
        made = await brokers(world, 2)
        await made[0].descriptors.create("s", "stored")
        await settle()
        await in_line("s", made)[0].opened[0].log.append([b"one"])
        await made[1].descriptors.advance("s", SegmentState.DELETING)
        for _ in range(5):
            await settle()
        assert [key for key in await world.keys() if key.startswith(("/segments/", paths.OWNERS))] == []
        assert not any(each.owned for each in made)

    run(scenario, lacks)


def test_a_segment_that_began_to_go_while_it_was_being_opened_is_not_served() -> None:
    async def scenario(world: World) -> None:
        (one,) = await brokers(world, 1)
        gate = one.process.script.hold("put", prefix="/segments/s/log")
        await one.descriptors.create("s", "stored")
        await gate.arrived()
        await one.descriptors.advance("s", SegmentState.DELETING)
        await settle()
        gate.release()
        for _ in range(5):
            await world.pass_ms(1_000)
        assert one.opened == [] or one.opened[0].is_closed
        assert [key for key in await world.keys() if key.startswith("/segments/")] == []

    run(scenario)


def test_openings_at_the_same_time_are_limited() -> None:
    async def scenario(world: World) -> None:
        (one,) = await brokers(world, 1)
        gate = one.process.script.hold("put", prefix=paths.OWNERS)
        for number in range(10):
            await one.descriptors.create(f"s-{number}", "stored")
        await settle()
        assert len(gate.held) == 4
        gate.release()
        await settle()
        await settle()
        assert len(one.owned) == 10

    run(scenario)


def test_a_place_that_a_broker_does_not_serve_is_not_claimed_by_it() -> None:
    async def scenario(world: World) -> None:
        stored, other = Keeper(world.process()), Keeper(world.process())
        other.logs = dict(stored.logs)
        await stored.start()
        await stored.descriptors.create("s", "local:elsewhere")
        await pass_session(world)
        assert stored.owned == []
        assert stored.chart.standing("s", stored.name) is None
        assert not stored.chart.has_broker_for("local:elsewhere")

    run(scenario)


def test_a_record_that_cannot_be_read_keeps_nobody_from_seeing_the_others() -> None:
    async def scenario(world: World) -> None:
        (one,) = await brokers(world, 1)
        key = paths.descriptor_key("bad")
        indexes = [(paths.SEGMENTS_BY_NAME, "bad")]
        await one.process.store.put(key, b"{}", partition_key="bad", indexes=indexes)
        await one.process.store.put(f"{paths.OWNERS}/odd", b"{}", partition_key="odd")
        await one.process.store.put("/brokers/strange", b"{}", partition_key="/brokers")
        await one.descriptors.create("s", "stored")
        await settle()
        assert one.owned == ["s"]
        assert "bad" not in one.chart.descriptors

    run(scenario)


def test_a_watch_that_breaks_loses_nothing() -> None:
    async def scenario(world: World) -> None:
        made = await brokers(world, 2)
        made[0].process.script.fail("watch", Unavailable("broken"), times=5)
        for number in range(6):
            await made[1].descriptors.create(f"s-{number}", "stored")
        for _ in range(10):
            await world.pass_ms(1_000)
            await settle()
        owned = made[0].owned + made[1].owned
        assert sorted(owned) == [f"s-{number}" for number in range(6)]

    run(scenario)
