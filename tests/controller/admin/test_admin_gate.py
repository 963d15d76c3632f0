"""What stands before every request: tokens, sizes, times, methods, and that it is JSON."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator
from dataclasses import replace
from email.utils import parsedate_to_datetime
from pathlib import Path

import pytest

from controller.admin import AdminConfig, AdminConfigError, AdminLimits, AdminListenError, AdminServer
from controller.admin.gate import Gate
from controller.broker.security import Authenticator
from metastore.clock import ManualClock
from support.admin_stage import ANY_PORT, NAMESPACES, TOPICS, Admin, Stage
from support.identity import Identity
from support.ports import LOOPBACK

SMALL = AdminLimits(body_bytes_max=1_000, path_bytes_max=500)


@pytest.fixture(scope="module")
def admin() -> Iterator[Admin]:
    with Stage(limits=SMALL) as stage:
        yield stage.admin


# -- sizes


def test_a_body_may_be_as_large_as_the_limit(admin: Admin) -> None:
    name, rest = "n" * 300, len('{"x": ""}')
    assert admin.put(f"{TOPICS}/{name}", {"x": "y" * (SMALL.body_bytes_max - rest)}).status == 204
    too_large = admin.put(f"{TOPICS}/{name}-2", {"x": "y" * (SMALL.body_bytes_max - rest + 1)})
    assert (too_large.status, too_large.error) == (413, "BodyTooLarge")
    assert "body_bytes_max" in too_large.json["detail"]
    assert admin.get(f"{TOPICS}/{name}-2").status == 404


def test_a_body_without_a_length_is_counted_as_it_comes(admin: Admin) -> None:
    head = b"PUT /admin/v2/scalable/public/default/chunked HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    with socket.create_connection((LOOPBACK, int(admin.address.rpartition(":")[2]))) as connection:
        connection.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n" + b"1f4\r\n" + b" " * 500 + b"\r\n")
        connection.sendall(b"1f5\r\n" + b" " * 501 + b"\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 413 ")


def test_a_path_may_be_as_long_as_the_limit(admin: Admin) -> None:
    path = f"{TOPICS}/{'n' * (SMALL.path_bytes_max - len(TOPICS) - 1)}"
    assert admin.get(path).status == 404
    for longer in (path + "n", path + "?" + "x"):
        answer = admin.get(longer)
        assert (answer.status, answer.error) == (414, "PathTooLong")


@pytest.mark.parametrize("type", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_a_body_is_json_or_is_refused(type: str, admin: Admin) -> None:
    answer = admin.put(f"{TOPICS}/typed", raw=b'{"a":"b"}', headers={"content-type": type})
    assert (answer.status, answer.error) == (415, "UnsupportedMediaType")
    assert admin.put(f"{TOPICS}/typed-{len(type)}", raw=b"", headers={"content-type": type}).status == 204


@pytest.mark.parametrize("body", [b"{", b'{"a":', b"\xff", b"nonsense", b"[" * 900])
def test_broken_json_is_refused(body: bytes, admin: Admin) -> None:
    answer = admin.put(f"{TOPICS}/broken", raw=body, headers={"content-type": "application/json; charset=utf-8"})
    assert (answer.status, answer.error) == (400, "InvalidRequest")


# -- methods and paths


def test_a_method_that_is_not_there_says_which_are(admin: Admin) -> None:
    answer = admin.ask("PATCH", f"{TOPICS}/x")
    assert (answer.status, answer.error, answer.headers["allow"]) == (405, "MethodNotAllowed", "DELETE, GET, PUT")
    answer = admin.post(f"{NAMESPACES}/retention/")
    assert (answer.status, answer.error) == (404, "NoSuchPath")
    assert admin.ask("DELETE", "/openapi.json").headers["allow"] == "GET"
    assert admin.ask("HEAD", f"{TOPICS}/x").status == 405


def test_every_answer_has_a_date(admin: Admin) -> None:
    for path in ("/openapi.json", "/absent", "/%FF"):
        assert parsedate_to_datetime(admin.get(path).headers["date"]).year >= 2024


# -- who may come


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Admin]:
    directory = tmp_path_factory.mktemp("tokens")
    (directory / "tokens").write_text("ann secret\n")
    (directory / "token").write_text("secret")
    with Stage(tokens_file=directory / "tokens", token_file=directory / "token") as stage:
        yield stage.admin


@pytest.mark.parametrize("header", ["", "Basic abc", "Bearer wrong", "Bearer"])
def test_without_a_token_nobody_is_let_in(header: str, guarded: Admin) -> None:
    for path in (TOPICS, "/openapi.json", "/absent"):
        answer = guarded.get(path, headers={"authorization": header} if header else {})
        assert (answer.status, answer.error, answer.headers["www-authenticate"]) == (401, "Unauthenticated", "Bearer")


def test_with_a_token_all_may_be_done(guarded: Admin) -> None:
    bearer = Admin(guarded.address, {"authorization": "Bearer secret"})
    assert bearer.put(f"{TOPICS}/guarded").status == 204
    assert bearer.get(TOPICS).json == ["topic://public/default/guarded"]


def test_tls(tmp_path: Path) -> None:
    identity = Identity.make(tmp_path, "server")
    with Stage(
        admin=lambda config: replace(config, tls_cert_file=identity.certificate, tls_key_file=identity.key)
    ) as stage:
        context = ssl.create_default_context(cafile=str(identity.certificate))
        context.check_hostname = False
        assert Admin(stage.admin.address, tls=context).get(TOPICS).json == []


# -- settings


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        (AdminConfig("nowhere"), "HOST:PORT"),
        (AdminConfig("0.0.0.0:8080"), "open to the network"),
        (AdminConfig(ANY_PORT, tls_cert_file=Path("x")), "belong together"),
    ],
)
def test_what_cannot_be_configured(config: AdminConfig, complaint: str) -> None:
    with pytest.raises(AdminConfigError, match=complaint):
        config.check()


def test_a_network_may_be_trusted() -> None:
    AdminConfig("0.0.0.0:8080", insecure=True).check()
    AdminConfig("0.0.0.0:8080", tokens_file=Path("tokens")).check()


def test_an_address_that_is_taken() -> None:
    with Stage() as stage:
        taken = AdminServer(AdminConfig(stage.admin.address), stage.clients[0])

        async def begin() -> None:
            async with taken:
                raise AssertionError("it listens")

        with pytest.raises(AdminListenError, match="cannot listen"):
            stage.call(begin())


# -- how long, and how many


class Asked:
    """A request to a gate whose application waits until it is told to answer."""

    def __init__(self, limits: AdminLimits) -> None:
        self.entered = asyncio.Event()
        self.holds = asyncio.Event()
        self.gate = Gate(self._serve, Authenticator(), limits, ManualClock())

    async def _serve(self, scope: object, receive: object, send: object) -> None:
        self.entered.set()
        await self.holds.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})  # type: ignore[operator]
        await send({"type": "http.response.body", "body": b""})  # type: ignore[operator]

    async def ask(self, *pieces: dict[str, object]) -> int | None:
        """The status; None if nothing was answered."""
        told: list[dict[str, object]] = []
        first: dict[str, object] = {"type": "http.request"}
        coming = iter(pieces or (first,))

        async def receive() -> dict[str, object]:
            piece = next(coming, None)
            if piece is None:
                await asyncio.Event().wait()
            assert piece is not None
            return piece

        async def send(message: dict[str, object]) -> None:
            told.append(message)

        scope = {"type": "http", "raw_path": b"/x", "path": "/x", "query_string": b"", "headers": []}
        await self.gate(scope, receive, send)  # type: ignore[arg-type]
        found = [message["status"] for message in told if message["type"] == "http.response.start"]
        assert len(found) <= 1
        return int(str(found[0])) if found else None


def test_a_request_has_a_time() -> None:
    async def scenario() -> None:
        asked = Asked(AdminLimits(request_timeout_s=0.01))
        assert await asked.ask() == 504
        assert await asked.ask({"type": "http.request", "body": b"", "more_body": True}) == 504

    asyncio.run(scenario())


def test_so_many_requests_and_no_more() -> None:
    async def scenario() -> None:
        asked = Asked(AdminLimits(requests_max=2))
        waiting = [asyncio.create_task(asked.ask()) for _ in range(2)]
        await asked.entered.wait()
        await asyncio.sleep(0)
        assert await asked.ask() == 429
        asked.holds.set()
        assert await asyncio.gather(*waiting) == [200, 200]
        assert await asked.ask() == 200

    asyncio.run(scenario())


def test_a_client_that_has_gone_is_not_answered() -> None:
    async def scenario() -> None:
        asked = Asked(AdminLimits())
        assert await asked.ask({"type": "http.request", "more_body": True}, {"type": "http.disconnect"}) is None
        assert not asked.entered.is_set()

    asyncio.run(scenario())
