"""The stream of a producer: order, answers, resends, the window, and what ends it."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from controller.broker import Broker, BrokerLimits
from controller.pb import broker_pb2 as pb
from metastore.interface import Environment, Unavailable
from metastore.providers.memory import MemoryData, MemoryStore
from support.broker_helpers import WireClient, answers, published, read_all, run, sends, serving

SMALL = BrokerLimits(
    window_entries_max=3, window_bytes_max=10, entry_bytes_max=100, sends_per_request_max=4, message_count_max=100_000
)

TAKES_NOTHING_UNASKED = (("grpc.http2.lookahead_bytes", 0), ("grpc.http2.bdp_probe", 0))
"""A channel without any room for a message that nobody waits for."""


def errors(found: list[pb.SendAnswer]) -> list[str]:
    return [each.error.name for each in found]


def test_entries_are_stored_and_answered_in_their_order() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        stream = await client.produce("s", "p")
        texts = [f"{number}" for number in range(1_500)]
        for start in range(0, len(texts), 500):
            await stream.say(sends(*texts[start : start + 500], first=start))
        found = await answers(stream, len(texts))
        assert [each.sequence_id for each in found] == list(range(len(texts)))
        assert [each.position.entry for each in found] == sorted(each.position.entry for each in found)
        await stream.half_close()
        assert await stream.next() is None
        assert await read_all(client, "s") == texts

    run(scenario)


def test_what_was_sent_before_the_half_close_is_answered() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        stream = await client.produce("s")
        await stream.say(sends("a", "b"))
        await stream.half_close()
        assert errors(await answers(stream, 2)) == ["", ""]
        assert await stream.next() is None

    run(scenario)


def test_a_resend_is_recognised_on_this_stream_and_the_next() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        stream = await client.produce("s", "p")
        await stream.say(sends("a", "b"))
        assert not any(each.is_duplicate for each in await answers(stream, 2))
        for _ in range(2):
            await stream.say(sends("a", "b"))
            assert [each.is_duplicate for each in await answers(stream, 2)] == [True, True]
            stream = await client.produce("s", "p")
        assert await read_all(client, "s") == ["a", "b"]

    run(scenario)


def test_nobodys_entries_are_never_taken_for_resends() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        for _ in range(2):
            await published(client, "s", "a")
        assert await read_all(client, "s") == ["a", "a"]

    run(scenario)


def test_numbers_of_an_aborted_transaction_are_free_again() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        stream = await client.produce("s", "p")
        txn_id = (await client.call("BeginTransaction", timeout_ms=60_000)).txn_id
        await stream.say(sends("a", txn_id=txn_id))
        await answers(stream, 1)
        await client.call("EndTransaction", txn_id=txn_id, outcome=pb.ABORT)
        while (await client.call("SegmentStats", segment="s")).open_transactions:
            await asyncio.sleep(0)  # the abort is learned a moment later; until then the number is not free
        await stream.say(sends("a"))
        (answer,) = await answers(stream, 1)
        assert not answer.is_duplicate
        assert await read_all(client, "s") == ["a"]

    run(scenario)


def test_a_producer_that_comes_again_replaces_itself() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        await client.call("CreateSegment", segment="t")
        first, elsewhere, other = [await client.produce(*names) for names in (("s", "p"), ("t", "p"), ("s", "q"))]
        second = await client.produce("s", "p")
        refused = await first.refusal()
        assert (refused.name, refused.branch) == ("ProducerReplaced", "fatal")
        for stream in (second, elsewhere, other):
            await stream.say(sends("a"))
            assert errors(await answers(stream, 1)) == [""]

    run(scenario)


def test_who_has_taken_nothing_yet_is_told_why_the_stream_ends() -> None:
    async def scenario() -> None:
        async with serving() as (broker, client):
            await client.call("CreateSegment", segment="s")
            async with WireClient(broker.address, options=TAKES_NOTHING_UNASKED) as slow:
                opening = slow.stream("Produce", pb.ProduceResponse)
                await opening.say(pb.ProduceRequest(open=pb.OpenProducer(segment="s")))
                await opening.call.initial_metadata()
                other = await client.produce("s")
                stopped = asyncio.create_task(broker.__aexit__(None, None, None))
                for stream in (other, opening):
                    assert (await stream.refusal()).name == "BrokerStopping"
                await stopped

    asyncio.run(scenario())


def test_an_entry_keeps_all_that_it_is_sent_with() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        stream = await client.produce("s", "p")
        properties = [pb.Property(name="b", value="2"), pb.Property(name="a", value="1")]
        send = pb.Send(sequence_id=7, payload=b"\0\xff", properties=properties, message_count=3)
        await stream.say(pb.ProduceRequest(sends=pb.Sends(sends=[send])))
        (answer,) = await answers(stream, 1)
        reader = client.read("s")
        await reader.next()
        (found,) = (await reader.next()).deliveries.deliveries
        assert (found.payload, found.sequence_id, found.message_count) == (b"\0\xff", 7, 3)
        assert (list(found.properties), found.producer, found.txn_id) == (properties, "p", "")
        assert found.position == answer.position
        assert found.published_ms > 0

    run(scenario)


# ---- what is refused


@pytest.mark.parametrize(
    ("send", "name", "words"),
    [
        (pb.Send(payload=b"x" * 101), "GroupTooLarge", "entry_bytes_max"),
        (pb.Send(message_count=100_001), "GroupTooLarge", "MESSAGES_MAX"),
        (pb.Send(txn_id="1_2"), "InvalidTxnId", "legacy"),
        (pb.Send(txn_id="md_1_2"), "TxnConflict", "md_1_2"),
        (pb.Send(sequence_id=1 << 63), "InvalidRequest", "sequence id"),
        (pb.Send(properties=[pb.Property(name="a")] * 2), "InvalidRequest", "twice"),
    ],
)
def test_a_bad_entry_is_refused_by_itself(send: pb.Send, name: str, words: str) -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        stream = await client.produce("s", "p")
        good = [pb.Send(sequence_id=10, payload=b"a"), pb.Send(sequence_id=11, payload=b"b")]
        for each in (good[0], send, good[1]):
            await stream.say(pb.ProduceRequest(sends=pb.Sends(sends=[each])))
            (answer,) = await answers(stream, 1)
            if each is send:
                assert answer.error.name == name
                assert words in answer.error.message
                assert getattr(answer.error, "class") in (pb.ABORTABLE, pb.FATAL)
                assert not answer.HasField("position")
            else:
                assert answer.error.name == ""
        assert await read_all(client, "s") == ["a", "b"]

    limits = BrokerLimits(entry_bytes_max=100) if name != "InvalidRequest" else None
    run(scenario, limits=limits)


def test_the_largest_entry() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        limit = (await client.call("DescribeBroker")).limits.entry_bytes_max
        stream = await client.produce("s", "p")
        largest = pb.Send(sequence_id=1, payload=b"x" * (limit - 7))
        assert largest.ByteSize() == limit
        larger = pb.Send(sequence_id=2, payload=b"x" * (limit - 6))
        for each, error in ((largest, ""), (larger, "GroupTooLarge")):
            await stream.say(pb.ProduceRequest(sends=pb.Sends(sends=[each])))
            assert errors(await answers(stream, 1)) == [error]
        assert [len(each) for each in await read_all(client, "s")] == [limit - 7]

    run(scenario)


def test_a_transaction_that_ends_while_its_producer_goes_on() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        txn_id = (await client.call("BeginTransaction", timeout_ms=60_000)).txn_id
        stream = await client.produce("s", "p")
        await stream.say(sends("a", txn_id=txn_id))
        await answers(stream, 1)
        await client.call("EndTransaction", txn_id=txn_id, outcome=pb.COMMIT)
        await stream.say(sends("b", first=1, txn_id=txn_id))
        await stream.say(sends("c", first=2))
        found = await answers(stream, 2)
        assert errors(found) == ["TxnConflict", ""]
        assert getattr(found[0].error, "class") == pb.ABORTABLE
        assert await read_all(client, "s") == ["a", "c"]

    run(scenario)


@pytest.mark.parametrize(
    ("texts", "is_within"), [(["a"] * 3, True), (["a"] * 4, False), (["12345", "12345"], True), (["123456"] * 2, False)]
)
def test_the_window_at_its_limits(texts: list[str], is_within: bool) -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        stream = client.stream("Produce", pb.ProduceResponse)
        await stream.say(pb.ProduceRequest(open=pb.OpenProducer(segment="s")))
        assert (await stream.next()).opened.window == pb.Window(entries_max=3, bytes_max=10)
        await stream.say(sends("larger than the window, and alone"))
        await answers(stream, 1)
        await stream.say(sends(*texts))
        if is_within:
            assert errors(await answers(stream, len(texts))) == [""] * len(texts)
        else:
            refused = await stream.refusal()
            assert (refused.name, refused.branch) == ("WindowExceeded", "fatal")
            assert "window_entries_max" in refused.text
            assert "window_bytes_max" in refused.text

    run(scenario, limits=SMALL)


def test_requests_at_their_limit() -> None:
    limits = BrokerLimits(sends_per_request_max=4)

    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        stream = await client.produce("s")
        await stream.say(sends(*"abcd"))
        await answers(stream, 4)
        await stream.say(sends(*"abcde"))
        refused = await stream.refusal()
        assert (refused.name, refused.code) == ("InvalidRequest", grpc.StatusCode.INVALID_ARGUMENT)
        assert "sends_per_request_max" in refused.text

    run(scenario, limits=limits)


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (sends("a"), "`open`"),
        (pb.ProduceRequest(), "`open`"),
        (b"\xff", "no ProduceRequest"),
        (pb.ProduceRequest(open=pb.OpenProducer(segment="s", producer="p" * 513)), "name_bytes_max"),
        (pb.ProduceRequest(open=pb.OpenProducer(producer="p")), "name_bytes_max"),
    ],
)
def test_how_a_stream_may_not_begin(first: pb.ProduceRequest | bytes, words: str) -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        stream = client.stream("Produce", pb.ProduceResponse)
        await stream.say(first)
        refused = await stream.refusal()
        assert refused.name == "InvalidRequest"
        assert words in refused.text

    run(scenario)


@pytest.mark.parametrize("second", [pb.ProduceRequest(open=pb.OpenProducer(segment="s")), pb.ProduceRequest(), b"\xff"])
def test_how_a_stream_may_not_go_on(second: pb.ProduceRequest | bytes) -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        stream = await client.produce("s")
        await stream.say(second)
        assert (await stream.refusal()).name == "InvalidRequest"

    run(scenario)


def test_a_stream_that_says_nothing() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        stream = client.stream("Produce", pb.ProduceResponse)
        await stream.half_close()
        assert "the first one opens it" in (await stream.refusal()).text

    run(scenario)


# ---- what may be tried again


def test_what_may_be_tried_again_ends_the_stream_of_a_named_producer_and_not_of_nobody() -> None:
    async def scenario() -> None:
        data = MemoryData()
        async with MemoryStore(data, Environment()) as store, serving(store=store) as (_, client):
            await client.call("CreateSegment", segment="s")
            txn_id = (await client.call("BeginTransaction", timeout_ms=60_000)).txn_id
            named, nobody = await client.produce("s", "p"), await client.produce("s")
            for stream in (named, nobody):
                store.script.fail("transact", Unavailable("not now"), prefix="/txn-op/")
                await stream.say(sends("a", "b", txn_id=txn_id))
                if stream is named:
                    refused = await stream.refusal()
                    assert (refused.name, refused.branch) == ("SegmentUnavailable", "retriable")
                else:
                    found = await answers(stream, 2)
                    assert errors(found) == ["SegmentUnavailable"] * 2
                    assert {getattr(each.error, "class") for each in found} == {pb.RETRIABLE}
            again = await client.produce("s", "p")
            await again.say(sends("a", "b", txn_id=txn_id))
            assert [(each.error.name, each.is_duplicate) for each in await answers(again, 2)] == [("", False)] * 2
            await client.call("EndTransaction", txn_id=txn_id, outcome=pb.COMMIT)
            reader = client.read("s", is_following=True, entries_max=2)
            await reader.next()
            assert [each.payload for each in (await reader.next()).deliveries.deliveries] == [b"a", b"b"]

    asyncio.run(scenario())


@pytest.mark.parametrize("producer", ["p", ""])
def test_what_comes_for_a_segment_that_was_sealed_and_is_gone_is_refused_as_by_a_sealed_one(producer: str) -> None:
    """Else its producer would not know whether it is stored, and could not send it to a successor."""

    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        stream = await client.produce("s", producer)
        await stream.say(sends("a", "b"))
        assert errors(await answers(stream, 2)) == ["", ""]
        await client.call("SealSegment", segment="s")
        await client.call("DeleteSegment", segment="s")
        await stream.say(sends("c", "d", first=2))
        assert errors(await answers(stream, 2)) == ["SegmentSealed"] * 2

    run(scenario)


def test_what_may_be_stored_in_a_segment_that_is_gone_is_refused_by_nobody() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        stream = await client.produce("s", "p")
        await stream.say(sends("a", "b"))
        assert errors(await answers(stream, 2)) == ["", ""]
        await client.call("SealSegment", segment="s")
        await client.call("DeleteSegment", segment="s")
        await stream.say(sends("b", first=1))
        assert (await stream.refusal()).name == "SegmentUnavailable"

    run(scenario)
