"""The open model: requests by schedule, times from the intended start, refusals counted apart."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import grpc
import pytest

from loadtest.bench.exchange import play
from loadtest.bench.model import BenchError
from loadtest.bench.open_client import OpenClient
from loadtest.bench.workload import ECHO_SERVICE, Echo, Offered

PER_SECOND = 200.0
SECONDS = 0.3
REQUESTS = 60


@contextmanager
def serving(
    handler: grpc.RpcMethodHandler[bytes, bytes], name: str, options: Sequence[tuple[str, int]] = ()
) -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(4), options=options)
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(ECHO_SERVICE.strip("/"), {name: handler})])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(grace=None).wait()


def unary(answers: Iterator[bool]) -> grpc.RpcMethodHandler[bytes, bytes]:
    """Echoes where the next answer is to be given, and refuses otherwise."""
    lock = threading.Lock()

    def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
        with lock:
            is_welcome = next(answers)
        if not is_welcome:
            context.abort(grpc.StatusCode.UNAVAILABLE, "later, please")
        return request

    return grpc.unary_unary_rpc_method_handler(answer, None, None)


def stream() -> grpc.RpcMethodHandler[bytes, bytes]:
    return grpc.stream_stream_rpc_method_handler(lambda requests, _context: iter(requests), None, None)


@pytest.mark.parametrize("is_stream", [False, True])
def test_every_request_of_the_schedule_is_sent_and_answered(is_stream: bool) -> None:
    handler = stream() if is_stream else unary(itertools.repeat(True))
    with serving(handler, "Stream" if is_stream else "Unary") as address, closing(OpenClient(address)) as client:
        sample = play(client, Offered(Echo(is_stream), PER_SECOND), 0, SECONDS)
    assert sample["requests"] == pytest.approx(REQUESTS, abs=1)
    assert sample["refused"] == 0
    # The last request is due just before the end, so it cannot have gone faster.
    assert sample["rate"] <= PER_SECOND * 1.05


def test_a_stall_is_seen_by_all_that_were_due_meanwhile() -> None:
    """A generator that waits for its answers would have seen one late answer."""
    may_go_on = threading.Event()
    first = itertools.chain([True], itertools.repeat(False))

    def answer(requests: Iterator[bytes], _context: grpc.ServicerContext) -> Iterator[bytes]:
        for request in requests:
            if next(first):
                may_go_on.wait(10)
            yield request

    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(answer, None, None)
    with serving(handler, "Stream") as address, closing(OpenClient(address)) as client:
        threading.Timer(SECONDS / 2, may_go_on.set).start()
        sample = play(client, Offered(Echo(is_stream=True), PER_SECOND), 0, SECONDS)
    assert sample["requests"] == pytest.approx(REQUESTS, abs=1)
    # The first waited for the whole stall, and those due in its middle for half of it.
    assert sample["max_ms"] >= 1000 * SECONDS / 2 * 0.9
    assert sample["p99_ms"] >= 1000 * SECONDS / 2 * 0.8


def test_what_is_refused_does_not_count_as_done() -> None:
    turns = itertools.chain([True], itertools.cycle([True, False]))
    with serving(unary(turns), "Unary") as address, closing(OpenClient(address)) as client:
        sample = play(client, Offered(Echo(is_stream=False), PER_SECOND), 0, SECONDS)
    assert sample["requests"] + sample["refused"] == pytest.approx(REQUESTS, abs=1)
    assert abs(sample["requests"] - sample["refused"]) <= 3


def test_calls_beyond_what_a_connection_may_have_open_are_kept_back_and_wait() -> None:
    bound = 2
    may_go_on = threading.Event()
    lock = threading.Lock()
    open_now = most = 0

    def answer(request: bytes, _context: grpc.ServicerContext) -> bytes:
        nonlocal open_now, most
        with lock:
            open_now += 1
            most = max(most, open_now)
        may_go_on.wait(10)
        with lock:
            open_now -= 1
        return request

    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(answer, None, None)
    options = [("grpc.max_concurrent_streams", bound)]
    with serving(handler, "Unary", options) as address, closing(OpenClient(address)) as client:
        threading.Timer(SECONDS / 2, may_go_on.set).start()
        sample = play(client, Offered(Echo(is_stream=False), PER_SECOND), 0, SECONDS)
    assert most <= bound
    assert sample["requests"] == pytest.approx(REQUESTS, abs=1)
    assert sample["refused"] == 0
    assert sample["max_ms"] >= 1000 * SECONDS / 2 * 0.9


def test_a_stream_that_ends_is_a_failure() -> None:
    def answer(requests: Iterator[bytes], _context: grpc.ServicerContext) -> Iterator[bytes]:
        yield from itertools.islice(requests, 3)

    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(answer, None, None)
    with (
        serving(handler, "Stream") as address,
        closing(OpenClient(address)) as client,
        pytest.raises(BenchError, match="the server ended the stream"),
    ):
        play(client, Offered(Echo(is_stream=True), PER_SECOND), 0, SECONDS)
