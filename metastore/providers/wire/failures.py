"""A failed call judged: what became of its request, and which error its caller gets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from metastore.interface.errors import (
    AccessDenied,
    InvalidRequest,
    InvalidToken,
    LimitExceeded,
    NamespaceNotFound,
    OutcomeUnknown,
    Retriable,
    SessionLost,
    StoreError,
    StoreFailed,
    StoreFull,
    TokenExpired,
    Unavailable,
    Unsupported,
)

DETAILS_TRAILER = "grpc-status-details-bin"
ERROR_DOMAINS = ("oxia.io", "tidemark.metastore")


class MethodUnknown(StoreFailed):
    """The server does not have such a method: it is another one, or another version of it."""


class Fate(Enum):
    """What became of the request of a call that failed."""

    REFUSED = "refused"
    """The server judged it and did nothing; the same again would be refused again."""
    NOT_DONE = "not done"
    """Nothing was done, because the server is not the one to do it, or not yet: safe to ask again."""
    UNKNOWN = "unknown"
    """The answer is lost. What only reads can be asked again, what writes may or may not have been done."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a call failed."""

    fate: Fate
    kind: type[StoreError]
    """The error of a caller whose request was refused."""
    text: str
    advice: str
    leader: str | None = None
    """Where to ask instead, if the server said so."""

    @property
    def is_passing(self) -> bool:
        """Whether it makes sense to ask again by and by, if that does no harm."""
        return self.fate is not Fate.REFUSED and issubclass(self.kind, Retriable)

    @property
    def concerns_everybody(self) -> bool:
        """Whether the server refused the caller, not the request: everything else that was sent, too."""
        return issubclass(self.kind, AccessDenied | NamespaceNotFound) and self.fate is Fate.REFUSED

    def refusal(self, what: str) -> StoreError:
        """The error of a caller whose request was refused; of one who reads, or gave up before anything was done."""
        return self.kind(f"{what}: {self.text}: {self.advice}")

    def lost(self, what: str) -> OutcomeUnknown:
        """The error of a caller whose write was sent and not answered."""
        return OutcomeUnknown(
            f"{what}: {self.text}: it may or may not have taken effect: read what is there before trying again"
        )


_WAIT = "try again in a moment, or check that the server is healthy"

_BY_REASON: dict[str, tuple[Fate, type[StoreError], str]] = {
    "NODE_IS_NOT_LEADER": (Fate.NOT_DONE, Unavailable, _WAIT),
    "NODE_IS_NOT_MEMBER": (Fate.NOT_DONE, Unavailable, _WAIT),
    "SHARD_NOT_FOUND": (Fate.NOT_DONE, Unavailable, _WAIT),
    "NOT_INITIALIZED": (Fate.NOT_DONE, Unavailable, "try again when the server has started"),
    "RESOURCE_UNAVAILABLE": (Fate.UNKNOWN, Unavailable, "try again later"),
    "ABORTED": (Fate.UNKNOWN, Unavailable, "try again later"),
    "NAMESPACE_NOT_FOUND": (
        Fate.REFUSED,
        NamespaceNotFound,
        "check the namespace's name and the server's configuration",
    ),
    "SESSION_NOT_FOUND": (Fate.REFUSED, SessionLost, "open a new session and put its records again"),
    "INVALID_SESSION_TIMEOUT": (Fate.REFUSED, InvalidRequest, "give one from 2 s to 5 min"),
    "NOTIFICATIONS_NOT_ENABLED": (Fate.REFUSED, Unsupported, "enable them in the server's configuration"),
    "STORE_FULL": (Fate.REFUSED, StoreFull, "make room: deletes still work"),
    "STORE_CHANGED": (Fate.REFUSED, InvalidToken, "begin with a snapshot"),
    "UNPARSABLE": (Fate.REFUSED, StoreFailed, "client and server do not fit together: look at their versions"),
}

