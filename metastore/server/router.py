"""Which handler a call gets, and what is checked of every call before its first message."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from metastore.pb import compat_pb2, oxia_pb2, tidemark_pb2
from metastore.server import calls, streams
from metastore.server.errors import RpcError, invalid
from metastore.server.host import Host
from metastore.server.security import Authenticator
from metastore.server.tidemark.bulk import (
    BulkScanCall,
    ChangesCall,
    CutRangeCall,
    HoldPointCall,
    ReachCall,
    ReleasePointCall,
)
from metastore.server.tidemark.calls import DescribeCall, IndexScanCall, TransactCall, TransactManyCall
from metastore.server.tidemark.watch_stream import WatchCall
from metastore.server.transport import Call, Handler

SERVICE_NAMES = (
    oxia_pb2.DESCRIPTOR.services_by_name["OxiaClient"].full_name,
    compat_pb2.DESCRIPTOR.services_by_name["OxiaClient"].full_name,
)

METHODS: dict[str, type[calls.OneRequest]] = {
    "GetShardAssignments": streams.ShardAssignmentsCall,
    "Write": calls.WriteCall,
    "WriteStream": streams.WriteStreamCall,
    "Read": calls.ReadCall,
    "List": calls.ListCall,
    "RangeScan": calls.RangeScanCall,
    "GetSequenceUpdates": streams.SequenceUpdatesCall,
    "GetNotifications": streams.NotificationsCall,
    "CreateSession": calls.CreateSessionCall,
    "KeepAlive": calls.KeepAliveCall,
    "CloseSession": calls.CloseSessionCall,
}

OWN_SERVICE_NAME = tidemark_pb2.DESCRIPTOR.services_by_name["Metastore"].full_name

OWN_METHODS: dict[str, type[calls.OneRequest]] = {
    "Describe": DescribeCall,
    "Transact": TransactCall,
    "TransactMany": TransactManyCall,
    "IndexScan": IndexScanCall,
    "Watch": WatchCall,
    "HoldPoint": HoldPointCall,
    "ReleasePoint": ReleasePointCall,
    "CutRange": CutRangeCall,
    "BulkScan": BulkScanCall,
    "Reach": ReachCall,
    "Changes": ChangesCall,
}

AUTHORITIES_KEPT_MAX = 256
"""By which clients have called, and which are known to be good."""

MakeHandler = Callable[[Call], "Handler | None"]


class Way(NamedTuple):
    """Of a path to its handler: all that can be known of it before there is a call."""

    method: str
    kind: type[calls.OneRequest]
    is_open: bool
    """Whether its calls are kept among the open ones from their beginning."""
    is_read: bool
    """These are kept from where they have more to say than one message."""

    @classmethod
    def to(cls, method: str, kind: type[calls.OneRequest]) -> Way:
        is_read = kind is calls.ReadCall
        return cls(method, kind, issubclass(kind, streams.OpenCall | calls.StreamedAnswer) and not is_read, is_read)


class Refused:
    """A call that ends with an error whatever it sends."""

    def __init__(self, call: Call, error: RpcError) -> None:
        call.finish(error.code, error.message, error.trailing_metadata())

    def on_message(self, message: bytes) -> None:
        """Too late."""

    def on_half_close(self) -> None:
        """Too late."""

    def on_drained(self) -> None:
        """Nothing to send."""

    def on_over(self) -> None:
        """Nothing to release."""


class Router:
    """The methods of Oxia's service under both of its names, those of our own, and the other services of the port."""

    def __init__(
        self,
        host: Host,
        authenticator: Authenticator,
        report: calls.Report,
        other_services: Mapping[str, MakeHandler],
    ) -> None:
        self._host = host
        self._authenticator = authenticator
        self._report = report
        self._other = other_services
        services = dict.fromkeys(SERVICE_NAMES, METHODS) | {OWN_SERVICE_NAME: OWN_METHODS}
        self._ways = {
            f"/{service}/{method}": Way.to(method, kind)
            for service, methods in services.items()
            for method, kind in methods.items()
        }
        self._lock = threading.Lock()
        self._open: set[streams.OpenCall | calls.StreamedAnswer] = set()
        self.method_counts = dict.fromkeys((*METHODS, *OWN_METHODS), 0)

    def __call__(self, call: Call) -> Handler | None:
        known = self._ways.get(call.method)
        if known is None:
            make = self._other.get(call.method)
            return None if make is None else make(call)
        method, kind, is_open, is_read = known
        self.method_counts[method] += 1
        try:
            check_authority(call.authority)
            self._authenticator.check(call.metadata)
        except RpcError as error:
            return Refused(call, error)
        if is_read:
            return calls.ReadCall(call, self._host, self._report, self._remember)
        handler = kind(call, self._host, self._report)
        if is_open:
            assert isinstance(handler, streams.OpenCall | calls.StreamedAnswer)
            self._remember(handler)
            if isinstance(handler, streams.WriteStreamCall):
                handler.begin()
        return handler

    def _remember(self, handler: streams.OpenCall | calls.StreamedAnswer) -> None:
        """Keeps a handler among the open ones until its call is over."""
        on_over = handler.on_over

        def forget() -> None:
            with self._lock:
                self._open.discard(handler)
            on_over()

        handler.on_over = forget  # type: ignore[method-assign]
        with self._lock:
            self._open.add(handler)

    def open_calls(self) -> Iterator[streams.OpenCall | calls.StreamedAnswer]:
        """The calls that are open now."""
        with self._lock:
            handlers = tuple(self._open)
        yield from handlers

    def shut_down(self) -> None:
        """Ends the open streams, each in the way its clients understand."""
        for handler in self.open_calls():
            if isinstance(handler, streams.OpenCall):
                handler.shut_down()


@lru_cache(AUTHORITIES_KEPT_MAX)
def check_authority(authority: str) -> None:
    """The authority must look like host:port; anything may stand for the port. What is good is judged once."""
    for mark, what in (("://", "a scheme"), ("/", "a path"), ("?", "a query string"), ("#", "a fragment")):
        if mark in authority:
            raise invalid(f"oxia: invalid authority: {authority!r} must not contain {what}")
    host, colon, _ = authority.rpartition(":")
    if not colon:
        raise invalid(f"oxia: invalid authority: {authority!r} has no port: host:port is expected")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise invalid(f"oxia: invalid authority: {authority!r} has too many colons: host:port is expected")
    if not host:
        raise invalid(f"oxia: invalid authority: {authority!r} has an empty host")
