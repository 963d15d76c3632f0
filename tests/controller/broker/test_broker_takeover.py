"""Several brokers on one store: who is asked sends clients to the owner, and who goes is followed at once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2

from controller.broker import Broker, BrokerLimits
from controller.pb import broker_pb2 as pb
from metastore.interface import open_store
from support.broker_helpers import (
    ANSWER_WITHIN_S,
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
    two_serving,
)


def test_who_is_not_the_owner_says_who_is() -> None:
    async def scenario() -> None:
        async with two_serving() as ((first, one), (second, two)):
            await one.call("CreateSegment", segment="s")
            owner = await one.call("LookupSegment", segment="s")
            assert (owner.broker, owner.address) in {(each.name, each.address) for each in (first, second)}
            assert await two.call("LookupSegment", segment="s") == owner
            away, home = (two, one) if owner.broker == "first" else (one, two)
            await home.call("SegmentStats", segment="s")
            with pytest.raises(Refused) as refused:
                await away.call("SegmentStats", segment="s")
            assert (refused.value.name, refused.value.branch) == ("OwnedElsewhere", "retriable")
            assert refused.value.code is grpc.StatusCode.UNAVAILABLE
            assert refused.value.metadata == {
                "broker": owner.broker,
                "address": owner.address,
                "term": str(owner.term),
            }
            produce = away.stream("Produce", pb.ProduceResponse)
            await produce.say(pb.ProduceRequest(open=pb.OpenProducer(segment="s")))
            assert (await produce.refusal()).metadata["address"] == owner.address
            assert (await away.read("s").refusal()).metadata["address"] == owner.address

    asyncio.run(scenario())


def test_brokers_know_each_other() -> None:
    async def scenario() -> None:
        async with two_serving() as ((first, one), (second, two)):
            everybody = [("first", first.address), ("second", second.address)]
            for client in (one, two):
                while (found := (await client.call("DescribeBroker")).brokers) is None or len(found) < 2:
                    await asyncio.sleep(0)
                assert [(each.name, each.address) for each in found] == everybody

    asyncio.run(scenario())


@pytest.mark.parametrize("log", ["local", "metastore"])
def test_when_a_broker_stops_streams_end_and_another_takes_over_at_once(log: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        # A long session: only letting go of the segment makes room for the other broker in time.
        settings: dict[str, Any] = {"log": log, "data_dir": tmp_path, "session_timeout_ms": 300_000}
        async with (
            await open_store("memory://") as store,
            Broker(config(name="first", **settings), store=store) as first,
            WireClient(first.address) as one,
        ):
            await one.call("CreateSegment", segment="s")
            owner = await one.call("LookupSegment", segment="s")
            async with serving(config(name="second", **settings), store=store) as (_, two):
                txn_id = (await one.call("BeginTransaction", timeout_ms=60_000)).txn_id
                producer, consumer = await one.produce("s", "p"), await one.consume("s")
                await producer.say(sends("a"))
                await producer.say(sends("b", first=1, txn_id=txn_id))
                positions = [each.position for each in await answers(producer, 2)]
                assert payloads(await deliveries(consumer, 1)) == ["a"]
                await consumer.say(acknowledge(1, positions[0], txn_id=txn_id))
                assert await acknowledged(consumer, 1) == {1: ""}
                reader = one.read("s", is_following=True)
                assert (await reader.next()) is not None, "a stream that has not come to the broker yet is not its own"
                streams = [producer, consumer, reader]
                endings = asyncio.gather(*(stream.refusal() for stream in streams))

                await first.__aexit__(None, None, None)
                for refused in await endings:
                    assert (refused.name, refused.branch) == ("BrokerStopping", "retriable")
                async with asyncio.timeout(ANSWER_WITHIN_S):
                    found = await two.call("LookupSegment", segment="s")
                assert found.broker == "second"
                assert found.term > owner.term

                # A resend is known, what the transaction did is still pending, and its commit counts.
                producer = await two.produce("s", "p")
                await producer.say(sends("a"))
                await producer.say(sends("b", first=1, txn_id=txn_id))
                assert [each.is_duplicate for each in await answers(producer, 2)] == [True, True]
                assert await read_all(two, "s") == ["a"]
                await two.call("EndTransaction", txn_id=txn_id, outcome=pb.COMMIT)
                assert payloads(await deliveries(await two.consume("s"), 1)) == ["b"]

    asyncio.run(scenario())


def test_a_broker_that_stops_answers_what_is_under_way_and_then_nobody() -> None:
    async def scenario() -> None:
        async with serving() as (broker, client):
            await client.call("CreateSegment", segment="s")
            await published(client, "s", "a")
            await broker.__aexit__(None, None, None)
            with pytest.raises(Refused) as refused:
                await client.call("DescribeBroker")
            assert refused.value.code is grpc.StatusCode.UNAVAILABLE

    asyncio.run(scenario())


def test_a_client_that_takes_nothing_does_not_hold_the_end_up() -> None:
    async def scenario() -> None:
        async with serving() as (broker, client):
            await client.call("CreateSegment", segment="s")
            for _ in range(5):
                await published(client, "s", *["x" * 500_000] * 10)
            stream = client.read("s", is_following=True)
            await stream.next()
            async with asyncio.timeout(ANSWER_WITHIN_S):
                await broker.__aexit__(None, None, None)

    asyncio.run(scenario())


def test_health_follows_the_broker() -> None:
    async def scenario() -> None:
        async with serving() as (broker, client):
            for service in ("", "tidemark.broker.v1.Broker"):
                question = health_pb2.HealthCheckRequest(service=service).SerializeToString()
                assert await client.call_raw("/grpc.health.v1.Health/Check", question) == b"\x08\x01"
            with pytest.raises(Refused) as refused:
                await client.call_raw("/grpc.health.v1.Health/Check", b"\x0a\x01x")
            assert refused.value.code is grpc.StatusCode.NOT_FOUND
            method: Any = client.channel.unary_stream("/grpc.health.v1.Health/Watch")
            watch = method(b"")
            assert await watch.read() == b"\x08\x01"
            stopping = asyncio.ensure_future(broker.__aexit__(None, None, None))
            assert await watch.read() == b"\x08\x02"
            watch.cancel()
            await stopping

    asyncio.run(scenario())


def test_reflection_names_the_service() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
        method: Any = client.channel.stream_stream(path)
        call = method()
        await call.write(b"\x3a\x01*")  # list_services: "*"
        answer = await call.read()
        for name in (b"tidemark.broker.v1.Broker", b"grpc.health.v1.Health"):
            assert name in answer
        call.cancel()

    run(scenario)


def test_streams_at_their_limit() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        first, _ = await client.produce("s"), await client.consume("s")
        refused = await client.read("s").refusal()
        assert (refused.name, refused.branch) == ("TooManyStreams", "retriable")
        assert refused.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        await first.half_close()
        assert await first.next() is None
        assert await read_all(client, "s") == []

    run(scenario, limits=BrokerLimits(streams_max=2))


@pytest.mark.parametrize("data", [b"\xff", b"\x08", b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x01\xff"])
def test_bytes_that_are_no_request(data: bytes) -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        for method in ("BeginTransaction", "EndTransaction", "CreateSegment", "Seek"):
            if (method, data) == ("BeginTransaction", b"\x0a\x01\xff"):
                continue  # a field that it does not know, and ignores
            with pytest.raises(Refused, match=f"no {method}Request") as refused:
                await client.call_raw(f"/tidemark.broker.v1.Broker/{method}", data)
            assert (refused.value.name, refused.value.code) == ("InvalidRequest", grpc.StatusCode.INVALID_ARGUMENT)
        with pytest.raises(Refused) as refused:
            await client.call_raw("/tidemark.broker.v1.Broker/Dance", b"")
        assert refused.value.code is grpc.StatusCode.UNIMPLEMENTED

    run(scenario)


def test_requests_of_the_greatest_size() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        for size, code in ((900, "InvalidRequest"), (1100, "")):
            with pytest.raises(Refused) as refused:
                await client.call("CreateSegment", segment="x" * size)
            assert refused.value.name == code
        assert refused.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED

    run(scenario, limits=BrokerLimits(request_bytes_max=1_000))


def test_what_the_block_raises_is_raised() -> None:
    async def scenario() -> None:
        async with Broker(config()):
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        asyncio.run(scenario())


def test_a_store_that_is_given_stays_open() -> None:
    async def scenario() -> None:
        async with await open_store("memory://") as store:
            async with serving(store=store) as (_, client):
                await client.call("CreateSegment", segment="s")
            async with serving(store=store) as (_, client):
                assert (await client.call("CreateSegment", segment="s")).is_old

    asyncio.run(scenario())
