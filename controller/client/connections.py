"""gRPC connections: one for each broker's address, made on first use, with TLS and tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from controller.client.errors import ClientClosed, InvalidRequest
from controller.client.protocol import Method
from controller.client.settings import Security
from metastore.clock import Clock

CLOSED = "this client was closed: open another one"
MESSAGE_BYTES_MAX = 256 << 20
"""Brokers have smaller limits, and say which."""
TOKEN_RECHECK_S = 1.0
"""How long a change of the token's file may go unnoticed."""
SETTLE_S = 0.005
"""gRPC hears of the ends of calls that were cut off a little later, and complains if the loop is closed by then."""

CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    # Streams flow without a deadline; pings are how they notice a broker that died without a word.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # Connections and their pauses are this client's own, so a restarted broker is found soon.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Whoever calls knows what may be sent twice; gRPC does not.
    ("grpc.enable_retries", 0),
)

Q = TypeVar("Q", bound=Message)
A = TypeVar("A", bound=Message)

UnaryCall = grpc.aio.UnaryUnaryCall[Q, A]
AnswerCall = grpc.aio.UnaryStreamCall[Q, A]
StreamCall = grpc.aio.StreamStreamCall[Q, A]


@contextmanager
def ended_by_close() -> Iterator[None]:
    """Around a wait for gRPC: says ClientClosed where the call was ended by closing its channel.

    gRPC reports that as a cancellation, just as if somebody had cancelled the task that waits.
    """
    try:
        yield
    except asyncio.CancelledError:
        if is_cancelled():
            raise
        raise ClientClosed(CLOSED) from None


def is_cancelled() -> bool:
    """Whether somebody wants the current task to end."""
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling() > 0


async def send(call: StreamCall[Q, A], message: Q) -> bool:
    """Sends a message; False if the stream has ended. Why it has, who reads from it is told.

    This does what `call.write` does, but for one thing: where a message cannot be sent, `write` puts "Internal error
    from Core" in the place of the status with which the broker has ended the stream, and what that said is lost.
    """
    try:
        await call.wait_for_connection()
        await call._cython_call.send_serialized_message(message.SerializeToString())  # type: ignore[attr-defined]
    except (grpc.aio.AioRpcError, grpc.aio.InternalError):
        return False
    except asyncio.CancelledError:
        if is_cancelled():
            raise
        return False  # the call was cancelled, not who sends
    return True


class Connections:
    """The connections of one client, on its event loop."""

    def __init__(self, security: Security, clock: Clock) -> None:
        self._security = security
        self._credentials = _credentials(security) if security.uses_tls else None
        self._token = _Token(security.token_file, clock)
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._is_closed = False

    def unary(self, address: str, method: Method[Q, A], request: Q, timeout_s: float) -> UnaryCall[Q, A]:
        """One request, one answer."""
        call: grpc.aio.UnaryUnaryMultiCallable[Q, A] = self._channel(address).unary_unary(
            method.path, method.request.SerializeToString, method.answer.FromString
        )
        return call(request, timeout=timeout_s, metadata=self._token.headers())

    def answers(self, address: str, method: Method[Q, A], request: Q) -> AnswerCall[Q, A]:
        """One request, any number of answers."""
        call: grpc.aio.UnaryStreamMultiCallable[Q, A] = self._channel(address).unary_stream(
            method.path, method.request.SerializeToString, method.answer.FromString
        )
        return call(request, metadata=self._token.headers())

    def stream(self, address: str, method: Method[Q, A]) -> StreamCall[Q, A]:
        """Requests and answers as long as both sides like."""
        call: grpc.aio.StreamStreamMultiCallable[Q, A] = self._channel(address).stream_stream(
            method.path, method.request.SerializeToString, method.answer.FromString
        )
        return call(metadata=self._token.headers())

    async def become_ready(self, address: str, timeout_s: float) -> bool:
        """Connects; False if an attempt fails, or takes too long."""
        channel = self._channel(address)
        has_begun = False
        try:
            async with asyncio.timeout(timeout_s):
                while (state := channel.get_state(try_to_connect=True)) is not grpc.ChannelConnectivity.READY:
                    # A failure that is there at the beginning is of an earlier attempt.
                    if has_begun and state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
                        return False
                    has_begun = has_begun or state is grpc.ChannelConnectivity.CONNECTING
                    await channel.wait_for_state_change(state)
        except TimeoutError:
            return False
        except grpc.aio.UsageError:
            raise ClientClosed(CLOSED) from None
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
                raise ClientClosed(CLOSED)
            channel = self._channels[address] = self._connect(address)
        return channel

    def _connect(self, address: str) -> grpc.aio.Channel:
        if self._credentials is not None:
            return grpc.aio.secure_channel(address, self._credentials, options=CHANNEL_OPTIONS)
        return grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS)


class _Token:
    """The headers that a call proves itself with. The token's file is read again, so it can be replaced at any time."""

    def __init__(self, path: Path | None, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._read_s = clock.monotonic_s()
        self._headers = () if path is None else _token_headers(path)

    def headers(self) -> tuple[tuple[str, str], ...]:
        """The headers of one call."""
        if self._path is not None and self._clock.monotonic_s() - self._read_s >= TOKEN_RECHECK_S:
            self._headers = _token_headers(self._path)
            self._read_s = self._clock.monotonic_s()
        return self._headers


def _token_headers(path: Path) -> tuple[tuple[str, str], ...]:
    token = _content(path, "token").decode("ascii", "replace").strip()
    if not token or not all("!" <= character <= "~" for character in token):
        raise InvalidRequest(f"the content of {path} is no bearer token: one line of visible ASCII, without spaces")
    return (("authorization", f"Bearer {token}"),)


def _credentials(security: Security) -> grpc.ChannelCredentials:
    """The credentials of encrypted channels; without a CA file, the CAs that grpcio trusts."""
    return grpc.ssl_channel_credentials(
        root_certificates=_optional(security.ca_file, "CA certificates"),
        private_key=_optional(security.key_file, "private key"),
        certificate_chain=_optional(security.cert_file, "certificate"),
    )


def _optional(path: Path | None, purpose: str) -> bytes | None:
    return None if path is None else _content(path, purpose)


def _content(path: Path, purpose: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidRequest(
            f"cannot read the {purpose} file {path}: {error.strerror}: check the path and its permissions"
        ) from error
