"""A broker's calls to the others: they prove who they are, fail by name, and are bounded."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import pytest
from topics_wire import TOPIC, TopicWire, Wires, active, brokers, refusal, run_brokers

from controller.broker import BrokerConfig
from controller.broker.topics.work import CURSORS_PER_REQUEST_MAX
from controller.errors import BrokerStopping, Unauthenticated
from controller.leading import HostedSegments
from controller.leading.hosted import REDIRECTS_MAX
from controller.operations import Bound, OwnedWork, Start
from controller.peers import Peers
from metastore.clock import SystemClock
from metastore.dialling import Security
from metastore.tokens import SecurityError
from support.broker_helpers import WireClient
from support.identity import Identity
from support.ports import LOOPBACK, free_port
from txn.hosting import NoSuchSegment, OwnedElsewhere
from txn.model.errors import SegmentUnavailable, TxnFatal


def test_work_at_another_broker_is_as_work_here() -> None:
    async def scenario(wires: Wires) -> None:
        one, _ = wires.all
        peers = Peers(Security(), SystemClock())
        await one.client.call("CreateSegment", segment="s")
        address = (await one.client.call("LookupSegment", segment="s")).address
        (home,) = (each for each in wires.all if each.broker.address == address)
        (away,) = (each for each in wires.all if each is not home)
        work = peers.work(address)
        await work.create("s", ["a", "b"])
        assert await work.backlogs("s") == {"a": 0, "b": 0}
        await work.subscribe("s", "c", Start.LATEST)
        await work.unsubscribe("s", "a")
        for to in (Bound.BEGINNING, Bound.END, 1):
            await work.seek("s", "b", to)
        assert (await work.backlog("s", "b"), await work.backlog("s", "none")) == (0, None)
        await work.set_claim("s", 1, False)
        await work.seal("s")
        assert (await home.client.call("SegmentStats", segment="s")).is_sealed
        assert sorted(await work.backlogs("s")) == ["b", "c"]
        assert await work.backlogs("none") == {}
        with pytest.raises(OwnedElsewhere) as elsewhere:
            await peers.work(away.broker.address).seal("s")
        assert elsewhere.value.address == address
        with pytest.raises(NoSuchSegment):
            await work.subscribe("none", "c", Start.LATEST)
        await peers.close()
        with pytest.raises(BrokerStopping):
            await work.seal("s")

    run_brokers(scenario)


def test_a_broker_that_is_not_there_is_a_segment_that_is_not_to_be_had() -> None:
    async def scenario() -> None:
        peers = Peers(Security(), SystemClock())
        with pytest.raises(SegmentUnavailable, match="UNAVAILABLE"):
            await peers.work(f"{LOOPBACK}:{free_port()}").seal("s")
        server = grpc.aio.server()
        port = server.add_insecure_port(f"{LOOPBACK}:0")
        await server.start()
        with pytest.raises(TxnFatal, match="check that this is a broker's address"):
            await peers.work(f"{LOOPBACK}:{port}").seal("s")
        await server.stop(None)
        await peers.close()

    asyncio.run(scenario())


def test_requests_that_make_no_sense() -> None:
    async def scenario(wires: Wires) -> None:
        (wire,) = wires.all
        for method, fields in (
            ("Seal", {}),
            ("SetCursor", {"segment": "s"}),
            ("CreateCursor", {"segment": "s", "start": 9}),
            ("CreateWithCursors", {"segment": "s", "subscriptions": ["x"] * (CURSORS_PER_REQUEST_MAX + 1)}),
        ):
            assert (await refusal(wire.call(method, **fields))).name == "InvalidRequest"

    run_brokers(scenario, count=1)


def test_h19_brokers_with_tokens_and_tls_work_together(tmp_path: Path) -> None:
    """H19: a broker has one address, and whoever is sent there goes on as he came, over TLS and with his token."""
    identity = Identity.make(tmp_path, "broker")
    (tmp_path / "tokens").write_text("broker secret\n")
    (tmp_path / "token").write_text("secret\n")

    async def scenario(*, token: Path | None) -> list[int]:
        settings = {
            **identity.settings,
            "peer_tls_ca_file": identity.certificate,
            "tokens_file": tmp_path / "tokens",
            "peer_token_file": token,
        }
        async with brokers(2, **settings) as wires:
            secure = [
                TopicWire(each.broker, WireClient(each.broker.address, "secret", identity.credentials()))
                for each in wires.all
            ]
            safe = Wires(secure)
            try:
                leader = await safe.created(segments=4)
                told = await leader.call("MergeSegments", topic=TOPIC, segment_ids=range(4))
                return active(told)
            finally:
                for each in secure:
                    await each.client.channel.close()

    assert asyncio.run(scenario(token=tmp_path / "token")) == [4]


def test_a_broker_without_the_others_token_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("broker secret\n")

    async def scenario() -> None:
        async with brokers(1, tokens_file=tmp_path / "tokens") as wires:
            peers = Peers(Security(), SystemClock())
            with pytest.raises(Unauthenticated):
                await peers.work(wires.all[0].broker.address).seal("s")
            await peers.close()

    asyncio.run(scenario())


def test_files_that_cannot_be_read_are_found_at_the_beginning(tmp_path: Path) -> None:
    with pytest.raises(SecurityError, match="missing"):
        Peers(Security(token_file=tmp_path / "missing"), SystemClock())


def test_by_default_brokers_call_each_other_as_they_are_called() -> None:
    assert not BrokerConfig().peer_security.uses_tls
    served = BrokerConfig(tls_cert_file=Path("c"), tls_key_file=Path("k"), peer_token_file=Path("t")).peer_security
    assert (served.uses_tls, served.cert_file, served.token_file) == (True, Path("c"), Path("t"))
    assert BrokerConfig(peer_tls=True).peer_security.uses_tls


class _Elsewhere:
    """A host that always knows another owner, and brokers that know yet another one."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.term = 0

    async def get(self, segment: str) -> None:
        raise OwnedElsewhere("there", "b", "first:1", 1)

    def remote(self, address: str) -> OwnedWork:
        self.asked.append(address)
        return _Redirecting(self)  # type: ignore[return-value]


class _Redirecting:
    def __init__(self, brokers: _Elsewhere) -> None:
        self._brokers = brokers

    async def seal(self, segment: str) -> None:
        self._brokers.term += 1
        raise OwnedElsewhere("there", "b", f"next-{self._brokers.term}:1", self._brokers.term + 1)


def test_owners_that_change_are_followed_a_few_times() -> None:
    async def scenario() -> None:
        world = _Elsewhere()
        work = HostedSegments(world, None, world.remote)  # type: ignore[arg-type]
        with pytest.raises(OwnedElsewhere) as told:
            await work.seal("s")
        assert world.asked == ["first:1", "next-1:1", "next-2:1"]
        assert len(world.asked) == REDIRECTS_MAX
        assert told.value.address == "next-3:1"

    asyncio.run(scenario())
