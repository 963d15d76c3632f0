"""Every error has a name on the wire, and the name leads back to it."""

from __future__ import annotations

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from controller import errors as broker_errors
from controller.broker.status import CODES, DETAILS_TRAILER, code_of, error_message, foreseen, trailers
from controller.errors import BRANCHES, ERRORS, StoreRefused, StoreUnavailable, branch_of, error_of, metadata_of
from controller.pb import broker_pb2 as pb
from metastore.interface import InvalidRequest, OutcomeUnknown, StoreFull, Unavailable
from txn.hosting import OwnedElsewhere
from txn.model.errors import TxnAbortable, TxnError, TxnFatal, TxnRetriable
from txn.model.position import Position
from txn.segment.errors import EntriesTrimmed


def made(kind: type[TxnError]) -> TxnError:
    """An error of a type."""
    if issubclass(kind, OwnedElsewhere):
        return kind("why", "broker-1", "host:1", 7)
    if issubclass(kind, EntriesTrimmed):
        return kind("why", Position(3, 4))
    return kind("why")


CONCRETE = [kind for kind in ERRORS.values() if kind is not TxnError]


@pytest.mark.parametrize("kind", CONCRETE, ids=lambda kind: kind.__name__)
def test_an_error_comes_back_as_it_was(kind: type[TxnError]) -> None:
    error = made(kind)
    ((name, value),) = trailers(error)
    assert name == DETAILS_TRAILER
    status = status_pb2.Status.FromString(value)
    assert (status.code, status.message) == (code_of(error).value[0], "why")
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert info.reason.replace("_", "") == kind.__name__.upper()
    told = dict(info.metadata)
    for back in (
        error_of(told["error"], told["class"], status.message, told),
        error_of(error_message(error).name, branch_of(error), "why", error_message(error).metadata),
    ):
        assert type(back) is kind
        assert str(back) == "why"
        assert metadata_of(back) == metadata_of(error)


def test_all_errors_of_transactions_segments_and_brokers_have_names() -> None:
    names = {"TxnConflict", "SegmentBusy", "ConsumerBusy", "OwnedElsewhere", "WindowExceeded", "TooManySubscriptions"}
    assert names <= ERRORS.keys()
    assert {kind.__module__ for kind in CONCRETE} >= {broker_errors.__name__, "txn.model.errors"}


@pytest.mark.parametrize(
    ("branch", "kind", "number"),
    [
        ("retriable", TxnRetriable, pb.RETRIABLE),
        ("abortable", TxnAbortable, pb.ABORTABLE),
        ("fatal", TxnFatal, pb.FATAL),
    ],
)
def test_an_error_that_is_not_known_is_of_the_class_it_says(
    branch: str, kind: type[TxnError], number: pb.ErrorClass.ValueType
) -> None:
    back = error_of("SomethingNew", branch, "why", {})
    assert type(back) is kind
    assert branch_of(back) == branch
    assert getattr(error_message(back), "class") == number


def test_an_error_of_no_class_at_all_is_fatal() -> None:
    assert type(error_of("SomethingNew", "strange", "why", {})) is TxnFatal


def test_each_class_is_one_of_three() -> None:
    for kind in CONCRETE:
        assert sum(issubclass(kind, branch) for branch in BRANCHES.values()) == 1


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (Unavailable("away"), StoreUnavailable, grpc.StatusCode.UNAVAILABLE),
        (StoreFull("full"), StoreUnavailable, grpc.StatusCode.UNAVAILABLE),
        (OutcomeUnknown("lost"), StoreUnavailable, grpc.StatusCode.UNAVAILABLE),
        (InvalidRequest("bad"), StoreRefused, grpc.StatusCode.FAILED_PRECONDITION),
    ],
)
def test_what_the_store_says_is_put_into_our_words(
    error: Exception, kind: type[TxnError], code: grpc.StatusCode
) -> None:
    told = foreseen(error)
    assert type(told) is kind
    assert str(error) in str(told)
    assert told is not None
    assert code_of(told) is code


def test_what_nobody_foresaw_is_not_told() -> None:
    assert foreseen(ZeroDivisionError()) is None


def test_no_code_hides_another() -> None:
    seen: list[type[TxnError]] = []
    for kinds, _ in CODES:
        for kind in kinds:
            assert not any(issubclass(kind, before) for before in seen), f"{kind.__name__} is never reached"
        seen += kinds
