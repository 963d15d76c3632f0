"""Transactions begun, ended and described over the wire: outcomes are the true ones, errors those of `txn`."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import grpc
import pytest

from controller.broker import Broker
from controller.pb import broker_pb2 as pb
from support.broker_helpers import Refused, WireClient, config, published, read_all, run, serving, two_serving
from txn.coordinator.coordinator import CoordinatorLimits
from txn.hosting import HostOptions

LIMITS = HostOptions(limits=CoordinatorLimits(timeout_ms_max=5_000, open_max=2))


async def begun(client: WireClient, timeout_ms: int = 4_000) -> str:
    return str((await client.call("BeginTransaction", timeout_ms=timeout_ms)).txn_id)


def test_what_is_committed_is_seen_and_what_is_aborted_is_not() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        for segment in ("one", "two"):
            await client.call("CreateSegment", segment=segment)
        kept, dropped = await begun(client), await begun(client)
        for segment in ("one", "two"):
            await published(client, segment, "kept", txn_id=kept)
            await published(client, segment, "dropped", txn_id=dropped)
            assert await read_all(client, segment) == []
        await client.call("EndTransaction", txn_id=dropped, outcome=pb.ABORT)
        ended = await client.call("EndTransaction", txn_id=kept, outcome=pb.COMMIT)
        assert (ended.state, ended.cause) == (pb.COMMITTED, "client")
        for segment in ("one", "two"):
            stream = client.read(segment, is_following=True, entries_max=1)
            await stream.next()
            assert [each.payload for each in (await stream.next()).deliveries.deliveries] == [b"kept"]
            assert await stream.next() is None

    run(scenario)


def test_a_repeated_end_succeeds_and_the_other_one_tells_the_outcome() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        for outcome, other, error in (
            (pb.COMMIT, pb.ABORT, "TxnAlreadyCommitted"),
            (pb.ABORT, pb.COMMIT, "TxnAlreadyAborted"),
        ):
            txn_id = await begun(client)
            first = await client.call("EndTransaction", txn_id=txn_id, outcome=outcome)
            assert await client.call("EndTransaction", txn_id=txn_id, outcome=outcome) == first
            assert await client.call("DescribeTransaction", txn_id=txn_id) == first
            with pytest.raises(Refused, match=txn_id) as refused:
                await client.call("EndTransaction", txn_id=txn_id, outcome=other)
            assert (refused.value.name, refused.value.branch) == (error, "fatal")
            assert refused.value.code is grpc.StatusCode.FAILED_PRECONDITION

    run(scenario)


def test_an_open_transaction_is_described() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        begin = await client.call("BeginTransaction", timeout_ms=400_000)
        found = await client.call("DescribeTransaction", txn_id=begin.txn_id)
        assert (found.state, found.owner, found.cause, found.finalized_ms) == (pb.OPEN, "", "", 0)
        assert found.deadline_ms - found.created_ms == 400_000
        assert begin.deadline_ms == found.deadline_ms

    run(scenario)


async def written_in_time(client: WireClient) -> str:
    """A transaction that has written something, and ends soon: as soon as this machine can do that before."""
    for timeout_ms in (300, 1_500, 5_000):
        txn_id = await begun(client, timeout_ms=timeout_ms)
        with suppress(Refused):
            await published(client, "s", "late", txn_id=txn_id)
            return txn_id
    raise AssertionError("one message takes longer than that")


def test_a_transaction_ends_at_its_deadline_by_itself() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        txn_id = await written_in_time(client)
        await published(client, "s", "plain")
        stream = client.read("s", is_following=True)
        await stream.next()
        assert [each.payload for each in (await stream.next()).deliveries.deliveries] == [b"plain"]
        with pytest.raises(Refused) as refused:
            await client.call("EndTransaction", txn_id=txn_id, outcome=pb.COMMIT)
        assert (refused.value.name, refused.value.branch) == ("TxnTimedOut", "abortable")
        assert refused.value.code is grpc.StatusCode.ABORTED
        found = await client.call("DescribeTransaction", txn_id=txn_id)
        assert (found.state, found.cause) == (pb.ABORTED, "deadline")

    run(scenario)


@pytest.mark.parametrize(
    ("txn_id", "name", "code"),
    [
        ("md_0_999999", "TxnNotFound", grpc.StatusCode.NOT_FOUND),
        ("1_17", "InvalidTxnId", grpc.StatusCode.INVALID_ARGUMENT),
        ("", "InvalidTxnId", grpc.StatusCode.INVALID_ARGUMENT),
        ("x" * 100_000, "InvalidTxnId", grpc.StatusCode.INVALID_ARGUMENT),
    ],
)
def test_what_is_no_transaction(txn_id: str, name: str, code: grpc.StatusCode) -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        for method, fields in (("EndTransaction", {"outcome": pb.COMMIT}), ("DescribeTransaction", {})):
            with pytest.raises(Refused) as refused:
                await client.call(method, txn_id=txn_id, **fields)
            assert (refused.value.name, refused.value.code) == (name, code)

    run(scenario)


def test_an_end_needs_an_outcome() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        txn_id = await begun(client)
        for outcome in (pb.OUTCOME_UNKNOWN, 7):
            with pytest.raises(Refused, match="COMMIT or ABORT") as refused:
                await client.call("EndTransaction", txn_id=txn_id, outcome=outcome)
            assert refused.value.name == "InvalidRequest"
        assert (await client.call("DescribeTransaction", txn_id=txn_id)).state == pb.OPEN

    run(scenario)


def test_timeouts_at_their_limit() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        assert (await client.call("DescribeBroker")).limits.timeout_ms_max == 5_000
        await begun(client, timeout_ms=5_000)
        for timeout_ms in (0, 5_001, (1 << 64) - 1):
            with pytest.raises(Refused, match="timeout_ms_max") as refused:
                await begun(client, timeout_ms)
            assert (refused.value.name, refused.value.branch) == ("InvalidTimeout", "fatal")

    run(scenario, options=LIMITS)


def test_open_transactions_at_their_limit() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        first, _ = await begun(client), await begun(client)
        with pytest.raises(Refused, match="open_max") as refused:
            await begun(client)
        assert (refused.value.name, refused.value.branch) == ("TooManyOpenTransactions", "retriable")
        assert refused.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        await client.call("EndTransaction", txn_id=first, outcome=pb.ABORT)
        await begun(client)

    run(scenario, options=LIMITS)


def test_any_broker_serves_any_transaction() -> None:
    async def scenario() -> None:
        async with two_serving() as ((_, one), (_, two)):
            txn_id = await begun(one)
            await two.call("EndTransaction", txn_id=txn_id, outcome=pb.COMMIT)
            assert (await one.call("DescribeTransaction", txn_id=txn_id)).state == pb.COMMITTED

    asyncio.run(scenario())


def test_a_transaction_outlives_the_broker_that_began_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        configuration = config(tmp_path, f"lmdb://{tmp_path}/store")
        async with serving(configuration) as (_, client):
            await client.call("CreateSegment", segment="s")
            txn_id = await begun(client, timeout_ms=60_000)
            await published(client, "s", "before", txn_id=txn_id)
        async with serving(configuration) as (_, client):
            await published(client, "s", "after", txn_id=txn_id)
            assert await read_all(client, "s") == []
            await client.call("EndTransaction", txn_id=txn_id, outcome=pb.COMMIT)
            stream = client.read("s", is_following=True, entries_max=2)
            found: list[bytes] = []
            while (response := await stream.next()) is not None:
                found += [each.payload for each in response.deliveries.deliveries]
            assert found == [b"before", b"after"]

    asyncio.run(scenario())
