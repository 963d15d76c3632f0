"""Producers: order, resends that double nothing, windows, redirects, limits, and sends that are never answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from client_api_broker import (
    LIMITS,
    REQUEST_TIMEOUT_S,
    SEGMENT,
    Context,
    ScriptedBroker,
    Shelf,
    client_of,
    impatient,
    refused,
    refusing,
)

from controller.client import (
    BrokersUnavailable,
    Client,
    ClientBusy,
    ClientClosed,
    InvalidRequest,
    MessageId,
    MessageTooLarge,
    Position,
    SegmentProducerOptions,
    SendUnconfirmed,
)
from controller.client.batches import MAGIC
from controller.errors import ProducerReplaced
from controller.pb import broker_pb2 as pb
from controller.pb.batch_pb2 import Batch
from txn.hosting.errors import NoSuchSegment, OwnedElsewhere
from txn.model.errors import TxnConflict
from txn.segment.errors import SegmentBusy, SegmentSealed

Scenario = Callable[[ScriptedBroker, Shelf, Client], Awaitable[None]]


def run(scenario: Scenario, shelf: Callable[[], Shelf] = Shelf, request_timeout_s: float = REQUEST_TIMEOUT_S) -> None:
    async def whole() -> None:
        on = shelf()
        async with ScriptedBroker() as broker:
            broker.streams["Produce"] = on.produce
            async with await client_of(broker, request_timeout_s=request_timeout_s) as client:
                await scenario(broker, on, client)

    asyncio.run(whole())


def payloads(shelf: Shelf) -> list[bytes]:
    return [send.payload for send in shelf.stored]


def test_messages_go_out_without_waiting_and_are_confirmed_in_their_order() -> None:
    async def scenario(broker: ScriptedBroker, shelf: Shelf, client: Client) -> None:
        async with await client.segment_producer("orders") as producer:
            assert producer.segment == SEGMENT
            confirmations = [producer.send(b"%d" % number) for number in range(50)]
            sent = [await each for each in confirmations]
        assert payloads(shelf) == [b"%d" % number for number in range(50)]
        assert [each.id for each in sent] == [MessageId(Position(1, number)) for number in range(50)]
        assert shelf.greatest_request > 1

    run(scenario)


@pytest.mark.parametrize("cuts", [[1], [7], [3, 5, 1], [20, 1]])
def test_what_was_not_answered_is_sent_again_and_stored_once(cuts: list[int]) -> None:
    async def scenario(broker: ScriptedBroker, shelf: Shelf, client: Client) -> None:
        shelf.cuts = list(cuts)
        async with await client.segment_producer("orders") as producer:
            sent = await asyncio.gather(*(producer.send(b"%d" % number) for number in range(30)))
        assert payloads(shelf) == [b"%d" % number for number in range(30)]
        assert [each.id for each in sent] == [MessageId(Position(1, number)) for number in range(30)]
        assert shelf.opened == 1 + len(cuts)
        assert any(each.is_duplicate for each in sent)
        assert len(shelf.arrived) > len(shelf.stored)

    run(scenario)


def test_a_refusal_that_passes_is_sent_again_before_what_follows() -> None:
    async def scenario(broker: ScriptedBroker, shelf: Shelf, client: Client) -> None:
        shelf.fails = {2: [SegmentBusy("later")], 3: [SegmentBusy("later"), SegmentBusy("later")]}
        shelf.window = pb.Window(entries_max=4, bytes_max=1 << 20)
        async with await client.segment_producer("orders") as producer:
            await asyncio.gather(*(producer.send(b"%d" % number) for number in range(8)))
        assert shelf.opened == 1
        assert shelf.arrived == [0, 1, 2, 3, 2, 3, 3, 4, 5, 6, 7]
        assert payloads(shelf) == [b"%d" % number for number in range(8)]

    run(scenario)


def test_a_refusal_for_good_is_of_one_message_and_bears_its_type() -> None:
    async def scenario(broker: ScriptedBroker, shelf: Shelf, client: Client) -> None:
        shelf.fails = {1: [TxnConflict("it is decided")], 2: [SegmentSealed("no more")]}
        async with await client.segment_producer("orders") as producer:
            outcomes = await asyncio.gather(*(producer.send(b"x") for _ in range(4)), return_exceptions=True)
        assert [type(each).__name__ for each in outcomes] == ["Sent", "TxnConflict", "SegmentSealed", "Sent"]
        assert "it is decided" in str(outcomes[1])

    run(scenario)


def test_no_more_is_under_way_than_the_window_allows() -> None:
    async def scenario(broker: ScriptedBroker, shelf: Shelf, client: Client) -> None:
        async with await client.segment_producer("orders") as producer:
            await asyncio.gather(*(producer.send(b"x") for _ in range(40)))
        assert shelf.greatest_request == 3
        assert len(shelf.stored) == 40

    run(scenario, lambda: Shelf(entries_max=3))


def test_a_large_message_goes_alone_through_a_small_window() -> None:
    async def scenario(broker: ScriptedBroker, shelf: Shelf, client: Client) -> None:
        shelf.window = pb.Window(entries_max=10, bytes_max=10)
        async with await client.segment_producer("orders") as producer:
            await asyncio.gather(*(producer.send(bytes(100)) for _ in range(3)))
        assert shelf.greatest_request == 1

    run(scenario)


def test_a_redirect_is_followed_and_an_owner_of_an_earlier_term_is_not_believed() -> None:
    async def scenario() -> None:
        async with ScriptedBroker("first") as first, ScriptedBroker("second") as second:
            old, new = Shelf(term=4), Shelf(term=7)
            first.streams["Produce"] = refusing(OwnedElsewhere("there", "second", second.address, 7))
            second.streams["Produce"] = new.produce
            first.others = [second.address]
            async with await client_of(first) as client, await client.segment_producer("orders") as producer:
                await producer.send(b"one")
                assert payloads(new) == [b"one"]
                # The second one goes, and the first one believes that it still is what it was long ago.
                first.streams["Produce"] = old.produce
                await second.stop()
                late = producer.send(b"two")
                while old.opened < 2:
                    await asyncio.sleep(0.01)
                assert not late.is_done
                assert old.stored == []
                old.term = 8
                sent = await late
                assert sent.id == MessageId(Position(8, 0))

    asyncio.run(scenario())


def test_the_segment_is_created_on_first_use_if_that_is_wanted() -> None:
    async def scenario(broker: ScriptedBroker, shelf: Shelf, client: Client) -> None:
        async def create(request: pb.CreateSegmentRequest, context: Context) -> pb.CreateSegmentResponse:
            broker.streams["Produce"] = shelf.produce
            return pb.CreateSegmentResponse()

        broker.streams["Produce"] = refusing(NoSuchSegment("never heard of"))
        broker.single["CreateSegment"] = create
        with pytest.raises(NoSuchSegment, match="never heard of"):
            await client.segment_producer("orders", create=False)
        assert broker.asked("CreateSegment") == []
        async with await client.segment_producer("orders") as producer:
            await producer.send(b"x")
        assert [each.segment for each in broker.asked("CreateSegment")] == [SEGMENT]

    run(scenario)


def test_messages_that_wait_share_entries() -> None:
    async def scenario(broker: ScriptedBroker, shelf: Shelf, client: Client) -> None:
        shelf.cuts = [1]
        options = SegmentProducerOptions(batch_messages_max=4)
        async with await client.segment_producer("orders", options=options) as producer:
            sent = await asyncio.gather(*(producer.send(b"%d" % n, properties={"n": str(n)}) for n in range(9)))
        assert [each.sequence_id for each in sent] == list(range(9))
        places = [each.id for each in sent if each.id is not None]
        assert [(each.position.entry, each.batch_index) for each in places] == [(n // 4, n % 4) for n in range(9)]
        assert [each.message_count for each in shelf.stored] == [4, 4, 1]
        batch = Batch.FromString(shelf.stored[0].payload.removeprefix(MAGIC))
        contents = [(each.payload, each.properties["n"]) for each in batch.messages]
        assert contents == [(b"%d" % n, str(n)) for n in range(4)]
        assert shelf.stored[2].payload == b"8"

    run(scenario)


def test_too_much_that_is_not_confirmed_is_refused_and_room_is_waited_for() -> None:
    async def scenario(broker: ScriptedBroker, shelf: Shelf, client: Client) -> None:
        shelf.holds.clear()
        options = SegmentProducerOptions(pending_messages_max=5)
        async with await client.segment_producer("orders", options=options) as producer:
            first = [producer.send(b"x") for _ in range(5)]
            with pytest.raises(ClientBusy, match="pending_messages_max"):
                producer.send(b"x")
            room = asyncio.create_task(producer.wait_room())
            shelf.holds.set()
            await room
            await asyncio.gather(*first, producer.send(b"x"))
        assert len(shelf.stored) == 6

    run(scenario)


def test_bad_input_never_leaves() -> None:
    async def scenario(broker: ScriptedBroker, shelf: Shelf, client: Client) -> None:
        for topic in ("", "  ", "segment://a/b", "a/b", "weather://a/b/c", "segment://a/b/c/9-1-2"):
            with pytest.raises(InvalidRequest):
                await client.segment_producer(topic)
        with pytest.raises(InvalidRequest, match="first_sequence_id"):
            await client.segment_producer("orders", first_sequence_id=3)
        with pytest.raises(InvalidRequest, match="64 bytes"):
            await client.segment_producer("orders", name="n" * 65)
        async with await client.segment_producer("orders") as producer:
            with pytest.raises(MessageTooLarge, match="entry_bytes_max"):
                producer.send(bytes(LIMITS.entry_bytes_max))
            with pytest.raises(InvalidRequest, match="bytes are expected"):
                producer.send("text")  # type: ignore[arg-type]
            with pytest.raises(InvalidRequest, match="properties_max"):
                producer.send(b"", properties={str(number): "" for number in range(11)})
            with pytest.raises(InvalidRequest, match="first_sequence_id"):
                producer.send(b"", sequence_id=7)
        with pytest.raises(ClientClosed):
            producer.send(b"x")
        assert shelf.arrived == []

    run(scenario)


def test_a_named_producer_goes_on_where_it_was() -> None:
    async def scenario(broker: ScriptedBroker, shelf: Shelf, client: Client) -> None:
        async with await client.segment_producer("orders", name="importer", first_sequence_id=100) as producer:
            assert (await producer.send(b"a")).sequence_id == 100
        async with await client.segment_producer("orders", name="importer") as producer:
            again = await producer.send(b"a", sequence_id=100)
            assert again.is_duplicate
            with pytest.raises(InvalidRequest, match="from 101 on"):
                producer.send(b"b", sequence_id=100)
            assert not (await producer.send(b"b", sequence_id=107)).is_duplicate
        assert [each.sequence_id for each in shelf.stored] == [100, 107]

    run(scenario)


def test_without_an_answer_it_is_told_whether_anything_can_have_happened() -> None:
    async def scenario(broker: ScriptedBroker, shelf: Shelf, client: Client) -> None:
        shelf.holds.clear()
        options = SegmentProducerOptions(pending_messages_max=2)
        async with await client.segment_producer("orders", options=options) as producer:
            one = producer.send(b"one")
            while not shelf.arrived:
                await asyncio.sleep(0)
            await broker.stop()
            while producer._outbox._sent:
                await asyncio.sleep(0)
            two = producer.send(b"two")
            with pytest.raises(SendUnconfirmed, match="message 0 of producer"):
                await one
            with pytest.raises(BrokersUnavailable, match="was not sent"):
                await two
            await producer.wait_room()

    run(scenario, request_timeout_s=3.0)


def test_what_is_refused_to_the_end_says_why() -> None:
    async def scenario(broker: ScriptedBroker, shelf: Shelf, client: Client) -> None:
        shelf.fails = {0: [SegmentBusy("too many producers")] * 50}
        async with await client.segment_producer("orders") as producer:
            with impatient(client, 1.0), pytest.raises(SendUnconfirmed, match="too many producers"):
                await producer.send(b"x")
        assert len(shelf.arrived) > 1

    run(scenario)


def test_a_producer_that_another_one_replaces_ends() -> None:
    async def scenario(broker: ScriptedBroker, shelf: Shelf, client: Client) -> None:
        async def replaced(requests: AsyncIterator[Any], context: Context) -> AsyncIterator[Any]:
            async for request in requests:
                if request.HasField("sends"):
                    await refused(context, ProducerReplaced("by another one"))
                yield pb.ProduceResponse(opened=pb.ProducerOpened(term=1, window=shelf.window))

        broker.streams["Produce"] = replaced
        async with await client.segment_producer("orders", name="a", first_sequence_id=0) as producer:
            with pytest.raises(ProducerReplaced, match="by another one"):
                await producer.send(b"x")
            with pytest.raises(ProducerReplaced):
                producer.send(b"y")

    run(scenario)
