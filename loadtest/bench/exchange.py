"""What every load generator does: send, keep a window of requests outstanding, take the times."""

from __future__ import annotations

import itertools
import time
from typing import Protocol

from loadtest.bench.figures import percentile
from loadtest.bench.model import BenchError, Sample
from loadtest.bench.workload import Mixed, Workload

GRACE_S = 30.0
MESSAGE_BYTES_MAX = 256 * 1024 * 1024
CHANNEL_OPTIONS = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
)


class Exchange:
    """The requests of one turn: hands them out while the turn lasts, and takes their times and answers.

    A turn sends while its seconds and its requests last, at least one request, and then waits for the
    answers under way. It begins with the first request and ends with the last answer.
    """

    def __init__(self, workload: Workload, turn: int, seconds: float) -> None:
        self.workload = workload
        self.methods = itertools.cycle(workload.methods if isinstance(workload, Mixed) else (workload.method,))
        """Of the requests, in their order."""
        self.failure: str | None = None
        self._requests = workload.requests(turn)
        self._next = next(self._requests, None)
        self._latencies_s: list[float] = []
        self._first_answer: list[bytes] = []
        self._last_answer: list[bytes] = []
        self._seconds = seconds
        self._refused = 0
        self._begun_s: float | None = None
        self._ended_s = 0.0

    def next_request(self, now_s: float) -> bytes | None:
        """The next request to send, or None if nothing more is to be sent."""
        request = self._next
        if request is None or self.failure is not None:
            return None
        if self._begun_s is None:
            self._begun_s = now_s
        elif now_s - self._begun_s >= self._seconds:
            return None
        self._next = next(self._requests, None)
        return request

    def answered(self, started_s: float, now_s: float, answer: list[bytes]) -> None:
        """A request sent at `started_s` has its whole answer."""
        if not self._latencies_s:
            self._first_answer = answer
        self._last_answer = answer
        self._latencies_s.append(now_s - started_s)
        self._ended_s = now_s

    def refused(self) -> None:
        """A request was answered with a refusal: nothing was done, and it does not count."""
        self._refused += 1

    def fail(self, text: str) -> None:
        """Nothing more is sent; the first failure counts."""
        self.failure = self.failure or text

    def deadline_s(self) -> float:
        """How long any call of the turn may take before it is given up."""
        return self._seconds + GRACE_S

    def sample(self, cpu_s: float) -> Sample:
        """The turn's figures, after its answers have been checked."""
        if self.failure is not None:
            raise BenchError(f"{self.workload.method}: {self.failure}")
        if not self._latencies_s or self._begun_s is None:
            raise BenchError(f"{self.workload.method}: not one request was answered")
        self.workload.check(self._first_answer)
        self.workload.check(self._last_answer)
        requests = len(self._latencies_s)
        elapsed_s = self._ended_s - self._begun_s
        ordered = sorted(self._latencies_s)
        return {
            "rate": requests * self.workload.operations / elapsed_s,
            "p50_ms": percentile(ordered, 0.5) * 1e3,
            "p99_ms": percentile(ordered, 0.99) * 1e3,
            "max_ms": ordered[-1] * 1e3,
            "seconds": percentile(ordered, 0.5),
            "requests": requests,
            "refused": self._refused,
            "client_cpu_us": cpu_s / requests * 1e6,
            "client_cpu_share": cpu_s / elapsed_s,
        }


class Client(Protocol):
    """One connection to a server."""

    def stream(self, exchange: Exchange) -> None:
        """Plays an exchange over one bidirectional stream; a failure is left in the exchange."""

    def calls(self, exchange: Exchange) -> None:
        """Plays an exchange with a call for each request."""

    def close(self) -> None:
        """Ends the connection."""


def play(client: Client, workload: Workload, turn: int, seconds: float) -> Sample:
    """Plays one turn of a workload and returns its figures."""
    exchange = Exchange(workload, turn, seconds)
    before_s = time.process_time()
    if workload.is_stream:
        client.stream(exchange)
    else:
        client.calls(exchange)
    return exchange.sample(time.process_time() - before_s)
