"""A server from start to stop: what it refuses to serve, how it ends, and that load does not keep it from answering."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2
from server_helpers import SERVING, health, run_server, store_url

from metastore.interface import BlockingStore
from metastore.pb import oxia_pb2 as pb
from metastore.server.router import OWN_SERVICE_NAME
from support.server import ServerProcess
from support.wire import SERVICES, ErrorDetail, WireClient

HEADERS = (("shard-id", "0"), ("namespace", "default"))
REFLECTION = "grpc.reflection.v1alpha.ServerReflection"
HEALTH = "grpc.health.v1.Health"
UNAVAILABLE = ErrorDetail("RESOURCE_UNAVAILABLE", "oxia.io", {})


@pytest.fixture(scope="module")
def shared() -> Iterator[ServerProcess]:
    with ServerProcess(shards=2) as server:
        yield server


@pytest.fixture
def wire(shared: ServerProcess) -> Iterator[WireClient]:
    with WireClient(shared.address) as made:
        yield made


def put(key: bytes = b"key", **fields: Any) -> pb.WriteRequest:
    return pb.WriteRequest(shard=0, puts=[pb.PutRequest(key=key, **fields)])


# ---- start


def test_a_data_directory_is_served_once(shared: ServerProcess) -> None:
    ended = run_server(shared.data_directory, "--shards", "2")
    assert ended.returncode == 1
    assert f"{shared.data_directory} is in use" in ended.stderr
    assert health(shared.address) == SERVING


def test_another_shape_is_refused_with_the_way_out() -> None:
    with ServerProcess(shards=2) as server:
        with BlockingStore.open(store_url(server)) as store:
            stored = store.put("/a", b"1")
        assert server.terminate() == 0
        for arguments, way_out in (
            (("--shards", "3"), "--shards 2"),
            (("--shards", "2", "--key-sorting", "natural"), "--key-sorting hierarchical"),
        ):
            ended = run_server(server.data_directory, *arguments)
            assert ended.returncode == 1
            assert way_out in ended.stderr
            assert "Traceback" not in ended.stderr
        server.start()
        with BlockingStore.open(store_url(server)) as store:
            [record] = store.scan()
        assert (record.key, record.value, record.version) == ("/a", b"1", stored.version)


def test_a_port_in_use_is_named(shared: ServerProcess, tmp_path: Path) -> None:
    for flag, address in (("--public-addr", shared.address), ("--metrics-addr", shared.metrics_address)):
        ended = run_server(tmp_path, flag, address)
        assert ended.returncode == 1
        assert "in use" in ended.stderr.splitlines()[-1]
        assert "Traceback" not in ended.stderr


# ---- stop


def test_open_streams_end_with_the_server() -> None:
    with ServerProcess() as server, WireClient(server.address) as wire:
        writes = wire.open("WriteStream", put(), metadata=HEADERS)
        assert writes.next().puts[0].status == pb.OK
        notifications = wire.open("GetNotifications", pb.NotificationsRequest(shard=0))
        assert notifications.next().offset == 0
        sequence = wire.open("GetSequenceUpdates", pb.GetSequenceUpdatesRequest(shard=0, key=b"seq"))
        assert wire.call("Write", put(b"seq", partition_key=b"p", sequence_key_delta=[1])).only
        assert sequence.next().highest_sequence_key
        assignments = wire.open("GetShardAssignments", pb.ShardAssignmentsRequest())
        assert assignments.next().namespaces
        assert notifications.next().offset == 1
        assert server.terminate() == 0
        for stream in (writes, notifications, sequence):
            answer = stream.rest()
            assert answer.messages == []
            assert (answer.status.code, answer.status.details) == (grpc.StatusCode.UNAVAILABLE, (UNAVAILABLE,))
        ended = assignments.rest()
        assert (ended.messages, ended.status.code) == ([], grpc.StatusCode.OK)


def test_a_watcher_of_the_health_is_told_of_the_stop() -> None:
    with ServerProcess() as server, grpc.insecure_channel(server.address) as channel:
        call: Any = channel.unary_stream(
            f"/{HEALTH}/Watch", response_deserializer=health_pb2.HealthCheckResponse.FromString
        )
        watch = call(b"", timeout=60.0)
        assert next(watch).status == SERVING
        assert server.terminate() == 0
        assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
        with pytest.raises(grpc.RpcError):
            next(watch)


# ---- while it serves


def test_health_of_services(shared: ServerProcess) -> None:
    with grpc.insecure_channel(shared.address) as channel:
        check: Any = channel.unary_unary(
            f"/{HEALTH}/Check",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        for name in ("", "oxia-readiness"):
            assert check(health_pb2.HealthCheckRequest(service=name), timeout=60.0).status == SERVING
        with pytest.raises(grpc.RpcError) as refused:
            check(health_pb2.HealthCheckRequest(service="other"), timeout=60.0)
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND


def test_reflection_lists_all_services(shared: ServerProcess) -> None:
    with grpc.insecure_channel(shared.address) as channel:
        call: Any = channel.stream_stream(
            f"/{REFLECTION}/ServerReflectionInfo",
            request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
        )
        requests = [reflection_pb2.ServerReflectionRequest(list_services="")]
        requests += [
            reflection_pb2.ServerReflectionRequest(file_containing_symbol=name)
            for name in (*SERVICES, OWN_SERVICE_NAME)
        ]
        listed, *files = call(iter(requests), timeout=60.0)
    names = {service.name for service in listed.list_services_response.service}
    assert names == {*SERVICES, OWN_SERVICE_NAME, HEALTH, REFLECTION}
    assert [bool(each.file_descriptor_response.file_descriptor_proto) for each in files] == [True, True, True]


def test_health_is_answered_under_load(shared: ServerProcess) -> None:
    with WireClient(shared.address) as wire:
        streams = [wire.open("WriteStream", metadata=HEADERS) for _ in range(4)]
        for stream in streams:
            for place in range(2_000):
                stream.send(put(b"load-%04d" % place, value=b"v" * 1000))
        assert streams[0].next().puts[0].status == pb.OK
        assert [health(shared.address) for _ in range(10)] == [SERVING] * 10
        for stream in streams:
            stream.half_close()
        for stream in streams:
            answer = stream.rest()
            taken = 1 if stream is streams[0] else 0
            assert (len(answer.messages) + taken, answer.status.code) == (2_000, grpc.StatusCode.OK)


def test_a_long_list_and_a_subscriber_far_behind() -> None:
    count, step = 100_000, 500
    keys = [b"key-%06d" % place for place in range(count)]
    with ServerProcess() as server, WireClient(server.address) as wire:
        writes = wire.open("WriteStream", metadata=HEADERS)
        for start in range(0, count, step):
            puts = [pb.PutRequest(key=key) for key in keys[start : start + step]]
            writes.send(pb.WriteRequest(puts=puts))
        writes.half_close()
        assert len(writes.rest().messages) == count // step
        listed = wire.call("List", pb.ListRequest(shard=0))
        assert [key for message in listed.messages for key in message.keys] == keys
        stream = wire.open("GetNotifications", pb.NotificationsRequest(shard=0, start_offset_exclusive=-1))
        assert stream.next().offset == -1
        batches = [stream.next() for _ in range(count // step)]
        stream.cancel()
    assert [batch.offset for batch in batches] == list(range(count // step))
    assert [entry.key for batch in batches for entry in batch.notifications] == keys


def test_a_session_without_heartbeats_expires(wire: WireClient) -> None:
    """The shortest session takes two seconds to expire: the one test here that waits for time to pass."""
    request = pb.CreateSessionRequest(shard=1, session_timeout_ms=2_000)
    session_id = wire.call("CreateSession", request).only.session_id
    puts = [pb.PutRequest(key=b"ephemeral-%d" % place, session_id=session_id) for place in range(3)]
    answer = wire.call("Write", pb.WriteRequest(shard=1, puts=puts)).only
    assert [each.status for each in answer.puts] == [pb.OK] * len(puts)
    stream = wire.open("GetNotifications", pb.NotificationsRequest(shard=1))
    assert stream.next().notifications == []
    gone = stream.next()
    stream.cancel()
    assert [(entry.key, entry.value.type) for entry in gone.notifications] == [
        (each.key, pb.KEY_DELETED) for each in puts
    ]
    assert wire.call("List", pb.ListRequest(shard=1, end_exclusive=b"z")).messages == []
    heartbeat = wire.call("KeepAlive", pb.SessionHeartbeat(shard=1, session_id=session_id))
    assert heartbeat.status.code is grpc.StatusCode.NOT_FOUND
    late = wire.call("Write", pb.WriteRequest(shard=1, puts=puts)).only
    assert {each.status for each in late.puts} == {pb.SESSION_DOES_NOT_EXIST}
