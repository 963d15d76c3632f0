"""Errors as clients see them: a status, the protocol's exact text, and machine-readable details.

Oxia's clients recognise an error by the ErrorInfo in its details; older ones by its text. So texts of the protocol
are fixed, and what is particular goes into the details' metadata. Errors that the protocol does not know carry a
domain of our own.
"""

from __future__ import annotations

import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from metastore.engine import errors as engine
from metastore.server.wire import WireError
from metastore.watch.errors import OffsetTrimmed, PreviousValuesMissing, TooManyWatches

DETAILS_TRAILER = "grpc-status-details-bin"
OXIA_DOMAIN = "oxia.io"
OWN_DOMAIN = "tidemark.metastore"


class RpcError(Exception):
    """An error with everything that its client gets."""

    def __init__(
        self,
        code: grpc.StatusCode,
        message: str,
        reason: str | None = None,
        domain: str = OXIA_DOMAIN,
        metadata: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason
        self.domain = domain
        self.metadata = metadata or {}

    @property
    def text(self) -> str:
        """The message with the cause, for a client that cannot be sent the details."""
        cause = self.metadata.get("cause")
        return f"{self.message}: {cause}" if cause else self.message

    def trailing_metadata(self) -> tuple[tuple[str, bytes], ...]:
        """The details, if there are any."""
        if self.reason is None:
            return ()
        info = error_details_pb2.ErrorInfo(reason=self.reason, domain=self.domain, metadata=self.metadata)
        detail = any_pb2.Any()
        detail.Pack(info)
        status = status_pb2.Status(code=self.code.value[0], message=self.message, details=[detail])
        return ((DETAILS_TRAILER, status.SerializeToString()),)


def invalid(message: str) -> RpcError:
    """The request makes no sense."""
    return RpcError(grpc.StatusCode.INVALID_ARGUMENT, message, "INVALID_REQUEST", OWN_DOMAIN)


def shard_missing() -> RpcError:
    """The request names no shard."""
    return RpcError(grpc.StatusCode.INVALID_ARGUMENT, "shard id is required", "INVALID_REQUEST", OWN_DOMAIN)


def not_leader(shard: int, leader: str | None) -> RpcError:
    """The shard is not served here; `leader` is where it is, if that is known."""
    hint = {"shard": str(shard), "leader": leader} if leader else None
    return RpcError(grpc.StatusCode.ABORTED, "oxia: node is not leader", "NODE_IS_NOT_LEADER", metadata=hint)


def namespace_not_found() -> RpcError:
    """No such namespace."""
    return RpcError(grpc.StatusCode.NOT_FOUND, "oxia: namespace not found", "NAMESPACE_NOT_FOUND")


def notifications_disabled() -> RpcError:
    """The namespace keeps no notifications."""
    return RpcError(
        grpc.StatusCode.FAILED_PRECONDITION,
        "oxia: notifications not enabled on namespace",
        "NOTIFICATIONS_NOT_ENABLED",
    )


def unavailable(why: str | None = None) -> RpcError:
    """Nothing is wrong with the request; the server cannot answer it now."""
    return RpcError(
        grpc.StatusCode.UNAVAILABLE,
        "oxia: resource unavailable",
        "RESOURCE_UNAVAILABLE",
        metadata={"cause": why} if why else None,
    )


def unauthenticated(message: str) -> RpcError:
    """The call carries no valid token."""
    return RpcError(grpc.StatusCode.UNAUTHENTICATED, message, "UNAUTHENTICATED", OWN_DOMAIN)


def too_many_watches(message: str) -> RpcError:
    """A stream or a shard has as many watches as it may have; the message names the limit."""
    return RpcError(grpc.StatusCode.RESOURCE_EXHAUSTED, message, "TOO_MANY_WATCHES", OWN_DOMAIN)


def rpc_error(error: BaseException) -> RpcError | None:
    """What a client gets for an error of the engine; None for an error that nobody foresaw."""
    if isinstance(error, RpcError):
        return error
    if isinstance(error, WireError):
        return RpcError(grpc.StatusCode.INTERNAL, str(error), "UNPARSABLE", OWN_DOMAIN)
    if isinstance(error, engine.InvalidSessionTimeout):
        return RpcError(
            grpc.StatusCode.INVALID_ARGUMENT,
            f"timeoutMs={error.timeout_ms}: oxia: invalid session timeout",
            "INVALID_SESSION_TIMEOUT",
        )
    if isinstance(error, engine.InvalidRequest):
        return invalid(str(error))
    if isinstance(error, engine.SessionNotFound):
        return RpcError(grpc.StatusCode.NOT_FOUND, "oxia: session not found", "SESSION_NOT_FOUND")
    if isinstance(error, engine.StoreFull):
        return RpcError(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error), "STORE_FULL", OWN_DOMAIN)
    if isinstance(error, OffsetTrimmed):
        return _out_of_range(error)
    if isinstance(error, engine.PointReleased):
        return RpcError(grpc.StatusCode.OUT_OF_RANGE, str(error), "POINT_RELEASED", OWN_DOMAIN)
    if isinstance(error, TooManyWatches):
        return too_many_watches(str(error))
    if isinstance(error, engine.EngineError):
        return unavailable(str(error))
    return None


def _out_of_range(error: OffsetTrimmed) -> RpcError:
    reason = "PREVIOUS_VALUES_MISSING" if isinstance(error, PreviousValuesMissing) else "OFFSET_TRIMMED"
    metadata = {"offset": str(error.offset), "oldest": str(error.oldest)}
    return RpcError(grpc.StatusCode.OUT_OF_RANGE, str(error), reason, OWN_DOMAIN, metadata)
