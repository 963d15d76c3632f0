"""The exclusive right to produce, and what a producer has stored: through owners, through sealing, to the end."""

from __future__ import annotations

import asyncio

import pytest
from hosting_hosts import Client, RunningHost, hosts, until
from hypothesis import given
from hypothesis import strategies as st

from metastore.faults import ArmedFault
from metastore.interface import Unavailable
from support.world import World, run, settle
from txn.model import paths
from txn.model.errors import RecordDamaged, SegmentUnavailable
from txn.segment.claim import CLAIM_MAX, Claim
from txn.segment.entry import Entry
from txn.segment.errors import ProducerFenced, SegmentSealed

S = "segment://t/1"
every_kind = pytest.mark.parametrize("lacks", [(), ("transact", "every_change", "index_order")], ids=["full", "plain"])


# ---- a claim


@given(st.integers(0, CLAIM_MAX), st.booleans())
def test_a_claim_is_read_as_it_was_written(number: int, is_released: bool) -> None:
    claim = Claim(number, is_released)
    assert Claim.decode(claim.encode()) == claim
    assert claim.admits(number + 1)
    assert claim.admits(number) == (not is_released or number == 0)
    assert claim.admits(0) == (is_released or number == 0)
    assert number < 2 or not claim.admits(number - 1)


@pytest.mark.parametrize(
    "value",
    [
        b"{}",
        b'{"format":1}',
        b'{"format":1,"claim":-1,"released":true}',
        b'{"format":1,"claim":"1","released":true}',
        b'{"format":1,"claim":1,"released":0}',
    ],
)
def test_a_record_that_says_something_else_is_damaged(value: bytes) -> None:
    with pytest.raises(RecordDamaged):
        Claim.decode(value)


# ---- through owners


async def admitted(client: Client, *claims: int) -> list[int]:
    """Those who may produce."""
    segment = await client.find(S)
    found = []
    for claim in claims:
        try:
            segment.check_claim(claim)
        except ProducerFenced:
            continue
        found.append(claim)
    return found


@every_kind
def test_a_claim_holds_under_every_owner_until_it_is_given_back(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World) -> None:
        made = await hosts(world, 3)
        client = Client(world, made)
        await client.create(S)
        assert await admitted(client, 0, 1, 7) == [0, 1, 7]
        await (await client.find(S)).set_claim(0, True)
        assert paths.claim_key(S) not in await world.keys() or lacks
        await (await client.find(S)).set_claim(7, False)
        assert await admitted(client, 0, 6, 7, 8) == [7, 8]
        await (await client.owner(S)).kill()
        assert await admitted(client, 0, 6, 7, 8) == [7, 8]
        segment = await client.find(S)
        for claim, is_released in ((6, False), (6, True), (7, False)):
            await segment.set_claim(claim, is_released)
            assert await admitted(client, 0, 6, 7, 8) == [7, 8]
        await segment.set_claim(7, True)
        await segment.set_claim(7, False)  # late, and said before
        assert await admitted(client, 0, 6, 7, 8) == [0, 8]
        await (await client.owner(S)).stop()
        assert await admitted(client, 0, 6, 7, 8) == [0, 8]
        await client.delete(S)
        await until(world, lambda: S not in client.living[0].host.segments)
        assert [key for key in await world.keys() if key.startswith(paths.segment_path(S))] == []

    run(scenario, lacks)


def test_who_produces_hears_of_it_at_once() -> None:
    async def scenario(world: World) -> None:
        client = Client(world, await hosts(world, 1))
        await client.create(S)
        segment = await client.find(S)
        waiting = {claim: asyncio.ensure_future(segment.wait_fenced(claim)) for claim in (0, 5, 6)}
        await settle()
        await segment.set_claim(6, False)
        await settle()
        assert [claim for claim, task in waiting.items() if task.done()] == [0, 5]
        for claim in (0, 5):
            with pytest.raises(ProducerFenced, match="claim 6 to it is held"):
                await waiting[claim]
        await segment.set_claim(6, True)
        with pytest.raises(ProducerFenced, match="claim 6 to it is over"):
            await waiting[6]

    run(scenario)


@pytest.mark.parametrize(("point", "is_there"), [("before", False), ("after", True)])
def test_an_owner_that_dies_over_it_has_written_it_or_not(point: str, is_there: bool) -> None:
    async def scenario(world: World) -> None:
        first = await RunningHost(world, faults=ArmedFault(f"txn.claim.write.{point}", 1, "ioerror")).start()
        client = Client(world, [first])
        await client.create(S)
        with pytest.raises(OSError, match="injected"):
            await (await client.find(S)).set_claim(3, False)
        await first.kill()
        client.made.append(await RunningHost(world).start())
        assert await admitted(client, 0, 3) == ([3] if is_there else [0, 3])

    run(scenario)


def test_a_store_that_does_not_answer_is_to_be_told_again() -> None:
    async def scenario(world: World) -> None:
        (made,) = await hosts(world, 1)
        client = Client(world, [made])
        await client.create(S)
        segment = await client.find(S)
        made.process.script.fail("transact", Unavailable("away"))
        with pytest.raises(SegmentUnavailable, match="claim 3"):
            await segment.set_claim(3, False)
        assert await admitted(client, 0, 3) == [0, 3]
        await segment.set_claim(3, False)
        assert await admitted(client, 0, 3) == [3]

    run(scenario)


# ---- what is stored of a producer


@every_kind
def test_a_segment_tells_what_it_has_of_a_producer_sealed_or_not(lacks: tuple[str, ...]) -> None:
    async def scenario(world: World) -> None:
        made = await hosts(world, 2)
        client = Client(world, made)
        await client.create(S)
        segment = await client.find(S)
        assert segment.last_sequence_id("p") is None
        on_its_way = segment.publish(Entry(b"x", "p", 4, message_count=3))
        assert segment.last_sequence_id("p") is None
        await on_its_way
        assert segment.last_sequence_id("p") == 6
        txn_id = await client.begin()
        await segment.publish(Entry(b"y", "p", 10, txn_id))
        assert segment.last_sequence_id("p") == 10
        await segment.seal()
        await (await client.owner(S)).kill()
        await client.abort(txn_id)
        await settle()
        segment = await client.find(S)
        assert (segment.last_sequence_id("p"), segment.last_sequence_id("q")) == (6, None)
        assert (await segment.publish(Entry(b"x", "p", 4, message_count=3))).is_duplicate
        with pytest.raises(SegmentSealed):
            segment.publish(Entry(b"z", "p", 7))

    run(scenario, lacks)
