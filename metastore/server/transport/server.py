"""The server: ports, new calls, and an orderly end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import grpc

from metastore.server.transport.call import Call
from metastore.server.transport.core import CoreServer, Event
from metastore.server.transport.crew import Action, Crew, OnError
from metastore.server.transport.handler import Handler

Router = Callable[[Call], Handler | None]
Option = tuple[str, int | str]

POLLERS = 4
WAITING_CALLS_MAX = 20_000  # calls that nobody has taken yet; the core refuses some from half as many on
STREAMS_PER_CONNECTION_MAX = 4_000  # calls of one connection, open streams too; more of them wait in the client
REQUESTED_CALLS = 4_000  # new calls that the core may hand over without being asked again; others queue, at a price

OPTIONS: tuple[Option, ...] = (
    ("grpc.so_reuseport", 0),  # else two servers share a port without knowing
    ("grpc.max_send_message_length", -1),
    # To refuse a call costs about as much as to answer it. A client that knows the bound keeps back what is beyond it,
    # and gives up by itself what waits for too long: so one connection never comes to where calls are refused.
    ("grpc.max_concurrent_streams", STREAMS_PER_CONNECTION_MAX),
    ("grpc.http.overload_protection", 0),  # else calls that have ended count until the core has freed them
    ("grpc.server.max_pending_requests", WAITING_CALLS_MAX // 2),
    ("grpc.server.max_pending_requests_hard_limit", WAITING_CALLS_MAX),
)


class TransportError(Exception):
    """The server cannot do what it was told."""


class GrpcServer:
    """Takes calls, and gives each to the handler that the router makes for it.

    Where the router returns None the call ends with UNIMPLEMENTED, unless the router has finished it already.
    `on_error` is told of exceptions in router and handlers, together with the method, and must not raise.
    Options are channel arguments of grpcio; they come after `OPTIONS`.
    """

    def __init__(
        self, router: Router, *, on_error: OnError, pollers: int = POLLERS, options: Sequence[Option] = ()
    ) -> None:
        self._router = router
        self._on_error = on_error
        self._core = CoreServer(list({**dict(OPTIONS), **dict(options)}.items()))
        self._crew = Crew(self._core.poll, self._core.poll_ready, pollers, on_error)
        self._lock = threading.RLock()  # guards what follows
        self._change = threading.Condition(self._lock)  # notified of what `stop` waits for
        self._live: set[Call] = set()
        self._is_started = False
        self._is_accepting = False
        self._is_stopping = False
        self._is_connected = True  # until the core has closed the last connection

    @property
    def live_call_count(self) -> int:
        """Calls that have begun and not ended."""
        return len(self._live)

    def add_port(self, address: str, credentials: grpc.ServerCredentials | None = None) -> int:
        """Opens `host:port` before the start; for port 0 the system chooses one. Returns the port."""
        assert not self._is_started, "ports are added before the start"
        port = self._core.add_port(address, credentials)
        if port == 0:
            tls = "" if credentials is None else ", or the TLS certificate or key cannot be used"
            raise TransportError(
                f"cannot listen on {address}: the port is in use, or this machine has no such address{tls}"
            )
        return port

    def start(self) -> None:
        """Begins to serve."""
        self._start(is_accepting=True)

    def defer(self, action: Action) -> None:
        """Runs an action that may block, like a group commit, once all messages that are there are taken in.

        Called in a callback, it has the action run after the callback's return, by a thread of the server;
        the same action deferred again before it runs is run once. Called elsewhere, it runs the action
        itself.
        """
        self._crew.defer(action)

    def stop(self, grace_s: float) -> None:
        """Takes no new calls, gives those that run the time of grace to end, then cancels them.

        Returns when all calls are over and all threads have ended: no callback runs any more. It waits for
        callbacks that block, so it may not be called from one.
        """
        assert not self._crew.has_this_thread(), "a callback cannot wait for its own end"
        if not self._is_started:
            self._start(is_accepting=False)  # the core cannot part from a port that it never served
        with self._change:
            if self._is_stopping:
                return
            self._is_stopping = True
            self._is_accepting = False
        self._core.begin_shutdown(self._on_disconnected)
        with self._change:
            self._change.wait_for(lambda: not self._live, grace_s)
        self._core.cancel_all_calls()  # and close connections that have none
        with self._change:
            self._change.wait_for(lambda: not self._live and not self._is_connected)
        self._core.close_queue()
        self._crew.join()
        self._core.destroy()

    def _start(self, is_accepting: bool) -> None:
        with self._change:
            assert not self._is_started, "a server starts once"
            self._is_started = True
            self._is_accepting = is_accepting
            self._core.start()
            self._crew.start()
            for _ in range(REQUESTED_CALLS if is_accepting else 0):
                self._core.request_call(self._on_request)

    def _on_request(self, event: Event) -> None:
        with self._lock:  # itself, and not the condition, whose methods are no C
            if self._is_accepting:
                self._core.request_call(self._on_request)
            if not event.success:
                return  # the server is stopping: nobody called
            call = Call(event, self._on_end, self._on_error)
            self._live.add(call)
        call.begin(self._route(call))

    def _route(self, call: Call) -> Handler | None:
        try:
            handler = self._router(call)
        except BaseException as error:
            self._on_error(call.method, error)
            call.finish(grpc.StatusCode.INTERNAL, "internal error")
            return None
        if handler is None:
            call.finish(grpc.StatusCode.UNIMPLEMENTED, f"unknown method {call.method}")
        return handler

    def _on_end(self, call: Call) -> None:
        with self._lock:
            self._live.remove(call)
            if self._is_stopping and not self._live:
                self._change.notify_all()

    def _on_disconnected(self, event: Event) -> None:
        with self._change:
            self._is_connected = False
            self._change.notify_all()
