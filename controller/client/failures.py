"""A failed call judged: the error that its caller gets, of the type that the broker raised."""

from __future__ import annotations

import grpc
import grpc.aio

from controller.client.errors import BrokerFailed, BrokersUnavailable
from controller.errors import Unauthenticated, error_of
from controller.pb import broker_pb2 as pb
from controller.told import is_passing, text_of, told_error
from txn.model.errors import TxnError

BRANCH_NAMES = {pb.RETRIABLE: "retriable", pb.ABORTABLE: "abortable", pb.FATAL: "fatal"}


def error_of_call(failed: grpc.aio.AioRpcError, what: str) -> TxnError:
    """The error of a call or a stream that has failed."""
    told = told_error(failed)
    text = text_of(failed)
    if told is not None:
        return told
    if is_passing(failed):
        return BrokersUnavailable(f"{what}: {text}")
    if failed.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
        return Unauthenticated(f"{what}: {text}")
    return BrokerFailed(f"{what}: {failed.code().name}: {text}: check that this is a broker's address, and its log")


def error_of_answer(error: pb.Error) -> TxnError:
    """The error that a stream says of one of its messages."""
    return error_of(error.name, BRANCH_NAMES.get(getattr(error, "class"), ""), error.message, error.metadata)
