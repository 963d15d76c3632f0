"""Where the calls of a recording go: what concerns a shard goes to its leader, as with any client."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool

from metastore.pb import oxia_pb2
from support.transcripts.messages import BadRecording, Tree, Variables, request_bytes
from support.wire import (
    CURRENT_SERVICE,
    METHODS,
    OLDER_SERVICE,
    Answer,
    Method,
    Stream,
    WireClient,
    methods_of,
)

SERVICES = {"v1": CURRENT_SERVICE, "compat": OLDER_SERVICE}
HEALTH_SERVICE = "grpc.health.v1.Health"


def _health_methods() -> dict[str, Method]:
    """The health service as recordings write it: the service's name is bytes, the status a number."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="recorded_health.proto", package="recorded.health", syntax="proto3")
    for message, name, kind in (
        ("Request", "service", field.TYPE_BYTES),
        ("Response", "status", field.TYPE_INT32),
    ):
        file.message_type.add(name=message).field.add(name=name, number=1, type=kind, label=field.LABEL_OPTIONAL)
    service = file.service.add(name="Health")
    for name, streaming in (("Check", False), ("Watch", True)):
        service.method.add(
            name=name,
            input_type=".recorded.health.Request",
            output_type=".recorded.health.Response",
            server_streaming=streaming,
        )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return methods_of(pool.FindServiceByName("recorded.health.Health"))


HEALTH_METHODS = _health_methods()


def method_of(step: Tree) -> Method:
    methods = HEALTH_METHODS if step.get("service") == HEALTH_SERVICE else METHODS
    if step["call"] not in methods:
        raise BadRecording(f"no method {step['call']}")
    return methods[step["call"]]


class Connection:
    """The clients of one server, one for each address that its shard assignments name."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._clients = {address: WireClient(address)}
        self._leaders = self._read_leaders()

    def _read_leaders(self) -> dict[int, str]:
        stream = self._clients[self.address].open("GetShardAssignments", oxia_pb2.ShardAssignmentsRequest())
        assignments = stream.next()
        stream.cancel()
        return {
            assignment.shard: assignment.leader.decode()
            for namespace in assignments.namespaces.values()
            for assignment in namespace.assignments
        }

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def _client(self, step: Tree) -> WireClient:
        address = self.address
        if "authority" not in step and step["call"] != "GetShardAssignments":
            address = self._leaders.get(_shard_of(step), self.address)
        if address not in self._clients:
            self._clients[address] = WireClient(address)
        return self._clients[address]

    def call(self, step: Tree, case_service: str, variables: Variables) -> Answer:
        """A call to its end, with the one request of its step."""
        method = method_of(step)
        (form,) = step["send"]
        request = request_bytes(method.request, form, variables)
        return self._client(step).call(method, request, **_options(step, case_service), path=step.get("path"))

    def open(self, step: Tree, case_service: str, variables: Variables) -> Stream:
        """A call that stays open."""
        method = method_of(step)
        forms = step.get("send", ())
        if len(forms) > 1:
            raise BadRecording(f"{step['call']} is opened with one request at most")
        request = request_bytes(method.request, forms[0], variables) if forms else None
        return self._client(step).open(method, request, **_options(step, case_service))


def _shard_of(step: Tree) -> int:
    (request,) = step.get("send") or [{}]
    shard = step.get("metadata", {}).get("shard-id", request.get("shard", 0))
    if isinstance(shard, str) and shard.isdigit():
        return int(shard)
    return shard if isinstance(shard, int) else 0


def _options(step: Tree, case_service: str) -> dict[str, Any]:
    service = step.get("service", case_service)
    metadata = tuple(
        (name, value)
        for name, values in step.get("metadata", {}).items()
        for value in (values if isinstance(values, list) else [values])
    )
    return {
        "service": SERVICES.get(service, service),
        "metadata": metadata,
        "authority": step.get("authority"),
    }
