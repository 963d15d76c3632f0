"""gRPC channels: one for each server's address, made on first use, with TLS and tokens where they belong.

Messages are bytes on both sides: those who call know how to read and write them, and the hot ones do so by hand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import grpc.aio

from metastore.interface.errors import StoreClosed
from metastore.providers.wire.security import Security, TokenSource

TLS_PREFIX = "tls://"
"""What an Oxia server puts before the address of a leader that speaks TLS."""
MESSAGE_BYTES_MAX = 256 << 20
PORT_MAX = 65535
SETTLE_S = 0.005
"""gRPC hears of the ends of calls that were cut off a little later, and complains if the loop is closed by then."""
CLOSED = "the store object was closed"

CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    # Streams flow without a deadline; pings are how they notice a server that died without a word.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # Connections and their pauses are this store's own, so a restarted server is found soon.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Whoever calls knows what may be sent twice; gRPC does not.
    ("grpc.enable_retries", 0),
)

UnaryCall = grpc.aio.UnaryUnaryCall[bytes, bytes]
AnswerCall = grpc.aio.UnaryStreamCall[bytes, bytes]
StreamCall = grpc.aio.StreamStreamCall[bytes, bytes]
Headers = tuple[tuple[str, str], ...]


def can_be_dialled(address: str) -> bool:
    """Whether an address that a server told is HOST:PORT. gRPC would take much else, and fail with a riddle."""
    host, _, port = address.removeprefix(TLS_PREFIX).rpartition(":")
    if not host or set(host) & set("/?#@ ") or not (port.isascii() and port.isdecimal()):
        return False
    return 0 < int(port) <= PORT_MAX


@contextmanager
def ended_by_close() -> Iterator[None]:
    """Around a wait for gRPC: says StoreClosed where the call was ended by closing its channel.

    gRPC reports that as a cancellation, just as if somebody had cancelled the task that waits.
    """
    try:
        yield
    except asyncio.CancelledError:
        if is_cancelled():
            raise
        raise StoreClosed(CLOSED) from None


def is_cancelled() -> bool:
    """Whether somebody wants the current task to end."""
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling() > 0


async def send(call: StreamCall, message: bytes) -> bool:
    """Sends a message; False if the stream has ended. Why it has, who reads from it is told.

    This does what `call.write` does, but for one thing: where a message cannot be sent, `write` puts "Internal error
    from Core" in the place of the status with which the server has ended the stream, and what that said is lost.
    """
    try:
        await call.wait_for_connection()
        await call._cython_call.send_serialized_message(message)  # type: ignore[attr-defined]
    except (grpc.aio.AioRpcError, grpc.aio.InternalError):
        return False
    except asyncio.CancelledError:
        if is_cancelled():
            raise
        return False  # the call was cancelled, not who sends
    return True


def _let_go(call: Any) -> None:
    """Wakes who waits for the connection of a call that has ended: where it was cancelled, gRPC itself forgets them."""
    call._metadata_sent.set()


class Channels:
    """The connections of one store object, on its event loop."""

    def __init__(self, security: Security, tokens: TokenSource) -> None:
        self._security = security
        self._credentials = security.channel_credentials() if security.uses_tls else None
        self._tokens = tokens
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._is_closed = False

    def unary(self, address: str, path: str, request: bytes, timeout_s: float) -> UnaryCall:
        """One request, one answer. It waits for a connection as long as it may, so a failure says it was sent."""
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel(address).unary_unary(path)
        return call(
            request, timeout=timeout_s, metadata=self._tokens.headers(), wait_for_ready=True
        )

    def answers(self, address: str, path: str, request: bytes, timeout_s: float | None) -> AnswerCall:
        """One request, sent at once; any number of answers."""
        call: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = self._channel(address).unary_stream(path)
        return call(request, timeout=timeout_s, metadata=self._tokens.headers())

    def stream(self, address: str, path: str, headers: Headers = ()) -> StreamCall:
        """Requests and answers as long as both sides like. Like `unary`, it waits for a connection."""
        call: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = self._channel(address).stream_stream(path)
        stream = call(metadata=(*self._tokens.headers(), *headers), wait_for_ready=True)
        stream.add_done_callback(_let_go)
        return stream

    async def become_ready(self, address: str, timeout_s: float) -> bool:
        """Connects; whether that was done in time."""
        channel = self._channel(address)
        if channel.get_state(try_to_connect=True) is grpc.ChannelConnectivity.READY:
            return True
        try:
            async with asyncio.timeout(timeout_s):
                await channel.channel_ready()
        except TimeoutError:
            return False
        except grpc.aio.UsageError:
            raise StoreClosed(CLOSED) from None
        return True

    async def close(self) -> None:
        """Ends every call that is under way; there can be no further ones."""
        self._is_closed = True
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            await channel.close()
        await asyncio.sleep(SETTLE_S)

    def _channel(self, address: str) -> grpc.aio.Channel:
        channel = self._channels.get(address)
        if channel is None:
            if self._is_closed:
                raise StoreClosed(CLOSED)
            channel = self._channels[address] = self._connect(address)
        return channel

    def _connect(self, address: str) -> grpc.aio.Channel:
        target = address.removeprefix(TLS_PREFIX)
        if self._credentials is None and address.startswith(TLS_PREFIX):
            self._credentials = self._security.channel_credentials()
        if self._credentials is not None:
            return grpc.aio.secure_channel(target, self._credentials, options=CHANNEL_OPTIONS)
        return grpc.aio.insecure_channel(target, options=CHANNEL_OPTIONS)
