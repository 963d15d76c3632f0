"""Both load generators against a real gRPC server, for what goes well and what does not."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass

import grpc
import pytest

from loadtest.bench import echo
from loadtest.bench.exchange import Client, play
from loadtest.bench.generator import CLIENTS, Generator
from loadtest.bench.model import BenchError
from loadtest.bench.servers import free_ports
from loadtest.bench.workload import ECHO_PROBE, ECHO_SERVICE, Echo, Probe

SECONDS = 0.05


@dataclass(frozen=True)
class Counted:
    """A given number of requests of a given size, each different, to be echoed."""

    count: int
    size_bytes: int
    window: int
    is_stream: bool
    method: str
    operations: int = 3

    def requests(self, turn: int) -> Iterator[bytes]:
        return (number.to_bytes(4, "big") * (self.size_bytes // 4) for number in range(self.count))

    def check(self, answer: Sequence[bytes]) -> None:
        if [len(message) for message in answer] != [self.size_bytes]:
            raise BenchError("wrong echo")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    server = echo.serve(address)
    yield address
    server.stop(grace=None).wait()


@pytest.fixture(params=sorted(CLIENTS))
def client(request: pytest.FixtureRequest, address: str) -> Iterator[Client]:
    client = CLIENTS[request.param](address)
    yield client
    client.close()


def calls(count: int, size_bytes: int, window: int, method: str = "Unary") -> Counted:
    return Counted(count, size_bytes, window, is_stream=False, method=f"{ECHO_SERVICE}/{method}")


def stream(count: int, size_bytes: int, window: int, method: str = "Stream") -> Counted:
    return Counted(count, size_bytes, window, is_stream=True, method=f"{ECHO_SERVICE}/{method}")


@pytest.mark.parametrize("kind", [calls, stream])
@pytest.mark.parametrize(("size_bytes", "window"), [(4, 1), (4, 64), (100, 3), (400_000, 4)])
def test_every_request_is_answered(
    kind: Callable[[int, int, int], Counted], size_bytes: int, window: int, client: Client
) -> None:
    # 400 kB is more than a frame, and more than the windows that a server opens at first.
    sample = play(client, kind(25, size_bytes, window), turn=0, seconds=60)
    assert sample["requests"] == 25
    assert sample["rate"] > 0
    assert 0 < sample["p50_ms"] <= sample["p99_ms"] <= sample["max_ms"]
    assert sample["seconds"] == pytest.approx(sample["p50_ms"] / 1000)


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_turn_ends_with_its_time(is_stream: bool, client: Client) -> None:
    assert play(client, Echo(is_stream), turn=0, seconds=SECONDS)["requests"] >= 1


@pytest.mark.parametrize("work", [calls(5, 4, 2, "Nothing"), stream(5, 4, 2, "Nothing")])
def test_a_refused_call_is_a_failure(work: Counted, client: Client) -> None:
    with pytest.raises(BenchError, match=work.method):
        play(client, work, turn=0, seconds=60)


@pytest.mark.parametrize("work", [calls(0, 4, 2), stream(0, 4, 2)])
def test_nothing_asked_is_a_failure(work: Counted, client: Client) -> None:
    with pytest.raises(BenchError, match="not one request was answered"):
        play(client, work, turn=0, seconds=60)


@contextmanager
def serving(handler: grpc.RpcMethodHandler[bytes, bytes]) -> Iterator[str]:
    """One method, `Some`, on a port of its own, for a block."""
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(ECHO_SERVICE.strip("/"), {"Some": handler})])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(grace=None).wait()


def test_a_call_that_fails_after_good_ones_is_seen_by_the_lean_client() -> None:
    """It reads no status, but sees that the trailers are not what they were."""
    number = itertools.count()

    def answer(request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        yield request
        if next(number) == 3:
            context.abort(grpc.StatusCode.UNAVAILABLE, "had enough")

    with (
        serving(grpc.unary_stream_rpc_method_handler(answer, None, None)) as address,
        closing(CLIENTS["lean"](address)) as client,
        pytest.raises(BenchError, match="another status"),
    ):
        play(client, calls(10, 4, 1, "Some"), turn=0, seconds=60)


def test_a_stream_that_ends_early_is_a_failure() -> None:
    def answer(requests: Iterator[bytes], _context: grpc.ServicerContext) -> Iterator[bytes]:
        yield from itertools.islice(requests, 3)

    with serving(grpc.stream_stream_rpc_method_handler(answer, None, None)) as address:
        for make in CLIENTS.values():
            with closing(make(address)) as client, pytest.raises(BenchError, match="unanswered"):
                play(client, stream(10, 4, 2, "Some"), turn=0, seconds=60)


def test_the_generator_works_in_its_own_process(address: str) -> None:
    with Generator("lean") as generator:
        assert generator.probe(address, ECHO_PROBE, 5.0)
        assert not generator.probe(address, Probe(f"{ECHO_SERVICE}/Nothing", b""), 5.0)
        assert not generator.probe(f"127.0.0.1:{free_ports(1)[0]}", ECHO_PROBE, 0.01)
        assert generator.load(address, Echo(is_stream=True), 0, SECONDS)["requests"] >= 1


def test_the_generator_tells_what_failed_and_goes_on(address: str) -> None:
    with Generator("lean") as generator:
        with pytest.raises(BenchError, match="cannot be reached"):
            generator.load(f"127.0.0.1:{free_ports(1)[0]}", Echo(is_stream=True), 0, SECONDS)
        assert generator.load(address, Echo(is_stream=True), 0, SECONDS)["requests"] >= 1
