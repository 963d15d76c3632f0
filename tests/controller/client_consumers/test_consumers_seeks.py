"""Putting a subscription elsewhere while its messages are on their way: nothing from before is handed out behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from consumers_stage import PATIENCE_MS, TOPIC, Stage, nothing_comes, run, send, taken, until

from controller.client import EARLIEST, BrokersUnavailable, Client
from controller.client.caller import Caller
from controller.client.consumers import StreamConsumer
from controller.client.consumers.attachments import Attachment
from controller.client.segment.consumer import SegmentConsumer
from controller.client.segment.lane import Lane
from controller.pb import broker_pb2 as pb


async def opened(client: Client, name: str = "one") -> StreamConsumer:
    return await client.stream_consumer(TOPIC, "billing", name=name, start=EARLIEST)


def attached(consumer: StreamConsumer) -> Attachment:
    """Its only segment."""
    (attachment,) = consumer._stream._attachments.values()
    return attachment


def before_it_is_heard(lane: Lane[Any, pb.ConsumeResponse], work: Callable[[], None]) -> None:
    """Does something between the arrival of the next message but one on a stream and the moment when it is heard."""
    call: Any = lane._call
    read, is_done = call.read, False

    async def late() -> object:
        nonlocal is_done
        answer = await read()
        if not is_done and isinstance(answer, pb.ConsumeResponse) and answer.HasField("deliveries"):
            is_done = True
            work()
        return answer

    call.read = late


def test_what_arrives_at_the_moment_of_a_seek_is_not_handed_out_before_what_comes_again() -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        consumer, producer = await opened(client), await client.producer(TOPIC)
        await send(producer, [0])
        assert await taken(consumer, 1) == [0]
        inner = attached(consumer)._consumer
        assert inner is not None
        before_it_is_heard(inner._lane, consumer._stream.restart)
        await send(producer, [1])  # the read of this one was begun before
        assert await taken(consumer, 1) == [1]
        waiting = asyncio.create_task(taken(consumer, 3))
        await send(producer, [2])
        assert await waiting == [0, 1, 2]

    run(scenario)


def test_nor_is_what_came_before_it_to_who_is_just_taking_a_segment_over(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        async with await opened(client) as before:
            await send(await client.producer(TOPIC), range(5))
            messages = [await before.receive(PATIENCE_MS) for _ in range(3)]
            await before.acknowledge_cumulative(messages[-1])
        newcomers, may_go_on, may_read = list[SegmentConsumer](), asyncio.Event(), asyncio.Event()
        wait_opened = SegmentConsumer.wait_opened

        async def slow(newcomer: SegmentConsumer) -> None:
            await wait_opened(newcomer)
            newcomers.append(newcomer)
            await may_go_on.wait()

        monkeypatch.setattr(SegmentConsumer, "wait_opened", slow)
        consumer = await opened(client, "two")
        await until(lambda: len(newcomers) == 1 and len(newcomers[0]._inbox) > 0)
        call: Any = newcomers[0]._lane._call
        read = call.read

        async def slow_read() -> object:
            await may_read.wait()
            return await read()

        call.read = slow_read
        await client.topics.seek(TOPIC, "billing", 0)
        await consumer.seek(EARLIEST)
        may_go_on.set()
        assert await nothing_comes(consumer)
        may_read.set()
        assert await taken(consumer, 5) == list(range(5))

    run(scenario)


def test_a_stream_that_is_let_go_when_its_broker_dies_is_opened_at_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(stage: Stage, client: Client) -> None:
        consumer, producer = await opened(client), await client.producer(TOPIC)
        await send(producer, [0])
        assert await taken(consumer, 1) == [0]
        inner = attached(consumer)._consumer
        assert inner is not None
        dead, reach = inner._lane._way.address, Caller.reach

        async def reach_the_living(caller: Caller, address: str) -> None:
            await asyncio.sleep(0)
            if address == dead:
                raise BrokersUnavailable(f"no connection to {address}")
            await reach(caller, address)

        monkeypatch.setattr(Caller, "reach", reach_the_living)
        inner.renew()
        await stage.stop(next(each for each in stage.brokers if each.address == dead))
        await send(producer, [1])
        assert await taken(consumer, 1) == [1]

    run(scenario, brokers=2)
