"""Servers, handlers and clients for the tests of the transport: real ones, on loopback."""

from __future__ import annotations

import subprocess
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Protocol

import grpc
import pytest

from metastore.server.transport import Call, GrpcServer, Router

WITHIN_S = 30.0
"""How long something may take that should be there at once; only a failing test waits that long."""

LOOPBACK = "127.0.0.1"
METHOD = "/test.Service/Method"
UNLIMITED = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


class Quiet:
    """A handler that does nothing; tests override what they need."""

    def __init__(self, call: Call) -> None:
        self.call = call

    def on_message(self, message: bytes) -> None: ...
    def on_half_close(self) -> None: ...
    def on_drained(self) -> None: ...
    def on_over(self) -> None: ...


class Echo(Quiet):
    """Sends every message back, and finishes when the client has."""

    def on_message(self, message: bytes) -> None:
        self.call.send(message)

    def on_half_close(self) -> None:
        self.call.finish()


class Reply(Quiet):
    """Answers the first message with itself, in one go."""

    def on_message(self, message: bytes) -> None:
        self.call.reply(message)


class Recorder(Quiet):
    """Notes what happens to a call; a test then acts on the call from outside."""

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self.events: SimpleQueue[object] = SimpleQueue()

    def on_message(self, message: bytes) -> None:
        self.events.put(message)

    def on_half_close(self) -> None:
        self.events.put("half close")

    def on_over(self) -> None:
        self.events.put("over")

    def next_event(self) -> object:
        return self.events.get(timeout=WITHIN_S)


@dataclass
class Serving:
    """A running server."""

    server: GrpcServer
    address: str
    errors: SimpleQueue[tuple[str, BaseException]] = field(default_factory=SimpleQueue)

    def next_error(self) -> tuple[str, BaseException]:
        return self.errors.get(timeout=WITHIN_S)


@contextmanager
def serving(
    router: Router,
    *,
    pollers: int = 4,
    options: Sequence[tuple[str, int | str]] = (),
    credentials: grpc.ServerCredentials | None = None,
) -> Iterator[Serving]:
    """Serves; at the end no call may be left, and no error that the test has not taken."""
    errors: SimpleQueue[tuple[str, BaseException]] = SimpleQueue()

    def on_error(where: str, error: BaseException) -> None:
        errors.put((where, error))

    server = GrpcServer(router, on_error=on_error, pollers=pollers, options=options)
    port = server.add_port(f"{LOOPBACK}:0", credentials)
    server.start()
    try:
        yield Serving(server, f"{LOOPBACK}:{port}", errors)
    finally:
        server.stop(0)
    assert server.live_call_count == 0
    assert errors.empty(), errors.get()


@contextmanager
def recording(*, pollers: int = 4) -> Iterator[tuple[Serving, SimpleQueue[Recorder]]]:
    """A server whose handlers are recorders, and the queue in which they appear."""
    recorders: SimpleQueue[Recorder] = SimpleQueue()

    def router(call: Call) -> Recorder:
        recorder = Recorder(call)
        recorders.put(recorder)
        return recorder

    with serving(router, pollers=pollers) as running:
        yield running, recorders


class RawChannel(Protocol):
    """A client's channel, used without serializers: messages are the bytes that they are on the wire."""

    def unary_unary(self, method: str) -> grpc.UnaryUnaryMultiCallable[bytes, bytes]: ...
    def unary_stream(self, method: str) -> grpc.UnaryStreamMultiCallable[bytes, bytes]: ...
    def stream_unary(self, method: str) -> grpc.StreamUnaryMultiCallable[bytes, bytes]: ...
    def stream_stream(self, method: str) -> grpc.StreamStreamMultiCallable[bytes, bytes]: ...


@contextmanager
def connected(
    running: Serving, *options: tuple[str, int | str], credentials: grpc.ChannelCredentials | None = None
) -> Iterator[RawChannel]:
    """A client's connection of its own."""
    options = (("grpc.use_local_subchannel_pool", 1), *options)
    if credentials is None:
        channel = grpc.insecure_channel(running.address, options)
    else:
        channel = grpc.secure_channel(running.address, credentials, options)
    with channel:
        yield channel


class Requests:
    """The requests of a stream, one by one, as a test wants them."""

    def __init__(self, *messages: bytes) -> None:
        self._messages: SimpleQueue[bytes | None] = SimpleQueue()
        for message in messages:
            self._messages.put(message)

    def send(self, message: bytes) -> None:
        self._messages.put(message)

    def close(self) -> None:
        self._messages.put(None)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._messages.get, None)


class Deaths:
    """Tells when objects have been freed."""

    def __init__(self) -> None:
        self._count = threading.Semaphore(0)

    def watch(self, value: object) -> None:
        weakref.finalize(value, self._count.release)

    def wait(self, number: int) -> None:
        for _ in range(number):
            assert self._count.acquire(timeout=WITHIN_S), "something is still alive"


def code_of(outcome: Callable[[], object]) -> grpc.StatusCode:
    """The status of a call that fails."""
    with pytest.raises(grpc.RpcError) as failed:
        outcome()
    return status_of(failed.value)


def status_of(error: BaseException) -> grpc.StatusCode:
    """The status that an error of a call carries."""
    assert isinstance(error, grpc.Call)
    return error.code()


def make_certificate(folder: Path, name: str) -> tuple[bytes, bytes]:
    """The key and the certificate, signed by itself, of a host or client."""
    key, certificate = folder / f"{name}.key", folder / f"{name}.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(key), "-out", str(certificate), "-days", "2", "-subj", f"/CN={name}"]
    command += ["-addext", f"subjectAltName=DNS:{name},IP:{LOOPBACK}"]
    subprocess.run(command, check=True, capture_output=True)
    return key.read_bytes(), certificate.read_bytes()
