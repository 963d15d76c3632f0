"""Errors as a client sees them: a status with details, or a message within a stream. Both say the same.

What the store says is put into the words of brokers. Every method may be repeated, so what is merely not known counts
as retriable. An error that nobody foresaw is no client's business: it is logged, and the client gets INTERNAL.
"""

from __future__ import annotations

import logging
import re
from typing import NoReturn

import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from controller.autoscale import InvalidAutoScale
from controller.errors import (
    BRANCHES,
    InvalidRequest,
    PermitsExceeded,
    StoreRefused,
    StoreUnavailable,
    TooManyStreams,
    Unauthenticated,
    WindowExceeded,
    branch_of,
    metadata_of,
)
from controller.layout import InvalidName, InvalidRange, SegmentNotFound
from controller.operations import OperationFailed
from controller.pb import broker_pb2 as pb
from controller.subscriptions import DamagedSubscription, LimitReached
from controller.topics import InvalidTopic, OperationUnderWay, SubscriptionNotFound, TopicExists, TopicNotFound
from controller.watches import TooManyWatches
from metastore.coordination import Deposed
from metastore.interface import OutcomeUnknown, Retriable, StoreError
from txn.hosting.errors import NoSuchSegment, SegmentExists
from txn.model.errors import (
    InvalidTimeout,
    InvalidTxnId,
    NotTheOwner,
    RecordDamaged,
    SegmentUnavailable,
    TooManyOpenTransactions,
    TxnAbortable,
    TxnError,
    TxnNotFound,
    TxnRetriable,
)
from txn.segment.errors import CursorTooLarge, EntriesTrimmed, GroupTooLarge, InvalidAck, SegmentBusy, SegmentFull

logger = logging.getLogger("tidemark.broker")

DOMAIN = "tidemark.broker"
DETAILS_TRAILER = "grpc-status-details-bin"

_Code = grpc.StatusCode
CODES: tuple[tuple[tuple[type[TxnError], ...], grpc.StatusCode], ...] = (
    ((Unauthenticated,), _Code.UNAUTHENTICATED),
    ((NotTheOwner,), _Code.PERMISSION_DENIED),
    ((TxnNotFound, NoSuchSegment), _Code.NOT_FOUND),
    ((TopicNotFound, SubscriptionNotFound, SegmentNotFound), _Code.NOT_FOUND),
    ((SegmentExists, TopicExists), _Code.ALREADY_EXISTS),
    ((InvalidRequest, InvalidTxnId, InvalidTimeout, InvalidAck, GroupTooLarge), _Code.INVALID_ARGUMENT),
    ((WindowExceeded, PermitsExceeded), _Code.INVALID_ARGUMENT),
    ((InvalidTopic, InvalidName, InvalidRange, InvalidAutoScale), _Code.INVALID_ARGUMENT),
    ((EntriesTrimmed,), _Code.OUT_OF_RANGE),
    ((RecordDamaged, DamagedSubscription), _Code.DATA_LOSS),
    ((TooManyOpenTransactions, TooManyStreams, SegmentFull, SegmentBusy, CursorTooLarge), _Code.RESOURCE_EXHAUSTED),
    ((LimitReached, TooManyWatches), _Code.RESOURCE_EXHAUSTED),
    ((OperationUnderWay, OperationFailed), _Code.ABORTED),
    ((TxnRetriable,), _Code.UNAVAILABLE),
    ((TxnAbortable,), _Code.ABORTED),
)
"""The first that fits; whatever else is fatal is FAILED_PRECONDITION."""

_CLASSES = dict(zip(BRANCHES, (pb.RETRIABLE, pb.ABORTABLE, pb.FATAL), strict=True))
_WORD = re.compile(r"(?<!^)(?=[A-Z])")


def foreseen(error: Exception) -> TxnError | None:
    """An error in the words of brokers; None for one that nobody foresaw."""
    if isinstance(error, TxnError):
        return error
    if isinstance(error, Deposed):
        return SegmentUnavailable(f"another broker is taking over: {error}")
    if isinstance(error, Retriable | OutcomeUnknown):
        return StoreUnavailable(f"the store did not answer as it should: {error}; try again")
    if isinstance(error, StoreError):
        return StoreRefused(str(error))
    return None


def code_of(error: TxnError) -> grpc.StatusCode:
    """The status code of an error."""
    for kinds, code in CODES:
        if isinstance(error, kinds):
            return code
    return _Code.FAILED_PRECONDITION


def error_message(error: TxnError) -> pb.Error:
    """An error as a stream says it of one message."""
    return pb.Error(
        **{"class": _CLASSES[branch_of(error)]},
        name=type(error).__name__,
        message=str(error),
        metadata=metadata_of(error),
    )


def trailers(error: TxnError) -> tuple[tuple[str, bytes], ...]:
    """The details of a status."""
    name = type(error).__name__
    info = error_details_pb2.ErrorInfo(
        reason=_WORD.sub("_", name).upper(),
        domain=DOMAIN,
        metadata={**metadata_of(error), "error": name, "class": branch_of(error)},
    )
    detail = any_pb2.Any()
    detail.Pack(info)
    status = status_pb2.Status(code=code_of(error).value[0], message=str(error), details=[detail])
    return ((DETAILS_TRAILER, status.SerializeToString()),)


async def refuse(context: grpc.aio.ServicerContext[bytes, bytes], method: str, error: Exception) -> NoReturn:
    """Ends a call with an error."""
    known = foreseen(error)
    if known is None:
        logger.error("%s failed", method, exc_info=error)
        await context.abort(_Code.INTERNAL, f"{method} failed in a way that nobody foresaw; the broker's log says how")
    await context.abort(code_of(known), str(known), trailers(known))
