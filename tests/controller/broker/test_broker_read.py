"""The stream of a reader: from where, how far, how fast."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from controller.broker import Broker
from controller.pb import broker_pb2 as pb
from support.broker_helpers import WireClient, payloads, published, read_all, run


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_reader_ends_with_what_there_is(count: int) -> None:
    texts = [str(number) for number in range(count)]

    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        if texts:
            await published(client, "s", *texts)
        assert await read_all(client, "s") == texts

    run(scenario)


def test_a_reader_ends_before_and_behind_what_is_not_to_be_seen() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        dropped, held = [(await client.call("BeginTransaction", timeout_ms=60_000)).txn_id for _ in range(2)]
        await published(client, "s", "a")
        await published(client, "s", "dropped", txn_id=dropped)
        await client.call("EndTransaction", txn_id=dropped, outcome=pb.ABORT)
        while (await client.call("SegmentStats", segment="s")).horizon_lag_entries:
            await asyncio.sleep(0)
        assert await read_all(client, "s") == ["a"]
        await published(client, "s", "held", txn_id=held)
        await published(client, "s", "b")
        assert await read_all(client, "s") == ["a"]

    run(scenario)


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (pb.Bound(edge=pb.EARLIEST), ["a", "b", "c"]),
        (pb.Bound(edge=pb.LATEST), []),
        (pb.Bound(), ["a", "b", "c"]),
        (1, ["b", "c"]),
        (3, []),
        (pb.Bound(position=pb.Position()), ["a", "b", "c"]),
        (pb.Bound(position=pb.Position(ledger=(1 << 63) - 1)), []),
    ],
)
def test_where_a_reader_begins(start: Any, expected: list[str]) -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        positions = await published(client, "s", "a", "b", "c")
        behind = pb.Position(ledger=positions[-1].ledger, entry=positions[-1].entry + 1)
        bound = pb.Bound(position=[*positions, behind][start]) if isinstance(start, int) else start
        stream = client.read("s", start=bound)
        await stream.next()
        found: list[str] = []
        while (response := await stream.next()) is not None:
            found += payloads(response.deliveries.deliveries)
        assert found == expected

    run(scenario)


def test_a_reader_that_follows_waits_for_more() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        stream = client.read("s", is_following=True, entries_max=3)
        assert (await stream.next()).opened.term > 0
        for text in "abc":
            await published(client, "s", text)
            assert payloads((await stream.next()).deliveries.deliveries) == [text]
        assert await stream.next() is None

    run(scenario)


@pytest.mark.parametrize(
    "start",
    [
        pb.Bound.FromString(b"\x08\x03"),
        pb.Bound(position=pb.Position(entry=1 << 63)),
        pb.Bound(position=pb.Position(ledger=1 << 63)),
    ],
)
def test_where_no_reader_begins(start: pb.Bound) -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        assert (await client.read("s", start=start).refusal()).name == "InvalidRequest"

    run(scenario)


def test_a_reader_that_takes_nothing_is_sent_little() -> None:
    size, count = 100_000, 200

    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        for _ in range(count // 20):
            await published(client, "s", *["x" * size] * 20)
        stream = client.read("s")
        await stream.next()
        # Others are served meanwhile, and at the end the slow one gets everything.
        assert len(await read_all(client, "s")) == count
        sent = broker.metrics.registry.get_sample_value("tidemark_deliver_entries_total")
        assert sent is not None
        assert sent - count < count // 2
        found = 0
        while (response := await stream.next()) is not None:
            found += len(response.deliveries.deliveries)
        assert found == count

    run(scenario)
