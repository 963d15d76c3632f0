"""The server in front of a broker: its port, its services, and how it ends."""

from __future__ import annotations

from collections.abc import Mapping

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from controller.broker.config import BrokerConfig
from controller.broker.limits import BrokerLimits
from metastore.addresses import join_address, split_address
from metastore.tokens import server_credentials

UNARY_CALLS_MAX = 4_000
"""Calls beside the streams that may be under way at the same time; gRPC refuses more with RESOURCE_EXHAUSTED."""
CALLS_END_S = 2.0
"""How long calls that are under way have to be answered at the end."""
KEEPALIVE_MS = 20_000
"""A client that shows no sign of life for so long is asked for one."""
KEEPALIVE_TIMEOUT_MS = 10_000
"""And taken for dead if it gives none: what was delivered to it goes to others."""


class ListenError(Exception):
    """The address is not to be had."""


class Front:
    """One port; made within a running event loop."""

    def __init__(self, config: BrokerConfig, limits: BrokerLimits) -> None:
        self._health = health.aio.HealthServicer()
        calls_max = limits.streams_max + limits.sessions_max + UNARY_CALLS_MAX
        self._server = grpc.aio.server(options=_options(limits), maximum_concurrent_rpcs=calls_max)
        self.host, self.port = self._listen(config)

    @property
    def address(self) -> str:
        """Where it listens."""
        return join_address(self.host, self.port)

    def _listen(self, config: BrokerConfig) -> tuple[str, int]:
        host, port = split_address(config.listen)
        address = join_address(host, port)
        try:
            if config.tls_cert_file is None or config.tls_key_file is None:
                return host, self._server.add_insecure_port(address)
            credentials = server_credentials(config.tls_cert_file, config.tls_key_file, config.tls_client_ca_file)
            return host, self._server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise ListenError(
                f"cannot listen on {address}: the port may be taken, the host another machine's, "
                "or the key not that of the certificate"
            ) from error

    async def start(self, services: Mapping[str, Mapping[str, grpc.RpcMethodHandler[bytes, bytes]]]) -> None:
        """Serves the methods of these services, and says that it does."""
        for service, handlers in services.items():
            self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, dict(handlers)),))
            await self._health.set(service, health_pb2.HealthCheckResponse.SERVING)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection((*services, health.SERVICE_NAME, reflection.SERVICE_NAME), self._server)
        await self._server.start()

    async def say_stopping(self) -> None:
        """Tells who asks for its health that it serves no more."""
        await self._health.enter_graceful_shutdown()

    async def stop(self) -> None:
        """Takes no more calls, and lets those under way end, or ends them."""
        await self._server.stop(CALLS_END_S)


def _options(limits: BrokerLimits) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", limits.request_bytes_max),
        ("grpc.max_send_message_length", -1),
        ("grpc.so_reuseport", 0),
        ("grpc.keepalive_time_ms", KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_TIMEOUT_MS),
    ]
