"""The load generator of the open model: requests are sent by schedule, and waited for from their intended start.

A generator that waits for answers before it asks again slows down with the server and hides that. This one sends what
is due, whatever is unanswered, so a server that does not keep up is seen: its answers come late, and the later ones
later. It is the lean client otherwise. What does not fit into the socket waits in it and counts as waiting; so does a
call beyond those that the server lets a connection have open, as in any client of gRPC. A call that ends with another
status than the first one was refused.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from loadtest.bench import http2
from loadtest.bench.exchange import Exchange
from loadtest.bench.lean_client import Connection, ConversationError
from loadtest.bench.workload import STREAM_METADATA, Offered

DUE_AT_ONCE_MAX = 64
"""Answers are taken at least after so many requests, however late those are."""


class OpenClient:
    """Plays an `Offered` workload over one connection."""

    def __init__(self, address: str) -> None:
        self._connection = Connection(address)

    def stream(self, exchange: Exchange) -> None:
        connection = self._connection
        starts_s: deque[float] = deque()

        def send(request: bytes, due_s: float) -> None:
            starts_s.append(due_s)
            connection.send(stream, http2.message(request))

        def take() -> bool:
            now_s = time.perf_counter()
            for answer in http2.read_messages(stream.incoming):
                exchange.answered(starts_s.popleft(), now_s, [answer])
            if stream.trailers is not None:
                raise ConversationError(f"the server ended the stream, {len(starts_s)} requests unanswered")
            return bool(starts_s)

        try:
            stream = connection.open(exchange.workload.method, STREAM_METADATA)
            _play(connection, exchange, send, take)
        except (ConversationError, OSError, ValueError) as error:
            exchange.fail(str(error))

    def calls(self, exchange: Exchange) -> None:
        connection = self._connection
        outstanding: dict[int, tuple[bytes, float]] = {}
        kept_back: deque[tuple[bytes, float]] = deque()
        good: list[bytes] = []

        def send(request: bytes, due_s: float) -> None:
            kept_back.append((request, due_s))
            send_on()

        def send_on() -> None:
            while kept_back and connection.has_room:
                request, due_s = kept_back.popleft()
                call = connection.open(exchange.workload.method, ())
                call.started_s = due_s
                connection.send(call, http2.message(request), ends=True)
                outstanding[call.number] = request, due_s

        def take() -> bool:
            now_s = time.perf_counter()
            for call in connection.take_turned_away():
                kept_back.append(outstanding.pop(call.number))
            for call in connection.take_ended():
                del outstanding[call.number]
                assert call.trailers is not None
                if not good:
                    good.append(call.trailers)
                if call.trailers == good[0]:
                    exchange.answered(call.started_s, now_s, http2.read_messages(call.incoming))
                else:
                    exchange.refused()
            send_on()
            return bool(outstanding) or bool(kept_back)

        try:
            connection.await_settings()
            _play(connection, exchange, send, take)
        except (ConversationError, OSError, ValueError) as error:
            exchange.fail(str(error))

    def close(self) -> None:
        self._connection.close()


def _play(
    connection: Connection, exchange: Exchange, send: Callable[[bytes, float], None], take: Callable[[], bool]
) -> None:
    """Sends what is due when it is due, and then waits for the answers; `take` says whether any is missing."""
    assert isinstance(exchange.workload, Offered)
    interval_s = 1 / exchange.workload.per_second
    began_s = time.perf_counter()
    sent = at_once = 0
    while True:
        due_s = began_s + sent * interval_s
        left_s = due_s - time.perf_counter()
        if left_s > 0 or at_once >= DUE_AT_ONCE_MAX:
            connection.receive_within(max(0.0, left_s))
            take()
            at_once = 0
            continue
        request = exchange.next_request(due_s)
        if request is None:
            break
        send(request, due_s)
        sent, at_once = sent + 1, at_once + 1
    while take():
        connection.exchange_bytes()
