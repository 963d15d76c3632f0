"""The load generator on grpcio's synchronous interface: what a Python program sees (`--client sync`)."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Iterator

import grpc

from loadtest.bench.exchange import CHANNEL_OPTIONS, Exchange
from loadtest.bench.workload import STREAM_METADATA


class SyncClient:
    """One connection; calls that are outstanding at once have a thread each."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address, options=CHANNEL_OPTIONS)

    def stream(self, exchange: Exchange) -> None:
        outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        starts_s: deque[float] = deque()

        def send() -> None:
            now_s = time.perf_counter()
            request = exchange.next_request(now_s)
            if request is not None:
                starts_s.append(now_s)
                outgoing.put(request)
            elif not starts_s:
                outgoing.put(None)

        for _ in range(exchange.workload.window):
            send()
        requests: Iterator[bytes | None] = iter(outgoing.get, None)
        open_stream: grpc.StreamStreamMultiCallable[bytes | None, bytes] = self._channel.stream_stream(
            exchange.workload.method, None, None
        )
        try:
            for message in open_stream(requests, timeout=exchange.deadline_s(), metadata=STREAM_METADATA):
                exchange.answered(starts_s.popleft(), time.perf_counter(), [message])
                send()
        except grpc.RpcError as error:
            exchange.fail(_text(error))
        finally:
            outgoing.put(None)
        if starts_s:
            exchange.fail(f"the server ended the stream with {len(starts_s)} requests unanswered")

    def calls(self, exchange: Exchange) -> None:
        lock = threading.Lock()
        threads = [
            threading.Thread(target=self._call_often, args=(exchange, lock)) for _ in range(exchange.workload.window)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def close(self) -> None:
        self._channel.close()

    def _call_often(self, exchange: Exchange, lock: threading.Lock) -> None:
        calls: dict[str, grpc.UnaryStreamMultiCallable[bytes, bytes]] = {}
        while True:
            with lock:
                started_s = time.perf_counter()
                request = exchange.next_request(started_s)
                name = next(exchange.methods)
            if request is None:
                return
            method = calls.setdefault(name, self._channel.unary_stream(name, None, None))
            try:
                answer = list(method(request, timeout=exchange.deadline_s()))
            except grpc.RpcError as error:
                exchange.fail(_text(error))
                return
            with lock:
                exchange.answered(started_s, time.perf_counter(), answer)


def _text(error: grpc.RpcError) -> str:
    return f"{error.code().name}: {error.details()}"
