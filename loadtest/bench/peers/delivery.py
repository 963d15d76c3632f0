"""How long a change takes to a watcher: one connection watches, another one puts, one thread has both."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from loadtest.bench import http2
from loadtest.bench.exchange import Exchange
from loadtest.bench.lean_client import Connection, ConversationError, Stream
from loadtest.bench.model import BenchError
from loadtest.bench.workload import Requests, Workload

ATTEMPT_S = 0.1
ATTEMPTS = 50
"""A watch that has seen nothing after so many puts does not work."""


@dataclass(frozen=True)
class Watching(ABC):
    """Puts one after the other, each waited for at a watch over gRPC. A request is a put; its answer is the event."""

    put: Workload
    watch_method: str
    window: int = 1
    operations: int = 1
    is_stream: bool = False
    is_one_request: bool = False
    """The watch's call has one request, and not a stream of them."""

    @property
    def method(self) -> str:
        return self.put.method

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Of the watch's call."""
        return ()

    def requests(self, turn: int) -> Requests:
        return self.put.requests(turn)

    @abstractmethod
    def watch_request(self) -> bytes:
        """What opens the watch."""

    @abstractmethod
    def events(self, message: bytes) -> int:
        """How many changes a message of the watch tells."""

    def check(self, answer: Sequence[bytes]) -> None:
        if sum(map(self.events, answer)) != 1:
            raise BenchError("wrong answer: a put was not told as one event")


class GrpcDelivery:
    """The client that plays a `Watching`."""

    def __init__(self, address: str) -> None:
        self._watching = Connection(address)
        self._putting = Connection(address)

    def stream(self, exchange: Exchange) -> None:
        raise BenchError("deliveries are calls")

    def calls(self, exchange: Exchange) -> None:
        workload = exchange.workload
        assert isinstance(workload, Watching)
        try:
            watch = self._watching.open(workload.watch_method, workload.metadata)
            self._watching.send(watch, http2.message(workload.watch_request()), ends=workload.is_one_request)
            self._until_it_works(watch, workload)
            while True:
                now_s = time.perf_counter()
                request = exchange.next_request(now_s)
                if request is None:
                    return
                call = self._send(workload.method, request)
                event = self._event(watch, workload)
                exchange.answered(now_s, time.perf_counter(), event)
                self._end(call)
        except (ConversationError, OSError, ValueError) as error:
            exchange.fail(str(error))

    def close(self) -> None:
        self._watching.close()
        self._putting.close()

    def _until_it_works(self, watch: Stream, workload: Watching) -> None:
        """A watch may tell nothing at its beginning, so puts are made until one of them is told."""
        puts = workload.requests(0)
        self._watching.flush()
        for _ in range(ATTEMPTS):
            self._end(self._send(workload.method, next(puts)))
            if any(map(workload.events, self._told_within(watch, ATTEMPT_S))):
                break
        else:
            raise ConversationError(f"{workload.watch_method}: the watch told none of {ATTEMPTS} puts")
        while any(map(workload.events, self._told_within(watch, ATTEMPT_S))):
            pass

    def _send(self, method: str, request: bytes) -> Stream:
        call = self._putting.open(method, ())
        self._putting.send(call, http2.message(request), ends=True)
        self._putting.flush()
        return call

    def _end(self, call: Stream) -> None:
        while call.trailers is None:
            self._putting.exchange_bytes()
        self._putting.take_ended()

    def _event(self, watch: Stream, workload: Watching) -> list[bytes]:
        while True:
            if watch.trailers is not None:
                raise ConversationError("the server ended the watch")
            told = [message for message in http2.read_messages(watch.incoming) if workload.events(message)]
            if told:
                return told
            self._watching.exchange_bytes()

    def _told_within(self, watch: Stream, seconds: float) -> list[bytes]:
        self._watching.receive_within(seconds)
        return http2.read_messages(watch.incoming)
