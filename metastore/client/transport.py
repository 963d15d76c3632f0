"""Calls to addresses: one gRPC channel for each, made on first use, with TLS and tokens where they belong."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

import grpc

from metastore.client.errors import InvalidRequest
from metastore.client.security import Security
from metastore.client.wire import AnswerT, Method, RequestT

TLS_PREFIX = "tls://"
MAX_MESSAGE_BYTES = 256 * 1024 * 1024
MAX_PORT = 65535
CLOSED = "the client is closed: make a new one"

CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    # Streams flow without a deadline; pings are how they notice a server that died without a word.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # Connections and their reconnection pauses are this client's own, so a restarted server is found soon.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)


def checked_address(address: str) -> str:
    """The address, if it is HOST:PORT. gRPC would take much else, and fail later with a riddle."""
    host, _, port = address.removeprefix(TLS_PREFIX).rpartition(":")
    well_formed = host and not set(host) & set("/?#@ ") and port.isascii() and port.isdecimal()
    if not well_formed or not 0 < int(port) <= MAX_PORT:
        raise InvalidRequest(f"{address!r} is no address of a server: give HOST:PORT, such as localhost:6648")
    return address


MessageT = TypeVar("MessageT", covariant=True)


class StreamedCall(Protocol[MessageT]):
    """A call with many answers, as far as it is used."""

    def __next__(self) -> MessageT: ...

    def cancel(self) -> bool: ...


class Transport:
    """The channels of one client. Safe for use by several threads."""

    def __init__(self, security: Security) -> None:
        self._security = security
        self._lock = threading.Lock()
        self._channels: dict[str, grpc.Channel] = {}
        self._closed = False

    def unary(
        self, address: str, method: Method[RequestT, AnswerT], request: RequestT, timeout_s: float
    ) -> AnswerT:
        """One request, one answer."""
        call: grpc.UnaryUnaryMultiCallable[RequestT, AnswerT] = self._channel(address).unary_unary(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.answer.FromString,
        )
        with self._refusal_if_closed():
            return call(request, timeout=timeout_s, metadata=self._security.metadata())

    def stream(
        self, address: str, method: Method[RequestT, AnswerT], request: RequestT, timeout_s: float | None
    ) -> StreamedCall[AnswerT]:
        """One request, sent at once; the answers come from the iterator."""
        call: grpc.UnaryStreamMultiCallable[RequestT, AnswerT] = self._channel(address).unary_stream(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.answer.FromString,
        )
        with self._refusal_if_closed():
            return call(request, timeout=timeout_s, metadata=self._security.metadata())

    def close(self) -> None:
        """Ends every call under way; there can be no further ones."""
        with self._lock:
            self._closed = True
            channels, self._channels = self._channels, {}
        for channel in channels.values():
            channel.close()

    def _channel(self, address: str) -> grpc.Channel:
        with self._lock:
            if self._closed:
                raise InvalidRequest(CLOSED)
            if address not in self._channels:
                self._channels[address] = self._connect(address)
            return self._channels[address]

    @contextmanager
    def _refusal_if_closed(self) -> Iterator[None]:
        """gRPC says ValueError when a channel was closed by another thread just before the call."""
        try:
            yield
        except ValueError as error:
            if self._closed:
                raise InvalidRequest(CLOSED) from error
            raise

    def _connect(self, address: str) -> grpc.Channel:
        target = checked_address(address).removeprefix(TLS_PREFIX)
        if self._security.uses_tls or address.startswith(TLS_PREFIX):
            return grpc.secure_channel(target, self._security.channel_credentials(), options=CHANNEL_OPTIONS)
        return grpc.insecure_channel(target, options=CHANNEL_OPTIONS)
