"""gRPC health checking: answered from memory, by whichever thread is free, however busy the shards are."""

from __future__ import annotations

import threading
from collections.abc import Callable

import grpc
from grpc_health.v1 import health_pb2

from metastore.pb import tidemark_pb2
from metastore.server.transport import Call

SERVICES = ("", "oxia-readiness", tidemark_pb2.DESCRIPTOR.services_by_name["Metastore"].full_name)
_Status = health_pb2.HealthCheckResponse


class HealthService:
    """Whether the service serves, asked once (Check) or followed (Watch)."""

    def __init__(self, is_healthy: Callable[[], bool]) -> None:
        self._is_healthy = is_healthy
        self._is_stopping = False
        self._lock = threading.Lock()
        self._watchers: set[HealthWatch] = set()

    def handlers(self) -> dict[str, Callable[[Call], HealthCheck | HealthWatch]]:
        """The methods, by path."""
        name = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
        return {
            f"/{name}/Check": lambda call: HealthCheck(call, self),
            f"/{name}/Watch": lambda call: HealthWatch(call, self),
        }

    def status(self, service: str) -> int:
        """The status of a service name."""
        if service not in SERVICES:
            return _Status.SERVICE_UNKNOWN
        return _Status.SERVING if self._is_healthy() and not self._is_stopping else _Status.NOT_SERVING

    def begin_stopping(self) -> None:
        """From now on nothing is served; who watches is told."""
        self._is_stopping = True
        self.announce()

    def announce(self) -> None:
        """Tells those who watch, if their status has changed."""
        with self._lock:
            watchers = tuple(self._watchers)
        for watcher in watchers:
            watcher.announce()

    def add(self, watcher: HealthWatch) -> None:
        """Somebody watches."""
        with self._lock:
            self._watchers.add(watcher)

    def remove(self, watcher: HealthWatch) -> None:
        """Nobody watches any more."""
        with self._lock:
            self._watchers.discard(watcher)


class HealthCheck:
    """One question, one answer."""

    def __init__(self, call: Call, service: HealthService) -> None:
        self._call = call
        self._service = service

    def on_message(self, message: bytes) -> None:
        """The question."""
        name = health_pb2.HealthCheckRequest.FromString(message).service
        status = self._service.status(name)
        if status == _Status.SERVICE_UNKNOWN:
            known = ", ".join(repr(each) for each in SERVICES)
            self._call.finish(grpc.StatusCode.NOT_FOUND, f"unknown service {name!r}: known are {known}")
        else:
            self._call.reply(_Status(status=status).SerializeToString())

    def on_half_close(self) -> None:
        """The question was all."""

    def on_drained(self) -> None:
        """Nothing more to say."""

    def on_over(self) -> None:
        """Nothing to release."""


class HealthWatch:
    """The status now, and whenever it changes."""

    def __init__(self, call: Call, service: HealthService) -> None:
        self._call = call
        self._service = service
        self._name = ""
        self._said: int | None = None
        self._lock = threading.Lock()

    def on_message(self, message: bytes) -> None:
        """Which service to watch."""
        self._name = health_pb2.HealthCheckRequest.FromString(message).service
        self._service.add(self)
        self.announce()

    def announce(self) -> None:
        """Says the status if it is news."""
        with self._lock:
            status = self._service.status(self._name)
            if status != self._said:
                self._said = status
                self._call.send(_Status(status=status).SerializeToString())

    def on_half_close(self) -> None:
        """The watch goes on."""

    def on_drained(self) -> None:
        """Nothing more to say yet."""

    def on_over(self) -> None:
        """The watch is over."""
        self._service.remove(self)
