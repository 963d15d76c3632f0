"""The server as a whole: ports, TLS, its end, blocked handlers, and bytes that are no gRPC at all."""

from __future__ import annotations

import shutil
import socket
import struct
import threading
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue

import grpc
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from transport_helpers import (
    LOOPBACK,
    METHOD,
    WITHIN_S,
    Echo,
    Quiet,
    Reply,
    Requests,
    Serving,
    code_of,
    connected,
    make_certificate,
    recording,
    serving,
)

from metastore.server.transport import Call, GrpcServer, TransportError
from metastore.server.transport.server import STREAMS_PER_CONNECTION_MAX

FOREVER_S = 3_600.0
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, PING, GOAWAY = 4, 6, 7
ACK = 1


def unused(where: str, error: BaseException) -> None:
    raise AssertionError(f"{where}: {error}")


def test_a_port_that_is_taken_is_refused_with_its_address() -> None:
    with serving(Reply) as running:
        second = GrpcServer(Reply, on_error=unused)
        with pytest.raises(TransportError, match=f"cannot listen on {running.address}: the port is in use"):
            second.add_port(running.address)
        second.stop(0)


def test_a_server_can_have_several_ports() -> None:
    server = GrpcServer(Reply, on_error=unused)
    ports = [server.add_port(f"{LOOPBACK}:0") for _ in range(2)]
    server.start()
    with closing(_Stop(server)):
        for port in ports:
            with connected(Serving(server, f"{LOOPBACK}:{port}")) as channel:
                assert channel.unary_unary(METHOD)(b"x") == b"x"


def test_a_server_that_never_started_gives_its_port_back() -> None:
    first = GrpcServer(Reply, on_error=unused)
    address = f"{LOOPBACK}:{first.add_port(f'{LOOPBACK}:0')}"
    first.stop(0)
    second = GrpcServer(Reply, on_error=unused)
    second.add_port(address)
    second.stop(0)


def test_nothing_runs_after_the_stop() -> None:
    before = threading.active_count()
    server = GrpcServer(Reply, on_error=unused)
    server.add_port(f"{LOOPBACK}:0")
    server.start()
    assert threading.active_count() > before
    server.stop(0)
    assert threading.active_count() == before
    server.stop(0)


def test_a_call_may_end_by_itself_in_the_time_of_grace() -> None:
    with recording() as (running, recorders), connected(running) as channel:
        answers = channel.stream_stream(METHOD)(iter(Requests(b"request")))
        recorder = recorders.get(timeout=WITHIN_S)
        assert recorder.next_event() == b"request"
        stopping = threading.Thread(target=running.server.stop, args=(FOREVER_S,))
        stopping.start()
        recorder.call.send(b"a last word")
        recorder.call.finish(grpc.StatusCode.UNAVAILABLE, "the server stops")
        stopping.join(WITHIN_S)
        assert not stopping.is_alive()
        assert next(answers) == b"a last word"
        assert code_of(lambda: next(answers)) is grpc.StatusCode.UNAVAILABLE
        assert answers.details() == "the server stops"
        assert recorder.next_event() == "over"


def test_a_call_that_does_not_end_is_cancelled_after_the_grace() -> None:
    with recording() as (running, recorders), connected(running) as channel:
        answers = channel.stream_stream(METHOD)(iter(Requests()))
        recorder = recorders.get(timeout=WITHIN_S)
        running.server.stop(0.01)
        assert code_of(lambda: next(answers)) in (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE)
        events = [recorder.events.get_nowait() for _ in range(recorder.events.qsize())]
        assert events[-1] == "over"
        assert events.count("over") == 1


def test_connections_without_calls_do_not_hold_up_the_stop() -> None:
    with serving(Reply) as running, connected(running) as channel:
        assert channel.unary_unary(METHOD)(b"x") == b"x"
        with socket.create_connection(_pair(running.address)) as silent:
            running.server.stop(FOREVER_S)
            with pytest.raises(ConnectionError):
                _send_until_refused(silent)


def test_stop_waits_for_a_callback() -> None:
    gate = threading.Event()
    entered = threading.Event()
    left = threading.Event()

    class Slow(Quiet):
        def on_message(self, message: bytes) -> None:
            entered.set()
            assert gate.wait(WITHIN_S)
            left.set()

    with serving(Slow) as running, connected(running) as channel:
        future = channel.unary_unary(METHOD).future(b"")
        assert entered.wait(WITHIN_S)
        stopping = threading.Thread(target=running.server.stop, args=(0,))
        stopping.start()
        gate.set()
        stopping.join(WITHIN_S)
        assert not stopping.is_alive()
        assert left.is_set()
        assert code_of(future.result) in (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE)


@pytest.mark.parametrize("blocked", [1, 3])
def test_callbacks_that_block_do_not_stop_other_calls(blocked: int) -> None:
    gate = threading.Event()
    entered: SimpleQueue[bool] = SimpleQueue()

    class Blocks(Reply):
        def on_message(self, message: bytes) -> None:
            entered.put(True)
            assert gate.wait(WITHIN_S)
            super().on_message(message)

    def router(call: Call) -> Quiet:
        return Blocks(call) if call.method == METHOD else Reply(call)

    with serving(router, pollers=4) as running, connected(running) as channel:
        futures = [channel.unary_unary(METHOD).future(b"late") for _ in range(blocked)]
        for _ in range(blocked):
            assert entered.get(timeout=WITHIN_S)
        for _ in range(20):
            assert channel.unary_unary("/other/Call")(b"x", timeout=WITHIN_S) == b"x"
        assert not any(future.done() for future in futures)
        gate.set()
        assert [future.result(timeout=WITHIN_S) for future in futures] == [b"late"] * blocked


