"""One call: messages in, messages out, one end, in whatever order the network brings them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

import grpc

from metastore.server.transport import core
from metastore.server.transport.core import CoreCall, Event, Metadata, Status
from metastore.server.transport.crew import OnError
from metastore.server.transport.handler import Handler, NoHandler

_RECEIVED, _DRAINED, _OVER = 1, 2, 4  # what the handler is still to be told

_OK = Status(grpc.StatusCode.OK)
_INTERNAL = Status(grpc.StatusCode.INTERNAL, "internal error")

_NO_HANDLER = NoHandler()

_Shipment = tuple[bytes | None, Status | None, bool, bool]


class Call:
    """One call, as its handler sees it. All methods may be called from any thread, at any time.

    Two rules keep it simple. On the way out one batch is under way at a time (`_sending`), and its
    completion starts the next. All else, the callbacks and what is to be received, is done by one thread at
    a time, the one that has the turn (`_running`); a thread that finds the turn taken notes what is due and
    leaves. The lock guards these notes; it is never held over a callback or a call of the core.
    """

    __slots__ = (
        "__weakref__",
        "_closing",  # nothing more is sent: a status was given, or the way out is broken
        "_core",
        "_due",
        "_half_closed",
        "_handler",
        "_headers_sent",
        "_lock",
        "_on_end",
        "_on_error",
        "_paused",
        "_pending",  # batches under way
        "_received",
        "_receiving",
        "_running",
        "_sending",
        "_status",
        "_told_over",
        "_unsent",
        "_watching",  # the core will tell that the call is over
        "authority",
        "is_over",
        "metadata",
        "method",
        "unsent_bytes",
    )

    def __init__(self, request: Event, on_end: Callable[[Call], None], on_error: OnError) -> None:
        details = request.call_details
        self.method: str = details.method.decode("latin-1")
        self.authority: str = details.host.decode("latin-1")
        self.metadata: Metadata = request.invocation_metadata
        self.is_over = False
        self.unsent_bytes = 0
        self._core: CoreCall | None = request.call
        self._on_end = on_end
        self._on_error = on_error
        self._lock = threading.Lock()
        self._handler: Handler = _NO_HANDLER
        self._running = True  # the thread that made the call has the turn until `begin`
        self._due = 0
        self._received: bytes | None = None
        self._told_over = False
        self._pending = 0
        self._receiving = False
        self._half_closed = False
        self._paused = False
        self._watching = False
        self._sending = False
        self._headers_sent = False
        self._unsent: deque[bytes] | None = None
        self._status: Status | None = None
        self._closing = False

    # What the application knows and does.

    @property
    def peer(self) -> str:
        """The client's address; empty when the call has ended."""
        call = self._core
        return "" if call is None else core.peer(call)

    def auth_context(self) -> dict[str, list[bytes]]:
        """What the connection proves of the client, by TLS; empty when the call has ended."""
        call = self._core
        return {} if call is None else core.auth_context(call)

    @property
    def unsent_count(self) -> int:
        """How many messages wait for those before them."""
        return len(self._unsent) if self._unsent else 0

    @property
    def is_sending(self) -> bool:
        """Whether a message is under way, or the end of the call; for as long as the client takes none."""
        return self._sending

    @property
    def is_finished(self) -> bool:
        """Whether nothing more can be sent: the call was finished, though perhaps not all of it is sent, or is over."""
        return self._closing

    def send(self, message: bytes) -> None:
        """Sends a message after those before it; does nothing once the call was finished or is over."""
        with self._lock:
            if self._closing:
                return
            if self._sending:
                self._queue(message)
                return
            shipment = self._load(message)
        self._ship(*shipment)

    def reply(self, message: bytes) -> None:
        """Sends the last message and finishes with OK, at the cost of one of them."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
            self._status = _OK
            if self._sending:
                self._queue(message)
                return
            shipment = self._load(message)
        self._ship(*shipment)

    def finish(
        self, code: grpc.StatusCode = grpc.StatusCode.OK, details: str = "", trailing_metadata: Metadata = ()
    ) -> None:
        """Ends the call after all messages before; does nothing when it was finished already or is over."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
            self._status = Status(code, details, trailing_metadata)
            if self._sending:
                return
            shipment = self._load(None)
        self._ship(*shipment)

    def cancel(self, code: grpc.StatusCode, details: str) -> None:
        """Ends the call now, finished or not, and drops what is unsent; does nothing when it is over.

        `finish` waits for what the client does not take, and so perhaps for ever. After this `on_over` comes, whatever
        the client does; if it has had no status yet it gets this one, behind a message that may be cut off.
        """
        with self._lock:
            call = None if self.is_over else self._core
            self._break_off()
        if call is not None:
            core.cancel(call, code, details)

    def pause_receiving(self) -> None:
        """In `on_message`: no message is received after this one. Elsewhere one more may be under way."""
        self._paused = True

    def resume_receiving(self) -> None:
        """Receives on after `pause_receiving`."""
        with self._lock:
            self._paused = False
            start = None if self._running else self._next_intake()
        if start is not None:
            start()

    # The way out. Whoever loads, under the lock, ships, outside of it.

    def _queue(self, message: bytes) -> None:
        if self._unsent is None:
            self._unsent = deque()
        self._unsent.append(message)
        self.unsent_bytes += len(message)

    def _load(self, message: bytes | None) -> _Shipment:
        assert not self._sending
        self._sending = True
        self._pending += 1
        with_headers = not self._headers_sent
        self._headers_sent = True
        status = None if self._unsent else self._status
        with_watch = status is not None and not self._watching
        self._watching |= with_watch
        return message, status, with_headers, with_watch

    def _ship(self, message: bytes | None, status: Status | None, with_headers: bool, with_watch: bool) -> None:
        if status is None:
            assert message is not None
            core.start_sending(self._core, message, with_headers, self._on_sent)
            return
        tag = self._on_closed if with_watch else self._on_finished
        try:
            core.start_finishing(self._core, message, status, with_headers, with_watch, tag)
        except Exception as error:  # a status that cannot be put into headers
            self._on_error(self.method, error)
            core.start_finishing(self._core, None, _INTERNAL, with_headers, with_watch, tag)

    def _break_off(self) -> None:
        self.is_over = True
        self._closing = True
        self._unsent = None
        self.unsent_bytes = 0
        self._status = None

    # What comes from the core.

    def begin(self, handler: Handler | None) -> None:
        """Starts to serve; without a handler only the end is awaited."""
        if handler is not None:
            self._handler = handler
        self._run(0)

    def _on_received(self, event: Event) -> None:
        message = core.received_message(event)
        with self._lock:
            self._pending -= 1
            self._receiving = False
            self._half_closed |= message is None
            self._received = message
            self._due |= _RECEIVED
            if self._running:
                return
            due = self._take_turn()
        self._run(due)

    def _on_sent(self, event: Event) -> None:
        with self._lock:
            self._pending -= 1
            self._sending = False
            if not event.success:
                self._break_off()
            shipment: _Shipment | None = None
            if self._unsent:
                message = self._unsent.popleft()
                self.unsent_bytes -= len(message)
                shipment = self._load(message)
            elif self._status is not None:
                shipment = self._load(None)
            else:
                self._due |= _DRAINED
                if self._running:
                    return
                due = self._take_turn()
        if shipment is not None:
            self._ship(*shipment)
        else:
            self._run(due)

    def _on_finished(self, event: Event) -> None:
        with self._lock:
            self._pending -= 1
            if self._running:
                return
            due = self._take_turn()
        self._run(due)

    def _on_closed(self, event: Event) -> None:
        with self._lock:
            self._pending -= 1
            self._break_off()
            self._due |= _OVER
            if self._running:
                return
            due = self._take_turn()
        self._run(due)

    # The turn.

    def _take_turn(self) -> int:
        """Under the lock, where nobody has it: what is due now."""
        self._running = True
        due, self._due = self._due, 0
        return due

    def _run(self, due: int) -> None:
        """With the turn: tells the handler what is due, receives on, and gives the turn back."""
        while True:
            if due:
                self._tell(due)
            start = None
            with self._lock:
                due, self._due = self._due, 0
                if not due:
                    start = self._next_intake()
                    if start is None:
                        self._running = False
                        ended = self._told_over and not self._pending
                        break
            if start is not None:
                start()
        if ended:
            self._core = None
            self._handler = _NO_HANDLER  # a handler holds its call: no cycle is left to the collector
            self._on_end(self)

    def _next_intake(self) -> Callable[[], None] | None:
        if not (self._receiving or self._half_closed or self._paused or self._closing):
            self._receiving = True
            self._pending += 1
            return self._start_receiving
        # The wait for a message also tells of the end, so only without one a watch is needed; and a call that
        # is answered at once gets it in one batch with its status.
        if not (self._receiving or self._watching):
            self._watching = True
            self._pending += 1
            return self._start_watching
        return None

    def _start_receiving(self) -> None:
        core.start_receiving(self._core, self._on_received)

    def _start_watching(self) -> None:
        core.start_watching(self._core, self._on_closed)

    def _tell(self, due: int) -> None:
        handler = self._handler
        try:
            if due & _OVER:
                self._told_over = True
                handler.on_over()
                return
            if due & _RECEIVED:
                message, self._received = self._received, None
                if self._closing:
                    return
                if message is None:
                    handler.on_half_close()
                else:
                    handler.on_message(message)
            if due & _DRAINED and not (self._sending or self._closing):
                handler.on_drained()
        except BaseException as error:
            self._on_error(self.method, error)
            self.finish(_INTERNAL.code, _INTERNAL.details)
