"""The lean load generator: one thread that drives grpcio's core by its completion queue.

grpcio's public interface passes every message between two or three threads, at 130 to 450 microseconds of
processor time, which is more than the measured servers need: with it one measures mostly the client. The core
below it is the same HTTP/2 and gRPC implementation; driven directly it costs a quarter. The interface is not a
public one, so its use is kept to this module.
"""

from __future__ import annotations

import importlib
import time
from collections import deque
from typing import Any

from loadtest.bench.exchange import CHANNEL_OPTIONS, Exchange
from loadtest.bench.workload import STREAM_METADATA

cygrpc: Any = importlib.import_module("grpc._cython.cygrpc")

NO_FLAGS = 0
CLOSING = "the load generator has finished"


class CoreClient:
    """One connection, driven by the calling thread."""

    def __init__(self, address: str) -> None:
        options = tuple((name.encode(), value) for name, value in CHANNEL_OPTIONS)
        self._channel = cygrpc.Channel(address.encode(), options, None)

    def stream(self, exchange: Exchange) -> None:
        _Stream(self._channel, exchange).play()

    def calls(self, exchange: Exchange) -> None:
        outstanding = sum(_Call.start(self._channel, exchange) for _ in range(exchange.workload.window))
        while outstanding:
            event = self._channel.next_call_event()
            call, step = event.tag
            if call.advance(step, event.batch_operations):
                outstanding += _Call.start(self._channel, exchange) - 1

    def close(self) -> None:
        self._channel.close(cygrpc.StatusCode.cancelled, CLOSING)


def _failure(status: Any) -> str | None:
    code = status.code()
    return None if code == cygrpc.StatusCode.ok else f"status {code}: {status.details()}"


class _Call:
    """One call with a single request and any number of messages in its answer.

    Due at its end are batches of operations: the request with the first message, each further message (one at a
    time), and the status. They complete in any order, so the call is over when none is left. The core refuses an
    operation on a call that has nothing due: then its status has come, and no message is left.
    """

    BODY, MESSAGE, STATUS = range(3)

    def __init__(self, exchange: Exchange, started_s: float) -> None:
        self._exchange = exchange
        self._started_s = started_s
        self._answer: list[bytes] = []
        self._due = 2
        self.call: Any = None

    @staticmethod
    def start(channel: Any, exchange: Exchange) -> bool:
        """Starts the exchange's next request as a call; False if there is none."""
        now_s = time.perf_counter()
        request = exchange.next_request(now_s)
        if request is None:
            return False
        self = _Call(exchange, now_s)
        body = (
            cygrpc.SendInitialMetadataOperation((), NO_FLAGS),
            cygrpc.SendMessageOperation(request, NO_FLAGS),
            cygrpc.SendCloseFromClientOperation(NO_FLAGS),
            cygrpc.ReceiveInitialMetadataOperation(NO_FLAGS),
            cygrpc.ReceiveMessageOperation(NO_FLAGS),
        )
        status = (cygrpc.ReceiveStatusOnClientOperation(NO_FLAGS),)
        self.call = channel.integrated_call(
            NO_FLAGS, exchange.workload.method.encode(), None, time.time() + exchange.deadline_s(), (), None,
            ((body, (self, _Call.BODY)), (status, (self, _Call.STATUS))), None,
        )  # fmt: skip
        return True

    def advance(self, step: int, operations: Any) -> bool:
        """Takes a completed batch; True when the call is over."""
        self._due -= 1
        if step == _Call.STATUS:
            failure = _failure(operations[0])
            if failure is not None:
                self._exchange.fail(failure)
        else:
            message = operations[-1].message()
            if message is not None:
                self._answer.append(message)
                another = (cygrpc.ReceiveMessageOperation(NO_FLAGS),)
                self._due += bool(self.call.operate(another, (self, _Call.MESSAGE)))
        if self._due == 0:
            self._exchange.answered(self._started_s, time.perf_counter(), self._answer)
        return self._due == 0


class _Stream:
    """One bidirectional stream: one send and one receive under way at a time, as the core demands."""

    SENT, RECEIVED, CLOSED, STATUS, METADATA = range(5)

    def __init__(self, channel: Any, exchange: Exchange) -> None:
        self._exchange = exchange
        self._window = exchange.workload.window
        self._starts_s: deque[float] = deque()
        self._is_sending = False
        self._is_closed = False
        self._due = 3
        opening = (cygrpc.SendInitialMetadataOperation(STREAM_METADATA, NO_FLAGS),)
        status = (cygrpc.ReceiveStatusOnClientOperation(NO_FLAGS),)
        metadata = (cygrpc.ReceiveInitialMetadataOperation(NO_FLAGS),)
        self._call = channel.segregated_call(
            NO_FLAGS, exchange.workload.method.encode(), None, time.time() + exchange.deadline_s(), (), None,
            ((opening, _Stream.METADATA), (status, _Stream.STATUS), (metadata, _Stream.METADATA)),
        )  # fmt: skip

    def play(self) -> None:
        """Until all requests are answered and the stream has ended, or it has failed."""
        self._operate(cygrpc.ReceiveMessageOperation(NO_FLAGS), _Stream.RECEIVED)
        while self._due:
            if not self._is_sending and not self._is_closed and len(self._starts_s) < self._window:
                self._send()
            event = self._call.next_event()
            self._due -= 1
            if event.tag == _Stream.RECEIVED:
                self._receive(event.batch_operations[0].message())
            elif event.tag == _Stream.SENT:
                self._is_sending = False
            elif event.tag == _Stream.STATUS:
                self._end(event.batch_operations[0])

    def _operate(self, operation: Any, tag: int) -> None:
        """Begins an operation; the core refuses it if the stream has ended and nothing is due."""
        self._due += bool(self._call.operate((operation,), tag))

    def _send(self) -> None:
        now_s = time.perf_counter()
        request = self._exchange.next_request(now_s)
        if request is not None:
            self._starts_s.append(now_s)
            self._is_sending = True
            self._operate(cygrpc.SendMessageOperation(request, NO_FLAGS), _Stream.SENT)
        elif not self._starts_s:
            self._is_closed = True
            self._operate(cygrpc.SendCloseFromClientOperation(NO_FLAGS), _Stream.CLOSED)

    def _receive(self, message: bytes | None) -> None:
        if message is None:
            return
        if not self._starts_s:
            self._exchange.fail("more answers than requests")
        else:
            self._exchange.answered(self._starts_s.popleft(), time.perf_counter(), [message])
        self._operate(cygrpc.ReceiveMessageOperation(NO_FLAGS), _Stream.RECEIVED)

    def _end(self, status: Any) -> None:
        self._is_closed = True
        failure = _failure(status)
        if failure is None and self._starts_s:
            failure = f"the server ended the stream with {len(self._starts_s)} requests unanswered"
        if failure is not None:
            self._exchange.fail(failure)
