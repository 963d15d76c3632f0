"""Segments and subscriptions: created, listed, found, sealed, trimmed, counted, deleted; each call may be repeated."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest

from controller.broker import Broker, BrokerLimits
from controller.pb import broker_pb2 as pb
from support.broker_helpers import (
    Refused,
    WireClient,
    acknowledge,
    acknowledged,
    answers,
    config,
    deliveries,
    payloads,
    published,
    read_all,
    run,
    sends,
    serving,
)


def test_creating_and_deleting_may_be_repeated() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        assert not (await client.call("CreateSegment", segment="s")).is_old
        await published(client, "s", "a")
        assert (await client.call("CreateSegment", segment="s")).is_old
        assert await read_all(client, "s") == ["a"]
        for _ in range(2):
            await client.call("DeleteSegment", segment="s")
        assert not (await client.call("CreateSegment", segment="s")).is_old
        assert await read_all(client, "s") == []

    run(scenario)


@pytest.mark.parametrize(
    ("method", "fields"),
    [
        ("SealSegment", {}),
        ("TrimSegment", {"before": pb.Position(ledger=1)}),
        ("SegmentStats", {}),
        ("LookupSegment", {}),
        ("CreateSubscription", {"subscription": "sub"}),
        ("DeleteSubscription", {"subscription": "sub"}),
        ("Seek", {"subscription": "sub", "bound": pb.Bound(edge=pb.LATEST)}),
    ],
)
def test_what_is_not_there_is_not_found(method: str, fields: dict[str, Any]) -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        with pytest.raises(Refused, match="'nowhere'") as refused:
            await client.call(method, segment="nowhere", **fields)
        assert (refused.value.name, refused.value.code) == ("NoSuchSegment", grpc.StatusCode.NOT_FOUND)
        assert (refused.value.reason, refused.value.domain) == ("NO_SUCH_SEGMENT", "tidemark.broker")

    run(scenario)


def test_streams_of_what_is_not_there_are_refused() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        produce = client.stream("Produce", pb.ProduceResponse)
        await produce.say(pb.ProduceRequest(open=pb.OpenProducer(segment="nowhere")))
        consume = client.stream("Consume", pb.ConsumeResponse)
        await consume.say(pb.ConsumeRequest(open=pb.OpenConsumer(segment="nowhere", subscription="sub")))
        for stream in (produce, consume, client.read("nowhere")):
            assert (await stream.refusal()).name == "NoSuchSegment"
        await client.call("CreateSegment", segment="s")
        consume = client.stream("Consume", pb.ConsumeResponse)
        await consume.say(pb.ConsumeRequest(open=pb.OpenConsumer(segment="s", subscription="sub")))
        assert (await consume.refusal()).name == "SubscriptionDeleted"

    run(scenario)


def test_segments_are_listed_in_order_page_by_page() -> None:
    names = [f"a/{number}" for number in range(5)] + ["b"]

    async def scenario(broker: Broker, client: WireClient) -> None:
        for name in reversed(names):
            await client.call("CreateSegment", segment=name)
            await client.call("LookupSegment", segment=name)
        found, after, pages = [], "", 0
        while True:
            page = await client.call("ListSegments", after=after)
            found += [each.segment for each in page.segments]
            pages += 1
            assert all(each.state == pb.WRITABLE and each.created_ms for each in page.segments)
            if not page.has_more:
                break
            after = found[-1]
        assert (found, pages) == (names, 3)
        page = await client.call("ListSegments", prefix="a/", limit=1)
        assert ([each.segment for each in page.segments], page.has_more) == (["a/0"], True)
        page = await client.call("ListSegments", prefix="b", limit=1_000_000)
        assert ([each.segment for each in page.segments], page.has_more) == (["b"], False)

    run(scenario, limits=BrokerLimits(segments_per_page_max=2))


def test_a_sealed_segment_takes_nothing_more_and_is_read_to_its_end() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        position, *_ = await published(client, "s", "a")
        stream = await client.produce("s", "p")
        for _ in range(2):
            assert (await client.call("SealSegment", segment="s")).last == position
        await stream.say(sends("b"))
        (answer,) = await answers(stream, 1)
        assert (answer.error.name, getattr(answer.error, "class")) == ("SegmentSealed", pb.FATAL)
        reader = client.read("s", is_following=True)
        await reader.next()
        assert payloads((await reader.next()).deliveries.deliveries) == ["a"]
        assert (await reader.next()).HasField("end")
        assert await reader.next() is None
        assert (await client.call("SegmentStats", segment="s")).is_sealed
        while (await client.call("ListSegments")).segments[0].state != pb.SEALED:
            await asyncio.sleep(0)

    run(scenario)


def test_an_empty_segment_has_neither_first_nor_last() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        found = await client.call("SegmentStats", segment="s")
        assert not found.HasField("first")
        assert not found.HasField("last_confirmed")
        assert not (await client.call("SealSegment", segment="s")).HasField("last")

    run(scenario)


def test_trimmed_entries_are_gone_and_count_as_acknowledged() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        await client.call("CreateSubscription", segment="s", subscription="sub", start=pb.Bound(edge=pb.EARLIEST))
        # One by one, so that each is stored as a piece of its own.
        positions = [(await published(client, "s", text))[0] for text in "abc"]
        trimmed = await client.call("TrimSegment", segment="s", before=positions[2])
        assert trimmed.first == positions[2]
        assert await read_all(client, "s") == ["c"]
        assert (await client.call("SegmentStats", segment="s")).subscriptions[0].mark == positions[2]
        with pytest.raises(Refused, match="without a position"):
            await client.call("TrimSegment", segment="s")

    run(scenario)


def test_a_segment_in_numbers() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        txn_id = (await client.call("BeginTransaction", timeout_ms=60_000)).txn_id
        first, second = await published(client, "s", "a", "b")
        held, *_ = await published(client, "s", "c", txn_id=txn_id)
        stream = await client.consume("s")
        assert payloads(await deliveries(stream, 2)) == ["a", "b"]
        await stream.say(acknowledge(1, first))
        await stream.say(acknowledge(2, second, txn_id=txn_id))
        assert await acknowledged(stream, 1, 2) == {1: "", 2: ""}
        found = await client.call("SegmentStats", segment="s")
        assert (found.first, found.horizon, found.last_confirmed) == (first, held, held)
        assert (found.horizon_lag_entries, found.open_transactions, found.is_sealed) == (1, 1, False)
        (sub,) = found.subscriptions
        assert (sub.subscription, sub.mark, sub.consumers) == ("sub", second, 1)
        assert dict(sub.pending_acks) == {txn_id: 1}

    run(scenario)


def test_subscriptions_are_created_sought_and_deleted() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        positions = await published(client, "s", "a", "b", "c")
        assert not (await client.call("CreateSubscription", segment="s", subscription="sub")).is_old
        assert (await client.call("CreateSubscription", segment="s", subscription="sub")).is_old
        for bound, expected in (
            (pb.Bound(edge=pb.EARLIEST), ["a", "b", "c"]),
            (pb.Bound(position=positions[1]), ["b", "c"]),
        ):
            await client.call("Seek", segment="s", subscription="sub", bound=bound)
            stream = await client.consume("s", start=None)
            assert payloads(await deliveries(stream, len(expected))) == expected
            await stream.half_close()
            assert await stream.next() is None
        with pytest.raises(Refused, match="without a bound"):
            await client.call("Seek", segment="s", subscription="sub")
        with pytest.raises(Refused, match="edge 5"):
            await client.call("Seek", segment="s", subscription="sub", bound=pb.Bound.FromString(b"\x08\x05"))
        stream = await client.consume("s", start=None)
        for _ in range(2):
            await client.call("DeleteSubscription", segment="s", subscription="sub")
        assert (await stream.refusal()).name == "SubscriptionDeleted"

    run(scenario)


def test_a_subscription_at_its_end_goes_on_when_it_is_put_back() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        await published(client, "s", "a")
        stream = await client.consume("s")
        for _ in range(2):
            (found,) = await deliveries(stream, 1)
            await stream.say(acknowledge(1, found.position))
            assert await acknowledged(stream, 1) == {1: ""}
            await client.call("SealSegment", segment="s")
            assert (await stream.next()).HasField("end")
            await client.call("Seek", segment="s", subscription="sub", bound=pb.Bound(edge=pb.EARLIEST))
        assert payloads(await deliveries(stream, 1)) == ["a"]

    run(scenario)


@pytest.mark.parametrize("log", ["local", "metastore"])
def test_everything_is_there_after_a_restart(log: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        configuration = config(tmp_path, f"lmdb://{tmp_path}/store", log=log)
        async with serving(configuration) as (_, client):
            await client.call("CreateSegment", segment="s")
            first, *_ = await published(client, "s", "a", "b")
            stream = await client.consume("s")
            await deliveries(stream, 2)
            await stream.say(acknowledge(1, first))
            assert await acknowledged(stream, 1) == {1: ""}
        async with serving(configuration) as (broker, client):
            assert await read_all(client, "s") == ["a", "b"]
            assert payloads(await deliveries(await client.consume("s"), 1)) == ["b"]
            assert (tmp_path / "segments").exists() is (log == "local")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "method",
    ["CreateSegment", "DeleteSegment", "SealSegment", "TrimSegment", "SegmentStats", "LookupSegment"],
)
def test_names_of_segments_at_their_limit(method: str) -> None:
    fields = {"before": pb.Position()} if method == "TrimSegment" else {}

    async def scenario(broker: Broker, client: WireClient) -> None:
        longest = "ü" * 256
        await client.call("CreateSegment", segment=longest)
        await client.call(method, segment=longest, **fields)
        for name in ("", longest + "n"):
            with pytest.raises(Refused, match="name_bytes_max") as refused:
                await client.call(method, segment=name, **fields)
            assert (refused.value.name, refused.value.code) == ("InvalidRequest", grpc.StatusCode.INVALID_ARGUMENT)

    run(scenario)


@pytest.mark.parametrize("method", ["CreateSubscription", "DeleteSubscription", "Seek"])
def test_names_of_subscriptions_at_their_limit(method: str) -> None:
    fields = {"bound": pb.Bound(edge=pb.LATEST)} if method == "Seek" else {}

    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        await client.call("CreateSubscription", segment="s", subscription="n" * 512)
        await client.call(method, segment="s", subscription="n" * 512, **fields)
        for name in ("", "n" * 513):
            with pytest.raises(Refused, match="name_bytes_max"):
                await client.call(method, segment="s", subscription=name, **fields)

    run(scenario)
