"""Sessions on a real server: ephemeral records, heartbeats, and their end in every way."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from scripted_store import ScriptedStore, refuse

from metastore.client import wire
from metastore.client.client import Client
from metastore.client.errors import ConnectionFailed, InvalidRequest, KeyNotFound, SessionLost
from metastore.client.failures import Action
from metastore.client.session import Session, SessionPart
from metastore.clock import ManualClock
from metastore.pb import oxia_pb2 as pb
from support.server import ServerProcess

WAIT_S = 30.0


def close_on_server(client: Client, session: Session) -> None:
    """Ends a session behind its owner's back."""
    for shard_id, session_id in session.ids.items():
        request = pb.CloseSessionRequest(shard=shard_id, session_id=session_id)
        client._connection.unary(shard_id, wire.CLOSE_SESSION, request, Action("close"))


def test_records_go_with_their_session(client: Client, root: str) -> None:
    keys = [f"{root}/{number}" for number in range(10)]
    with client.session(identity="me") as session:
        assert session.ids == {}
        for key in keys:
            version = client.put(key, b"v", session=session).version
            assert (version.ephemeral, version.client_identity) == (True, "me")
            assert version.session_id in session.ids.values()
        assert len(session.ids) > 1
        assert list(client.list(f"{root}/", f"{root}//")) == keys
    assert list(client.list(f"{root}/", f"{root}//")) == []


def test_a_persistent_put_takes_a_record_out_of_its_session(client: Client, root: str) -> None:
    with client.session() as session:
        client.put(root, b"mine", session=session)
        assert not client.put(root, b"everybody's").version.ephemeral
    assert client.get(root).value == b"everybody's"


def test_the_identity_of_a_put_overrules_that_of_its_session(client: Client, root: str) -> None:
    with client.session(identity="me") as session:
        assert client.put(root, b"", session=session, identity="you").version.client_identity == "you"


def test_a_session_can_be_opened_everywhere_at_once(client: Client) -> None:
    with client.session() as session:
        session.open_everywhere()
        assert tuple(session.ids) == client.shard_ids()
        before = session.ids
        session.open_everywhere()
        assert session.ids == before


def test_a_closed_session_takes_no_more_records(client: Client, root: str) -> None:
    session = client.session()
    session.close()
    with pytest.raises(InvalidRequest, match="closed"):
        client.put(root, b"", session=session)
    session.close()


def test_heartbeats_keep_a_session_alive(client: Client, root: str) -> None:
    with client.session(timeout_ms=2000) as kept, client.session(timeout_ms=2000) as left:
        client.put(f"{root}/kept", b"", session=kept)
        with client.notifications() as changes:
            client.put(f"{root}/left", b"", session=left)
            left.abandon()
            for batch in changes:  # until the one without heartbeats has expired
                if any(
                    change.key == f"{root}/left" and change.version_id is None
                    for change in batch.notifications
                ):
                    break
        assert client.get(f"{root}/kept").version.ephemeral
        kept.check()


def test_a_lost_session_is_noticed(client: Client, root: str) -> None:
    session = client.session(timeout_ms=2000)
    client.put(root, b"", session=session)
    close_on_server(client, session)
    assert session.lost.wait(WAIT_S)
    with pytest.raises(SessionLost, match="open a new one"):
        session.check()
    with pytest.raises(SessionLost):
        client.put(root, b"", session=session)
    with pytest.raises(KeyNotFound):
        client.get(root)
    session.close()


def test_a_put_in_a_session_that_the_server_has_ended(client: Client, root: str) -> None:
    session = client.session(timeout_ms=300_000)
    client.put(root, b"", session=session)
    close_on_server(client, session)
    with pytest.raises(SessionLost, match=root):
        client.put(root, b"", session=session)
    session.close()


@pytest.mark.parametrize("timeout_ms", [1, 1999, 300_001])
def test_a_timeout_that_the_server_does_not_allow(client: Client, timeout_ms: int) -> None:
    with (
        client.session(timeout_ms=timeout_ms) as session,
        pytest.raises(InvalidRequest, match=str(timeout_ms)),
    ):
        session.open_everywhere()


@pytest.mark.parametrize("timeout_ms", [0, -1, 2**32])
def test_a_timeout_that_the_wire_cannot_carry(client: Client, timeout_ms: int) -> None:
    with pytest.raises(InvalidRequest, match="out of range"):
        client.session(timeout_ms=timeout_ms)


def test_a_session_outlives_a_restart_of_its_server() -> None:
    with (
        ServerProcess() as server,
        Client(server.address) as client,
        client.session(timeout_ms=10_000) as session,
    ):
        client.put("k", b"", session=session)
        server.restart("kill")
        assert client.get("k").version.session_id == session.ids[0]
        assert client.put("k2", b"", session=session).version.ephemeral


def test_closing_the_client_leaves_its_sessions_to_expire(server: ServerProcess, root: str) -> None:
    with Client(server.address) as client, Client(server.address) as observer:
        session = client.session(timeout_ms=2000)
        client.put(root, b"", session=session)
        with observer.notifications() as changes:
            client.close()
            assert observer.get(root).version.ephemeral
            assert any(change.key == root for batch in changes for change in batch.notifications)
        with pytest.raises(KeyNotFound):
            observer.get(root)


class Heartbeats:
    """A server that creates sessions and answers heartbeats as the test says."""

    def __init__(self, store: ScriptedStore) -> None:
        self.code: grpc.StatusCode | None = None
        store.answers["CreateSession"] = lambda _request, _context: pb.CreateSessionResponse(session_id=4)
        store.answers["KeepAlive"] = self.answer

    def answer(self, _request: Any, context: grpc.ServicerContext) -> pb.KeepAliveResponse:
        if self.code is not None:
            refuse(context, self.code, "no")
        return pb.KeepAliveResponse()


def test_a_silent_server_costs_the_session_before_it_can_expire() -> None:
    clock = ManualClock()
    with ScriptedStore() as store, Client(store.address, clock=clock) as client:
        heartbeats = Heartbeats(store)
        part = SessionPart(client._connection, 0, 100_000, "me", on_loss=lambda: None)
        part.stop()  # its own heartbeats: here the test gives them
        heartbeats.code = grpc.StatusCode.UNAVAILABLE
        clock.advance_ms(50_000)
        part.beat()
        heartbeats.code = None
        part.beat()
        heartbeats.code = grpc.StatusCode.UNAVAILABLE
        clock.advance_ms(75_000)
        part.beat()
        clock.advance_ms(6_000)
        with pytest.raises(ConnectionFailed):
            part.beat()
