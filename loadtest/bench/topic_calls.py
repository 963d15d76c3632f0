"""Calls about topics: over HTTP with JSON, beside the same over gRPC, one after the other."""

from __future__ import annotations

import http.client
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http import HTTPStatus

from loadtest.bench.bench import Bench, Group
from loadtest.bench.figures import percentile
from loadtest.bench.model import AtLeast, BenchError, Better, Line, Metric, Sample, Turn
from loadtest.bench.servers import LOOPBACK, free_ports
from loadtest.bench.topic_stage import PATIENCE_S, STILL, Application, staged

GROUP = "topics-calls"
REST, GRPC = "rest", "grpc"
TOPIC = "called"
PATH = f"/admin/v2/scalable/public/default/{TOPIC}"
FLOOR = 0.2


class Caller(ABC):
    """Asks about one topic, and changes it."""

    def __init__(self) -> None:
        self._changes = 0

    def ask(self, turn: Turn) -> Sample:
        """For the topic as it is."""
        return _timed(turn, self.describe)

    def change(self, turn: Turn) -> Sample:
        """Its properties, durably."""
        return _timed(turn, self._change_again)

    def _change_again(self) -> None:
        self._changes += 1
        self.set_properties({"change": str(self._changes)})

    @abstractmethod
    def describe(self) -> None:
        """One call."""

    @abstractmethod
    def set_properties(self, properties: Mapping[str, str]) -> None:
        """One call."""


def _timed(turn: Turn, call: Callable[[], None]) -> Sample:
    waits_ms: list[float] = []
    end_s = time.perf_counter() + turn.seconds
    while (began_s := time.perf_counter()) < end_s:
        call()
        waits_ms.append(1000 * (time.perf_counter() - began_s))
    waits_ms.sort()
    return {"p50_ms": percentile(waits_ms, 0.50), "p99_ms": percentile(waits_ms, 0.99)}


class RestCaller(Caller):
    """One connection, which stays open."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self._connection = http.client.HTTPConnection(address, timeout=PATIENCE_S)

    def describe(self) -> None:
        segments = json.loads(self._call("GET", PATH))["segments"]
        if len(segments) != 1:
            raise BenchError(f"{len(segments)} segments were told of a topic that has one")

    def set_properties(self, properties: Mapping[str, str]) -> None:
        self._call("PUT", f"{PATH}/properties", json.dumps(properties))

    def _call(self, verb: str, path: str, body: str | None = None) -> bytes:
        try:
            self._connection.request(verb, path, body, {"Content-Type": "application/json"})
            answer = self._connection.getresponse()
            text = answer.read()
        except (http.client.HTTPException, OSError) as error:
            raise BenchError(f"{verb} {path}: {error!r}") from error
        if answer.status not in (HTTPStatus.OK, HTTPStatus.NO_CONTENT):
            raise BenchError(f"{verb} {path}: {answer.status} {text[:200]!r}")
        return text

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()


class GrpcCaller(Caller):
    """The client of this library."""

    def __init__(self, application: Application) -> None:
        super().__init__()
        self._application = application

    def describe(self) -> None:
        self._application.run(self._application.client.topics.describe(TOPIC))

    def set_properties(self, properties: Mapping[str, str]) -> None:
        self._application.run(self._application.client.topics.set_properties(TOPIC, properties))


def group() -> Group[Caller]:
    """The group of these lines."""
    metrics = (
        Metric("p50_ms", "p50", "ms", Better.LOWER, (AtLeast(GRPC, FLOOR),)),
        Metric("p99_ms", "p99", "ms", Better.LOWER),
    )
    lines = [
        Line("describe", "describe a topic,", metrics, Caller.ask),
        Line("set-properties", "set a topic's properties,", metrics, Caller.change),
    ]
    return Group(GROUP, "Calls about a topic, one at a time, on one connection", (REST, GRPC), lines, _open)


@contextmanager
def _open(bench: Bench) -> Iterator[Mapping[str, Caller]]:
    with ExitStack() as stack:
        (port,) = free_ports(1)
        address = f"{LOOPBACK}:{port}"
        stage = stack.enter_context(staged(bench, GROUP, (*STILL, "--admin", address)))
        application = Application(stage.url)
        stack.callback(application.close)
        application.run(application.client.topics.create(TOPIC))
        rest = RestCaller(address)
        stack.callback(rest.close)
        yield {REST: rest, GRPC: GrpcCaller(application)}
