"""Entries of several messages and of another client's making, in a segment that consumers of a stream share by keys."""

from __future__ import annotations

import asyncio

from consumers_stage import PATIENCE_MS, TOPIC, Stage, run

from controller.client import EARLIEST, Client
from controller.pb import broker_pb2 as pb
from support.broker_helpers import WireClient, answers

SEGMENT = "segment://public/default/orders/0000-ffff-0"
LOW, MIDDLE, HIGH = 0x1234_0001, 0x1234_5000, 0x1234_F000


async def send_foreign(address: str, *hashes: int) -> None:
    """Sends an entry, when three consumers are there."""
    async with WireClient(address) as client:
        while (await client.call("SegmentStats", segment=SEGMENT)).subscriptions[0].consumers < 3:
            await asyncio.sleep(0.005)
        stream = await client.produce(SEGMENT)
        entry = pb.Send(payload=b"who knows", message_count=len(hashes), key_hashes=hashes, is_batch=True)
        await stream.say(pb.ProduceRequest(sends=pb.Sends(sends=[entry])))
        (answer,) = await answers(stream, 1)
        assert not answer.error.name
        await stream.half_close()
        assert await stream.next() is None


def test_each_acknowledges_his_part_and_what_one_leaves_comes_to_the_other() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        await client.topics.create(TOPIC)
        consumers = [await client.stream_consumer(TOPIC, "billing", name=name, start=EARLIEST) for name in "abc"]
        await send_foreign(stage.brokers[0].address, LOW, MIDDLE, LOW, HIGH)
        messages = [await each.receive(PATIENCE_MS) for each in consumers]
        assert [each.payload for each in messages] == [b"who knows"] * 3
        assert all(each.damage for each in messages)
        one, middle, other = consumers
        await middle.close()
        left = await one.receive(PATIENCE_MS)
        assert left.payload == b"who knows", "beside what it has and works at"
        await other.acknowledge_cumulative(messages[2])
        await one.acknowledge_cumulative(messages[0])
        assert (await client.topics.stats(TOPIC)).subscriptions["billing"].backlog_entries == 1
        await one.acknowledge_cumulative(left)
        assert (await client.topics.stats(TOPIC)).subscriptions["billing"].backlog_entries == 0

    run(scenario)
