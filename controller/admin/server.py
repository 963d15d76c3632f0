"""The server in front of the application: its port, and how it begins and ends."""

from __future__ import annotations

import asyncio
import socket
import ssl
from types import TracebackType
from typing import Self

import uvicorn

from controller.admin.application import application
from controller.admin.config import AdminConfig
from controller.admin.gate import Gate
from controller.admin.limits import AdminLimits
from controller.broker.security import Authenticator, TokenAuthenticator
from controller.client import Client
from metastore.addresses import join_address, split_address
from metastore.clock import Clock, SystemClock
from metastore.tokens import SecurityError

BACKLOG = 256
"""Connections that wait to be taken."""
HEADERS_BYTES_MAX = 64 << 10


class AdminListenError(Exception):
    """The address is not to be had."""


class AdminServer:
    """`async with AdminServer(config, client) as admin` serves at `admin.address`, and asks brokers by the client."""

    def __init__(
        self, config: AdminConfig, client: Client, *, limits: AdminLimits | None = None, clock: Clock | None = None
    ) -> None:
        self._config = config.check()
        self._limits = limits or AdminLimits()
        clock = clock or SystemClock()
        authenticator = Authenticator() if config.tokens_file is None else TokenAuthenticator(config.tokens_file, clock)
        served = application(client.topics, client.segments, client.cursors)
        self._gate = Gate(served, authenticator, self._limits, clock)
        self._server: uvicorn.Server | None = None
        self._socket: socket.socket | None = None
        self.address = ""
        """HOST:PORT; known once it serves."""

    @property
    def url(self) -> str:
        """What to put before the paths."""
        return f"{'http' if self._config.tls_cert_file is None else 'https'}://{self.address}"

    async def __aenter__(self) -> Self:
        self._socket = await self._listen()
        settings = self._settings()
        server = self._server = uvicorn.Server(settings)
        server.lifespan = settings.lifespan_class(settings)
        # What uvicorn does in its main loop, ten times a second, is to look whether it is to end, and what time it is.
        await server.startup([self._socket])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        assert self._socket is not None
        await self._server.shutdown([self._socket])

    async def _listen(self) -> socket.socket:
        host, port = split_address(self._config.listen)
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
            family, _, _, _, place = found[0]
            listening = socket.create_server(place[:2], family=family, backlog=BACKLOG)
        except OSError as error:
            raise AdminListenError(
                f"cannot listen on {self._config.listen} for admin requests: {error.strerror or error}"
            ) from error
        listening.setblocking(False)
        # Accepted sockets inherit it. asyncio sets it only where it knows the protocol of the listening one: without it
        # an answer of two writes waits for the acknowledgement of the first, 40 ms.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.address = join_address(host, listening.getsockname()[1])
        return listening

    def _settings(self) -> uvicorn.Config:
        config, limits = self._config, self._limits
        settings = uvicorn.Config(
            self._gate,
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            backlog=BACKLOG,
            h11_max_incomplete_event_size=HEADERS_BYTES_MAX,
            timeout_keep_alive=limits.idle_s,
            timeout_graceful_shutdown=limits.end_s,
            ssl_certfile=config.tls_cert_file,
            ssl_keyfile=config.tls_key_file,
            ssl_ca_certs=None if config.tls_client_ca_file is None else str(config.tls_client_ca_file),
            ssl_cert_reqs=ssl.CERT_NONE if config.tls_client_ca_file is None else ssl.CERT_REQUIRED,
        )
        try:
            settings.load()
        except OSError as error:
            raise SecurityError(f"the certificate or the key of the admin service cannot be used: {error}") from error
        return settings
