"""What several consumers of a topic need of its segments, over the wire: keys, divisions, times, bytes and claims."""

from __future__ import annotations

import time
from typing import Any

import pytest

from controller.broker import Broker
from controller.pb import broker_pb2 as pb
from controller.pb.topics_pb2 import SetClaimRequest
from support.broker_helpers import Refused, WireClient, WireStream, acknowledge, acknowledged, answers, deliveries, run
from txn.segment.entry import UNCOMPRESSED_BYTES_MAX
from txn.segment.subscription import BUCKETS_MAX

HALVES = ((0, 0x7FFF), (0x8000, 0xFFFF))
LOW, HIGH = 0x1234_0001, 0x1234_F000


def buckets(*bounds: tuple[int, int]) -> list[pb.Bucket]:
    return [pb.Bucket(start=start, end=end) for start, end in bounds]


def keyed(sequence: int, *hashes: int, **fields: Any) -> pb.Send:
    payload = b"".join(b"%d;" % each for each in hashes)
    return pb.Send(
        sequence_id=sequence, payload=payload, message_count=len(hashes), key_hashes=hashes, is_batch=True, **fields
    )


async def sent(client: WireClient, *sends: pb.Send) -> list[pb.SendAnswer]:
    stream = await client.produce("s")
    await stream.say(pb.ProduceRequest(sends=pb.Sends(sends=sends)))
    found = await answers(stream, len(sends))
    await stream.half_close()
    return found


async def shared(client: WireClient, name: str, **fields: Any) -> WireStream:
    fields = {"kind": pb.KEY_SHARED, "buckets": buckets(*HALVES), **fields}
    return await client.consume("s", consumer=name, **fields)


async def refusal(client: WireClient, **fields: Any) -> Refused:
    """With what a consumer is refused."""
    with pytest.raises(Refused) as refused:
        await client.consume("s", permits=0, **fields)
    return refused.value


# ---- keys


def test_a_batch_is_shared_and_acknowledged_message_by_message() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        one, other = await shared(client, "a"), await shared(client, "b")
        await sent(client, keyed(0, LOW, HIGH, LOW), keyed(3, HIGH))
        (low,) = await deliveries(one, 1)
        first, second = [*await deliveries(other, 2)]
        assert (low.acknowledged, first.acknowledged, second.acknowledged) == (b"\x02", b"\x05", b"")
        assert low.payload == first.payload
        assert low.is_batch
        await one.say(acknowledge(1, low.position, batch=[0], batch_size=3))
        await one.say(acknowledge(2, low.position))
        assert await acknowledged(one, 1, 2) == {1: "", 2: ""}
        await one.say(acknowledge(3, second.position))
        assert await acknowledged(one, 3) == {3: "AckTooLate"}
        await other.say(acknowledge(3, second.position))
        assert await acknowledged(other, 3) == {3: ""}
        await other.say(acknowledge(4, second.position, is_cumulative=True))
        assert await acknowledged(other, 4) == {4: "InvalidAck"}
        stats = await client.call("SegmentStats", segment="s")
        assert stats.subscriptions[0].unacknowledged_messages == 1
        await other.half_close()
        assert await other.next() is None
        (again,) = await deliveries(one, 1)
        assert (again.position, again.acknowledged, again.redeliveries) == (first.position, b"\x05", 1)

    run(scenario)


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ((), "0 buckets"),
        (((1, 0xFFFF),), "begins at 0"),
        (((0, 10), (12, 0xFFFF)), "begins at 11"),
        (((0, 10), (10, 0xFFFF)), "begins at 11"),
        (((0, 0x10000),), "from 0 to 65536"),
        (((0, 5), (6, 5), (6, 0xFFFF)), "from 6 to 5"),
        (((0, 0xFFFE),), "they go to 65535"),
        (tuple((each, each) for each in range(BUCKETS_MAX + 1)), "BUCKETS_MAX"),
    ],
)
def test_buckets_are_all_there_are_without_a_gap(bounds: tuple[tuple[int, int], ...], words: str) -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        refused = await refusal(client, kind=pb.KEY_SHARED, buckets=buckets(*bounds))
        assert refused.name == "InvalidRequest"
        assert words in refused.text

    run(scenario)


def test_all_consumers_name_the_same_buckets() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        await shared(client, "a")
        refused = await refusal(client, kind=pb.KEY_SHARED, buckets=buckets((0, 0xFFFF)))
        assert (refused.name, refused.branch) == ("ConsumerBusy", "retriable")
        assert "buckets that begin at 0, not 0, 32768" in refused.text

    run(scenario)


def test_a_newer_division_replaces_the_streams_of_an_older_one() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        one = await client.consume("s", consumer="a", assigned=pb.Assigned(term=2, generation=1))
        newer = pb.Assigned(term=2, generation=2)
        assert (await refusal(client, assigned=newer)).name == "ConsumerBusy"
        older = await refusal(client, assigned=pb.Assigned(term=1, generation=9), replaces=True)
        assert (older.name, older.branch) == ("ConsumerReplaced", "fatal")
        await client.consume("s", assigned=newer, replaces=True)
        refused = await one.refusal()
        assert refused.name == "ConsumerReplaced"
        assert "'a'" in refused.text

    run(scenario)


# ---- entries


