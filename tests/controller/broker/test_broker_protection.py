"""TLS, client certificates and tokens, as clients meet them; and whose transactions they may use."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import pytest

from controller.broker import Broker
from controller.broker.front import ListenError
from controller.pb import broker_pb2 as pb
from metastore.tokens import SecurityError
from support.broker_helpers import (
    ANSWER_WITHIN_S,
    Refused,
    WireClient,
    acknowledge,
    acknowledged,
    answers,
    config,
    deliveries,
    sends,
)
from support.identity import Identity


@pytest.fixture(scope="module")
def identities(tmp_path_factory: pytest.TempPathFactory) -> tuple[Identity, Identity]:
    """A server's and a client's."""
    directory = tmp_path_factory.mktemp("identities")
    return Identity.make(directory, "server"), Identity.make(directory, "client")


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.write_text("alice secret-a\nbob secret-b\n")
    return path


async def is_let_in(address: str, credentials: grpc.ChannelCredentials | None) -> bool:
    async with WireClient(address, credentials=credentials) as client:
        try:
            await client.call("DescribeBroker")
        except Refused as refused:
            return refused.code is not grpc.StatusCode.UNAVAILABLE
        return True


def test_tls(identities: tuple[Identity, Identity]) -> None:
    server, other = identities

    async def scenario() -> None:
        async with Broker(config(**server.settings)) as broker:
            assert await is_let_in(broker.address, server.credentials())
            assert not await is_let_in(broker.address, other.credentials())
            assert not await is_let_in(broker.address, None)

    asyncio.run(scenario())


def test_mutual_tls(identities: tuple[Identity, Identity]) -> None:
    server, known = identities

    async def scenario() -> None:
        async with Broker(config(**server.settings, tls_client_ca_file=known.certificate)) as broker:
            assert await is_let_in(broker.address, server.credentials(known))
            assert not await is_let_in(broker.address, server.credentials(server))
            assert not await is_let_in(broker.address, server.credentials())

    asyncio.run(scenario())


def test_files_that_do_not_fit(identities: tuple[Identity, Identity], tmp_path: Path) -> None:
    server, other = identities

    async def scenario() -> None:
        with pytest.raises(SecurityError, match="cannot be read"):
            async with Broker(config(tls_cert_file=tmp_path / "no.pem", tls_key_file=server.key)):
                pass
        with pytest.raises(SecurityError, match="cannot be read"):
            async with Broker(config(tokens_file=tmp_path / "no-tokens")):
                pass

    asyncio.run(scenario())


def test_an_address_that_is_taken() -> None:
    async def scenario() -> None:
        async with Broker(config()) as broker:
            with pytest.raises(ListenError, match=broker.address):
                async with Broker(config(listen=broker.address)):
                    pass

    asyncio.run(scenario())


def test_only_bearers_of_tokens_are_let_in(tokens: Path) -> None:
    async def scenario() -> None:
        async with Broker(config(tokens_file=tokens)) as broker:
            for token in (None, "secret-c"):
                async with WireClient(broker.address, token) as client:
                    with pytest.raises(Refused) as refused:
                        await client.call("DescribeBroker")
                    assert (refused.value.name, refused.value.code) == (
                        "Unauthenticated",
                        grpc.StatusCode.UNAUTHENTICATED,
                    )
                    streams = [client.stream("Produce", pb.ProduceResponse), client.read("s")]
                    for stream in (*streams, client.stream("Consume", pb.ConsumeResponse)):
                        assert (await stream.refusal()).name == "Unauthenticated"
            async with WireClient(broker.address, "secret-a") as client:
                await client.call("DescribeBroker")

    asyncio.run(scenario())


def test_health_and_reflection_need_no_token(tokens: Path) -> None:
    async def scenario() -> None:
        async with Broker(config(tokens_file=tokens)) as broker, WireClient(broker.address) as client:
            assert await client.call_raw("/grpc.health.v1.Health/Check", b"") == b"\x08\x01"

    asyncio.run(scenario())


def test_a_transaction_is_its_owners(tokens: Path) -> None:
    async def scenario() -> None:
        async with (
            Broker(config(tokens_file=tokens)) as broker,
            WireClient(broker.address, "secret-a") as alice,
            WireClient(broker.address, "secret-b") as bob,
            asyncio.timeout(ANSWER_WITHIN_S),
        ):
            await alice.call("CreateSegment", segment="s")
            txn_id = (await alice.call("BeginTransaction", timeout_ms=60_000)).txn_id
            assert (await bob.call("DescribeTransaction", txn_id=txn_id)).owner == "alice"

            for outcome in (pb.COMMIT, pb.ABORT):
                with pytest.raises(Refused, match="another principal") as refused:
                    await bob.call("EndTransaction", txn_id=txn_id, outcome=outcome)
                assert (refused.value.name, refused.value.code) == (
                    "NotTheOwner",
                    grpc.StatusCode.PERMISSION_DENIED,
                )

            for client, error in ((bob, "NotTheOwner"), (alice, "")):
                producer = await client.produce("s", "p")
                for number in range(2):
                    await producer.say(sends("a", first=number, txn_id=txn_id))
                    assert [each.error.name for each in await answers(producer, 1)] == [error]
                await producer.say(sends("plain", first=9))
                assert [each.error.name for each in await answers(producer, 1)] == [""]
                await producer.half_close()
                assert await producer.next() is None

            other = (await bob.call("BeginTransaction", timeout_ms=60_000)).txn_id
            await alice.call("EndTransaction", txn_id=txn_id, outcome=pb.ABORT)
            consumer = await bob.consume("s")
            (found,) = await deliveries(consumer, 1)
            for number, (text, error) in enumerate(
                [(txn_id, "NotTheOwner"), ("md_0_5", "TxnNotFound"), ("?", "InvalidTxnId"), (other, "")]
            ):
                await consumer.say(acknowledge(number, found.position, txn_id=text))
                assert await acknowledged(consumer, number) == {number: error}

    asyncio.run(scenario())