_BY_CODE: dict[grpc.StatusCode, tuple[Fate, type[StoreError], str]] = {
    grpc.StatusCode.UNAVAILABLE: (Fate.UNKNOWN, Unavailable, "check the address, the server, and TLS on both sides"),
    grpc.StatusCode.DEADLINE_EXCEEDED: (Fate.UNKNOWN, Unavailable, "check the server's health, or allow more time"),
    grpc.StatusCode.ABORTED: (Fate.UNKNOWN, Unavailable, "try again later"),
    grpc.StatusCode.CANCELLED: (Fate.UNKNOWN, Unavailable, "try again later"),
    grpc.StatusCode.UNAUTHENTICATED: (Fate.REFUSED, AccessDenied, "give a token that the server knows"),
    grpc.StatusCode.PERMISSION_DENIED: (Fate.REFUSED, AccessDenied, "ask for the right, or use another token"),
    grpc.StatusCode.INVALID_ARGUMENT: (Fate.REFUSED, InvalidRequest, "correct the request"),
    grpc.StatusCode.FAILED_PRECONDITION: (Fate.REFUSED, InvalidRequest, "correct the request"),
    grpc.StatusCode.OUT_OF_RANGE: (Fate.REFUSED, TokenExpired, "begin with a snapshot"),
    grpc.StatusCode.RESOURCE_EXHAUSTED: (Fate.REFUSED, LimitExceeded, "send less at once"),
    grpc.StatusCode.UNIMPLEMENTED: (
        Fate.REFUSED,
        MethodUnknown,
        "check that the address is that of a metadata store",
    ),
}

_OTHERWISE = (Fate.UNKNOWN, StoreFailed, "look at the server's log")

_BATCH_REFUSED = "oxia db: failed to apply batch: "
"""How an Oxia server says, without a reason or a code of its own, that it took nothing of a write request."""
_CUT_OFF = "oxia: resource unavailable: "
"""How our server ends a call whose answers nobody took: gRPC sends no reason then."""
_CONNECTION_LOST = ("Received RST_STREAM", "Stream removed", "RST_STREAM", "Connection reset", "Broken pipe")
"""How gRPC words an end of the connection that it does not call UNAVAILABLE."""


def failure_of(failed: grpc.aio.AioRpcError) -> Failure:
    """Judges a call that failed."""
    return judged(failed.code(), failed.details() or "", *reason_of(failed.trailing_metadata() or ()))


def judged(code: grpc.StatusCode, text: str, reason: str, metadata: Mapping[str, str]) -> Failure:
    """Judges a failure by its reason, else by its text where that is the only sign, else by its code."""
    fate, kind, advice = _BY_REASON.get(reason) or _judged_by_text(text) or _BY_CODE.get(code, _OTHERWISE)
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        text = "no answer in time"
    if cause := metadata.get("cause"):
        text = f"{text}: {cause}"
    return Failure(fate, kind, text or code.name, advice, metadata.get("leader") or None)


def _judged_by_text(text: str) -> tuple[Fate, type[StoreError], str] | None:
    if text.startswith(_BATCH_REFUSED):
        return _BY_CODE[grpc.StatusCode.INVALID_ARGUMENT]
    if text.startswith(_CUT_OFF):
        return _BY_REASON["RESOURCE_UNAVAILABLE"]
    if text.startswith(_CONNECTION_LOST):
        return _BY_CODE[grpc.StatusCode.UNAVAILABLE]
    return None


def reason_of(trailers: Iterable[tuple[str, str | bytes]]) -> tuple[str, dict[str, str]]:
    """The reason of a google.rpc.ErrorInfo of a known domain, and its metadata; nothing if none can be read."""
    for name, value in trailers:
        if name == DETAILS_TRAILER and isinstance(value, bytes):
            return reason_in(value)
    return "", {}


def reason_in(serialized_status: bytes) -> tuple[str, dict[str, str]]:
    """The reason in a serialized google.rpc.Status."""
    try:
        status = status_pb2.Status.FromString(serialized_status)
        for detail in status.details:
            info = error_details_pb2.ErrorInfo()
            if detail.Unpack(info) and info.domain in ERROR_DOMAINS:
                return info.reason, dict(info.metadata)
    except DecodeError:
        return "", {}  # the status code and its text still reach the caller
    return "", {}


def connection_ended(address: str) -> Failure:
    """The server ended a stream without an error."""
    return Failure(Fate.UNKNOWN, Unavailable, f"{address} ended the stream", "try again in a moment")


def no_answer(address: str, timeout_s: float) -> Failure:
    """Nobody answered."""
    return Failure(
        Fate.UNKNOWN,
        Unavailable,
        f"no answer from {address} within {timeout_s:g} s",
        "check the server's health, or allow more time with the option request_timeout",
    )


def broken_protocol(address: str, what: str) -> Failure:
    """The server answered what it must not."""
    return Failure(Fate.UNKNOWN, StoreFailed, f"{address} {what}", "look at the versions of client and server")
