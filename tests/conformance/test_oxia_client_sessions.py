"""The stock Python client: sessions, the ephemeral records that end with them, and whose they are."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
from collections.abc import Iterator
from typing import Any

import grpc
import oxia
import pytest

from metastore.pb import oxia_pb2
from support.server import ServerProcess
from support.stock_client import Collector, finishes, shard_of, stock_client
from support.wire import WireClient

DELETED = oxia.NotificationType.KEY_DELETED


@pytest.fixture
def wire(shared_server: ServerProcess) -> Iterator[WireClient]:
    with WireClient(shared_server.address) as made:
        yield made


@pytest.fixture
def deletions(client: Any) -> Iterator[Iterator[str]]:
    """The keys that are deleted from now on."""
    notifications = client.get_notifications()
    collector = Collector[Any](notifications)

    def keys() -> Iterator[str]:
        while True:
            notification = collector.next()
            if notification.notification_type() is DELETED:
                yield notification.key()

    yield keys()
    assert finishes(notifications.close)


def test_an_ephemeral_record_names_its_session_and_client(client: Any, space: str) -> None:
    _, version = client.put(f"{space}a", "v", ephemeral=True)
    _, again = client.put(f"{space}a", "w", ephemeral=True)
    _, value, got = client.get(f"{space}a")
    assert value == b"w"
    assert version.is_ephemeral()
    assert got.is_ephemeral()
    assert version.session_id() == again.session_id() == got.session_id()
    assert version.client_identity() == got.client_identity()
    assert (got.modifications_count(), got.version_id()) == (1, again.version_id())


def test_clients_are_told_apart(client: Any, other: Any, space: str) -> None:
    _, mine = client.put(f"{space}a", "v", ephemeral=True)
    _, theirs = other.put(f"{space}a", "v", ephemeral=True)
    assert mine.client_identity() != theirs.client_identity()
    assert mine.session_id() != theirs.session_id()


def test_a_client_may_name_itself(shared_server: ServerProcess, client: Any, space: str) -> None:
    with stock_client(shared_server.address, client_identifier="an owner") as named:
        named.put(f"{space}a", "v", ephemeral=True)
        assert client.get(f"{space}a")[2].client_identity() == "an owner"
        client.put(f"{space}a", "v")
        assert client.get(f"{space}a")[2].client_identity() is None


def test_closing_removes_ephemeral_records_everywhere(client: Any, other: Any, space: str) -> None:
    keys = [f"{space}{number:02d}" for number in range(30)]
    for key in keys:
        other.put(key, "v", ephemeral=True)
    other.put(f"{space}stays", "v")
    assert client.list(space, f"{space}~") == [*keys, f"{space}stays"]
    other.close()
    assert client.list(space, f"{space}~") == [f"{space}stays"]


def test_closing_is_notified(client: Any, other: Any, deletions: Iterator[str], space: str) -> None:
    keys = {f"{space}{number}" for number in range(10)}
    for key in keys:
        other.put(key, "v", ephemeral=True)
    other.close()
    assert {next(deletions) for _ in keys} == keys


def test_a_record_made_persistent_stays(client: Any, other: Any, space: str) -> None:
    other.put(f"{space}a", "1", ephemeral=True)
    other.put(f"{space}b", "1", ephemeral=True)
    _, version = client.put(f"{space}a", "2")
    assert not version.is_ephemeral()
    assert version.session_id() is None
    assert version.modifications_count() == 1
    other.close()
    assert client.get(f"{space}a")[1] == b"2"
    with pytest.raises(oxia.ex.KeyNotFound):
        client.get(f"{space}b")


def test_a_persistent_record_may_become_ephemeral(client: Any, other: Any, space: str) -> None:
    client.put(f"{space}a", "1")
    other.put(f"{space}a", "2", ephemeral=True)
    other.close()
    with pytest.raises(oxia.ex.KeyNotFound):
        client.get(f"{space}a")


def test_a_record_taken_over_ends_with_its_new_session(client: Any, other: Any, space: str) -> None:
    other.put(f"{space}a", "1", ephemeral=True)
    _, mine = client.put(f"{space}a", "2", ephemeral=True)
    other.close()
    assert client.get(f"{space}a")[2].session_id() == mine.session_id()


def test_a_deleted_record_is_not_deleted_again(client: Any, other: Any, space: str) -> None:
    other.put(f"{space}a", "1", ephemeral=True)
    assert other.delete(f"{space}a") is True
    client.put(f"{space}a", "2")
    other.close()
    assert client.get(f"{space}a")[1] == b"2"


def test_a_lock_is_free_when_its_holder_is_gone(client: Any, other: Any, space: str) -> None:
    absent = oxia.EXPECTED_RECORD_DOES_NOT_EXIST
    other.put(f"{space}lock", "other", ephemeral=True, expected_version_id=absent)
    with pytest.raises(oxia.ex.UnexpectedVersionId):
        client.put(f"{space}lock", "client", ephemeral=True, expected_version_id=absent)
    assert client.get(f"{space}lock")[1] == b"other"
    other.close()
    client.put(f"{space}lock", "client", ephemeral=True, expected_version_id=absent)
    assert client.get(f"{space}lock")[1] == b"client"


def test_ephemeral_records_may_be_numbered(client: Any, other: Any, space: str) -> None:
    key, version = other.put(space, "v", ephemeral=True, partition_key="home", sequence_keys_deltas=[1])
    assert version.is_ephemeral()
    assert client.list(f"{space}-", f"{space}.", partition_key="home") == [key]
    other.close()
    assert client.list(f"{space}-", f"{space}.", partition_key="home") == []


def test_a_session_that_the_server_ended_is_not_found(
    client: Any, wire: WireClient, shared_server: ServerProcess, space: str
) -> None:
    shard = shard_of(f"{space}a", shared_server.shards)
    _, version = client.put(f"{space}a", "v", ephemeral=True)
    request = oxia_pb2.CloseSessionRequest(shard=shard, session_id=version.session_id())
    assert wire.call("CloseSession", request).only == oxia_pb2.CloseSessionResponse()
    with pytest.raises(oxia.ex.KeyNotFound):
        client.get(f"{space}a")
    with pytest.raises(oxia.ex.SessionNotFound):
        client.put(f"{space}a", "v", ephemeral=True)
    with pytest.raises(oxia.ex.KeyNotFound):
        client.get(f"{space}a")
    client.put(f"{space}a", "v")


def test_heartbeats_keep_a_session(
    shared_server: ServerProcess, wire: WireClient, deletions: Iterator[str], space: str
) -> None:
    """Until a longer session, which nobody keeps, has ended."""
    create = oxia_pb2.CreateSessionRequest(shard=0, session_timeout_ms=5_000)
    with stock_client(shared_server.address, session_timeout_ms=3_000) as kept:
        _, version = kept.put(f"{space}kept", "v", ephemeral=True)
        unkept_id = wire.call("CreateSession", create).only.session_id
        put = oxia_pb2.PutRequest(key=f"{space}unkept".encode(), session_id=unkept_id)
        wire.call("Write", oxia_pb2.WriteRequest(shard=0, puts=[put]))
        assert next(key for key in deletions if key.startswith(space)) == f"{space}unkept"
        assert kept.get(f"{space}kept")[2].version_id() == version.version_id()


def hold_ephemeral(address: str, key: str, ready: multiprocessing.connection.Connection) -> None:
    """What another process does until it is killed."""
    with stock_client(address, session_timeout_ms=2_000) as client:
        client.put(key, "v", ephemeral=True)
        ready.send("ready")
        ready.recv()


def test_a_session_ends_when_its_heartbeats_stop(
    shared_server: ServerProcess, client: Any, deletions: Iterator[str], space: str
) -> None:
    spawning = multiprocessing.get_context("spawn")
    ours, theirs = spawning.Pipe()
    holder = spawning.Process(target=hold_ephemeral, args=(shared_server.address, f"{space}a", theirs))
    holder.start()
    try:
        assert ours.poll(20)
        assert ours.recv() == "ready"
        assert client.get(f"{space}a")[2].is_ephemeral()
    finally:
        holder.kill()
        holder.join()
    assert next(key for key in deletions if key.startswith(space)) == f"{space}a"
    with pytest.raises(oxia.ex.KeyNotFound):
        client.get(f"{space}a")


def test_a_session_longer_than_allowed_is_refused(shared_server: ServerProcess, space: str) -> None:
    with stock_client(shared_server.address, session_timeout_ms=300_001) as client:
        with pytest.raises(grpc.RpcError) as failure:
            client.put(f"{space}a", "v", ephemeral=True)
        assert failure.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert failure.value.details() == "timeoutMs=300001: oxia: invalid session timeout"
        client.put(f"{space}a", "v")
