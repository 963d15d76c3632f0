"""TLS, client certificates and tokens, as clients meet them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from server_helpers import SERVING, health, run_server, store_url

from metastore.interface import AccessDenied, BlockingStore
from metastore.pb import oxia_pb2 as pb
from support.identity import Identity, TlsServer
from support.server import ServerProcess
from support.wire import METHODS, Metadata, Status, WireClient, arriving, serialized, status_of

READ = pb.ReadRequest(shard=0)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("identities")


@pytest.fixture(scope="module")
def server_identity(directory: Path) -> Identity:
    return Identity.make(directory, "server")


@pytest.fixture(scope="module")
def known(directory: Path) -> Identity:
    return Identity.make(directory, "known")


def asked(server: ServerProcess, credentials: grpc.ChannelCredentials | None) -> Status:
    """How a simple call ends; a new connection each time."""
    options = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0))
    if credentials is None:
        channel: Any = grpc.insecure_channel(server.address, options=options)
    else:
        channel = grpc.secure_channel(server.address, credentials, options=options)
    with channel:
        call = channel.unary_stream("/io.oxia.proto.v1.OxiaClient/Read")(serialized(READ), 20.0)
        assert list(arriving(call)) == []
        return status_of(call)


def test_tls(server_identity: Identity, known: Identity) -> None:
    server = TlsServer(server_identity)
    with server:
        assert asked(server, server.credentials).code is grpc.StatusCode.OK
        assert asked(server, None).code is grpc.StatusCode.UNAVAILABLE
        assert asked(server, known.credentials()).code is grpc.StatusCode.UNAVAILABLE  # trusts somebody else
        with BlockingStore.open(store_url(server, ca_file=server_identity.certificate)) as store:
            store.put("/a", b"1")
            assert list(store.list()) == ["/a"]
        assert server.terminate() == 0


def test_mutual_tls(directory: Path, server_identity: Identity, known: Identity) -> None:
    stranger = Identity.make(directory, "stranger")
    server = TlsServer(server_identity, known, "--tls-client-ca-file", str(known.certificate))
    with server:
        assert asked(server, server.credentials).code is grpc.StatusCode.OK
        assert asked(server, server_identity.credentials()).code is grpc.StatusCode.UNAVAILABLE
        assert asked(server, server_identity.credentials(stranger)).code is grpc.StatusCode.UNAVAILABLE
        assert asked(server, None).code is grpc.StatusCode.UNAVAILABLE
        url = store_url(server, ca_file=server_identity.certificate, cert_file=known.certificate, key_file=known.key)
        with BlockingStore.open(url) as store:
            store.put("/a", b"1")
            assert list(store.list()) == ["/a"]


# ---- tokens


@pytest.fixture(scope="module")
def guarded(directory: Path) -> Iterator[ServerProcess]:
    tokens = directory / "tokens"
    tokens.write_text("# principal and token\nbroker s3cret\n")
    with ServerProcess(extra_args=("--tokens-file", str(tokens))) as server:
        yield server


def test_who_has_a_token_gets_in(guarded: ServerProcess, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    with BlockingStore.open(store_url(guarded, token_file=token)) as store:
        store.put("/a", b"1")
        assert list(store.list()) == ["/a"]
    token.write_text("guessed\n")
    with pytest.raises(AccessDenied):
        BlockingStore.open(store_url(guarded, token_file=token))


@pytest.mark.parametrize("header", [None, "Bearer guessed", "Basic s3cret", "Bearer"])
@pytest.mark.parametrize("method", METHODS)
def test_no_method_is_open_to_others(guarded: ServerProcess, method: str, header: str | None) -> None:
    metadata: Metadata = (("shard-id", "0"), ("namespace", "default"))
    if header is not None:
        metadata += (("authorization", header),)
    with WireClient(guarded.address) as wire:
        answer = wire.call(method, b"", metadata=metadata)
    assert (answer.status.code, answer.messages) == (grpc.StatusCode.UNAUTHENTICATED, [])
    assert "s3cret" not in answer.status.message


def test_health_is_open_to_all(guarded: ServerProcess) -> None:
    assert health(guarded.address) == SERVING


# ---- the network


def test_the_network_is_not_served_without_protection(tmp_path: Path) -> None:
    ended = run_server(tmp_path / "data", "--public-addr", "0.0.0.0:6648")
    assert ended.returncode == 2
    assert "--insecure" in ended.stderr
    assert not (tmp_path / "data").exists()


def test_the_network_is_served_on_demand() -> None:
    server = ServerProcess()
    everywhere = ServerProcess(extra_args=("--public-addr", f"0.0.0.0:{server.port}", "--insecure"))
    everywhere.port, everywhere.address = server.port, server.address
    server.close()
    with everywhere:
        assert health(everywhere.address) == SERVING


def test_files_that_cannot_be_used_are_named(tmp_path: Path, server_identity: Identity) -> None:
    missing = str(tmp_path / "missing")
    broken = tmp_path / "broken"
    broken.write_text("broken")
    pair = server_identity.server_arguments
    for arguments, words in (
        (("--tokens-file", missing), (missing,)),
        (("--tokens-file", str(broken)), (str(broken), "line 1")),
        (("--tls-cert-file", missing, "--tls-key-file", missing), (missing,)),
        ((*pair, "--tls-client-ca-file", missing), (missing,)),
        (("--tls-cert-file", str(broken), "--tls-key-file", str(broken)), ("TLS certificate or key",)),
    ):
        ended = run_server(tmp_path / "data", *arguments)
        assert ended.returncode == 1
        assert "Traceback" not in ended.stderr
        last = ended.stderr.splitlines()[-1]
        assert last.startswith("tidemark: ")
        assert all(word in last for word in words), ended.stderr
