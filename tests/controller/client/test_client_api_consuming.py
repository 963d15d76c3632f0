"""Consumers: batches taken apart, permits, acknowledgements over broken streams, what is given back, seeks, ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from client_api_broker import SEGMENT, Context, ScriptedBroker, client_of, impatient, refused
from client_api_counter import Counter, entry, payloads

from controller.client import (
    LATEST,
    AckUnconfirmed,
    Client,
    EndReached,
    InvalidRequest,
    MessageId,
    Position,
    SegmentConsumer,
    SubscriptionKind,
)
from controller.pb import broker_pb2 as pb
from txn.model.errors import SegmentUnavailable, TxnConflict
from txn.segment.subscription.errors import ConsumerBusy

Scenario = Callable[[ScriptedBroker, Counter, Client], Awaitable[None]]

BATCH = entry(0, b"a", b"b", b"c")
SINGLE = entry(1, b"d")


def run(scenario: Scenario, *entries: pb.Delivery) -> None:
    async def whole() -> None:
        counter = Counter(*entries)
        async with ScriptedBroker() as broker:
            broker.streams["Consume"] = counter.consume
            async with await client_of(broker) as client:
                await scenario(broker, counter, client)

    asyncio.run(whole())


async def received(consumer: SegmentConsumer, count: int) -> list[Any]:
    return [await consumer.receive(60_000) for _ in range(count)]


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0.001)


def test_batches_come_apart_and_single_messages_are_acknowledged_by_their_bits() -> None:
    async def scenario(broker: ScriptedBroker, counter: Counter, client: Client) -> None:
        async with await client.segment_consumer("orders", "billing") as consumer:
            a, b, c, d = await received(consumer, 4)
            assert payloads([a, b, c, d]) == [b"a", b"b", b"c", b"d"]
            assert [str(each.id) for each in (a, b, c, d)] == ["1:0", "1:0/1", "1:0/2", "1:1"]
            assert [each.sequence_id for each in (a, b, c, d)] == [0, 1, 2, 1]
            await consumer.acknowledge(b)
            await consumer.acknowledge(c, a, d)
            await consumer.acknowledge(a, b, c)
            await consumer.acknowledge_cumulative(b)
            await consumer.acknowledge_cumulative(c)
        assert counter.acks == [
            (0, False, [1], 3),
            (0, False, [0, 2], 3),
            (1, False, [], 0),
            (0, False, [], 0),
            (0, True, [1], 3),
            (0, True, [], 0),
        ]

    run(scenario, BATCH, SINGLE)


def test_where_an_entry_is_shared_by_keys_every_message_is_named() -> None:
    async def scenario(broker: ScriptedBroker, counter: Counter, client: Client) -> None:
        async with await client.segment_consumer("orders", "billing", kind=SubscriptionKind.KEY_SHARED) as consumer:
            await consumer.acknowledge(*await received(consumer, 4))
        assert counter.acks == [(0, False, [0, 1, 2], 3), (1, False, [], 0)]

    run(scenario, BATCH, SINGLE)


def test_of_an_entry_that_cannot_be_taken_apart_those_are_named_that_were_given() -> None:
    """By two deliveries, one behind the other, of what had another consumer first."""

    async def scenario(broker: ScriptedBroker, counter: Counter, client: Client) -> None:
        async with await client.segment_consumer("orders", "billing", kind=SubscriptionKind.KEY_SHARED) as consumer:
            first, second = await received(consumer, 2)
            assert (first.id, second.id) == (MessageId(Position(1, 0)), MessageId(Position(1, 0), 1))
            await consumer.acknowledge(first)
            await consumer.acknowledge(second)
        assert counter.acks == [(0, False, [0, 2], 3), (0, False, [1], 3)]

    run(scenario, foreign(0b010), foreign(0b101))


def foreign(others: int) -> pb.Delivery:
    """Of an entry in the format of others what somebody else does not have."""
    delivery = entry(0, b"a", b"b", b"c", acknowledged=bytes([others]))
    delivery.payload = b"who knows"
    return delivery


def test_messages_of_a_batch_that_are_acknowledged_already_are_left_out() -> None:
    async def scenario(broker: ScriptedBroker, counter: Counter, client: Client) -> None:
        async with await client.segment_consumer("orders", "billing") as consumer:
            b, d = await received(consumer, 2)
            assert payloads([b, d]) == [b"b", b"d"]
            assert b.id == MessageId(Position(1, 0), 1)
            assert b.batch_size == 3

    run(scenario, entry(0, b"a", b"b", b"c", acknowledged=bytes([0b101])), SINGLE)


def test_a_batch_in_the_format_of_others_is_handed_on_whole() -> None:
    async def scenario(broker: ScriptedBroker, counter: Counter, client: Client) -> None:
        async with await client.segment_consumer("orders", "billing") as consumer:
            (message,) = await received(consumer, 1)
            assert message.payload == b"who knows"
            await consumer.acknowledge(message)
        assert counter.acks == [(0, False, [], 0)]

    foreign = entry(0, b"who knows")
    foreign.message_count = 5
    run(scenario, foreign)


def test_room_that_was_made_is_granted_again() -> None:
    async def scenario(broker: ScriptedBroker, counter: Counter, client: Client) -> None:
        async with await client.segment_consumer("orders", "billing", prefetch=4) as consumer:
            assert payloads(await received(consumer, 20)) == [b"%d" % number for number in range(20)]
        assert counter.permits[0] == 4
        assert all(2 <= each <= 4 for each in counter.permits)
        assert 20 <= sum(counter.permits) <= 24

    run(scenario, *(entry(number, b"%d" % number) for number in range(20)))


def test_behind_a_broken_stream_what_waited_comes_again_and_once() -> None:
    async def scenario(broker: ScriptedBroker, counter: Counter, client: Client) -> None:
        async with await client.segment_consumer("orders", "billing") as consumer:
            (a,) = await received(consumer, 1)
            await consumer.acknowledge(a)
            counter.entries.pop(0)
            counter.break_off()
            await until(lambda: len(counter.opened) == 2)
            assert payloads(await received(consumer, 2)) == [b"b", b"c"]
            with pytest.raises(TimeoutError):
                await consumer.receive(20)

    run(scenario, entry(0, b"a"), entry(1, b"b"), entry(2, b"c"))


def test_an_acknowledgement_without_an_answer_is_sent_again_and_holds_the_copy_back() -> None:
    async def scenario(broker: ScriptedBroker, counter: Counter, client: Client) -> None:
        async with await client.segment_consumer("orders", "billing") as consumer:
            (a,) = await received(consumer, 1)
            counter.is_silent = True
            confirmation = consumer.acknowledge(a)
            await until(lambda: len(counter.acknowledged) == 1)
            counter.is_silent = False
            counter.break_off()
            await confirmation
            assert payloads(await received(consumer, 1)) == [b"b"]
        assert counter.acks == [(0, False, [], 0)] * 2
        assert counter.given_back == []

    run(scenario, entry(0, b"a"), entry(1, b"b"))


def test_an_acknowledgement_that_fails_gives_back_what_it_held_back() -> None:
    async def scenario(broker: ScriptedBroker, counter: Counter, client: Client) -> None:
        async with await client.segment_consumer("orders", "billing", kind=SubscriptionKind.SHARED) as consumer:
            (a,) = await received(consumer, 1)
            counter.news.put_nowait(entry(0, b"a", redeliveries=1))
            await until(lambda: len(consumer._inbox) == 2)
            counter.fails = [TxnConflict("another transaction has it")]
            with pytest.raises(TxnConflict, match="another transaction"):
                await consumer.acknowledge(a)
            await until(lambda: counter.given_back == [0])

    run(scenario, entry(0, b"a"), entry(1, b"b"))


def test_an_acknowledgement_whose_refusal_passes_is_made_again() -> None:
    async def scenario(broker: ScriptedBroker, counter: Counter, client: Client) -> None:
        async with await client.segment_consumer("orders", "billing") as consumer:
            (a,) = await received(consumer, 1)
            counter.fails = [SegmentUnavailable("a moment"), SegmentUnavailable("another one")]
            await consumer.acknowledge(a)
        assert len(counter.acks) == 3

    run(scenario, entry(0, b"a"))


def test_an_acknowledgement_that_is_never_answered_is_said_to_be_unknown() -> None:
    async def scenario(broker: ScriptedBroker, counter: Counter, client: Client) -> None:
        async with await client.segment_consumer("orders", "billing") as consumer:
            (a,) = await received(consumer, 1)
            counter.is_silent = True
            with impatient(client, 0.3):
                with pytest.raises(AckUnconfirmed, match="not answered within 0.3 s"):
                    await consumer.acknowledge(a)
                await consumer.close()

    run(scenario, entry(0, b"a"))


def test_a_message_that_is_given_back_takes_the_rest_of_its_entry_along() -> None:
    async def scenario(broker: ScriptedBroker, counter: Counter, client: Client) -> None:
        async with await client.segment_consumer("orders", "billing") as consumer:
            (a,) = await received(consumer, 1)
            consumer.negative_acknowledge(a)
            assert payloads(await received(consumer, 1)) == [b"d"]
            await until(lambda: counter.given_back == [0])
            counter.news.put_nowait(BATCH)
            assert payloads(await received(consumer, 3)) == [b"a", b"b", b"c"]

    run(scenario, BATCH, SINGLE)


def test_a_seek_lets_go_of_what_came_before_it() -> None:
    async def scenario(broker: ScriptedBroker, counter: Counter, client: Client) -> None:
        async def seek(request: pb.SeekRequest, context: Context) -> pb.SeekResponse:
            counter.entries = [entry(9, b"i")]
            return pb.SeekResponse()

        broker.single["Seek"] = seek
        async with await client.segment_consumer("orders", "billing") as consumer:
            (a,) = await received(consumer, 1)
            await consumer.seek(a)
            assert payloads(await received(consumer, 1)) == [b"i"]
            await consumer.seek(LATEST)
        position, edge = broker.asked("Seek")
        assert (position.bound.position.ledger, position.bound.position.entry) == (1, 0)
        assert edge.bound.edge == pb.LATEST

    run(scenario, entry(0, b"a"), entry(1, b"b"))


def test_a_sealed_segment_ends_and_goes_on_with_what_is_delivered_again() -> None:
    async def scenario(broker: ScriptedBroker, counter: Counter, client: Client) -> None:
        async with await client.segment_consumer("orders", "billing") as consumer:
            await until(lambda: len(consumer._inbox) == 1)
            counter.news.put_nowait(pb.ConsumeResponse(end=pb.SegmentEnd()))
            assert [message.payload async for message in consumer] == [b"a"]
            with pytest.raises(EndReached, match="is sealed"):
                await consumer.receive()
            counter.news.put_nowait(entry(0, b"a", redeliveries=1))
            await until(lambda: len(consumer._inbox) == 1)
            assert (await consumer.receive()).redeliveries == 1

    run(scenario, entry(0, b"a"))


def test_a_subscription_that_is_taken_is_refused_at_first_and_waited_for_later() -> None:
    async def scenario(broker: ScriptedBroker, counter: Counter, client: Client) -> None:
        busy = 1

        async def crowded(requests: AsyncIterator[Any], context: Context) -> AsyncIterator[Any]:
            nonlocal busy
            if busy:
                busy -= 1
                await refused(context, ConsumerBusy("there is one already"))
            async for answer in counter.consume(requests, context):
                yield answer

        broker.streams["Consume"] = crowded
        with pytest.raises(ConsumerBusy, match="there is one already"):
            await client.segment_consumer("orders", "billing")
        async with await client.segment_consumer("orders", "billing") as consumer:
            busy = 2
            counter.break_off()
            await until(lambda: len(counter.opened) == 2)
            assert busy == 0
            assert payloads(await received(consumer, 1)) == [b"a"]

    run(scenario, entry(0, b"a"))


def test_what_an_earlier_owner_says_is_dropped() -> None:
    async def scenario(broker: ScriptedBroker, counter: Counter, client: Client) -> None:
        counter.term = 5
        async with await client.segment_consumer("orders", "billing") as consumer:
            await until(lambda: len(consumer._inbox) == 1)
            counter.term = 4
            counter.break_off()
            await until(lambda: len(counter.opened) >= 2)
            with pytest.raises(TimeoutError):
                await consumer.receive(20)
            counter.term = 6
            assert payloads(await received(consumer, 1)) == [b"a"]

    run(scenario, entry(0, b"a"))


def test_bad_input_never_leaves() -> None:
    async def scenario(broker: ScriptedBroker, counter: Counter, client: Client) -> None:
        with pytest.raises(InvalidRequest, match="prefetch=0"):
            await client.segment_consumer("orders", "billing", prefetch=0)
        with pytest.raises(InvalidRequest, match="the subscription"):
            await client.segment_consumer("orders", " ")
        assert counter.opened == []
        shared = await client.segment_consumer("orders", "billing", kind=SubscriptionKind.SHARED)
        other = await client.segment_consumer("orders", "other")
        (a,) = await received(shared, 1)
        assert a.segment == SEGMENT
        with pytest.raises(InvalidRequest, match="is shared"):
            shared.acknowledge_cumulative(a)
        with pytest.raises(InvalidRequest, match="of nothing"):
            shared.acknowledge()
        with pytest.raises(InvalidRequest, match="acks_per_request_max"):
            other.acknowledge(*(await received(other, 11)))
        assert counter.acks == []

    run(scenario, *(entry(number, b"x") for number in range(11)))


def test_a_reader_goes_on_behind_what_it_has_and_ends_at_the_end() -> None:
    async def scenario(broker: ScriptedBroker, counter: Counter, client: Client) -> None:
        starts = []

        async def read(request: pb.ReadRequest, context: Context) -> AsyncIterator[pb.ReadResponse]:
            starts.append(request.start.position.entry)
            yield pb.ReadResponse(opened=pb.ReaderOpened(term=1))
            for number in range(starts[-1], 5):
                yield pb.ReadResponse(deliveries=pb.Deliveries(deliveries=[entry(number, b"%d" % number)]))
                if number == 2 and len(starts) == 1:
                    await refused(context, SegmentUnavailable("a moment"))

        broker.read = read
        async with await client.segment_reader("orders", follow=False) as reader:
            assert [message.payload async for message in reader] == [b"%d" % number for number in range(5)]
            with pytest.raises(EndReached):
                await reader.receive()
        assert starts == [0, 3]

    run(scenario)


def test_a_stream_that_is_let_go_before_it_is_open_is_followed_by_another_one() -> None:
    async def scenario(broker: ScriptedBroker, counter: Counter, client: Client) -> None:
        waiting: list[object] = []

        async def slow(requests: AsyncIterator[pb.ConsumeRequest], context: Any) -> AsyncIterator[pb.ConsumeResponse]:
            if not waiting:
                waiting.append(context)
                await asyncio.Event().wait()
            async for answer in counter.consume(requests, context):
                yield answer

        async with await client.segment_consumer("orders", "billing") as consumer:
            broker.streams["Consume"] = slow
            counter.break_off()
            await until(lambda: bool(waiting))
            consumer.renew()
            assert payloads(await received(consumer, 1)) == [b"a"]

    run(scenario, entry(0, b"a"))
