"""A failed call, as whoever made it reads what the broker has said of the error."""

from __future__ import annotations

from collections.abc import Iterable

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from controller.errors import error_of
from txn.model.errors import TxnError

DETAILS_TRAILER = "grpc-status-details-bin"
DOMAIN = "tidemark.broker"

PASSING = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)
_CONNECTION_LOST = ("Received RST_STREAM", "Stream removed", "RST_STREAM", "Connection reset", "Broken pipe")
"""How gRPC words an end of the connection that it does not call UNAVAILABLE."""


def told_error(failed: grpc.aio.AioRpcError) -> TxnError | None:
    """The error that a broker has raised, as itself; None if it was no broker that said so."""
    info = _info(failed.trailing_metadata() or ())
    if info is None:
        return None
    told = dict(info.metadata)
    return error_of(told.get("error", ""), told.get("class", ""), text_of(failed), told)


def text_of(failed: grpc.aio.AioRpcError) -> str:
    """What is said of a failure."""
    return failed.details() or failed.code().name


def is_passing(failed: grpc.aio.AioRpcError) -> bool:
    """Whether it is the connection that has failed, or the time that was over."""
    return failed.code() in PASSING or text_of(failed).startswith(_CONNECTION_LOST)


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
