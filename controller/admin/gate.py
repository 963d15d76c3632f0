"""What stands before every request: how many, how large, how long, from whom; and its path in one form.

In a path each part between slashes is encoded text, so that a slash within a name (`%2F`) is none between parts. Routes
see the parts as they are sent, all encoded in the same way, and take the names out of them (`names`). The whole body is
here before anything is done, so a client that goes silent holds nothing up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http import HTTPStatus
from urllib.parse import quote, unquote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controller.admin.limits import AdminLimits
from controller.admin.problems import Refusal, problem_of
from controller.broker.security import Authenticator
from metastore.clock import Clock

JSON_TYPES = ("application/json", "application/merge-patch+json")


class Disconnected(Exception):
    """The client has gone before its request was there."""


class Gate:
    """An application of its own around the one that serves."""

    def __init__(self, served: ASGIApp, authenticator: Authenticator, limits: AdminLimits, clock: Clock) -> None:
        self._served = served
        self._authenticator = authenticator
        self._limits = limits
        self._clock = clock
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http", "the server speaks nothing else"
        answer = _Answer(send, self._clock)
        try:
            with self._counted():
                await self._serve(scope, receive, answer)
        except Disconnected:
            return
        except Exception as error:
            if answer.has_begun:
                raise
            await problem_of(error)(scope, receive, answer)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        limit_s = self._limits.request_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                scope = {**scope, "path": _path(scope, self._limits.path_bytes_max)}
                self._authenticator.principal(_headers(scope))
                body = await _body(scope, receive, self._limits.body_bytes_max)
                await self._served(scope, _Whole(body, receive), send)
        except TimeoutError:
            raise Refusal(
                HTTPStatus.GATEWAY_TIMEOUT,
                "OutOfTime",
                f"not done within {limit_s:g} s (request_timeout_s); it may yet be done: look before asking again",
            ) from None

    @contextmanager
    def _counted(self) -> Iterator[None]:
        if self._under_way >= self._limits.requests_max:
            raise Refusal(
                HTTPStatus.TOO_MANY_REQUESTS,
                "TooManyRequests",
                f"{self._under_way} requests are under way, as many as there may be (requests_max): try again",
            )
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1


class _Answer:
    """Sends what is answered, with the time of day."""

    def __init__(self, send: Send, clock: Clock) -> None:
        self._send = send
        self._clock = clock
        self.has_begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_begun = True
            date = formatdate(self._clock.wall_ms() // 1000, usegmt=True).encode()
            message = {**message, "headers": [*message.get("headers", ()), (b"date", date)]}
        await self._send(message)


class _Whole:
    """A body that is there already, for who asks for it piece by piece."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        body, self._body = self._body, None
        if body is None:
            return await self._receive()
        return {"type": "http.request", "body": body, "more_body": False}


async def _body(scope: Scope, receive: Receive, bytes_max: int) -> bytes:
    headers = dict(_headers(scope))
    declared = headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > bytes_max:
        raise _too_large(int(declared), bytes_max)
    pieces, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        piece = message.get("body", b"")
        size += len(piece)
        if size > bytes_max:
            raise _too_large(size, bytes_max)
        pieces.append(piece)
        more = message.get("more_body", False)
    if size and headers.get("content-type", "").partition(";")[0].strip().lower() not in JSON_TYPES:
        raise Refusal(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "UnsupportedMediaType",
            f"a body of type {headers.get('content-type', 'unknown')[:80]!r}: application/json is expected",
        )
    return b"".join(pieces)


def _too_large(size: int, bytes_max: int) -> Refusal:
    detail = f"a body of {size} bytes or more: at most {bytes_max} (body_bytes_max)"
    return Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "BodyTooLarge", detail)


def _headers(scope: Scope) -> Iterable[tuple[str, str]]:
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]


def _path(scope: Scope, bytes_max: int) -> str:
    """The path of a request, each of its parts encoded in the same way."""
    size = len(scope["raw_path"]) + len(scope["query_string"])
    if size > bytes_max:
        detail = f"a path of {size} bytes with its query: at most {bytes_max} (path_bytes_max)"
        raise Refusal(HTTPStatus.REQUEST_URI_TOO_LONG, "PathTooLong", detail)
    try:
        parts = scope["raw_path"].decode("ascii").split("/")
        return "/".join(quote(unquote(part, errors="strict"), safe="") for part in parts)
    except UnicodeDecodeError:
        raise Refusal(HTTPStatus.BAD_REQUEST, "InvalidPath", "the path is no encoded UTF-8") from None
