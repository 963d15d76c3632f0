"""After a failed fsync nobody knows what the disk holds: the shard stops, says so, and has lost no promise."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest
from crash_client import health, put, put_code, streamed_put, values, watch_health
from crash_server import FaultyServer
from grpc_health.v1 import health_pb2

from metastore.pb import oxia_pb2 as pb
from support.wire import WireClient

SYNCS = 10
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
OK = grpc.StatusCode.OK


@pytest.fixture
def failing_server() -> Iterator[FaultyServer]:
    server = FaultyServer()
    server.arm(f"log.sync.after:{SYNCS}:ioerror")
    with server:
        yield server


def test_a_failed_sync_stops_the_shard_and_loses_nothing(failing_server: FaultyServer) -> None:
    server = failing_server
    acknowledged = {b"key-%d" % number: b"%d" % number for number in range(SYNCS - 2)}
    with WireClient(server.address) as wire:
        request = pb.CreateSessionRequest(shard=0, session_timeout_ms=300_000)
        session_id = wire.call("CreateSession", request).only.session_id
        answers = [put(wire, key, value, session_id) for key, value in acknowledged.items()]
        assert {answer.status.code for answer in answers} == {OK}
        versions = [answer.only.puts[0].version for answer in answers]
        subscribers = [
            wire.open("GetNotifications", pb.NotificationsRequest(shard=0)),
            wire.open("GetSequenceUpdates", pb.GetSequenceUpdatesRequest(shard=0, key=b"s")),
        ]
        assert subscribers[0].next().notifications == []
        watch = watch_health(wire)
        assert watch.next().status == health_pb2.HealthCheckResponse.SERVING
        assert put_code(wire, b"doubtful", b"1") is UNAVAILABLE
        assert watch.next().status == health_pb2.HealthCheckResponse.NOT_SERVING
        watch.cancel()
        assert [subscriber.rest().status.code for subscriber in subscribers] == [UNAVAILABLE] * 2
        assert_nothing_is_served(wire, session_id)
    assert server.log_tail().count("shard 0 stopped: ") == 1
    server.arm(None)
    server.restart()
    with WireClient(server.address) as wire:
        found = values(wire)
        assert found.pop(b"doubtful", b"1") == b"1"
        assert found == acknowledged
        gets = [pb.GetRequest(key=key) for key in acknowledged]
        records = wire.call("Read", pb.ReadRequest(shard=0, gets=gets)).only.gets
        assert [record.version for record in records] == versions
        assert wire.call("KeepAlive", pb.SessionHeartbeat(shard=0, session_id=session_id)).status.code is OK
        newer = put(wire, b"new").only.puts[0].version
        assert newer.version_id > max(version.version_id for version in versions)


def assert_nothing_is_served(wire: WireClient, session_id: int) -> None:
    calls = {
        "Write": pb.WriteRequest(shard=0, puts=[pb.PutRequest(key=b"a")]),
        "Read": pb.ReadRequest(shard=0, gets=[pb.GetRequest(key=b"key-0")]),
        "List": pb.ListRequest(shard=0, end_exclusive=b"~"),
        "RangeScan": pb.RangeScanRequest(shard=0),
        "KeepAlive": pb.SessionHeartbeat(shard=0, session_id=session_id),
        "CreateSession": pb.CreateSessionRequest(shard=0, session_timeout_ms=10_000),
        "CloseSession": pb.CloseSessionRequest(shard=0, session_id=session_id),
        "GetSequenceUpdates": pb.GetSequenceUpdatesRequest(shard=0, key=b"s"),
    }
    codes = {method: wire.call(method, request).status.code for method, request in calls.items()}
    assert codes == dict.fromkeys(calls, UNAVAILABLE)
    assert streamed_put(wire, b"a").status.code is UNAVAILABLE
    subscriber = wire.open("GetNotifications", pb.NotificationsRequest(shard=0, start_offset_exclusive=-1))
    assert subscriber.rest().status.code is UNAVAILABLE
    assert health(wire) == health_pb2.HealthCheckResponse.NOT_SERVING
