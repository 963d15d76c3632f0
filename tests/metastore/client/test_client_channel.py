"""The way to the shards, against a server that says what a healthy one never does."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from scripted_store import ScriptedStore, assignments, refuse

from metastore.client.channel import FIRST_PAUSE_S, LONGEST_PAUSE_S, Patience
from metastore.client.client import Client
from metastore.client.errors import (
    AccessDenied,
    ConnectionFailed,
    DeadlineExceeded,
    InvalidRequest,
    NamespaceNotFound,
    NotReady,
    ServerFailure,
    Unavailable,
)
from metastore.client.security import Security
from metastore.clock import ManualClock
from metastore.pb import oxia_pb2 as pb
from support.ports import free_port

STORED = pb.WriteResponse(puts=[pb.PutResponse(version=pb.Version(version_id=5))])


@pytest.fixture
def store() -> Iterator[ScriptedStore]:
    with ScriptedStore() as store:
        yield store


class Pauses:
    """Notes how long was waited, and waits not at all."""

    def __init__(self) -> None:
        self.taken_s: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.taken_s.append(seconds)


def not_leader(context: grpc.ServicerContext) -> None:
    refuse(context, grpc.StatusCode.ABORTED, "oxia: node is not leader", "NODE_IS_NOT_LEADER")


def absorb_for_ever(patience: Patience) -> None:
    while True:
        patience.absorb(NotReady("not yet"))


def test_patience_grows_to_a_limit_and_ends_before_the_deadline() -> None:
    clock = ManualClock()
    pauses = Pauses()

    def pause(seconds: float) -> None:
        pauses(seconds)
        clock.advance_ms(round(seconds * 1000))

    patience = Patience(clock, pause, timeout_s=10.0)
    with pytest.raises(NotReady):
        absorb_for_ever(patience)
    assert pauses.taken_s[:3] == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, 4 * FIRST_PAUSE_S]
    assert max(pauses.taken_s) == LONGEST_PAUSE_S
    assert sum(pauses.taken_s) < 10.0
    assert patience.remaining_s() > 0


def test_patience_is_only_for_what_was_not_done() -> None:
    patience = Patience(ManualClock(), Pauses(), timeout_s=10.0)
    with pytest.raises(Unavailable):
        patience.absorb(Unavailable("perhaps done"))


def test_a_write_goes_to_the_new_leader_when_the_old_one_refuses(store: ScriptedStore) -> None:
    with ScriptedStore() as new_leader:
        leaders = iter([store.address, new_leader.address])
        store.answers["GetShardAssignments"] = lambda _request, _context: iter([assignments(next(leaders))])
        store.answers["Write"] = lambda _request, context: not_leader(context)
        new_leader.answers["Write"] = lambda _request, _context: STORED
        pauses = Pauses()
        with Client(store.address, pause=pauses) as client:
            assert client.put("k", b"v").version.version_id == 5
        assert (store.asked("Write"), new_leader.asked("Write")) == (1, 1)
        assert pauses.taken_s == [FIRST_PAUSE_S]


def test_a_read_and_a_scan_follow_the_leader_too(store: ScriptedStore) -> None:
    refusals = {"Read": 2, "List": 1}

    def answer(method: str, message: Any) -> Any:
        def stream(_request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
            if refusals[method]:
                refusals[method] -= 1
                not_leader(context)
            yield message

        return stream

    store.answers["Read"] = answer("Read", pb.ReadResponse(gets=[pb.GetResponse(value=b"v")]))
    store.answers["List"] = answer("List", pb.ListResponse(keys=[b"a", b"b"]))
    pauses = Pauses()
    with Client(store.address, pause=pauses) as client:
        assert client.get("k").value == b"v"
        assert list(client.list()) == ["a", "b"]
    assert (store.asked("Read"), store.asked("List")) == (3, 2)
    assert pauses.taken_s == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, FIRST_PAUSE_S]


def test_a_shard_without_a_leader_is_waited_for(store: ScriptedStore) -> None:
    leaders = iter(["", "", store.address])
    store.answers["GetShardAssignments"] = lambda _request, _context: iter([assignments(next(leaders))])
    store.answers["Write"] = lambda _request, _context: STORED
    pauses = Pauses()
    with Client(store.address, pause=pauses) as client:
        client.put("k", b"v")
    assert len(pauses.taken_s) == 2


def test_what_is_never_ready_fails_at_the_deadline(store: ScriptedStore) -> None:
    store.answers["Write"] = lambda _request, context: not_leader(context)
    clock = ManualClock()

    def pause(seconds: float) -> None:
        clock.advance_ms(round(seconds * 1000))

    impatient = Client(store.address, request_timeout_s=2.0, clock=clock, pause=pause)
    with impatient as client, pytest.raises(NotReady, match="put 'k'"):
        client.put("k", b"v")
    assert store.asked("Write") > 2


def test_a_scan_that_breaks_in_the_middle_is_not_begun_again(store: ScriptedStore) -> None:
    def break_off(_request: Any, context: grpc.ServicerContext) -> Iterator[pb.ListResponse]:
        yield pb.ListResponse(keys=[b"a"])
        not_leader(context)

    store.answers["List"] = break_off
    with Client(store.address, pause=Pauses()) as client:
        keys = client.list()
        assert next(keys) == "a"
        with pytest.raises(NotReady, match="list"):
            next(keys)
    assert store.asked("List") == 1


def test_a_write_whose_answer_is_lost_is_not_sent_again(store: ScriptedStore) -> None:
    store.answers["Write"] = lambda _request, context: refuse(context, grpc.StatusCode.UNAVAILABLE, "gone")
    with Client(store.address) as client, pytest.raises(ConnectionFailed, match="may or may not have taken"):
        client.put("k", b"v")
    assert store.asked("Write") == 1


@pytest.mark.parametrize(
    "operation",
    [
        lambda client: next(client.list()),
        lambda client: client.get("k"),
        lambda client: client.put("k", b"v"),
    ],
    ids=["list", "get", "put"],
)
def test_an_answer_that_does_not_come_is_a_missed_deadline(
    store: ScriptedStore, operation: Callable[[Client], object]
) -> None:
    released = threading.Event()

    def hang(_request: Any, _context: grpc.ServicerContext) -> Iterator[Any]:
        released.wait(30)
        return iter(())

    store.answers |= {"List": hang, "Read": hang, "Write": hang}
    hasty = Client(store.address, request_timeout_s=0.3)
    with hasty as client, pytest.raises(DeadlineExceeded, match="no answer in time"):
        operation(client)
    released.set()


def test_a_slow_reader_of_a_scan_misses_no_deadline(store: ScriptedStore) -> None:
    proceed = threading.Event()

    def two_messages(_request: Any, _context: grpc.ServicerContext) -> Iterator[pb.ListResponse]:
        yield pb.ListResponse(keys=[b"a"])
        proceed.wait(30)
        yield pb.ListResponse(keys=[b"b"])

    store.answers["List"] = two_messages
    with Client(store.address, request_timeout_s=3.0) as client:
        keys = client.list()
        assert next(keys) == "a"
        for thread in threading.enumerate():
            if isinstance(thread, threading.Timer):
                thread.join()  # whatever its alarm does, it has done it now
        proceed.set()
        assert list(keys) == ["b"]


def test_an_abandoned_scan_is_cancelled(store: ScriptedStore) -> None:
    ended = threading.Event()

    def endless(_request: Any, context: grpc.ServicerContext) -> Iterator[pb.ListResponse]:
        context.add_callback(ended.set)
        while True:
            yield pb.ListResponse(keys=[b"a"])

    store.answers["List"] = endless
    with Client(store.address) as client:
        keys = client.list()
        next(keys)
        keys.close()
        assert ended.wait(30)


def test_nobody_listens() -> None:
    address = f"127.0.0.1:{free_port()}"
    with Client(address) as client, pytest.raises(ConnectionFailed, match=address):
        client.get("k")


def test_assignments_that_cannot_be_used(store: ScriptedStore) -> None:
    store.answers["GetShardAssignments"] = lambda _request, _context: iter(())
    with Client(store.address) as client, pytest.raises(ServerFailure, match="sent none"):
        client.shard_ids()
    other = assignments(store.address, namespace="other")
    store.answers["GetShardAssignments"] = lambda _request, _context: iter([other])
    with Client(store.address) as client, pytest.raises(NamespaceNotFound, match="'default'"):
        client.shard_ids()


def test_a_client_that_was_closed_says_so(store: ScriptedStore) -> None:
    client = Client(store.address)
    client.shard_ids()
    client.close()
    with pytest.raises(InvalidRequest, match="closed"):
        client.get("k")


def test_a_timeout_without_time_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="leaves no time"):
        Client(request_timeout_s=0)


def test_every_call_bears_the_token_of_its_moment(store: ScriptedStore, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("first\n")
    store.answers["Write"] = lambda _request, _context: STORED
    with Client(store.address, security=Security(token_file=path)) as client:
        client.put("k", b"v")
        path.write_text("second\n")
        client.put("k", b"v")
    assert store.tokens == ["Bearer first", "Bearer first", "Bearer second"]


def test_a_token_that_is_not_known_is_an_access_denied(store: ScriptedStore) -> None:
    store.answers["GetShardAssignments"] = lambda _request, context: refuse(
        context, grpc.StatusCode.UNAUTHENTICATED, "who are you"
    )
    with Client(store.address) as client, pytest.raises(AccessDenied, match="who are you"):
        client.get("k")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that vouches for itself, and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl, which makes the certificate, is not installed")
    directory = tmp_path_factory.mktemp("tls")
    cert, key = directory / "cert.pem", directory / "key.pem"
    subject = ["-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"]
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    subprocess.run(
        [openssl, "req", "-x509", *curve, "-keyout", str(key), "-out", str(cert), *subject],
        check=True,
        capture_output=True,
    )
    return cert, key


def test_tls_with_certificates_on_both_sides(certificate: tuple[Path, Path]) -> None:
    cert, key = certificate
    credentials = grpc.ssl_server_credentials(
        [(key.read_bytes(), cert.read_bytes())], root_certificates=cert.read_bytes(), require_client_auth=True
    )
    with ScriptedStore(credentials) as store:
        store.answers["Write"] = lambda _request, _context: STORED
        known = Security(ca_file=cert, cert_file=cert, key_file=key)
        with Client(store.address, security=known) as client:
            assert client.put("k", b"v").version.version_id == 5
        for unknown in (Security(ca_file=cert), Security(tls=True), Security()):
            with Client(store.address, security=unknown) as client, pytest.raises(ConnectionFailed):
                client.put("k", b"v")
        assert store.asked("Write") == 1


def test_a_leader_that_wants_tls_gets_it(store: ScriptedStore, certificate: tuple[Path, Path]) -> None:
    cert, key = certificate
    with ScriptedStore(grpc.ssl_server_credentials([(key.read_bytes(), cert.read_bytes())])) as leader:
        store.answers["GetShardAssignments"] = lambda _request, _context: iter(
            [assignments(f"tls://{leader.address}")]
        )
        leader.answers["Write"] = lambda _request, _context: STORED
        with (
            Client(store.address) as client,
            pytest.raises(ConnectionFailed, match=r"(?i)certificate|handshake"),
        ):
            client.put("k", b"v")
        assert leader.asked("Write") == 0
