"""What hosting writes down: descriptors, places, registrations, grants, and the order in which brokers stand."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from metastore.coordination import Pace
from metastore.interface import OutcomeUnknown, Record, Unavailable, Version
from support.world import World, run, settle
from txn.hosting.descriptor import Descriptor, SegmentState
from txn.hosting.descriptors import ATTEMPTS_MAX, Descriptors
from txn.hosting.errors import NoSuchSegment, SegmentExists
from txn.hosting.places import LOCATION, local_place_of
from txn.model import paths
from txn.model.errors import RecordDamaged, SegmentUnavailable
from txn.posts import Broker, line_up

NAME = "segment://public/default/orders/0000-7fff-0"


def test_a_descriptor_is_read_as_it_was_written() -> None:
    descriptor = Descriptor(NAME, SegmentState.SEALED, "local:abc", "mark", 17)
    assert Descriptor.decode(descriptor.encode()) == descriptor


@pytest.mark.parametrize(
    "value", [b"", b"[]", b'{"format":1}', b'{"format":1,"segment":"s","state":"GONE","log":"l","mark":"m"}']
)
def test_a_damaged_descriptor_is_refused(value: bytes) -> None:
    with pytest.raises(RecordDamaged):
        Descriptor.decode(value)


def test_a_descriptor_of_a_later_version_is_refused_by_name() -> None:
    with pytest.raises(RecordDamaged, match="format 2"):
        Descriptor.decode(b'{"format":2}')


def test_the_state_of_a_segment_goes_forward_only() -> None:
    descriptor = Descriptor(NAME, SegmentState.OPEN, "stored", "mark", 17)
    sealed = descriptor.advanced(SegmentState.SEALED)
    assert sealed.advanced(SegmentState.OPEN) == sealed
    assert sealed.advanced(SegmentState.DELETING).advanced(SegmentState.SEALED).is_deleting


def test_a_segment_is_created_once() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        descriptors = Descriptors(process.store, process.pace)
        created = await descriptors.create(NAME, "stored")
        assert await descriptors.find(NAME) == created
        with pytest.raises(SegmentExists, match=NAME):
            await descriptors.create(NAME, "stored")

    run(scenario)


@pytest.mark.parametrize("applies", [False, True])
def test_a_lost_answer_to_a_creation_is_looked_up(applies: bool) -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        descriptors = Descriptors(process.store, process.pace)
        process.script.fail("put", OutcomeUnknown("cut off"), prefix="/segments/", after=applies)
        if applies:
            assert await descriptors.create(NAME, "stored") == await descriptors.find(NAME)
        else:
            with pytest.raises(SegmentUnavailable, match="not known"):
                await descriptors.create(NAME, "stored")

    run(scenario)


def test_a_segment_is_not_created_while_its_namesake_is_being_deleted() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        descriptors = Descriptors(process.store, process.pace)
        await descriptors.create(NAME, "stored")
        deleting = await descriptors.advance(NAME, SegmentState.DELETING)
        with pytest.raises(SegmentUnavailable, match="still being deleted"):
            await descriptors.create(NAME, "stored")
        await descriptors.remove(deleting)
        again = await descriptors.create(NAME, "stored")
        assert again.mark != deleting.mark
        await descriptors.remove(deleting)  # by one who is late
        assert await descriptors.find(NAME) == again

    run(scenario)


@pytest.mark.parametrize("applies", [False, True])
def test_a_lost_answer_to_an_advance_is_looked_up(applies: bool) -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        descriptors = Descriptors(process.store, process.pace)
        await descriptors.create(NAME, "stored")
        process.script.fail("put", OutcomeUnknown("cut off"), prefix="/segments/", after=applies)
        sealing = process.start(descriptors.advance(NAME, SegmentState.SEALED))
        await settle()
        await world.pass_ms(1_000)
        assert (await sealing).state is SegmentState.SEALED

    run(scenario)


def test_a_descriptor_that_cannot_be_changed_is_given_up_after_a_while() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        descriptors = Descriptors(process.store, process.pace)
        await descriptors.create(NAME, "stored")
        process.script.fail("put", OutcomeUnknown("cut off"), prefix="/segments/", times=None)
        sealing = process.start(descriptors.advance(NAME, SegmentState.SEALED))
        for _ in range(ATTEMPTS_MAX + 1):
            await settle()
            await world.pass_ms(10_000)
        with pytest.raises(SegmentUnavailable, match="ATTEMPTS_MAX"):
            await sealing

    run(scenario)


def test_what_is_not_there_cannot_be_changed_and_what_is_away_may_be_asked_again() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        descriptors = Descriptors(process.store, process.pace)
        with pytest.raises(NoSuchSegment, match=NAME):
            await descriptors.advance(NAME, SegmentState.SEALED)
        process.script.fail("get", Unavailable("no leader"), prefix="/segments/")
        with pytest.raises(SegmentUnavailable, match="no leader"):
            await descriptors.find(NAME)

    run(scenario)


def test_a_directory_has_one_name_whoever_asks_first(tmp_path: Path) -> None:
    root = tmp_path / "deep" / "segments"
    with ThreadPoolExecutor(8) as pool:
        paces = [Pace(random=random.Random(number)) for number in range(8)]
        places = set(pool.map(lambda pace: local_place_of(root, pace), paces))
    assert len(places) == 1
    assert local_place_of(root, Pace()) in places
    assert [path.name for path in root.iterdir()] == [LOCATION]


def test_a_moved_directory_keeps_its_name_and_another_has_another(tmp_path: Path) -> None:
    first = local_place_of(tmp_path / "a", Pace())
    (tmp_path / "a").rename(tmp_path / "b")
    assert local_place_of(tmp_path / "b", Pace()) == first
    assert local_place_of(tmp_path / "a", Pace()) != first


def test_a_name_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / LOCATION).write_text("../etc\n", encoding="ascii")
    with pytest.raises(RecordDamaged, match=LOCATION):
        local_place_of(tmp_path, Pace())


def _registration(value: bytes) -> Record:
    return Record("/brokers/one", b'{"holder":"mark"}\n' + value, Version(1, 0, 0, 0))


def test_a_registration_is_read_as_it_was_written() -> None:
    broker = Broker("one", "host:1", frozenset({"stored", "local:abc"}))
    assert Broker.of_record(_registration(broker.encode())) == broker
    with pytest.raises(RecordDamaged, match="one"):
        Broker.of_record(_registration(b'{"format":1}'))


def test_brokers_stand_in_an_order_of_their_own_for_each_segment() -> None:
    brokers = [Broker(f"broker-{number}", "", frozenset({"stored"})) for number in range(4)]
    names = [f"segment-{number}" for number in range(400)]
    first = Counter(line_up(name, brokers, "stored")[0] for name in names)
    assert all(60 < count < 140 for count in first.values()), first
    left = brokers[1:]
    for name in names:
        order = line_up(name, brokers, "stored")
        assert sorted(order) == [each.name for each in brokers]
        assert line_up(name, left, "stored") == [each for each in order if each != "broker-0"]


def test_only_brokers_that_serve_a_place_stand_for_what_is_there() -> None:
    near, far = Broker("near", "", frozenset({"local:a"})), Broker("far", "", frozenset({"stored"}))
    assert line_up(NAME, [near, far], "local:a") == ["near"]
    assert line_up(NAME, [near, far], "local:b") == []


def test_names_that_begin_alike_share_nothing() -> None:
    assert paths.owned_segment(paths.owner_key(NAME)) == NAME
    acks = paths.subscriptions_of("s")
    for other in ("s-1", "s:", "s;", "s/1"):
        assert not acks.start <= paths.subscription_key(other, "x") < acks.end
    assert acks.start <= paths.subscription_key("s", "~") < acks.end


def test_two_creations_at_the_same_time_make_one_segment() -> None:
    async def scenario(world: World) -> None:
        processes = [world.process(), world.process()]
        created = await asyncio.gather(
            *(Descriptors(each.store, each.pace).create(NAME, "stored") for each in processes), return_exceptions=True
        )
        assert sorted(type(each).__name__ for each in created) == ["Descriptor", "SegmentExists"]

    run(scenario)
