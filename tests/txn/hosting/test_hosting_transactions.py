"""Transactions over several segments and hosts: one outcome, the same everywhere, whoever dies in the middle of it."""

from __future__ import annotations

import pytest
from hosting_hosts import SEGMENTS, Client, check_outcome, collected, hosts, in_hand, pass_session, until

from metastore.interface import Unavailable
from metastore.providers.memory import MemoryData
from support.world import World, run, settle
from txn.model import paths
from txn.model.errors import TxnConflict, TxnTimedOut
from txn.model.header import TxnState
from txn.model.position import Position

S = SEGMENTS[0]
PLAIN = ("transact", "every_change", "index_order")
every_kind = pytest.mark.parametrize("lacks", [(), PLAIN], ids=["full", "plain"])
every_size = pytest.mark.parametrize("shards", [1, 3, 8])
every_outcome = pytest.mark.parametrize("is_committed", [True, False], ids=["commit", "abort"])


@every_size
@every_kind
@every_outcome
def test_h5_a_transaction_ends_alike_everywhere_on_any_number_of_shards(
    is_committed: bool, lacks: tuple[str, ...], shards: int
) -> None:
    async def scenario(world: World) -> None:
        client = Client(world, await hosts(world, 2))
        before = {}
        for segment in SEGMENTS:
            await client.create(segment)
            before[segment] = await client.send(segment, f"{segment} before")
            await client.subscribe(segment)
        txn_id = await client.begin()
        for segment in SEGMENTS:
            await client.send(segment, f"{segment} in", txn_id)
            await client.acknowledge(segment, before[segment], txn_id)
            await client.send(segment, f"{segment} after")
        await (await client.owner(SEGMENTS[1])).kill()
        for segment in SEGMENTS:
            assert await client.read(segment) == [f"{segment} before"]
        await (client.commit(txn_id) if is_committed else client.abort(txn_id))
        await check_outcome(world, client, is_committed)

    run(scenario, lacks, shards)


@every_outcome
def test_an_owner_that_was_frozen_while_it_was_decided_changes_nothing(is_committed: bool) -> None:
    async def scenario(world: World) -> None:
        client = Client(world, await hosts(world, 3))
        await client.create(S)
        await client.send(S, "before")
        txn_id = await client.begin()
        await client.send(S, "in", txn_id)
        owner = await client.owner(S)
        owner.process.store.line.cut()
        owner.is_dead = True  # nobody asks it
        await (client.commit(txn_id) if is_committed else client.abort(txn_id))
        await pass_session(world, frozen=(owner.process,))
        await client.send(S, "after")
        expected = ["before", "in", "after"] if is_committed else ["before", "after"]
        assert await client.read(S) == expected
        owner.process.clock.advance_ms(100_000)
        owner.process.store.line.mend()
        owner.is_dead = False
        await world.pass_ms(1_000)
        assert await client.read(S) == expected
        assert await collected(world) == []

    run(scenario)


@every_kind
@every_outcome
def test_a_segment_sealed_and_trimmed_in_the_middle_stalls_nothing(is_committed: bool, lacks: tuple[str, ...]) -> None:
    async def scenario(world: World) -> None:
        client = Client(world, await hosts(world, 2))
        other = SEGMENTS[1]
        for segment in (S, other):
            await client.create(segment)
            await client.send(segment, "before")
        txn_id = await client.begin()
        for segment in (S, other):
            await client.send(segment, "in", txn_id)
        await (await client.find(S)).seal()
        await (await client.owner(S)).kill()
        sealed = await client.find(S)
        await sealed.trim(sealed.stats.end)
        await client.send(other, "in too", txn_id)
        await (client.commit(txn_id) if is_committed else client.abort(txn_id))
        await until(world, lambda: all(not in_hand(each) for each in client.living))
        assert await client.read(other) == (["before", "in", "in too"] if is_committed else ["before"])
        assert (await client.find(S)).first is None, "all of it is trimmed away"
        assert await client.read(S) == []
        assert await collected(world) == []

    run(scenario, lacks)


@every_size
@every_kind
@every_outcome
def test_h9_a_segment_deleted_with_open_transactions_leaves_nothing_and_holds_up_nobody(
    is_committed: bool, lacks: tuple[str, ...], shards: int
) -> None:
    async def scenario(world: World) -> None:
        client = Client(world, await hosts(world, 2))
        other = SEGMENTS[1]
        for segment in (S, other):
            await client.create(segment)
            await client.subscribe(segment)
        first = await client.send(S, "one")
        txn_id = await client.begin()
        for segment in (S, other):
            await client.send(segment, "in", txn_id)
        await client.acknowledge(S, first, txn_id)
        await client.delete(S)
        keys = await world.keys()
        assert not [key for key in keys if key.startswith(f"{paths.segment_path(S)}/")]
        await client.send(other, "in too", txn_id)
        await (client.commit(txn_id) if is_committed else client.abort(txn_id))
        await until(world, lambda: all(not in_hand(each) for each in client.living))
        assert await client.read(other) == (["in", "in too"] if is_committed else [])
        assert await collected(world) == []

    run(scenario, lacks, shards)


