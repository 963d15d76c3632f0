"""Which brokers a client knows: those that came later as well, before the ones that it began with are gone."""

from __future__ import annotations

import asyncio

import pytest
from client_api_broker import Context, ScriptedBroker, Shelf, client_of, impatient, refused, refusing

from controller.client import Client
from controller.client.lookout import LIST_AGE_MAX_S
from controller.pb import broker_pb2 as pb
from support.alarm import LONG_S, Alarm
from support.log_lines import lines_of
from txn.hosting.errors import OwnedElsewhere
from txn.model.errors import TxnConflict


async def known(client: Client, *brokers: ScriptedBroker) -> None:
    """Returns when these are the brokers, whichever comes first."""
    async with asyncio.timeout(60):
        while set(client._caller.routes.brokers) != {each.address for each in brokers}:
            await asyncio.sleep(0.001)


def test_a_broker_that_comes_later_is_known_when_the_others_go() -> None:
    assert LIST_AGE_MAX_S / 2 >= LONG_S, "the alarm rings for it"

    async def scenario() -> None:
        alarm = Alarm()
        async with (
            ScriptedBroker("first") as first,
            ScriptedBroker("second") as second,
            await client_of(first, sleep=alarm.sleep) as client,
        ):
            await known(client, first)
            first.others = [second.address]
            await alarm.ring()
            await known(client, first, second)
            await first.stop()
            await client.begin()
            assert second.asked("BeginTransaction")

    asyncio.run(scenario())


def test_a_list_that_cannot_be_renewed_stays_and_is_renewed_later(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async def refuse(request: pb.DescribeBrokerRequest, context: Context) -> pb.DescribeBrokerResponse:
            await refused(context, TxnConflict("not now"))

        alarm = Alarm()
        async with ScriptedBroker("first") as first, ScriptedBroker("second") as second:
            answer = first.single["DescribeBroker"]
            async with await client_of(first, sleep=alarm.sleep) as client:
                first.others = [second.address]
                first.single["DescribeBroker"] = refuse
                await alarm.ring()
                while not lines_of("tidemark.client", caplog):
                    await asyncio.sleep(0.001)
                assert "the list of brokers remains as it is for now: " in caplog.text
                assert client._caller.routes.brokers == [first.address]
                first.single["DescribeBroker"] = answer
                await alarm.ring()
                await known(client, first, second)

    asyncio.run(scenario())


def test_a_redirect_to_a_broker_that_nobody_told_of_is_a_reason_to_ask_which_ones_there_are() -> None:
    async def scenario() -> None:
        shelf = Shelf()
        async with ScriptedBroker("first") as first, ScriptedBroker("second") as second, ScriptedBroker("x") as third:
            first.streams["Produce"] = refusing(OwnedElsewhere("there", "second", second.address, 7))
            second.streams["Produce"] = shelf.produce
            async with await client_of(first) as client, await client.segment_producer("orders") as producer:
                await producer.send(b"one")
                await known(client, first, second)
                asked = len(second.asked("DescribeBroker"))
                second.others = [third.address]
                await producer.send(b"two")
                assert len(second.asked("DescribeBroker")) == asked == 1

    asyncio.run(scenario())


def test_a_closed_client_asks_no_more() -> None:
    async def scenario() -> None:
        async with ScriptedBroker() as broker:
            client = await client_of(broker, sleep=Alarm().sleep)
            await client.close()
            assert not [each for each in asyncio.all_tasks() if each.get_name() == "look for brokers"]

    asyncio.run(scenario())


def test_a_broker_that_never_answers_is_not_asked_first_for_ever() -> None:
    async def scenario() -> None:
        async def never(request: pb.DescribeBrokerRequest, context: Context) -> pb.DescribeBrokerResponse:
            await asyncio.Event().wait()
            raise AssertionError("nothing happens any more")

        alarm = Alarm()
        async with (
            ScriptedBroker("first") as first,
            ScriptedBroker("second") as second,
            ScriptedBroker("third") as third,
        ):
            first.others = [second.address]
            async with await client_of(first, sleep=alarm.sleep) as client:
                assert client._caller.routes.anyone() == first.address
                first.single["DescribeBroker"] = never
                second.others = [third.address]
                with impatient(client, 0.2):
                    await alarm.ring()
                    while client._caller.routes.anyone() == first.address:
                        await asyncio.sleep(0.001)
                await alarm.ring()
                await known(client, first, second, third)

    asyncio.run(scenario())


def test_if_nobody_looks_any_more_that_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        alarm = Alarm()
        async with ScriptedBroker() as broker, await client_of(broker, sleep=alarm.sleep) as client:

            async def broken() -> pb.DescribeBrokerResponse:
                raise RuntimeError("nobody foresaw that")

            client._caller.describe = broken  # type: ignore[method-assign, assignment]
            await alarm.ring()
            while not lines_of("tidemark.client", caplog):
                await asyncio.sleep(0.001)
            await client.begin()
        assert "brokers are looked for no more" in caplog.text
        assert "nobody foresaw that" in caplog.text

    asyncio.run(scenario())
