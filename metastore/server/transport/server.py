"""The server: ports, new calls, and an orderly end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import grpc

from metastore.server.transport.call import Call, Handler
from metastore.server.transport.core import CoreServer, Event
from metastore.server.transport.crew import Crew, OnError

Router = Callable[[Call], Handler | None]

POLLERS = 4
REQUESTED_CALLS_PER_POLLER = 4  # new calls that are taken in without a wait
MAX_WAITING_CALLS = 20_000  # beyond, the core refuses calls; it starts with some of them at half as many

MIB = 1024 * 1024


@dataclass(frozen=True)
class TransportOptions:
    """What clients may do to a connection."""

    max_receive_message_bytes: int = 256 * MIB
    min_ping_interval_ms: int = 5_000
    keepalive_interval_ms: int = 60_000  # a client that is gone without a word is noticed after these two
    keepalive_timeout_ms: int = 20_000

    def as_arguments(self) -> list[tuple[str, int | str]]:
        """As the core wants them."""
        return [
            ("grpc.so_reuseport", 0),  # else two servers could share a port unknowingly
            ("grpc.max_receive_message_length", self.max_receive_message_bytes),
            ("grpc.max_send_message_length", -1),
            ("grpc.http2.min_ping_interval_without_data_ms", self.min_ping_interval_ms),
            ("grpc.http2.max_ping_strikes", 0),  # clients ping every few seconds, and never lose a connection for it
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.keepalive_time_ms", self.keepalive_interval_ms),
            ("grpc.keepalive_timeout_ms", self.keepalive_timeout_ms),
            ("grpc.server.max_pending_requests", MAX_WAITING_CALLS // 2),
            ("grpc.server.max_pending_requests_hard_limit", MAX_WAITING_CALLS),
        ]


class PortUnavailable(OSError):
    """A port could not be opened."""


class GrpcServer:
    """Takes calls and gives each to the handler that the router makes for it; None means UNIMPLEMENTED.

    The router may also finish the call itself and return None. `on_error` is told of exceptions in routers and
    handlers, with the method; it must not raise.
    """

    def __init__(
        self,
        router: Router,
        *,
        on_error: OnError,
        pollers: int = POLLERS,
        options: TransportOptions = TransportOptions(),
    ) -> None:
        self._router = router
        self._on_error = on_error
        self._pollers = pollers
        self._core = CoreServer(options.as_arguments())
        self._crew = Crew(self._core.poll, pollers, on_error)
        self._change = threading.Condition()  # guards what follows; notified when calls end while stopping
        self._live: set[Call] = set()
        self._started = False
        self._accepting = False
        self._connected = True  # until the core has closed the last connection
        self._stopped = False

    @property
    def live_call_count(self) -> int:
        """Calls that have begun and not ended."""
        return len(self._live)

    def add_port(self, address: str, credentials: grpc.ServerCredentials | None = None) -> int:
        """Opens `host:port` before the start; port 0 lets the system choose. Returns the port."""
        assert not self._started, "ports are added before the start"
        port = self._core.add_port(address, credentials)
        if port == 0:
            hint = "" if credentials is None else ", or the TLS certificate or key is not usable"
            raise PortUnavailable(
                f"cannot listen on {address}: the port is in use, or the address is not one of this machine{hint}"
            )
        return port

    def start(self) -> None:
        """Begins to serve."""
        self._start(accepting=True)

    def hand_over(self) -> None:
        """To be called in a callback that is about to block: another thread serves meanwhile."""
        self._crew.hand_over()

    def stop(self, grace_s: float) -> None:
        """Takes no new calls, gives those that run the time of grace, cancels the rest.

        Returns when all of them are over and all threads have ended: no callback runs afterwards. A callback that
        blocks for ever blocks this too. Not to be called from a callback.
        """
        if not self._started:
            self._start(accepting=False)  # the core cannot part from a port that it never served
        with self._change:
            if self._stopped:
                return
            self._stopped = True
            self._accepting = False
        self._core.begin_shutdown(self._on_disconnected)
        with self._change:
            self._change.wait_for(lambda: not self._live, grace_s)
        self._core.cancel_all_calls()  # also closes connections that are left without calls
        with self._change:
            self._change.wait_for(lambda: not self._live and not self._connected)
        self._core.close_queue()
        self._crew.join()
        self._core.destroy()

    def _start(self, accepting: bool) -> None:
        with self._change:
            assert not self._started, "a server starts once"
            self._started = True
            self._accepting = accepting
            self._core.start()
            self._crew.start()
            for _ in range(REQUESTED_CALLS_PER_POLLER * self._pollers if accepting else 0):
                self._core.request_call(self._on_request)

    def _on_request(self, event: Event) -> None:
        with self._change:
            if self._accepting:
                self._core.request_call(self._on_request)
            if not event.success:
                return  # the server is stopping
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
        with self._change:
            self._live.remove(call)
            if self._stopped and not self._live:
                self._change.notify_all()

    def _on_disconnected(self, event: Event) -> None:
        with self._change:
            self._connected = False
            self._change.notify_all()
