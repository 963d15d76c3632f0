"""Channels: one for each server's address, made on first use, with TLS and tokens where they belong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import grpc
import grpc.aio

from metastore.clock import Clock
from metastore.dialling.calls import A, AnswerCall, Method, Q, StreamCall, UnaryCall, let_go
from metastore.dialling.security import Headers, Security, TokenSource, Unusable

TLS_PREFIX = "tls://"
"""What an Oxia server puts before the address of a leader that speaks TLS."""
MESSAGE_BYTES_MAX = 256 << 20
"""Servers have smaller limits, and say which."""
SETTLE_S = 0.005
"""gRPC hears of the ends of calls that were cut off a little later, and complains if the loop is closed by then."""

CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    # Streams flow without a deadline; pings are how they notice a server that died without a word.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # Connections and their pauses are this dialler's own, so a restarted server is found soon.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # In spite of its name: how long one attempt may take. A busy server, or a far one, answers late.
    ("grpc.min_reconnect_backoff_ms", 1_000),
    # Whoever calls knows what may be sent twice; gRPC does not.
    ("grpc.enable_retries", 0),
)


@dataclass(frozen=True, slots=True)
class Errors:
    """The errors of whoever dials."""

    closed: Callable[[], Exception]
    """Of a call that is made after the end, or was cut off by it."""
    unusable: Unusable
    """Of a file that cannot be used, or a token that is none; takes the text."""


class Dialler:
    """The connections of one client, on its event loop."""

    def __init__(self, security: Security, clock: Clock, errors: Errors) -> None:
        self._security = security
        self._errors = errors
        self._credentials = security.channel_credentials(errors.unusable) if security.uses_tls else None
        self._tokens = TokenSource(security, clock, errors.unusable)
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._is_closed = False

    def unary(
        self, address: str, method: Method[Q, A], request: Q, timeout_s: float, *, waits: bool = False
    ) -> UnaryCall[Q, A]:
        """One request, one answer. A call that `waits` for a connection as long as it may fails only if it was sent."""
        call: grpc.aio.UnaryUnaryMultiCallable[Q, A] = self._channel(address).unary_unary(method.path, *method.codecs)
        return call(request, timeout=timeout_s, metadata=self._tokens.headers(), wait_for_ready=waits)

    def answers(
        self, address: str, method: Method[Q, A], request: Q, timeout_s: float | None = None
    ) -> AnswerCall[Q, A]:
        """One request, sent at once; any number of answers."""
        call: grpc.aio.UnaryStreamMultiCallable[Q, A] = self._channel(address).unary_stream(method.path, *method.codecs)
        return call(request, timeout=timeout_s, metadata=self._tokens.headers())

    def stream(
        self, address: str, method: Method[Q, A], headers: Headers = (), *, waits: bool = False
    ) -> StreamCall[Q, A]:
        """Requests and answers as long as both sides like; `waits` as in `unary`."""
        channel = self._channel(address)
        call: grpc.aio.StreamStreamMultiCallable[Q, A] = channel.stream_stream(method.path, *method.codecs)
        stream = call(metadata=(*self._tokens.headers(), *headers), wait_for_ready=waits)
        stream.add_done_callback(let_go)
        return stream

    async def become_ready(self, address: str, timeout_s: float, *, attempts_again: bool = True) -> bool:
        """Connects; whether that was done in time, or by the first attempt that ends if there are to be no further."""
        channel = self._channel(address)
        has_begun = False
        try:
            async with asyncio.timeout(timeout_s):
                while (state := channel.get_state(try_to_connect=True)) is not grpc.ChannelConnectivity.READY:
                    # A failure that is there at the beginning is of an earlier attempt.
                    if has_begun and not attempts_again and state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
                        return False
                    has_begun = has_begun or state is grpc.ChannelConnectivity.CONNECTING
                    await channel.wait_for_state_change(state)
        except TimeoutError:
            return False
        except grpc.aio.UsageError:
            raise self._errors.closed() from None
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
                raise self._errors.closed()
            channel = self._channels[address] = self._connect(address)
        return channel

    def _connect(self, address: str) -> grpc.aio.Channel:
        target = address.removeprefix(TLS_PREFIX)
        if self._credentials is None and address.startswith(TLS_PREFIX):
            self._credentials = self._security.channel_credentials(self._errors.unusable)
        if self._credentials is not None:
            return grpc.aio.secure_channel(target, self._credentials, options=CHANNEL_OPTIONS)
        return grpc.aio.insecure_channel(target, options=CHANNEL_OPTIONS)