@every_outcome
def test_a_segment_created_again_in_the_middle_of_a_transaction_is_another_one(is_committed: bool) -> None:
    async def scenario(world: World) -> None:
        client = Client(world, await hosts(world, 2))
        await client.create(S)
        await client.subscribe(S)
        first = await client.send(S, "old")
        txn_id = await client.begin()
        await client.send(S, "old in", txn_id)
        await client.acknowledge(S, first, txn_id)
        await client.delete(S)
        await client.create(S)
        await client.subscribe(S)
        await client.send(S, "new")
        assert await client.read(S) == ["new"], "what was open in its namesake holds nothing up"
        await client.send(S, "new in", txn_id)
        await (client.commit(txn_id) if is_committed else client.abort(txn_id))
        await settle()
        expected = ["new", "new in"] if is_committed else ["new"]
        assert await client.read(S) == expected
        assert await client.receive(S) == expected
        assert await collected(world) == []

    run(scenario)


@every_kind
@every_outcome
def test_h9_a_subscription_deleted_in_the_middle_leaves_nothing(is_committed: bool, lacks: tuple[str, ...]) -> None:
    async def scenario(world: World) -> None:
        client = Client(world, await hosts(world, 2))
        await client.create(S)
        first = await client.send(S, "one")
        for name in ("sub", "sub-1"):
            await client.subscribe(S, name)
        txn_id = await client.begin()
        for name in ("sub", "sub-1"):
            await client.acknowledge(S, first, txn_id, name)
        await (await client.find(S)).unsubscribe("sub")
        await client.subscribe(S)
        await (client.commit(txn_id) if is_committed else client.abort(txn_id))
        await settle()
        assert await client.receive(S, "sub") == ["one"], "a new subscription knows nothing of the one before"
        assert await client.receive(S, "sub-1") == ([] if is_committed else ["one"])
        assert await collected(world) == []

    run(scenario, lacks)


def test_h11_a_recovery_that_fails_is_tried_again_until_it_succeeds() -> None:
    async def scenario(world: World) -> None:
        client = Client(world, await hosts(world, 2))
        await client.create(S)
        txn_id = await client.begin()
        await client.send(S, "in", txn_id)
        owner = await client.owner(S)
        (other,) = [each for each in client.made if each is not owner]
        for method in ("watch", "get", "list"):
            other.process.script.fail(method, Unavailable("away"), prefix="/segments/", times=4)
        other.process.script.fail("watch", Unavailable("away"), times=4)
        await owner.kill()
        assert await client.read(S) == []
        await client.commit(txn_id)
        await until(world, lambda: not in_hand(other))
        assert await client.read(S) == ["in"]
        assert await collected(world) == []

    run(scenario)


def test_h11_nothing_is_remembered_of_transactions_that_have_ended() -> None:
    async def scenario(world: World) -> None:
        (one,) = await hosts(world, 1)
        client = Client(world, [one])
        await client.create(S)
        for number in range(20):
            txn_id = await client.begin()
            await client.send(S, f"{number}", txn_id)
            await (client.commit(txn_id) if number % 2 else client.abort(txn_id))
        await until(world, lambda: not in_hand(one))
        assert one.host._outcomes.count == 0
        assert await client.read(S) == [f"{number}" for number in range(1, 20, 2)]
        assert await collected(world) == []

    run(scenario)


def test_a_transaction_that_nobody_ends_is_aborted_at_its_deadline_also_while_its_segment_has_no_owner() -> None:
    async def scenario(world: World) -> None:
        client = Client(world, await hosts(world, 2))
        await client.create(S)
        txn_id = await client.begin(20_000)
        await client.send(S, "in", txn_id)
        owner = await client.owner(S)
        (other,) = [each for each in client.made if each is not owner]
        gate = other.process.script.hold("put", prefix=paths.OWNERS)
        await owner.kill()
        for _ in range(20):
            await world.pass_ms(2_000)
            await settle()
        assert (await client.coordinator.describe(txn_id)).state is TxnState.ABORTED
        assert other.owned == []
        gate.release()
        await client.send(S, "after")
        assert await client.read(S) == ["after"]
        with pytest.raises((TxnConflict, TxnTimedOut)):
            await client.send(S, "late", txn_id)
        assert await collected(world) == []

    run(scenario)


def test_positions_of_owners_only_grow() -> None:
    async def scenario(world: World) -> None:
        client = Client(world, await hosts(world, 3))
        await client.create(S)
        positions: list[Position] = []
        for number in range(3):
            positions.append(await client.send(S, f"{number}"))
            if number < 2:
                await (await client.owner(S)).kill()
        assert positions == sorted(set(positions))
        assert await client.read(S) == ["0", "1", "2"]

    run(scenario)


@every_kind
def test_in_a_store_with_the_natural_order_of_keys_all_is_the_same(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World) -> None:
        world.data = MemoryData(shards=3, clock=world.clock, key_sorting="natural")
        client = Client(world, await hosts(world, 2))
        for segment in (S, SEGMENTS[1]):
            await client.create(segment)
            await client.subscribe(segment, "~")
        first = await client.send(S, "one")
        txn_id = await client.begin()
        await client.acknowledge(S, first, txn_id, "~")
        for segment in (S, SEGMENTS[1]):
            await client.send(segment, "in", txn_id)
        await (await client.owner(S)).kill()
        await client.commit(txn_id)
        assert await client.receive(S, "~") == ["in"]
        await client.delete(S)
        assert await client.read(SEGMENTS[1]) == ["in"]
        assert await collected(world) == []
        left = {key.split("/")[2] for key in await world.keys() if key.startswith(("/segments/", paths.OWNERS))}
        assert left == {paths.escaped(SEGMENTS[1])}

    run(scenario, lacks)
