"""Hosts: what callers are told about a segment, wherever it is; how it changes hands; where its log may be."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hosting_hosts import OPTIONS, Client, RunningHost, hosts, pass_session, until, within

from metastore.coordination import Pace
from metastore.interface import StoreClosed, Watch
from metastore.providers.memory import MemoryStore
from support.world import World, run, settle
from txn.hosting import (
    NoBrokerServesSegment,
    NoSuchSegment,
    OpeningOptions,
    OwnedElsewhere,
    SegmentExists,
    SegmentState,
    TooManySubscriptions,
    local_place_of,
)
from txn.hosting.host import HostOptions, coordinator_number
from txn.model import paths
from txn.model.errors import SegmentUnavailable
from txn.model.ids import COORDINATORS_MAX
from txn.segment.entry import Entry
from txn.segment.errors import SegmentSealed
from txn.segment.log import LocalLogs
from txn.segment.subscription import SubscriptionDeleted

S = "segment://t/1"
every_kind = pytest.mark.parametrize("lacks", [(), ("transact", "every_change", "index_order")], ids=["full", "plain"])


def test_a_segment_is_served_by_one_and_the_others_say_who() -> None:
    async def scenario(world: World) -> None:
        made = await hosts(world, 3)
        client = Client(world, made)
        await client.create(S)
        owner = await client.owner(S)
        for each in made:
            if each is owner:
                assert (await each.host.get(S)).name == S
            else:
                with pytest.raises(OwnedElsewhere, match=owner.name) as told:
                    await each.host.get(S)
                assert (told.value.broker, told.value.address) == (owner.name, f"{owner.name}:1")
                assert told.value.term == owner.host.owned[S].term
        with pytest.raises(SegmentExists):
            await made[1].host.create(S)
        with pytest.raises(NoSuchSegment, match="t/2"):
            await made[1].host.get("segment://t/2")

    run(scenario)


def test_a_segment_that_was_created_anew_is_not_said_to_be_gone_by_who_has_not_heard_of_that() -> None:
    async def scenario(world: World) -> None:
        made = await hosts(world, 2)
        client = Client(world, made)
        await client.create(S)
        before = await made[0].host.begin_deletion(S)
        await client.delete(S)
        await client.create(S)
        owner = await client.owner(S)
        (other,) = [each for each in made if each is not owner]
        chart = other.host._chart
        now = chart.descriptors[S], chart.owners[S]
        chart._descriptors[S] = before
        del chart._owners[S]
        asking = other.process.start(other.host.get(S))
        await settle()
        assert not asking.done()
        chart._descriptors[S], chart._owners[S] = now
        other.host._bell.ring()
        with pytest.raises(OwnedElsewhere, match=owner.name):
            await asking
        await client.delete(S)
        chart._descriptors[S] = before
        with pytest.raises(NoSuchSegment):
            await other.host.get(S)

    run(scenario)


@every_kind
def test_a_segment_that_nobody_has_is_had_by_who_is_asked(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World) -> None:
        made = await hosts(world, 3)
        client = Client(world, made)
        await client.create(S)
        first = await client.owner(S)
        others = [each for each in made if each is not first]
        for each in others:
            each.process.script.hold("put", prefix=paths.OWNERS)
        await first.kill()
        await until(world, lambda: others[0].host.owner(S) is None)
        others[1].process.script.clear()
        segment = await within(world, others[1].host.get(S))
        assert segment.name == S

    run(scenario, lacks)


@every_kind
def test_everything_of_a_deposed_owner_ends_before_another_can_own_it(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World) -> None:
        made = await hosts(world, 2)
        client = Client(world, made)
        await client.create(S)
        await client.send(S, "one")
        owner = await client.owner(S)
        (other,) = [each for each in made if each is not owner]
        segment = owner.host.owned[S]
        reader = segment.reader(segment.stats.bound)
        waiting = owner.process.start(reader.read())
        owner.process.store.line.cut()
        await pass_session(world, frozen=(owner.process,))
        assert other.owned == [S]
        owner.process.clock.advance_ms(60_000)
        with pytest.raises(SegmentUnavailable, match="lost"):
            segment.publish(Entry(b"late"))
        for call in (segment.seal(), segment.trim(segment.stats.end), segment.subscribe("x"), segment.unsubscribe("x")):
            with pytest.raises(SegmentUnavailable):
                await call
        await segment.wait_ended()
        owner.process.store.line.mend()
        await world.pass_ms(1_000)
        with pytest.raises(SegmentUnavailable):
            await waiting
        assert await client.read(S) == ["one"]

    run(scenario, lacks)


def test_h22_a_deposed_owner_that_lets_go_takes_nothing_from_its_successor() -> None:
    async def scenario(world: World) -> None:
        made = await hosts(world, 2)
        client = Client(world, made)
        await client.create(S)
        owner = await client.owner(S)
        (other,) = [each for each in made if each is not owner]
        owner.process.store.line.cut()
        await pass_session(world, frozen=(owner.process,))
        term = other.host.owned[S].term
        owner.process.store.line.mend()
        await owner.stop()
        await pass_session(world)
        assert other.host.owned[S].term == term
        assert paths.owner_key(S) in await world.keys()

    run(scenario)


def test_a_host_that_stops_hands_over_at_once_and_a_host_alone_leaves_nothing_but_data() -> None:
    async def scenario(world: World) -> None:
        made = await hosts(world, 2)
        client = Client(world, made)
        for number in range(6):
            await client.create(f"s-{number}")
            await client.send(f"s-{number}", "one")
        await made[0].stop()
        await settle()
        await settle()
        assert len(made[1].owned) == 6
        await made[1].stop()
        left = [key for key in await world.keys() if not key.startswith("/segments/")]
        assert left == []

    run(scenario)


def test_a_store_that_fails_for_good_ends_the_host() -> None:
    async def scenario(world: World) -> None:
        (one,) = await hosts(world, 1)
        one.process.script.fail("watch", StoreClosed("gone"), times=None)
        await Client(world, [one]).create(S)
        assert one._serving is not None
        await until(world, one._serving.done)
        with pytest.raises(BaseExceptionGroup):
            one._serving.result()

    run(scenario)


def test_a_seal_outlasts_its_owner_and_is_told_in_the_descriptor() -> None:
    async def scenario(world: World) -> None:
        made = await hosts(world, 2)
        client = Client(world, made)
        await client.create(S)
        await client.send(S, "one")
        owner = await client.owner(S)
        gate = owner.process.script.hold("put", prefix=paths.descriptor_key(S))
        sealing = owner.process.start(owner.host.owned[S].seal())
        await gate.arrived()
        assert made[0].host.segments[S].state is SegmentState.OPEN
        await owner.kill()
        with pytest.raises(StoreClosed):
            await sealing
        segment = await client.find(S)
        assert segment.is_sealed
        await settle()
        assert client.living[0].host.segments[S].state is SegmentState.SEALED
        with pytest.raises(SegmentSealed):
            await segment.publish(Entry(b"two"))
        assert await client.read(S) == ["one"]

    run(scenario)


def test_subscriptions_outlast_their_owner_and_are_limited() -> None:
    async def scenario(world: World) -> None:
        options = HostOptions(
            session_timeout_ms=OPTIONS.session_timeout_ms, opening=OpeningOptions(subscriptions_max=3)
        )
        made = [await RunningHost(world, options=options).start() for _ in range(2)]
        client = Client(world, made)
        await client.create(S)
        for name in ("a", "ab", "a b"):
            await client.subscribe(S, name)
        with pytest.raises(TooManySubscriptions, match="SUBSCRIPTIONS_MAX"):
            await client.subscribe(S, "d")
        await (await client.find(S)).unsubscribe("ab")
        await (await client.owner(S)).kill()
        segment = await client.find(S)
        assert sorted(segment.subscriptions) == ["a", "a b"]
        with pytest.raises(SubscriptionDeleted, match="ab"):
            segment.subscription("ab")

    run(scenario)


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_local_segment_is_taken_over_on_its_machine_only(is_killed: bool, tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        root = tmp_path / "segments"
        place = local_place_of(root, Pace(random=random.Random(1)))
        near = [await RunningHost(world, {place: LocalLogs(root, threads=world.threads())}).start() for _ in range(2)]
        (far,) = await hosts(world, 1)
        client = Client(world, [*near, far])
        await client.create(S, place)
        await client.send(S, "one")
        owner = await client.owner(S)
        assert owner in near
        await (owner.kill() if is_killed else owner.stop())
        await client.send(S, "two")
        assert await client.read(S) == ["one", "two"]
        successor = await client.owner(S)
        assert successor in near
        assert successor is not owner
        await (successor.kill() if is_killed else successor.stop())
        await pass_session(world)
        with pytest.raises(NoBrokerServesSegment, match=place):
            await within(world, far.host.get(S))
        with pytest.raises(NoBrokerServesSegment, match=place):
            await within(world, far.host.delete(S))
        with pytest.raises(NoBrokerServesSegment, match="local:nowhere"):
            await far.host.create("segment://t/2", "local:nowhere")
        assert far.owned == []

    run(scenario)


def test_a_local_log_that_a_frozen_owner_holds_is_had_as_soon_as_it_lets_go(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        root = tmp_path / "segments"
        place = local_place_of(root, Pace())
        made = [await RunningHost(world, {place: LocalLogs(root, threads=world.threads())}).start() for _ in range(2)]
        client = Client(world, made)
        await client.create(S, place)
        await client.send(S, "one")
        owner = await client.owner(S)
        (other,) = [each for each in made if each is not owner]
        owner.process.store.line.cut()
        await pass_session(world, frozen=(owner.process,))
        await pass_session(world, frozen=(owner.process,))
        assert other.owned == [], "the log is held by a process that may still write to it"
        owner.process.clock.advance_ms(120_000)
        owner.process.store.line.mend()
        await until(world, lambda: bool(other.owned or owner.owned))
        assert await client.read(S) == ["one"]

    run(scenario)


def test_a_coordinator_number_is_the_brokers_own_as_a_rule() -> None:
    numbers = [coordinator_number(f"broker-{number}") for number in range(50)]
    assert len(set(numbers)) == 50
    assert all(0 <= number < COORDINATORS_MAX for number in numbers)
    assert coordinator_number("broker-7") == numbers[7]


@pytest.mark.parametrize("kind", ["kill", "stop"])
def test_deadlines_and_collection_go_on_when_the_sweeper_is_gone(kind: str) -> None:
    async def scenario(world: World) -> None:
        made = await hosts(world, 3)
        client = Client(world, made)
        assert [each.host.sweeper.is_elected for each in made].count(True) == 1
        txn_id = await client.begin(30_000)
        (elected,) = [each for each in made if each.host.sweeper.is_elected]
        await (elected.kill() if kind == "kill" else elected.stop())
        await until(world, lambda: any(each.host.sweeper.swept.collected for each in client.living), 2_000)
        assert sum(each.host.sweeper.swept.expired for each in client.living) == 1
        assert [each.host.sweeper.is_elected for each in client.living].count(True) == 1
        assert paths.header_key(txn_id) not in await world.keys()

    run(scenario)


def test_what_a_segment_costs_its_broker_is_two_watches_and_the_others_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watches: Counter[object] = Counter()
    open_watch = MemoryStore.watch

    def watch(store: MemoryStore, *arguments: Any, **options: Any) -> Watch:
        watches[store] += 1
        return open_watch(store, *arguments, **options)

    monkeypatch.setattr(MemoryStore, "watch", watch)

    async def scenario(world: World) -> None:
        made = await hosts(world, 2)
        client = Client(world, made)
        await client.create("first")
        before = {each: watches[each.process.store] for each in made}
        for number in range(10):
            await client.create(f"s-{number}")
        for number in range(10):
            await client.find(f"s-{number}")
        owned = {each: len([name for name in each.owned if name != "first"]) for each in made}
        assert sum(owned.values()) == 10
        for each in made:
            assert watches[each.process.store] - before[each] == 2 * owned[each]
        owner = await client.owner("s-0")
        watched = watches[owner.process.store]
        await client.subscribe("s-0")
        assert watches[owner.process.store] == watched + 1
        assert [each.process.script.arrivals["memory.open_session.before"] for each in made] == [1, 1]
        calls = [sum(each.process.script.arrivals.values()) for each in made]
        await pass_session(world)
        after = [sum(each.process.script.arrivals.values()) for each in made]
        assert after == calls, "while nothing happens, nothing is asked"

    run(scenario)
