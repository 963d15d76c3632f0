"""The stream of a consumer: permits, deliveries, acknowledgements of all kinds, and what ends it."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from controller.broker import Broker, BrokerLimits
from controller.broker.deliveries import bits_as_bytes
from controller.pb import broker_pb2 as pb
from support.broker_helpers import (
    WireClient,
    acknowledge,
    acknowledged,
    answers,
    deliveries,
    payloads,
    published,
    run,
    sends,
)
from support.server import EAGER_CHANNEL
from txn.segment.cursor import BatchBits

CALLS_MAX = 10_000
"""Calls that ask how far something is."""
NO_MORE_THAN_IS_READ = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 1 << 16)]
"""A connection that does not take in ahead what nobody reads."""


async def prepared(client: WireClient, *texts: str) -> list[pb.Position]:
    """A segment with these entries."""
    await client.call("CreateSegment", segment="s")
    return await published(client, "s", *texts) if texts else []


async def begun(client: WireClient) -> str:
    return str((await client.call("BeginTransaction", timeout_ms=60_000)).txn_id)


async def redelivered(client: WireClient, count: int) -> list[str]:
    """What comes to a consumer that comes later."""
    stream = await client.consume("s", start=None)
    found = payloads(await deliveries(stream, count))
    await stream.half_close()
    assert await stream.next() is None
    return found


def permit(entries: int) -> pb.ConsumeRequest:
    return pb.ConsumeRequest(permit=pb.Permit(entries=entries))


def nack(*positions: pb.Position) -> pb.ConsumeRequest:
    return pb.ConsumeRequest(negative_acknowledge=pb.NegativeAcknowledge(positions=positions))


def test_single_messages_are_given_back_by_their_delivery() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        producer = await client.produce("s")
        await producer.say(pb.ProduceRequest(sends=pb.Sends(sends=[pb.Send(payload=b"abc", message_count=3)])))
        await answers(producer, 1)
        stream = await client.consume("s", kind=pb.SHARED)
        (came,) = await deliveries(stream, 1)
        nacks = [
            pb.Nack(position=came.position, batch=[1], redeliveries=5),
            pb.Nack(position=came.position, batch=[0, 2], redeliveries=came.redeliveries),
        ]
        await stream.say(pb.ConsumeRequest(negative_acknowledge=pb.NegativeAcknowledge(nacks=nacks)))
        (again,) = await deliveries(stream, 1)
        assert (again.redeliveries, again.acknowledged) == (came.redeliveries + 1, b"\x02")
        nacks = [pb.Nack(position=came.position, batch=[100_000])]
        await stream.say(pb.ConsumeRequest(negative_acknowledge=pb.NegativeAcknowledge(nacks=nacks)))
        assert "BATCH_SIZE_MAX" in (await stream.refusal()).text

    run(scenario)


def test_nothing_is_delivered_beyond_the_permits() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await prepared(client, "a", "b", "c", "d")
        stream = await client.consume("s", permits=0)
        await stream.say(acknowledge(1, pb.Position(ledger=99)))
        assert await acknowledged(stream, 1) == {1: "InvalidAck"}  # and nothing came before
        await stream.say(permit(3))
        assert payloads(await deliveries(stream, 3)) == ["a", "b", "c"]
        await stream.say(acknowledge(2, pb.Position(ledger=99)))
        assert await acknowledged(stream, 2) == {2: "InvalidAck"}
        await stream.say(permit(1))
        assert payloads(await deliveries(stream, 1)) == ["d"]

    run(scenario)


def test_a_permit_is_for_an_entry_however_many_messages_it_has() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await prepared(client)
        producer = await client.produce("s")
        batches = [pb.Send(sequence_id=each * 50, payload=b"x", message_count=50) for each in range(20)]
        await producer.say(pb.ProduceRequest(sends=pb.Sends(sends=batches)))
        await answers(producer, len(batches))
        stream = await client.consume("s", permits=1)
        for _ in batches:
            (found,) = await deliveries(stream, 1)
            assert found.message_count == 50
            await stream.say(permit(1))

    run(scenario)


def test_what_is_acknowledged_is_not_delivered_again() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        positions = await prepared(client, "a", "b", "c", "d")
        stream = await client.consume("s")
        await deliveries(stream, 4)
        await stream.say(acknowledge(7, positions[1]))
        await stream.say(acknowledge(8, positions[3]))
        await stream.half_close()
        assert await acknowledged(stream, 7, 8) == {7: "", 8: ""}
        assert await stream.next() is None
        assert await redelivered(client, 2) == ["a", "c"]

    run(scenario)


def test_everything_up_to_an_entry_is_acknowledged() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        positions = await prepared(client, "a", "b", "c", "d")
        stream = await client.consume("s")
        await deliveries(stream, 4)
        await stream.say(acknowledge(1, positions[2], is_cumulative=True))
        assert await acknowledged(stream, 1) == {1: ""}
        await stream.half_close()
        assert await stream.next() is None
        assert await redelivered(client, 1) == ["d"]

    run(scenario)


def test_messages_of_a_batch_are_acknowledged() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await prepared(client)
        producer = await client.produce("s")
        await producer.say(pb.ProduceRequest(sends=pb.Sends(sends=[pb.Send(payload=b"x", message_count=10)])))
        (answer,) = await answers(producer, 1)
        stream = await client.consume("s", kind=pb.SHARED)
        (found,) = await deliveries(stream, 1)
        assert (found.acknowledged, found.redeliveries) == (b"", 0)
        await stream.say(acknowledge(1, answer.position, batch=[0, 9], batch_size=10))
        await stream.say(acknowledge(2, answer.position, batch=[1], batch_size=11))
        await stream.say(acknowledge(3, answer.position, batch=[10], batch_size=10))
        assert await acknowledged(stream, 1, 2, 3) == {1: "", 2: "InvalidAck", 3: "InvalidAck"}
        await stream.say(nack(answer.position))
        (again,) = await deliveries(stream, 1)
        assert (again.acknowledged, again.redeliveries) == (bytes([0b1, 0b10]), 1)

    run(scenario)


@pytest.mark.parametrize(("size", "bits"), [(1, 1), (8, 0b10000001), (9, 1 << 8), (17, 1 << 16 | 1)])
def test_bits_are_told_message_by_message(size: int, bits: int) -> None:
    told = bits_as_bytes(BatchBits(size, bits))
    assert len(told) == -(-size // 8)
    assert [told[n // 8] >> n % 8 & 1 for n in range(size)] == [bits >> n & 1 for n in range(size)]


@pytest.mark.parametrize(("outcome", "expected"), [(pb.COMMIT, ["c"]), (pb.ABORT, ["a", "b", "c"])])
def test_acknowledgements_in_a_transaction_count_if_it_commits(outcome: Any, expected: list[str]) -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        first, second, _ = await prepared(client, "a", "b", "c")
        txn_id, other = await begun(client), await begun(client)
        stream = await client.consume("s")
        await deliveries(stream, 3)
        await stream.say(acknowledge(1, first, second, txn_id=txn_id))
        assert await acknowledged(stream, 1) == {1: ""}
        await stream.say(acknowledge(2, second, txn_id=other))
        await stream.say(acknowledge(3, second))
        await stream.say(acknowledge(4, first, txn_id=txn_id))
        assert await acknowledged(stream, 2, 3, 4) == {2: "TxnConflict", 3: "TxnConflict", 4: ""}
        await client.call("EndTransaction", txn_id=txn_id, outcome=outcome)
        await stream.half_close()
        assert await stream.next() is None or outcome == pb.ABORT
        assert await redelivered(client, len(expected)) == expected

    run(scenario)


def test_an_acknowledgement_in_a_transaction_that_is_over() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        positions = await prepared(client, "a")
        txn_id = await begun(client)
        await client.call("EndTransaction", txn_id=txn_id, outcome=pb.COMMIT)
        stream = await client.consume("s")
        for request_id, text in ((1, txn_id), (2, "md_0_99"), (3, "1_2")):
            await stream.say(acknowledge(request_id, *positions, txn_id=text))
        await deliveries(stream, 1)
        assert await acknowledged(stream, 1, 2, 3) == {1: "TxnConflict", 2: "TxnConflict", 3: "InvalidTxnId"}

    run(scenario)


def test_what_is_given_back_comes_again() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        positions = await prepared(client, "a", "b")
        stream = await client.consume("s", kind=pb.SHARED)
        await deliveries(stream, 2)
        await stream.say(nack(positions[1]))
        (again,) = await deliveries(stream, 1)
        assert (again.payload, again.redeliveries) == (b"b", 1)

    run(scenario)


def test_an_ordered_subscription_that_goes_back_says_so() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        positions = await prepared(client, "a", "b", "c")
        stream = await client.consume("s")
        before = await deliveries(stream, 3)
        await stream.say(nack(positions[1]))
        again = await deliveries(stream, 2)
        assert payloads(again) == ["b", "c"]
        assert min(each.epoch for each in again) > max(each.epoch for each in before)

    run(scenario)


def test_one_consumer_at_a_time() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await prepared(client, "a")
        first = await client.consume("s")
        await deliveries(first, 1)
        for kind in (pb.EXCLUSIVE, pb.SHARED):
            second = client.stream("Consume", pb.ConsumeResponse)
            opening = pb.OpenConsumer(segment="s", subscription="sub", kind=kind)
            await second.say(pb.ConsumeRequest(open=opening))
            refused = await second.refusal()
            assert (refused.name, refused.branch) == ("ConsumerBusy", "retriable")
        await first.half_close()
        assert await first.next() is None
        assert await redelivered(client, 1) == ["a"]

    run(scenario)


def test_the_next_consumer_takes_over_from_one_that_breaks_off() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await prepared(client, "a", "b")
        first = await client.consume("s", kind=pb.FAILOVER)
        await deliveries(first, 2)
        second = await client.consume("s", kind=pb.FAILOVER)
        first.call.cancel()
        assert payloads(await deliveries(second, 2)) == ["a", "b"]

    run(scenario)


def test_entries_are_spread_over_consumers_that_share() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await prepared(client)
        streams = [await client.consume("s", permits=2, kind=pb.SHARED) for _ in range(3)]
        await published(client, "s", *"abcdef")
        found = [payloads(await deliveries(stream, 2)) for stream in streams]
        assert sorted(itertools.chain(*found)) == list("abcdef")

    run(scenario)


def test_a_new_subscription_begins_where_it_is_told() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await prepared(client, "a")
        latest = await client.consume("s", "latest", start=pb.LATEST)
        earliest = await client.consume("s", "earliest", start=pb.EARLIEST)
        await published(client, "s", "b")
        assert payloads(await deliveries(latest, 1)) == ["b"]
        assert payloads(await deliveries(earliest, 2)) == ["a", "b"]

    run(scenario)


def test_deliveries_come_in_responses_of_a_bounded_size() -> None:
    limits = BrokerLimits(deliveries_per_response_max=3, response_bytes_max=1_000)

    async def scenario(broker: Broker, client: WireClient) -> None:
        texts = ["x" * 10] * 7 + ["y" * 500] * 3 + ["z" * 2_000]
        await prepared(client, *texts)
        stream = await client.consume("s")
        found: list[str] = []
        while len(found) < len(texts):
            response = payloads((await stream.next()).deliveries.deliveries)
            assert len(response) <= 3
            assert len(response) == 1 or sum(map(len, response)) < 1_000
            found += response
        assert found == texts

    run(scenario, limits=limits)


def test_the_answer_to_an_acknowledgement_comes_behind_all_that_was_taken_before_it() -> None:
    """Nothing is read while the broker sends the second of three responses, and carries the acknowledgement out."""

    async def scenario(broker: Broker, _: WireClient) -> None:
        texts = [str(number) * 1_300_000 for number in range(3)]
        async with WireClient(broker.address, options=[*EAGER_CHANNEL, *NO_MORE_THAN_IS_READ]) as client:
            positions = await prepared(client, *texts)
            stream = await client.consume("s")
            assert payloads(await deliveries(stream, 1)) == texts[:1], "all were taken for it"
            await stream.say(acknowledge(1, positions[2]))
            await until_acknowledged(client, entries=1, of=3)
            assert payloads(await deliveries(stream, 2)) == texts[1:]
            assert await acknowledged(stream, 1) == {1: ""}

    run(scenario)


async def until_acknowledged(client: WireClient, entries: int, of: int) -> None:
    for _ in range(CALLS_MAX):
        (found,) = (await client.call("SegmentStats", segment="s")).subscriptions
        if found.backlog_entries == of - entries:
            return
    raise AssertionError(f"{found.backlog_entries} of {of} are not acknowledged after {CALLS_MAX} calls")


# ---- what is refused


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (permit(1), "`open`"),
        (pb.ConsumeRequest(), "`open`"),
        (b"\xff", "no ConsumeRequest"),
        (pb.ConsumeRequest(open=pb.OpenConsumer(segment="s")), "name_bytes_max"),
        (pb.ConsumeRequest(open=pb.OpenConsumer(segment="s", subscription="n" * 513)), "name_bytes_max"),
        (pb.ConsumeRequest(open=pb.OpenConsumer(segment="s", subscription="sub", consumer="n" * 513)), "consumer"),
        (b"\x0a\x0a\x0a\x01s\x12\x03sub\x20\x09", "kind 9"),
        (pb.ConsumeRequest(open=pb.OpenConsumer(subscription="sub")), "name_bytes_max"),
    ],
)
def test_how_a_consumers_stream_may_not_begin(first: pb.ConsumeRequest | bytes, words: str) -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await prepared(client)
        stream = client.stream("Consume", pb.ConsumeResponse)
        await stream.say(first)
        refused = await stream.refusal()
        assert refused.name == "InvalidRequest"
        assert words in refused.text

    run(scenario)


@pytest.mark.parametrize(
    ("second", "name", "words"),
    [
        (pb.ConsumeRequest(open=pb.OpenConsumer()), "InvalidRequest", "opened once"),
        (pb.ConsumeRequest(), "InvalidRequest", "opened once"),
        (b"\xff", "InvalidRequest", "no ConsumeRequest"),
        (permit(0), "InvalidRequest", "no entries"),
        (permit(11), "PermitsExceeded", "permits_max"),
        (acknowledge(1, *[pb.Position()] * 3), "InvalidRequest", "acks_per_request_max"),
        (nack(*[pb.Position()] * 3), "InvalidRequest", "acks_per_request_max"),
        (nack(pb.Position(entry=1 << 63)), "InvalidRequest", "position"),
    ],
)
def test_what_ends_a_consumers_stream(second: pb.ConsumeRequest | bytes, name: str, words: str) -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await prepared(client)
        stream = await client.consume("s", permits=0)
        await stream.say(permit(10))
        await stream.say(nack(*[pb.Position()] * 2))
        await stream.say(acknowledge(9, *[pb.Position()] * 2))
        assert await acknowledged(stream, 9) == {9: "InvalidAck"}
        await stream.say(second)
        refused = await stream.refusal()
        assert refused.name == name
        assert words in refused.text

    run(scenario, limits=BrokerLimits(permits_max=10, acks_per_request_max=2))


@pytest.mark.parametrize(
    ("ack", "name"),
    [
        (pb.Ack(position=pb.Position(ledger=1 << 63)), "InvalidRequest"),
        (pb.Ack(position=pb.Position(ledger=1), batch=[3], batch_size=3), "InvalidAck"),
        (pb.Ack(position=pb.Position(ledger=1), batch=[3], batch_size=100_001), "InvalidAck"),
    ],
)
def test_a_bad_acknowledgement_is_refused_by_itself(ack: pb.Ack, name: str) -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        positions = await prepared(client, "a")
        stream = await client.consume("s")
        await deliveries(stream, 1)
        await stream.say(pb.ConsumeRequest(acknowledge=pb.Acknowledge(request_id=1, acks=[ack])))
        await stream.say(pb.ConsumeRequest(acknowledge=pb.Acknowledge(request_id=2)))
        await stream.say(acknowledge(3, *positions))
        assert await acknowledged(stream, 1, 2, 3) == {1: name, 2: "InvalidRequest", 3: ""}

    run(scenario)


def test_with_so_many_acknowledgements_under_way_no_more_are_taken() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        texts = [f"{number}" for number in range(50)]
        positions = await prepared(client, *texts)
        stream = await client.consume("s")
        await deliveries(stream, 50)
        for number, position in enumerate(positions):
            await stream.say(acknowledge(number, position))
        assert set((await acknowledged(stream, *range(50))).values()) == {""}

    run(scenario, limits=BrokerLimits(acknowledges_under_way_max=2))


def test_a_consumer_in_receive_transform_send() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await prepared(client, "a", "b")
        await client.call("CreateSegment", segment="out")
        stream, producer = await client.consume("s"), await client.produce("out", "p")
        for number, found in enumerate(await deliveries(stream, 2)):
            txn_id = await begun(client)
            await producer.say(sends(found.payload.decode().upper(), first=number, txn_id=txn_id))
            await answers(producer, 1)
            await stream.say(acknowledge(number, found.position, txn_id=txn_id))
            assert await acknowledged(stream, number) == {number: ""}
            await client.call("EndTransaction", txn_id=txn_id, outcome=pb.COMMIT)
        assert payloads(await deliveries(await client.consume("out"), 2)) == ["A", "B"]

    run(scenario)


def test_streams_that_break_off_leave_nothing_behind() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await prepared(client, "a")
        for _ in range(20):
            stream = await client.consume("s", kind=pb.SHARED)
            stream.call.cancel()
        while (await client.call("SegmentStats", segment="s")).subscriptions[0].consumers:
            await asyncio.sleep(0)
        assert await redelivered(client, 1) == ["a"]

    run(scenario)
