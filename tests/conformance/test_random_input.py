"""Random bytes on any method neither crash nor hang the server, nor show an error that nobody foresaw."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from grpc import StatusCode

from metastore.pb import oxia_pb2 as pb
from metastore.pb import tidemark_pb2
from support.ports import LOOPBACK
from support.random_requests import RandomRequests
from support.server import ServerProcess, own_server
from support.wire import METHODS, SERVICES, Answer, Metadata, Method, WireClient, methods_of

pytestmark = pytest.mark.skipif(not own_server(), reason="asks what only this project's server promises")

OWN_SERVICE = tidemark_pb2.DESCRIPTOR.services_by_name["Metastore"]
OWN_METHODS = methods_of(OWN_SERVICE)
METHODS_OF: dict[str, dict[str, Method]] = {
    **dict.fromkeys(SERVICES, METHODS),
    OWN_SERVICE.full_name: OWN_METHODS,
}

SEED = 20_261_118
CALLS_PER_METHOD = 100
CALLS_AT_A_TIME = 16
WATCH_REQUESTS = 1_000
WELL_FORMED_REQUESTS = 3_000
CONNECTIONS = 50
SHARDS = 2

SUBSCRIPTIONS = ("GetShardAssignments", "GetNotifications", "GetSequenceUpdates")
"""Calls without an end of their own."""
WATCHED_S = 0.3
"""How long a subscription is watched."""
ANSWERED_WITHIN_S = 30.0

FORESEEN = {
    StatusCode.OK,
    StatusCode.INVALID_ARGUMENT,
    StatusCode.INTERNAL,  # bytes that are no message
    StatusCode.ABORTED,  # a shard that is not here
    StatusCode.NOT_FOUND,  # a session or namespace that is not there
}
GONE = {
    StatusCode.OUT_OF_RANGE,  # offsets that were not reached yet
    StatusCode.FAILED_PRECONDITION,  # a point that is over
    StatusCode.RESOURCE_EXHAUSTED,  # more points than a shard holds
}
OF_POINTS = ("HoldPoint", "BulkScan", "Reach", "Changes")
"""Calls about the change log, and points of it."""
BAD_HEADERS = {
    StatusCode.INVALID_ARGUMENT,
    StatusCode.UNKNOWN,
    StatusCode.ABORTED,
    StatusCode.RESOURCE_EXHAUSTED,  # more than gRPC takes
}


@dataclass(frozen=True)
class RandomCall:
    method: Method
    requests: list[bytes]
    headers: Metadata

    def run(self, wire: WireClient, service: str) -> Answer:
        if not self.method.client_streaming:
            (request,) = self.requests
            limit_s = WATCHED_S if self.method.name in SUBSCRIPTIONS else ANSWERED_WITHIN_S
            return wire.call(self.method, request, service=service, timeout_s=limit_s)
        stream = wire.open(self.method, service=service, metadata=self.headers)
        for request in self.requests:
            stream.send(request)
        stream.half_close()
        return stream.rest(ANSWERED_WITHIN_S)

    def foresees(self, code: StatusCode) -> bool:
        """Whether a call may end like this."""
        if self.method.name in SUBSCRIPTIONS and code is StatusCode.DEADLINE_EXCEEDED:
            return True
        if self.method.name in OF_POINTS and code in GONE:
            return True
        return code in FORESEEN or (bool(self.headers) and code in BAD_HEADERS)


def random_calls(seed: int, methods: Mapping[str, Method] = METHODS) -> list[RandomCall]:
    """Calls of every method, mixed."""
    source = RandomRequests(seed)
    calls = []
    for number in range(CALLS_PER_METHOD):
        for method in methods.values():
            odd = number % 2 == 0
            shard, namespace = (source.header(), source.header()) if odd else ("0", "default")
            takes_headers = method.name == "WriteStream"
            headers = (("shard-id", shard), ("namespace", namespace)) if takes_headers else ()
            calls.append(RandomCall(method, source.requests(method), headers))
    return calls


def assert_serves(wire: WireClient) -> None:
    """Every shard takes a write and answers a read."""
    for shard in range(SHARDS):
        put = pb.PutRequest(key=b"afterwards", value=b"v")
        assert wire.call("Write", pb.WriteRequest(shard=shard, puts=[put])).only.puts[0].status == pb.OK
        assert_has(wire, shard)


def assert_has(wire: WireClient, shard: int) -> None:
    get = pb.GetRequest(key=b"afterwards", include_value=True)
    assert wire.call("Read", pb.ReadRequest(shard=shard, gets=[get])).only.gets[0].value == b"v"


@pytest.mark.parametrize("service", METHODS_OF)
def test_random_requests_are_survived(service: str) -> None:
    calls = random_calls(SEED, METHODS_OF[service])
    with ServerProcess(shards=SHARDS) as server:
        with WireClient(server.address) as wire:
            with ThreadPoolExecutor(CALLS_AT_A_TIME) as pool:
                answers = list(pool.map(lambda call: call.run(wire, service), calls))
            assert server.is_alive
            unforeseen = [
                (call.method.name, call.headers, [data.hex() for data in call.requests], answer.status)
                for call, answer in zip(calls, answers, strict=True)
                if not call.foresees(answer.status.code)
            ]
            assert unforeseen == []
            assert "Traceback" not in server.log_path.read_text()
            assert_serves(wire)
        # What was accepted has to be readable again: recovery meets everything that the log took.
        server.restart("kill")
        with WireClient(server.address) as wire:
            for shard in range(SHARDS):
                assert_has(wire, shard)
            assert_serves(wire)


def test_the_requests_reach_what_they_are_meant_to_reach() -> None:
    """A fuzzer whose every request is refused at the door tests the door."""
    with ServerProcess(shards=SHARDS) as server, WireClient(server.address) as wire:
        calls = [call for call in random_calls(SEED) if call.method.name not in SUBSCRIPTIONS]
        codes: dict[str, set[StatusCode]] = {}
        for call in calls:
            codes.setdefault(call.method.name, set()).add(call.run(wire, SERVICES[0]).status.code)
    for name in ("Write", "WriteStream", "Read", "List", "RangeScan", "CreateSession"):
        assert {StatusCode.OK, StatusCode.INVALID_ARGUMENT, StatusCode.INTERNAL} <= codes[name], name
    for name in ("KeepAlive", "CloseSession"):
        assert {StatusCode.NOT_FOUND, StatusCode.ABORTED, StatusCode.INTERNAL} <= codes[name], name


def _first_ok(wire: WireClient, method: Method) -> StatusCode:
    """What the first well-formed request ends with that is accepted; or the last one, if none is."""
    source, code = RandomRequests(SEED), StatusCode.UNKNOWN
    for _ in range(WELL_FORMED_REQUESTS):
        request = source.well_formed(method)
        code = RandomCall(method, [request], ()).run(wire, OWN_SERVICE.full_name).status.code
        if code is StatusCode.OK:
            break
    return code


def test_the_requests_of_our_own_service_reach_what_they_are_meant_to_reach() -> None:
    with ServerProcess(shards=SHARDS) as server, WireClient(server.address) as wire:
        codes: dict[str, set[StatusCode]] = {}
        for call in random_calls(SEED, OWN_METHODS):
            codes.setdefault(call.method.name, set()).add(call.run(wire, OWN_SERVICE.full_name).status.code)
        for method in OWN_METHODS.values():
            if StatusCode.OK not in codes[method.name]:
                codes[method.name] |= {_first_ok(wire, method)}
        source, watch = RandomRequests(SEED), OWN_METHODS["Watch"]
        requests = list(filter(None, (source.well_formed(watch) for _ in range(WATCH_REQUESTS))))
        answer = RandomCall(watch, requests, ()).run(wire, OWN_SERVICE.full_name)
    for name in OWN_METHODS:
        assert {StatusCode.OK, StatusCode.INVALID_ARGUMENT} <= codes[name], name
    assert answer.status.code is StatusCode.OK
    kinds = Counter(news.WhichOneof("news") for each in answer.messages for news in each.news)
    ends = {news.ended.code for each in answer.messages for news in each.news if news.WhichOneof("news") == "ended"}
    assert min(kinds["created"], kinds["ended"]) > 3, kinds
    assert {StatusCode.INVALID_ARGUMENT.value[0], StatusCode.FAILED_PRECONDITION.value[0]} <= ends


def test_bytes_that_are_no_http_are_survived() -> None:
    source = RandomRequests(SEED)
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    with ServerProcess(shards=SHARDS) as server, WireClient(server.address) as wire:
        for number in range(CONNECTIONS):
            with socket.create_connection((LOOPBACK, server.port), ANSWERED_WITHIN_S) as connection:
                connection.sendall((preface if number % 2 else b"") + source.noise())
        assert_serves(wire)
        assert server.is_alive
        assert "Traceback" not in server.log_path.read_text()
