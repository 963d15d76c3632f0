"""A failed call made into an error of the tree: by the server's reason, else by gRPC's status code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from metastore.client.errors import (
    AccessDenied,
    ClientError,
    ConnectionFailed,
    DeadlineExceeded,
    InvalidRequest,
    LimitReached,
    NamespaceNotFound,
    NotificationsDisabled,
    NotReady,
    ServerFailure,
    SessionLost,
    Unavailable,
)

DETAILS_TRAILER = "grpc-status-details-bin"
ERROR_DOMAIN = "oxia.io"

OUTCOME_UNKNOWN = "; it may or may not have taken effect: look before trying again"


@dataclass(frozen=True, slots=True)
class Action:
    """What was being done, for the messages: "put '/a'", and where; `writes` if it may have left a trace."""

    text: str
    address: str = ""
    writes: bool = False

    def at(self, address: str) -> Action:
        return Action(self.text, address, self.writes)


BY_REASON: dict[str, tuple[type[ClientError], str]] = {
    "NODE_IS_NOT_LEADER": (NotReady, "try again in a moment, or check that the server is healthy"),
    "NODE_IS_NOT_MEMBER": (NotReady, "try again in a moment, or check that the server is healthy"),
    "SHARD_NOT_FOUND": (NotReady, "try again in a moment, or check that the server is healthy"),
    "NOT_INITIALIZED": (NotReady, "try again when the server has started"),
    "RESOURCE_UNAVAILABLE": (Unavailable, "try again later"),
    "ABORTED": (Unavailable, "try again later"),
    "NAMESPACE_NOT_FOUND": (NamespaceNotFound, "check the namespace's name and the server's configuration"),
    "SESSION_NOT_FOUND": (SessionLost, "open a new session and put its records again"),
    "INVALID_SESSION_TIMEOUT": (InvalidRequest, "give one from 2 s to 5 min"),
    "NOTIFICATIONS_NOT_ENABLED": (NotificationsDisabled, "enable them in the server's configuration"),
}

BY_CODE: dict[grpc.StatusCode, tuple[type[ClientError], str]] = {
    grpc.StatusCode.UNAVAILABLE: (ConnectionFailed, "check the address, the server, and TLS on both sides"),
    grpc.StatusCode.DEADLINE_EXCEEDED: (DeadlineExceeded, "check the server's health, or allow more time"),
    grpc.StatusCode.UNAUTHENTICATED: (AccessDenied, "give a token that the server knows"),
    grpc.StatusCode.PERMISSION_DENIED: (AccessDenied, "ask for the right, or use another token"),
    grpc.StatusCode.INVALID_ARGUMENT: (InvalidRequest, "correct the request"),
    grpc.StatusCode.FAILED_PRECONDITION: (InvalidRequest, "correct the request"),
    grpc.StatusCode.OUT_OF_RANGE: (InvalidRequest, "correct the request"),
    grpc.StatusCode.RESOURCE_EXHAUSTED: (LimitReached, "make room in the store, or send less at once"),
    grpc.StatusCode.ABORTED: (Unavailable, "try again later"),
    grpc.StatusCode.CANCELLED: (Unavailable, "try again later"),
    grpc.StatusCode.UNIMPLEMENTED: (ServerFailure, "check that the address is that of a metadata store"),
}

OTHERWISE = (ServerFailure, "look at the server's log")

UNDECIDED = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.INTERNAL,
}
"""Codes after which a write may have taken effect. A refusal with any other code is one."""


def error_of(failed: grpc.RpcError, action: Action) -> ClientError:
    """The error that the caller of `action` gets for a call that failed."""
    code, text = failed.code(), failed.details() or ""
    reason = reason_of((item.key, item.value) for item in failed.trailing_metadata() or ())
    kind, advice = BY_REASON.get(reason, BY_CODE.get(code, OTHERWISE))
    where = f" at {action.address}" if action.address else ""
    told = text if kind is not DeadlineExceeded else "no answer in time"
    undecided = action.writes and code in UNDECIDED and not issubclass(kind, NotReady)
    return kind(f"{action.text}{where}: {told or code.name}: {advice}{OUTCOME_UNKNOWN if undecided else ''}")


def reason_of(trailers: Iterable[tuple[str, str | bytes]]) -> str:
    """The reason in google.rpc.ErrorInfo, of Oxia's domain, or "" if there is none that can be read."""
    for name, value in trailers:
        if name == DETAILS_TRAILER and isinstance(value, bytes):
            return reason_in(value)
    return ""


def reason_in(serialized_status: bytes) -> str:
    """The reason in a serialized google.rpc.Status."""
    try:
        status = status_pb2.Status.FromString(serialized_status)
        for detail in status.details:
            info = error_details_pb2.ErrorInfo()
            if detail.Unpack(info) and info.domain == ERROR_DOMAIN:
                reason: str = info.reason
                return reason
    except DecodeError:
        return ""  # the status code and its text still reach the caller
    return ""
