"""The lean load generator: one thread, one socket, HTTP/2 frames by hand.

grpcio's public interface passes every message between two or three threads, at 130 to 450 microseconds of
processor time. That is more than the measured servers need, so with it one measures mostly the client. This
one costs 10 to 100, and it waits for nothing but the server. It is no gRPC client for anything else: it
trusts its server, knows few kinds of headers per connection, and cannot tell a status (`--client sync` can).
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections import deque
from dataclasses import dataclass, field

from loadtest.bench import http2
from loadtest.bench.exchange import GRACE_S, Exchange
from loadtest.bench.workload import STREAM_METADATA

RECEIVE_BYTES = 256 * 1024
OUR_FRAME_BYTES_MAX = 1024 * 1024
REPLENISH_BYTES = 2**30
SETTINGS = {
    http2.HEADER_TABLE_SIZE: 0,
    http2.INITIAL_WINDOW: http2.WINDOW_MAX,
    http2.FRAME_BYTES_MAX: OUR_FRAME_BYTES_MAX,
}


class ConversationError(Exception):
    """The server has ended what it should not end."""


@dataclass
class Stream:
    """One call: what of it waits to be sent, and what has come."""

    number: int
    window: int
    outgoing: bytearray = field(default_factory=bytearray)
    incoming: bytearray = field(default_factory=bytearray)
    ends_after_sending: bool = False
    trailers: bytes | None = None
    unacknowledged: int = 0
    started_s: float = 0.0


class LeanClient:
    """One connection, driven by the calling thread."""

    def __init__(self, address: str) -> None:
        self._connection = Connection(address)

    def stream(self, exchange: Exchange) -> None:
        connection = self._connection
        try:
            stream = connection.open(exchange.workload.method, STREAM_METADATA)
            _pipeline(connection, stream, exchange)
            connection.send(stream, b"", ends=True)
            while stream.trailers is None:
                connection.exchange_bytes()
        except (ConversationError, OSError, ValueError) as error:
            exchange.fail(_text(error))

    def calls(self, exchange: Exchange) -> None:
        connection = self._connection
        outstanding = 0
        good_trailers: bytes | None = None
        try:
            while True:
                while outstanding < exchange.workload.window:
                    now_s = time.perf_counter()
                    request = exchange.next_request(now_s)
                    if request is None:
                        break
                    stream = connection.open(next(exchange.methods), ())
                    stream.started_s = now_s
                    connection.send(stream, http2.message(request), ends=True)
                    outstanding += 1
                if not outstanding:
                    return
                connection.exchange_bytes()
                now_s = time.perf_counter()
                if connection.take_turned_away():
                    raise ConversationError("the server takes fewer calls at a time than the window has")
                for stream in connection.take_ended():
                    good_trailers = good_trailers or stream.trailers
                    if stream.trailers != good_trailers:
                        raise ConversationError("a call ended with another status than those before it")
                    exchange.answered(stream.started_s, now_s, http2.read_messages(stream.incoming))
                    outstanding -= 1
        except (ConversationError, OSError, ValueError) as error:
            exchange.fail(_text(error))

    def close(self) -> None:
        self._connection.close()


def _pipeline(connection: Connection, stream: Stream, exchange: Exchange) -> None:
    """Keeps the window full until the turn is over and everything is answered."""
    starts_s: deque[float] = deque()
    while True:
        now_s = time.perf_counter()
        while len(starts_s) < exchange.workload.window:
            request = exchange.next_request(now_s)
            if request is None:
                break
            starts_s.append(now_s)
            connection.send(stream, http2.message(request))
        if not starts_s:
            return
        connection.exchange_bytes()
        now_s = time.perf_counter()
        for answer in http2.read_messages(stream.incoming):
            exchange.answered(starts_s.popleft(), now_s, [answer])
        if stream.trailers is not None:
            raise ConversationError(f"the server ended the stream, {len(starts_s)} requests unanswered")


class Connection:
    """Frames of several streams over one socket, with flow control."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._address = address
        self._socket = socket.create_connection((host, int(port)), timeout=GRACE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""
        self._window = http2.DEFAULT_WINDOW
        self._initial_window = http2.DEFAULT_WINDOW
        self._frame_bytes_max = http2.DEFAULT_FRAME_BYTES_MAX
        self._unacknowledged = 0
        self._streams_max = http2.STREAMS_MAX
        self._has_settings = False
        self._streams: dict[int, Stream] = {}
        self._waiting: dict[int, Stream] = {}
        """Those whose requests the windows hold up: few, however many calls are unanswered."""
        self._ended: list[Stream] = []
        self._turned_away: list[Stream] = []
        self._next_number = 1
        self._known_headers: dict[tuple[tuple[str, str], ...], int] = {}
        self._table_entries = 0
        more = http2.window_update(0, http2.WINDOW_MAX - http2.DEFAULT_WINDOW)
        self._frames: list[bytes] = [http2.PREFACE, http2.settings_frame(SETTINGS), more]

    def await_settings(self) -> None:
        """Returns when the server has said what it bounds, which it does before all else."""
        while not self._has_settings:
            self.exchange_bytes()

    @property
    def has_room(self) -> bool:
        """Whether the server takes one more call beside those that are open."""
        return len(self._streams) < self._streams_max

    def open(self, method: str, metadata: tuple[tuple[str, str], ...]) -> Stream:
        """Starts a call; nothing is sent before `exchange_bytes`."""
        stream = Stream(self._next_number, self._initial_window)
        self._next_number += 2
        self._streams[stream.number] = stream
        block = self._header_block(method, metadata)
        self._frames.append(http2.frame(http2.HEADERS, http2.END_HEADERS, stream.number, block))
        return stream

    def send(self, stream: Stream, data: bytes, *, ends: bool = False) -> None:
        """Appends to what a call sends."""
        stream.outgoing += data
        stream.ends_after_sending = ends
        self._cut_frames(stream)

    def exchange_bytes(self) -> None:
        """Sends what may be sent, waits for something to come, and takes it."""
        self.flush()
        self._receive()

    def receive_within(self, seconds: float) -> None:
        """Takes what comes at first within the time, which may be nothing."""
        self.flush()
        readable, _, _ = select.select([self._socket], [], [], seconds)
        if readable:
            self._receive()

    def _receive(self) -> None:
        data = self._socket.recv(RECEIVE_BYTES)
        if not data:
            raise ConversationError("the server closed the connection")
        frames, self._rest = http2.read_frames(self._rest + data)
        for each in frames:
            self._take(each)

    def take_ended(self) -> list[Stream]:
        """The calls that have ended since they were last asked for."""
        ended, self._ended = self._ended, []
        return ended

    def take_turned_away(self) -> list[Stream]:
        """The calls that the server has done nothing of, and that may be made again: it counts one that has just ended
        for a moment longer than the client does."""
        turned_away, self._turned_away = self._turned_away, []
        return turned_away

    def flush(self) -> None:
        """Sends what may be sent."""
        if self._frames:
            self._socket.sendall(b"".join(self._frames))
            self._frames.clear()

    def close(self) -> None:
        """Ends the connection."""
        self._socket.close()

    def _header_block(self, method: str, metadata: tuple[tuple[str, str], ...]) -> bytes:
        headers = (
            (":method", "POST"),
            (":scheme", "http"),
            (":path", method),
            (":authority", self._address),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            *metadata,
        )
        if headers in self._known_headers:
            return http2.referring_block(len(headers), self._table_entries - self._known_headers[headers])
        self._table_entries += len(headers)
        assert self._table_entries <= http2.TABLE_ENTRIES_MAX, "one connection is for few kinds of calls"
        self._known_headers[headers] = self._table_entries
        return http2.introducing_block(headers)

    def _cut_frames(self, stream: Stream) -> None:
        """Makes frames of what a call has to send, as far as both windows allow."""
        while stream.outgoing or stream.ends_after_sending:
            size = min(len(stream.outgoing), stream.window, self._window, self._frame_bytes_max)
            if stream.outgoing and size <= 0:
                self._waiting[stream.number] = stream
                return
            piece = bytes(stream.outgoing[:size])
            del stream.outgoing[:size]
            stream.window -= size
            self._window -= size
            is_last = stream.ends_after_sending and not stream.outgoing
            flags = http2.END_STREAM if is_last else 0
            self._frames.append(http2.frame(http2.DATA, flags, stream.number, piece))
            if is_last:
                stream.ends_after_sending = False
        self._waiting.pop(stream.number, None)

    def _take(self, each: http2.Frame) -> None:
        stream = self._streams.get(each.stream)
        if each.kind == http2.DATA and stream is not None:
            if each.flags & http2.PADDED:
                raise ConversationError("the server pads its frames, which this client cannot read")
            stream.incoming += each.payload
            self._replenish(stream, len(each.payload))
        elif each.kind == http2.SETTINGS and not each.flags & http2.ACKNOWLEDGED:
            self._adopt(http2.read_settings(each.payload))
        elif each.kind == http2.PING and not each.flags & http2.ACKNOWLEDGED:
            self._frames.append(http2.frame(http2.PING, http2.ACKNOWLEDGED, 0, each.payload))
        elif each.kind == http2.WINDOW_UPDATE:
            self._widen(stream, each)
        elif each.kind == http2.RESET and stream is not None and each.payload == http2.REFUSED_STREAM:
            del self._streams[stream.number]
            self._waiting.pop(stream.number, None)
            self._turned_away.append(stream)
        elif each.kind == http2.GO_AWAY or (each.kind == http2.RESET and stream is not None):
            raise ConversationError("the server broke the stream or the connection off")
        if stream is not None and each.kind in (http2.DATA, http2.HEADERS) and each.flags & http2.END_STREAM:
            stream.trailers = each.payload if each.kind == http2.HEADERS else b""
            del self._streams[stream.number]
            self._waiting.pop(stream.number, None)
            self._ended.append(stream)

    def _adopt(self, settings: dict[int, int]) -> None:
        self._frame_bytes_max = settings.get(http2.FRAME_BYTES_MAX, self._frame_bytes_max)
        self._has_settings = True
        self._streams_max = settings.get(http2.CONCURRENT_STREAMS_MAX, self._streams_max)
        widened = settings.get(http2.INITIAL_WINDOW, self._initial_window) - self._initial_window
        self._initial_window += widened
        self._frames.append(http2.frame(http2.SETTINGS, http2.ACKNOWLEDGED, 0, b""))
        for stream in self._streams.values():
            stream.window += widened
            self._cut_frames(stream)

    def _widen(self, stream: Stream | None, each: http2.Frame) -> None:
        (increment,) = struct.unpack(">I", each.payload)
        if each.stream == 0:
            self._window += increment
        elif stream is not None:
            stream.window += increment
        for waiting in list(self._waiting.values()):
            self._cut_frames(waiting)

    def _replenish(self, stream: Stream, size: int) -> None:
        """Gives back what was received long before the server's windows, the greatest there are, run out."""
        stream.unacknowledged += size
        self._unacknowledged += size
        if stream.unacknowledged >= REPLENISH_BYTES:
            self._frames.append(http2.window_update(stream.number, stream.unacknowledged))
            stream.unacknowledged = 0
        if self._unacknowledged >= REPLENISH_BYTES:
            self._frames.append(http2.window_update(0, self._unacknowledged))
            self._unacknowledged = 0


def _text(error: Exception) -> str:
    return f"{error} (a status, if the server gave one, is told with --client sync)"
