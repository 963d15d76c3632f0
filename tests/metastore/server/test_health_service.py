"""What the health service says, and to whom it says it again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2

from metastore.server.health import HealthService
from metastore.server.transport import GrpcServer
from support.ports import LOOPBACK

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
WITHIN_S = 60.0


class Checked:
    """A health service behind a port, and whether it is healthy."""

    def __init__(self) -> None:
        self.is_healthy = True
        self.service = HealthService(lambda: self.is_healthy)
        self.errors: list[BaseException] = []
        handlers = self.service.handlers()
        self.server = GrpcServer(
            lambda call: handlers[call.method](call), on_error=lambda _, error: self.errors.append(error)
        )
        self.channel: Any = grpc.insecure_channel(f"{LOOPBACK}:{self.server.add_port(f'{LOOPBACK}:0')}")

    def check(self, name: str = "") -> Any:
        return self.channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )(health_pb2.HealthCheckRequest(service=name), timeout=WITHIN_S).status

    def watch(self, name: str = "") -> Any:
        return self.channel.unary_stream(
            "/grpc.health.v1.Health/Watch",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )(health_pb2.HealthCheckRequest(service=name), timeout=WITHIN_S)


@pytest.fixture
def checked() -> Iterator[Checked]:
    made = Checked()
    made.server.start()
    try:
        yield made
    finally:
        made.channel.close()
        made.server.stop(0.0)
    assert made.errors == []


@pytest.mark.parametrize("name", ["", "oxia-readiness"])
def test_it_says_whether_all_is_well(checked: Checked, name: str) -> None:
    assert checked.check(name) == SERVING
    checked.is_healthy = False
    assert checked.check(name) == NOT_SERVING
    checked.is_healthy = True
    checked.service.begin_stopping()
    assert checked.check(name) == NOT_SERVING


def test_it_knows_no_other_service(checked: Checked) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        checked.check("other")
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND
    watch = checked.watch("other")
    assert next(watch).status == UNKNOWN
    watch.cancel()


def test_a_watcher_hears_of_changes_only(checked: Checked) -> None:
    watch = checked.watch()
    assert next(watch).status == SERVING
    checked.service.announce()
    checked.is_healthy = False
    checked.service.announce()
    checked.service.announce()
    assert next(watch).status == NOT_SERVING
    checked.is_healthy = True
    checked.service.announce()
    assert next(watch).status == SERVING
    checked.service.begin_stopping()
    assert next(watch).status == NOT_SERVING
    watch.cancel()
