"""Sessions that cannot be are refused, and change nothing."""

from __future__ import annotations

import pytest
from grpc import StatusCode

from metastore.engine import limits
from metastore.pb import oxia_pb2 as pb
from support.server import own_server
from support.wire import ErrorDetail, WireClient
from support.witness import Witness, assert_refused

pytestmark = pytest.mark.skipif(not own_server(), reason="asks what only this project's server promises")


def session(timeout_ms: int) -> pb.CreateSessionRequest:
    return pb.CreateSessionRequest(shard=0, session_timeout_ms=timeout_ms)


@pytest.mark.parametrize(
    "timeout_ms",
    [0, 1, limits.SESSION_TIMEOUT_MS_MIN - 1, limits.SESSION_TIMEOUT_MS_MAX + 1, (1 << 32) - 1],
)
def test_a_session_timeout_out_of_bounds(witnessed_wire: WireClient, witness: Witness, timeout_ms: int) -> None:
    with witness.nothing_changes():
        answer = witnessed_wire.call("CreateSession", session(timeout_ms))
    assert_refused(answer, StatusCode.INVALID_ARGUMENT)
    assert answer.status.message == f"timeoutMs={timeout_ms}: oxia: invalid session timeout"
    assert answer.status.details == (ErrorDetail("INVALID_SESSION_TIMEOUT", "oxia.io", {}),)


@pytest.mark.parametrize("timeout_ms", [limits.SESSION_TIMEOUT_MS_MIN, limits.SESSION_TIMEOUT_MS_MAX])
def test_the_shortest_and_the_longest_session(witnessed_wire: WireClient, timeout_ms: int) -> None:
    session_id = witnessed_wire.call("CreateSession", session(timeout_ms)).only.session_id
    close = pb.CloseSessionRequest(shard=0, session_id=session_id)
    assert witnessed_wire.call("CloseSession", close).only == pb.CloseSessionResponse()


@pytest.mark.parametrize("session_id", [0, -1, 1 << 62])
@pytest.mark.parametrize(
    ("method", "kind"), [("KeepAlive", pb.SessionHeartbeat), ("CloseSession", pb.CloseSessionRequest)]
)
def test_an_unknown_session(
    witnessed_wire: WireClient,
    witness: Witness,
    method: str,
    kind: type[pb.SessionHeartbeat],
    session_id: int,
) -> None:
    with witness.nothing_changes():
        answer = witnessed_wire.call(method, kind(shard=0, session_id=session_id))
    assert_refused(answer, StatusCode.NOT_FOUND)
    assert answer.status.message == "oxia: session not found"
    assert answer.status.details == (ErrorDetail("SESSION_NOT_FOUND", "oxia.io", {}),)


def test_a_session_is_known_to_its_own_shard_only(witnessed_wire: WireClient) -> None:
    get = pb.ReadRequest(shard=0, gets=[pb.GetRequest(key=b"ephemeral")])
    session_id = witnessed_wire.call("CreateSession", session(60_000)).only.session_id
    puts = [pb.PutRequest(key=b"ephemeral", session_id=session_id)]
    elsewhere = witnessed_wire.call("Write", pb.WriteRequest(shard=1, puts=puts)).only
    assert elsewhere.puts[0] == pb.PutResponse(status=pb.SESSION_DOES_NOT_EXIST)
    assert witnessed_wire.call("Write", pb.WriteRequest(shard=0, puts=puts)).only.puts[0].status == pb.OK
    close = pb.CloseSessionRequest(shard=0, session_id=session_id)
    assert witnessed_wire.call("CloseSession", close).only == pb.CloseSessionResponse()
    assert witnessed_wire.call("Write", pb.WriteRequest(shard=0, puts=puts)).only.puts[0] == elsewhere.puts[0]
    assert witnessed_wire.call("Read", get).only.gets[0].status == pb.KEY_NOT_FOUND