def test_what_an_entry_says_of_itself_comes_with_it() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        later = int(time.time() * 1000) + 3_600_000
        await sent(
            client,
            pb.Send(payload=b"squeezed", compression=pb.ZSTD, uncompressed_bytes=100, key_hashes=[LOW]),
            pb.Send(sequence_id=1, payload=b"later", deliver_at_ms=later),
        )
        ordered = await client.consume("s", "ordered")
        first, second = await deliveries(ordered, 2)
        assert (first.compression, first.uncompressed_bytes, first.is_batch) == (pb.ZSTD, 100, False)
        assert (second.deliver_at_ms, second.compression) == (later, pb.UNCOMPRESSED)
        queue = await client.consume("s", "queue", kind=pb.SHARED)
        await deliveries(queue, 1)
        await queue.half_close()
        assert await queue.next() is None
        reader = client.read("s")
        await reader.next()
        assert len(await deliveries(reader, 2)) == 2

    run(scenario)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"key_hashes": [1, 2]}, "InvalidRequest"),
        ({"compression": pb.ZLIB}, "InvalidRequest"),
        ({"uncompressed_bytes": 1}, "InvalidRequest"),
        ({"deliver_at_ms": 1 << 63}, "InvalidRequest"),
        ({"compression": pb.ZLIB, "uncompressed_bytes": UNCOMPRESSED_BYTES_MAX + 1}, "GroupTooLarge"),
    ],
)
def test_what_cannot_be_is_refused_by_name(fields: dict[str, Any], name: str) -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        (answer,) = await sent(client, pb.Send(payload=b"x", **fields))
        assert answer.error.name == name

    run(scenario)


def test_no_more_bytes_come_than_were_granted() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        await sent(client, *(pb.Send(sequence_id=each, payload=bytes(60)) for each in range(4)))
        stream = await client.consume("s", permits=0)
        await stream.say(pb.ConsumeRequest(permit=pb.Permit(entries=100, bytes=130)))
        first = await deliveries(stream, 2)
        await stream.say(pb.ConsumeRequest(permit=pb.Permit(bytes=50)))
        (third,) = await deliveries(stream, 1)
        await stream.say(acknowledge(1, first[0].position, first[1].position))
        assert await acknowledged(stream, 1) == {1: ""}
        await stream.say(acknowledge(2, third.position))  # now nothing is under way
        found: list[Any] = []
        while len(found) < 2:
            response = await stream.next()
            found += [*response.deliveries.deliveries, *response.acknowledgements.acknowledged]
        assert len(found) == 2
        await stream.say(pb.ConsumeRequest(permit=pb.Permit()))
        assert (await stream.refusal()).name == "InvalidRequest"

    run(scenario)


# ---- producers


async def opening(client: WireClient, producer: str, claim: int = 0) -> WireStream:
    stream = client.stream("Produce", pb.ProduceResponse)
    await stream.say(pb.ProduceRequest(open=pb.OpenProducer(segment="s", producer=producer, claim=claim)))
    return stream


async def opened(client: WireClient, producer: str, claim: int = 0) -> tuple[WireStream, pb.ProducerOpened]:
    stream = await opening(client, producer, claim)
    return stream, (await stream.next()).opened


async def set_claim(client: WireClient, claim: int, is_released: bool) -> None:
    """As the leader of the topic does."""
    request = SetClaimRequest(segment="s", claim=claim, is_released=is_released)
    await client.call_raw("/tidemark.topics.v1.SegmentWork/SetClaim", request.SerializeToString())


def test_a_producer_is_told_what_is_stored_of_it_of_a_sealed_segment_too() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        stream, answer = await opened(client, "p")
        assert not answer.HasField("last_sequence_id")
        await stream.say(pb.ProduceRequest(sends=pb.Sends(sends=[keyed(0, LOW, HIGH)])))
        await answers(stream, 1)
        await client.call("SealSegment", segment="s")
        stream, answer = await opened(client, "p")
        assert answer.HasField("last_sequence_id")
        assert answer.last_sequence_id == 1
        await stream.say(pb.ProduceRequest(sends=pb.Sends(sends=[keyed(0, LOW, HIGH), keyed(2, LOW), keyed(3, LOW)])))
        found = await answers(stream, 3)
        assert [(each.is_duplicate, each.error.name) for each in found] == [
            (True, ""),
            (False, "SegmentSealed"),
            (False, "SegmentSealed"),
        ]
        assert not (await opened(client, ""))[1].HasField("last_sequence_id")

    run(scenario)


def test_a_claim_ends_the_streams_of_others_and_keeps_them_out() -> None:
    async def scenario(broker: Broker, client: WireClient) -> None:
        await client.call("CreateSegment", segment="s")
        plain, _ = await opened(client, "p")
        nobodys, _ = await opened(client, "")
        await set_claim(client, 5, False)
        for stream in (plain, nobodys, await opening(client, "q"), await opening(client, "q", claim=4)):
            refused = await stream.refusal()
            assert (refused.name, refused.branch) == ("ProducerFenced", "fatal")
        holder, _ = await opened(client, "p", claim=5)
        await holder.say(pb.ProduceRequest(sends=pb.Sends(sends=[keyed(0, LOW)])))
        assert [each.error.name for each in await answers(holder, 1)] == [""]
        await set_claim(client, 5, True)
        assert (await holder.refusal()).name == "ProducerFenced"
        await opened(client, "p")

    run(scenario)
