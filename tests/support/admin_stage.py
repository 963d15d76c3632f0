"""Brokers with their admin services on a loop of their own, and requests to them from the test's thread."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from controller.admin import AdminConfig, AdminLimits, AdminServer
from controller.broker import Broker, BrokerConfig
from controller.client import Client
from controller.client.client import connected
from controller.client.settings import Settings
from metastore.coordination import Pace
from metastore.dialling import Security
from metastore.interface import MetadataStore, open_store
from metastore.interface.loop_thread import LoopThread
from support.ports import LOOPBACK

ANY_PORT = f"{LOOPBACK}:0"
TOPICS = "/admin/v2/scalable/public/default"
NAMESPACES = "/admin/v2/namespaces/public/default"
SEGMENTS = "/admin/v2/segments/public/default"
PROBLEM = "application/problem+json"
JSON = {"content-type": "application/json"}
ANSWER_WITHIN_S = 30.0

T = TypeVar("T")


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The name of the error, of a problem that is as problems are."""
        assert self.headers["content-type"] == PROBLEM, self
        found = self.json
        assert found["status"] == self.status
        assert found["type"] == f"urn:tidemark:problem:{found['error']}"
        assert found["title"]
        assert found["detail"] == found["reason"]
        return str(found["error"])


class Admin:
    """Requests to one admin service."""

    def __init__(
        self, address: str, headers: Mapping[str, str] | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self.address = address
        self._headers = dict(headers or {})
        self._tls = tls

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        raw: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """A request whose path is sent as it is."""
        connection = (
            http.client.HTTPConnection(self.address, timeout=ANSWER_WITHIN_S)
            if self._tls is None
            else http.client.HTTPSConnection(self.address, timeout=ANSWER_WITHIN_S, context=self._tls)
        )
        sent = raw if body is None else json.dumps(body).encode()
        try:
            connection.request(
                method, path, sent, {**self._headers, **(JSON if body is not None else {}), **(headers or {})}
            )
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **options: Any) -> Answer:
        return self.ask("GET", path, **options)

    def put(self, path: str, body: Any = None, **options: Any) -> Answer:
        return self.ask("PUT", path, body, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> Answer:
        return self.ask("POST", path, body, **options)

    def delete(self, path: str, **options: Any) -> Answer:
        return self.ask("DELETE", path, **options)

    def record(self, topic: str) -> Any:
        answer = self.get(f"{TOPICS}/{topic}")
        assert answer.status == 200, answer
        return answer.json


class Stage:
    """Any number of brokers on one store in memory, each with an admin service, all on one loop in a thread."""

    def __init__(
        self,
        brokers: int = 1,
        *,
        limits: AdminLimits | None = None,
        tokens_file: Path | None = None,
        token_file: Path | None = None,
        admin: Callable[[AdminConfig], AdminConfig] = lambda config: config,
    ) -> None:
        self._count = brokers
        self._limits = limits
        self._tokens_file = tokens_file
        self._token_file = token_file
        self._admin = admin
        self._stack = AsyncExitStack()
        self._loop = LoopThread()
        self.admins: list[Admin] = []
        self.clients: list[Client] = []
        self.brokers: list[Broker] = []

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs it where the brokers are."""
        return self._loop.call(coroutine)

    async def _open(self) -> None:
        store = await self._stack.enter_async_context(await open_store("memory://"))
        for number in range(self._count):
            await self._add(store, f"broker-{number}")

    async def _add(self, store: MetadataStore, name: str) -> None:
        config = BrokerConfig(
            listen=ANY_PORT,
            name=name,
            log="metastore",
            metrics_port=None,
            tokens_file=self._tokens_file,
            peer_token_file=self._token_file,
        )
        broker = await self._stack.enter_async_context(Broker(config, store=store))
        settings = Settings((broker.address,), Security(token_file=self._token_file))
        client = await self._stack.enter_async_context(await connected(settings, Pace()))
        wanted = self._admin(AdminConfig(ANY_PORT, tokens_file=self._tokens_file))
        server = await self._stack.enter_async_context(AdminServer(wanted, client, limits=self._limits))
        self.brokers.append(broker)
        self.clients.append(client)
        self.admins.append(Admin(server.address))

    @property
    def admin(self) -> Admin:
        """The first one."""
        return self.admins[0]

    def __enter__(self) -> Self:
        try:
            self.call(self._open())
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.call(self._stack.aclose())
        finally:
            self._loop.stop()
