"""Single calls to a server in trouble: the answer, or just the code that ended the call."""

from __future__ import annotations

import grpc
from grpc_health.v1 import health_pb2

from metastore.pb import oxia_pb2 as pb
from support.wire import Answer, Stream, WireClient, methods_of

HEALTH_SERVICE = "grpc.health.v1.Health"
HEALTH_METHODS = methods_of(health_pb2.DESCRIPTOR.services_by_name["Health"])
STREAM_METADATA = (("shard-id", "0"), ("namespace", "default"))


def put(wire: WireClient, key: bytes, value: bytes = b"", session_id: int | None = None) -> Answer:
    request = pb.PutRequest(key=key, value=value, session_id=session_id)
    return wire.call("Write", pb.WriteRequest(shard=0, puts=[request]))


def put_code(wire: WireClient, key: bytes, value: bytes = b"") -> grpc.StatusCode:
    return put(wire, key, value).status.code


def streamed_put(wire: WireClient, key: bytes, value: bytes = b"") -> Answer:
    """A put on a write stream that the server must end."""
    request = pb.WriteRequest(shard=0, puts=[pb.PutRequest(key=key, value=value)])
    return wire.open("WriteStream", request, metadata=STREAM_METADATA).rest()


def delete_code(wire: WireClient, key: bytes) -> grpc.StatusCode:
    return wire.call("Write", pb.WriteRequest(shard=0, deletes=[pb.DeleteRequest(key=key)])).status.code


def get(wire: WireClient, key: bytes) -> pb.GetResponse:
    gets = [pb.GetRequest(key=key, include_value=True)]
    found: pb.GetResponse = wire.call("Read", pb.ReadRequest(shard=0, gets=gets)).only.gets[0]
    return found


def values(wire: WireClient) -> dict[bytes, bytes]:
    """All records, by key."""
    answer = wire.call("RangeScan", pb.RangeScanRequest(shard=0))
    assert answer.status.code is grpc.StatusCode.OK, answer.status
    return {record.key: record.value for message in answer.messages for record in message.records}


def watch_health(wire: WireClient) -> Stream:
    request = health_pb2.HealthCheckRequest()
    return wire.open(HEALTH_METHODS["Watch"], request, service=HEALTH_SERVICE)


def health(wire: WireClient) -> int:
    answer = wire.call(HEALTH_METHODS["Check"], health_pb2.HealthCheckRequest(), service=HEALTH_SERVICE)
    return int(answer.only.status)