def test_a_connection_keeps_back_the_calls_beyond_its_bound_and_none_is_refused() -> None:
    bound, count = 2, 7
    gate = threading.Event()
    entered: SimpleQueue[Call] = SimpleQueue()

    class Waits(Quiet):
        def on_message(self, message: bytes) -> None:
            entered.put(self.call)
            if gate.is_set():
                self.call.reply(message)

    with (
        serving(Waits, options=[("grpc.max_concurrent_streams", bound)]) as running,
        connected(running) as channel,
    ):
        futures = [channel.unary_unary(METHOD).future(b"x") for _ in range(count)]
        first = [entered.get(timeout=WITHIN_S) for _ in range(bound)]
        assert channel.unary_unary(METHOD).future(b"x").cancel(), "one that was kept back costs the server nothing"
        assert entered.empty()
        gate.set()
        for call in first:
            call.reply(b"x")
        assert [future.result(timeout=WITHIN_S) for future in futures] == [b"x"] * count


def test_the_bound_of_a_connection_is_told_to_clients() -> None:
    with serving(Reply) as running, socket.create_connection(_pair(running.address), WITHIN_S) as connection:
        connection.sendall(PREFACE + bytes(3) + bytes([SETTINGS]) + bytes(5))
        received = b""
        told = struct.pack(">HI", 3, STREAMS_PER_CONNECTION_MAX)
        while told not in received:
            more = connection.recv(4096)
            assert more, "the server ended the connection"
            received += more


needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="makes certificates with openssl")


@needs_openssl
def test_tls_serves_those_who_trust_the_certificate(tmp_path: Path) -> None:
    key, certificate = make_certificate(tmp_path, "localhost")
    credentials = grpc.ssl_server_credentials([(key, certificate)])
    with serving(Echo, credentials=credentials) as running:
        with connected(running, credentials=grpc.ssl_channel_credentials(certificate)) as channel:
            assert list(channel.stream_stream(METHOD)(iter([b"1", b"2"]))) == [b"1", b"2"]
        with connected(running) as plain:
            assert code_of(lambda: plain.unary_unary(METHOD)(b"")) is grpc.StatusCode.UNAVAILABLE


@needs_openssl
def test_mutual_tls_names_the_client(tmp_path: Path) -> None:
    key, certificate = make_certificate(tmp_path, "localhost")
    client_key, client_certificate = make_certificate(tmp_path, "broker-7")

    class WhoAmI(Quiet):
        def on_message(self, message: bytes) -> None:
            self.call.reply(b",".join(self.call.auth_context()["x509_common_name"]))

    credentials = grpc.ssl_server_credentials([(key, certificate)], client_certificate, True)
    with serving(WhoAmI, credentials=credentials) as running:
        known = grpc.ssl_channel_credentials(certificate, client_key, client_certificate)
        with connected(running, credentials=known) as channel:
            assert channel.unary_unary(METHOD)(b"") == b"broker-7"
        stranger = grpc.ssl_channel_credentials(certificate)
        with connected(running, credentials=stranger) as channel:
            assert code_of(lambda: channel.unary_unary(METHOD)(b"")) is grpc.StatusCode.UNAVAILABLE


def test_a_certificate_that_is_none_is_refused() -> None:
    server = GrpcServer(Reply, on_error=unused)
    credentials = grpc.ssl_server_credentials([(b"no key", b"no certificate")])
    with pytest.raises(TransportError, match="TLS certificate or key"):
        server.add_port(f"{LOOPBACK}:0", credentials)
    server.stop(0)


def test_frequent_pings_without_calls_are_answered_where_the_options_allow_it() -> None:
    allowed = (
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        ("grpc.http2.max_ping_strikes", 0),
    )
    pings = 20
    with serving(Reply, options=allowed) as running, socket.create_connection(_pair(running.address)) as wire:
        wire.settimeout(WITHIN_S)
        wire.sendall(PREFACE + _frame(SETTINGS))
        for number in range(pings):
            wire.sendall(_frame(PING, payload=b"%08d" % number))
        reader = wire.makefile("rb")
        answered = 0
        while answered < pings:
            header = reader.read(9)
            kind, flags = header[3], header[4]
            reader.read(int.from_bytes(header[:3], "big"))
            assert kind != GOAWAY
            answered += kind == PING and bool(flags & ACK)


def _frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


frames = st.builds(
    _frame,
    st.integers(0, 255),
    st.integers(0, 255),
    st.integers(0, 2**32 - 1),
    st.binary(max_size=100),
)
nonsense = st.one_of(
    st.binary(max_size=300),
    st.binary(max_size=300).map(lambda tail: PREFACE + tail),
    st.lists(frames, max_size=10).map(lambda some: PREFACE + _frame(SETTINGS) + b"".join(some)),
)


def test_raw_bytes_hurt_nobody_else() -> None:
    with serving(Echo) as running, connected(running) as channel:
        requests = Requests()
        answers = channel.stream_stream(METHOD)(iter(requests))

        @settings(max_examples=150, deadline=None, derandomize=True, database=None)
        @given(nonsense)
        @example(b"GET / HTTP/1.1\r\n\r\n")
        @example(PREFACE[:10])
        @example(PREFACE + b"\xff" * 100)
        def throw(data: bytes) -> None:
            with socket.create_connection(_pair(running.address)) as wire:
                wire.sendall(data)
            requests.send(data)
            assert next(answers) == data

        throw()
        requests.close()
        assert list(answers) == []


def _send_until_refused(wire: socket.socket) -> None:
    while True:
        wire.sendall(b"still there?")


class _Stop:
    """So that `closing` stops a server."""

    def __init__(self, server: GrpcServer) -> None:
        self._server = server

    def close(self) -> None:
        self._server.stop(0)


def _pair(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)
