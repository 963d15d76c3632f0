"""A failed call judged: the error that its caller gets, of the type that the broker raised."""

from __future__ import annotations

from collections.abc import Iterable

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from controller.client.errors import BrokerFailed, BrokersUnavailable
from controller.errors import Unauthenticated, error_of
from controller.pb import broker_pb2 as pb
from txn.model.errors import TxnError

DETAILS_TRAILER = "grpc-status-details-bin"
DOMAIN = "tidemark.broker"

BRANCH_NAMES = {pb.RETRIABLE: "retriable", pb.ABORTABLE: "abortable", pb.FATAL: "fatal"}

_PASSING = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)
_CONNECTION_LOST = ("Received RST_STREAM", "Stream removed", "RST_STREAM", "Connection reset", "Broken pipe")
"""How gRPC words an end of the connection that it does not call UNAVAILABLE."""


def error_of_call(failed: grpc.aio.AioRpcError, what: str) -> TxnError:
    """The error of a call or a stream that has failed."""
    info = _info(failed.trailing_metadata() or ())
    text = failed.details() or failed.code().name
    if info is not None:
        told = dict(info.metadata)
        return error_of(told.get("error", ""), told.get("class", ""), text, told)
    if failed.code() in _PASSING or text.startswith(_CONNECTION_LOST):
        return BrokersUnavailable(f"{what}: {text}")
    if failed.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
        return Unauthenticated(f"{what}: {text}")
    return BrokerFailed(f"{what}: {failed.code().name}: {text}: check that this is a broker's address, and its log")


def error_of_answer(error: pb.Error) -> TxnError:
    """The error that a stream says of one of its messages."""
    return error_of(error.name, BRANCH_NAMES.get(getattr(error, "class"), ""), error.message, error.metadata)


def _info(trailers: Iterable[tuple[str, str | bytes]]) -> error_details_pb2.ErrorInfo | None:
    """What the broker says of the error, beside its text."""
    for name, value in trailers:
        if name == DETAILS_TRAILER and isinstance(value, bytes):
            try:
                details = status_pb2.Status.FromString(value).details
                for detail in details:
                    info = error_details_pb2.ErrorInfo()
                    if detail.Unpack(info) and info.domain == DOMAIN:
                        return info
            except DecodeError:
                return None  # the status code and its text still reach the caller
    return None
