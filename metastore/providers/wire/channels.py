"""gRPC channels to the servers of a store.

Messages are bytes on both sides: those who call know how to read and write them, and the hot ones do so by hand.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from metastore import dialling
from metastore.clock import Clock
from metastore.dialling import TLS_PREFIX, Dialler, Errors, Headers, Method, Security
from metastore.interface.errors import InvalidUrl, StoreClosed

PORT_MAX = 65535
CLOSED = "the store object was closed"

UnaryCall = dialling.UnaryCall[bytes, bytes]
AnswerCall = dialling.AnswerCall[bytes, bytes]
StreamCall = dialling.StreamCall[bytes, bytes]


def can_be_dialled(address: str) -> bool:
    """Whether an address that a server told is HOST:PORT. gRPC would take much else, and fail with a riddle."""
    host, _, port = address.removeprefix(TLS_PREFIX).rpartition(":")
    if not host or set(host) & set("/?#@ ") or not (port.isascii() and port.isdecimal()):
        return False
    return 0 < int(port) <= PORT_MAX


def _closed() -> StoreClosed:
    return StoreClosed(CLOSED)


def ended_by_close() -> AbstractContextManager[None]:
    """Around a wait for gRPC: says StoreClosed where the call was ended by closing its channel."""
    return dialling.ended_by_close(_closed)


class Channels:
    """The connections of one store object, on its event loop."""

    def __init__(self, security: Security, clock: Clock) -> None:
        self._dialler = Dialler(security, clock, Errors(_closed, InvalidUrl))

    def unary(self, address: str, path: str, request: bytes, timeout_s: float) -> UnaryCall:
        """One request, one answer. It waits for a connection as long as it may, so a failure says it was sent."""
        return self._dialler.unary(address, _method(path), request, timeout_s, waits=True)

    def answers(self, address: str, path: str, request: bytes, timeout_s: float | None) -> AnswerCall:
        """One request, sent at once; any number of answers."""
        return self._dialler.answers(address, _method(path), request, timeout_s)

    def stream(self, address: str, path: str, headers: Headers = ()) -> StreamCall:
        """Requests and answers as long as both sides like. Like `unary`, it waits for a connection."""
        return self._dialler.stream(address, _method(path), headers, waits=True)

    async def become_ready(self, address: str, timeout_s: float) -> bool:
        """Connects; whether that was done in time."""
        return await self._dialler.become_ready(address, timeout_s)

    async def close(self) -> None:
        """Ends every call that is under way; there can be no further ones."""
        await self._dialler.close()


def _method(path: str) -> Method[bytes, bytes]:
    return Method(path, bytes, bytes)
