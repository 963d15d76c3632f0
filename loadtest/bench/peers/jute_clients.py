"""Lean clients of a ZooKeeper: one thread, one socket, requests pipelined as any client of it does."""

from __future__ import annotations

import select
import socket
import time
from collections import deque

from loadtest.bench.exchange import GRACE_S, Exchange
from loadtest.bench.model import BenchError
from loadtest.bench.peers import jute
from loadtest.bench.peers.delivery import ATTEMPT_S, ATTEMPTS
from loadtest.bench.peers.work import SESSION_TIMEOUT_MS
from loadtest.bench.workload import KEY_ROOT

RECEIVE_BYTES = 256 * 1024


class JuteError(Exception):
    """The server refused, or ended what it should not end."""


class JuteConnection:
    """One connection with a session of its own."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=GRACE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._incoming = bytearray()
        self._number = 0
        self.events: list[bytes] = []
        """That came between the replies."""
        self._socket.sendall(jute.framed(jute.connect_request(SESSION_TIMEOUT_MS)))
        self.connected = self._frames()[0]

    def send(self, *requests: bytes) -> None:
        """Sends requests, which are answered in their order."""
        sent = []
        for request in requests:
            self._number += 1
            sent.append(jute.numbered(self._number, request))
        self._socket.sendall(b"".join(sent))

    def receive(self) -> list[bytes]:
        """Waits until something comes; the bodies of the replies in it, which may be none."""
        bodies = []
        for frame in self._frames():
            reply = jute.reply_of(frame)
            if reply.number == jute.EVENT_NUMBER:
                self.events.append(reply.body)
            elif reply.error:
                raise JuteError(f"the server answered a request with error {reply.error}")
            else:
                bodies.append(reply.body)
        return bodies

    def ask(self, request: bytes) -> bytes:
        """One request and the body of its reply."""
        self.send(request)
        while True:
            for body in self.receive():
                return body

    def has_news(self, seconds: float) -> bool:
        """Whether something comes within the time."""
        return bool(select.select([self._socket], [], [], seconds)[0])

    def close(self) -> None:
        """Ends the connection; the session ends with its timeout."""
        self._socket.close()

    def _frames(self) -> list[bytes]:
        while True:
            data = self._socket.recv(RECEIVE_BYTES)
            if not data:
                raise JuteError("the server closed the connection")
            self._incoming += data
            frames = jute.read_frames(self._incoming)
            if frames:
                return frames


class JuteClient:
    """Plays an exchange over one connection, a window of requests outstanding."""

    def __init__(self, address: str) -> None:
        self._connection = JuteConnection(address)

    def stream(self, exchange: Exchange) -> None:
        raise BenchError("a ZooKeeper knows no streams")

    def calls(self, exchange: Exchange) -> None:
        starts_s: deque[float] = deque()
        try:
            while True:
                now_s = time.perf_counter()
                requests = []
                while len(starts_s) < exchange.workload.window:
                    request = exchange.next_request(now_s)
                    if request is None:
                        break
                    starts_s.append(now_s)
                    requests.append(request)
                if not starts_s:
                    return
                self._connection.send(*requests)
                bodies = self._connection.receive()
                now_s = time.perf_counter()
                for body in bodies:
                    exchange.answered(starts_s.popleft(), now_s, [body])
        except (JuteError, OSError) as error:
            exchange.fail(str(error))

    def close(self) -> None:
        self._connection.close()


class JuteSessions:
    """Plays an exchange whose requests are sessions: a connection and a handshake each, which is how they are made."""

    def __init__(self, address: str) -> None:
        self._address = address

    def stream(self, exchange: Exchange) -> None:
        raise BenchError("a ZooKeeper knows no streams")

    def calls(self, exchange: Exchange) -> None:
        try:
            while exchange.next_request(now_s := time.perf_counter()) is not None:
                connection = JuteConnection(self._address)
                exchange.answered(now_s, time.perf_counter(), [connection.connected])
                connection.close()
        except (JuteError, OSError) as error:
            exchange.fail(str(error))

    def close(self) -> None:
        """Nothing is left open."""


class JuteDelivery:
    """Puts on one connection, each waited for at a watch of another one. An answer is the event."""

    def __init__(self, address: str) -> None:
        self._watching = JuteConnection(address)
        self._putting = JuteConnection(address)

    def stream(self, exchange: Exchange) -> None:
        raise BenchError("a ZooKeeper knows no streams")

    def calls(self, exchange: Exchange) -> None:
        try:
            self._watching.ask(jute.request(jute.ADD_WATCH, jute.watch_fields(KEY_ROOT)))
            self._until_it_works(exchange)
            while (request := exchange.next_request(now_s := time.perf_counter())) is not None:
                self._watching.events.clear()
                self._putting.send(request)
                while not self._watching.events:
                    self._watching.receive()
                exchange.answered(now_s, time.perf_counter(), list(self._watching.events))
                while not self._putting.receive():
                    pass
        except (JuteError, OSError) as error:
            exchange.fail(str(error))

    def close(self) -> None:
        self._watching.close()
        self._putting.close()

    def _until_it_works(self, exchange: Exchange) -> None:
        """One put that is told, before the clock starts, as with the others."""
        puts = exchange.workload.requests(0)
        for _ in range(ATTEMPTS):
            self._putting.ask(next(puts))
            while self._watching.has_news(ATTEMPT_S):
                self._watching.receive()
            if self._watching.events:
                return
        raise JuteError(f"the watch told none of {ATTEMPTS} puts")
