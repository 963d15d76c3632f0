"""Many streams, full queues, segments that go away, and errors that nobody foresaw."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from controller.broker import Broker
from controller.pb import broker_pb2 as pb
from support.broker_helpers import (
    Refused,
    WireClient,
    acknowledge,
    answers,
    deliveries,
    payloads,
    published,
    read_all,
    run,
    sends,
)
from txn.hosting import Host, HostOptions, OpeningOptions, Segment
from txn.segment.buffer import BufferOptions, Published
from txn.segment.entry import Entry
from txn.segment.subscription import Subscription

PAIRS = 100
SEGMENTS = 10


def test_hundreds_of_streams_at_once() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        async def pair(number: int) -> list[str]:
            segment = f"s{number % SEGMENTS}"
            producer = await client.produce(segment, f"p{number}")
            consumer = await client.consume(segment, f"sub{number}", start=pb.EARLIEST)
            await producer.say(sends(f"{number}", f"{number}"))
            await answers(producer, 2)
            return payloads(await deliveries(consumer, 2 * PAIRS // SEGMENTS))

        for number in range(SEGMENTS):
            await client.call("CreateSegment", segment=f"s{number}")
        found = await asyncio.gather(*map(pair, range(PAIRS)))
        for number, received in enumerate(found):
            assert sorted(received) == sorted(2 * [f"{each}" for each in range(number % SEGMENTS, PAIRS, SEGMENTS)])

    run(scenario)


def test_a_full_segment_holds_its_producers_up_and_loses_nothing() -> None:
    options = HostOptions(opening=OpeningOptions(buffer=BufferOptions(queue_entries_max=3)))
    texts = [f"{number}" for number in range(300)]

    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")

        async def produce(name: str) -> None:
            stream = await client.produce("s", name)
            await stream.say(sends(*texts))
            assert {each.error.name for each in await answers(stream, len(texts))} == {""}

        await asyncio.gather(*map(produce, ("p", "q", "")))
        found = await read_all(client, "s")
        assert len(found) == 3 * len(texts)
        for text in texts:
            assert found.count(text) == 3

    run(scenario, options=options)


def test_streams_of_a_segment_that_is_deleted_end() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        await published(client, "s", "a")
        streams = [await client.produce("s", "p"), await client.consume("s"), client.read("s", is_following=True)]
        endings = asyncio.gather(*(stream.refusal() for stream in streams))
        await client.call("DeleteSegment", segment="s")
        for refused in await endings:
            assert (refused.branch, refused.code) == ("retriable", grpc.StatusCode.UNAVAILABLE)
        assert (await client.read("s").refusal()).name == "NoSuchSegment"

    run(scenario)


# ---- what nobody foresaw


def is_unforeseen(refused: Refused) -> bool:
    """Whether the client was told nothing but where to look."""
    return (refused.code, refused.name) == (grpc.StatusCode.INTERNAL, "") and "nobody foresaw" in refused.text


def test_an_error_that_nobody_foresaw_is_logged_and_not_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*arguments: object) -> None:
        raise ZeroDivisionError("a secret")

    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        (position,) = await published(client, "s", "a")
        monkeypatch.setattr(Host, "create", fail)
        with pytest.raises(Refused) as refused:
            await client.call("CreateSegment", segment="t")
        assert is_unforeseen(refused.value)
        assert "a secret" not in refused.value.text

        monkeypatch.setattr(Subscription, "acknowledge", fail)
        consumer = await client.consume("s")
        await consumer.say(acknowledge(1, position))
        assert is_unforeseen(await consumer.refusal())

    with caplog.at_level("ERROR", "tidemark.broker"):
        run(scenario)
    assert caplog.text.count("ZeroDivisionError: a secret") == 2


@pytest.mark.parametrize("is_at_once", [True, False])
def test_an_entry_that_fails_as_nobody_foresaw_ends_its_stream(
    is_at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def publish(segment: Segment, entry: Entry) -> asyncio.Future[Published]:
        if is_at_once:
            raise ZeroDivisionError
        future: asyncio.Future[Published] = asyncio.get_running_loop().create_future()
        future.set_exception(ZeroDivisionError())
        return future

    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        monkeypatch.setattr(Segment, "publish", publish)
        for name in ("p", ""):
            stream = await client.produce("s", name)
            await stream.say(sends("a"))
            assert is_unforeseen(await stream.refusal())

    run(scenario)
